"""A theme as panes draw with it, and as Textual's variables."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from zlib import crc32

from rich.color import Color
from rich.style import Style
from textual.theme import Theme

from perfmon.textgraphics import UNICODE, Glyphs
from perfmon.themes import COLOURS_OF_CAUSES, COLOURS_OF_SOURCES, GROUNDS, PAIRS, STYLES, TEXTS, Look, Spec, ThemeData
from perfmon.viewmodel import Level

# --- The theme for what Textual draws itself: overlays, inputs, scroll bars, and the variables of the style sheet ---

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


# --- Turns a theme into what panes draw with: styles by name, characters by name, for the colours that a terminal has
# ---


class ColorDepth(Enum):
    """Number of colours of a terminal."""

    TRUECOLOR = "truecolor"
    EIGHT_BIT = "256"
    SIXTEEN = "standard"
    NONE = "none"


LEVEL_NAMES: Mapping[Level, str] = {
    Level.NONE: "none",
    Level.GOOD: "good",
    Level.WARNING: "warning",
    Level.CRITICAL: "critical",
}
LEVEL_WORDS: Mapping[Level, str] = {Level.NONE: "", Level.GOOD: "OK", Level.WARNING: "WARN", Level.CRITICAL: "CRIT"}
_CAUSES: Mapping[str, str] = {
    # a cause has the colour of the lane on which it shows
    "productive": "productive",
    "unknown": "unknown",
    "frontend-queue": "queue",
    "slow-weight-load": "rpc",
    "checkpoint-stall": "checkpoint-wait",
    "slow-checkpoint-write": "checkpoint-write",
    "generation-contention": "generation",
    "stale-rollouts": "staleness",
    "inference-bound": "cause0",
    "trainer-bound": "cause1",
    "stall": "cause2",
    "weight-sync-bound": "cause3",
    "kv-cache-pressure": "cause4",
    "async-barrier": "cause5",
    "no-weight-updates": "cause6",
    "rollout-truncation": "cause7",
}


def depth_of(color_system: str | None, no_color: bool = False) -> ColorDepth:
    """The depth of a console with that `color_system` (None: it shows no colour); `no_color` says that none is wanted.

    Textual takes the colour system from COLORTERM and TERM, or from TEXTUAL_COLOR_SYSTEM.
    """
    if no_color or color_system is None:
        return ColorDepth.NONE
    return {"truecolor": ColorDepth.TRUECOLOR, "256": ColorDepth.EIGHT_BIT}.get(color_system, ColorDepth.SIXTEEN)


class ThemeStyles:
    """A theme on a terminal. Styles carry their background, so a strip needs nothing from the widget below it."""

    def __init__(self, theme: ThemeData, depth: ColorDepth = ColorDepth.TRUECOLOR, glyphs: Glyphs = UNICODE) -> None:
        self.theme = theme
        self.depth = depth
        self.glyphs = glyphs
        self.look: Look = {ColorDepth.NONE: theme.plain, ColorDepth.SIXTEEN: theme.sixteen}.get(depth, theme.styles)
        self.spark = glyphs.spark
        """Eight levels, lowest first."""
        self._styles: dict[tuple[str, str], Style] = {}
        self._fronts = {name: _style(self.look[name]) for name in STYLES}

    def style(self, name: str, ground: str = "background") -> Style:
        """The style of that name, on that ground; KeyError for names that `themes.schema` does not have."""
        try:
            return self._styles[name, ground]
        except KeyError:
            style = self._styles[name, ground] = self._made(name, ground)
            return style

    def _made(self, name: str, ground: str) -> Style:
        if ground not in GROUNDS:
            raise KeyError(ground)
        below = self._fronts["background"] + self._fronts["text"]
        if name in PAIRS or name in GROUNDS:
            return below + self._fronts[name]
        return _over(self._fronts[name], below + self._fronts[ground])

    def level(self, level: Level, ground: str = "background") -> Style:
        """The style of a value at that level."""
        return self.style("metric" if level is Level.NONE else LEVEL_NAMES[level], ground)

    def badge(self, level: Level) -> Style:
        """The style of a verdict's word at that level, on a filled ground."""
        return self.style("badge-stale" if level is Level.NONE else f"badge-{LEVEL_NAMES[level]}")

    def mark(self, level: Level) -> str:
        """The character of a level: it is never told by colour alone."""
        return self.glyphs[LEVEL_NAMES[level]]

    def cause(self, signature: str, ground: str = "background") -> Style:
        """The style of an entry of the ledger: always the same for one signature."""
        known = _CAUSES.get(signature)
        return self.style(known or f"cause{crc32(signature.encode(errors='replace')) % COLOURS_OF_CAUSES}", ground)

    def source(self, index: int, ground: str = "background") -> Style:
        """The style of the name of a log, by its index."""
        return self.style(f"source{index % COLOURS_OF_SOURCES}", ground)

    def glyph(self, name: str) -> str:
        """A character of one cell, by name (`perfmon.textgraphics.glyphs`); KeyError for a name that there is not."""
        return self.glyphs[name]

    def textual_theme(self) -> Theme:
        """The theme for what Textual draws itself; it has the theme's name."""
        return textual_theme(self.theme.name, self.theme.dark, self.look)


def _over(front: Style, below: Style) -> Style:
    """Reversed on reversed is not reversed: else a reversed cursor could not be seen on it."""
    return below + front + Style(reverse=False) if front.reverse and below.reverse else below + front


def _style(spec: Spec) -> Style:
    return Style(
        color=_colour(spec.colour),
        bgcolor=_colour(spec.background),
        bold="bold" in spec.attributes or None,
        dim="dim" in spec.attributes or None,
        italic="italic" in spec.attributes or None,
        underline="underline" in spec.attributes or None,
        reverse="reverse" in spec.attributes or None,
    )


def _colour(word: str | None) -> Color | None:
    """None for the terminal's default too: what is left out, no escape sequence has to say."""
    return None if word is None or word == "default" else Color.parse(word.replace("-", "_"))
