"""The theme for what Textual draws itself: overlays, inputs, scroll bars, and the variables of the style sheet."""

from __future__ import annotations

from textual.theme import Theme

from perfmon.themes.schema import GROUNDS, PAIRS, TEXTS, Look, Spec

PREFIX = "skin-"
"""`$skin-NAME` is the colour of a style, `$skin-NAME-background` that of a ground or pair."""


def textual_theme(name: str, dark: bool, look: Look) -> Theme:
    """A theme of that name; native to the terminal when `look` leaves the background to it."""
    ground, panel, text = _below(look["background"]), _below(look["panel"]), _above(look["text"])
    return Theme(
        name=name,
        primary=_above(look["accent"]),
        secondary=_above(look["info"]),
        warning=_above(look["warning"]),
        error=_above(look["critical"]),
        success=_above(look["good"]),
        accent=_above(look["accent"]),
        foreground=text,
        background=ground,
        surface=ground,
        panel=panel,
        dark=dark,
        ansi=look["background"].background is None,
        variables={**_widgets(look), **_styles(look)},
    )


def _widgets(look: Look) -> dict[str, str]:
    """Variables of Textual's own widgets."""
    ground, text, muted, frame = _below(look["background"]), _above(look["text"]), _above(look["muted"]), look["frame"]
    return {
        "ansi-background": ground,  # these three are missing from some of Textual's own tables of variables
        "ansi-foreground": text,
        "surface-active": _below(look["panel"]),
        "text": text,
        "text-muted": muted,
        "text-disabled": _above(look["faint"]),
        "foreground-muted": muted,
        "foreground-disabled": _above(look["faint"]),
        "border": _above(look["frame-focus"]),
        "border-blurred": _above(frame),
        **_pair("block-cursor", look["selection"]),
        **_pair("block-cursor-blurred", look["cursor"], text),
        "block-cursor-text-style": _attributes(look["selection"]),
        "block-cursor-blurred-text-style": _attributes(look["cursor"]),
        "block-hover-background": _below(look["panel"]),
        "scrollbar": _above(frame),
        "scrollbar-hover": _above(look["muted"]),
        "scrollbar-active": _above(look["accent"]),
        **{f"scrollbar-{part}": ground for part in ("background", "background-hover", "background-active")},
        "scrollbar-corner-color": ground,
        "input-cursor-foreground": ground,
        "input-cursor-background": text,
        "input-cursor-text-style": "reverse" if text == "ansi_default" else "none",
        **_pair("input-selection", _filled(look["selection"])),
        **_pair("screen-selection", _filled(look["selection"])),
        "footer-foreground": _above(look["footer-text"]),
        "footer-background": _below(look["panel"]),
        "footer-key-foreground": _above(look["footer-key"]),
        "footer-key-background": _below(look["panel"]),
        "footer-description-foreground": _above(look["footer-text"]),
        "footer-description-background": _below(look["panel"]),
        "footer-item-background": _below(look["panel"]),
    }


def _styles(look: Look) -> dict[str, str]:
    colours = {PREFIX + name: _above(look[name]) for name in (*TEXTS, *PAIRS)}
    grounds = {f"{PREFIX}{name}-background": _below(look[name]) for name in (*GROUNDS, *PAIRS)}
    return {**colours, **grounds}


def _pair(name: str, spec: Spec, text: str | None = None) -> dict[str, str]:
    return {f"{name}-foreground": text or _above(spec), f"{name}-background": _below(spec)}


def _filled(spec: Spec) -> Spec:
    """Colours for reverse video where Textual accepts no attributes: the terminal's white on black."""
    return Spec("black", "white") if "reverse" in spec.attributes else spec


def _attributes(spec: Spec) -> str:
    return " ".join(sorted(spec.attributes - {"dim"})) or "none"


def _above(spec: Spec) -> str:
    return _css(spec.colour)


def _below(spec: Spec) -> str:
    return _css(spec.background)


def _css(word: str | None) -> str:
    if word is None:
        return "ansi_default"
    return word if word.startswith("#") else "ansi_" + word.replace("-", "_")
