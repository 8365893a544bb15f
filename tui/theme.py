"""A theme as panes draw with it (styles and characters by name, for the colours of a terminal), and for Textual."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from zlib import crc32

from rich.color import Color
from rich.style import Style
from textual.theme import Theme

from perfmon.textgraphics import UNICODE, Glyphs
from perfmon.themes import (
    COLOURS_OF_CAUSES,
    COLOURS_OF_SOURCES,
    GROUNDS,
    PAIRS,
    STYLES,
    StyleSpec,
    StyleSpecs,
    ThemeData,
)
from perfmon.viewmodel import Level


class ColorDepth(Enum):
    """Number of colours of a terminal."""

    TRUECOLOR = "truecolor"
    EIGHT_BIT = "256"
    SIXTEEN = "standard"
    NONE = "none"


LEVEL_NAMES: Mapping[Level, str] = {level: level.name.lower() for level in Level}
LEVEL_WORDS: Mapping[Level, str] = {Level.NONE: "", Level.GOOD: "OK", Level.WARNING: "WARN", Level.CRITICAL: "CRIT"}
LEVELS: Mapping[str, Level] = {"info": Level.NONE, "warning": Level.WARNING, "critical": Level.CRITICAL}
"""The level of a severity."""
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


def level_style(level: Level) -> str:
    """Name of the style of a text about a value at that level."""
    return "text" if level is Level.NONE else LEVEL_NAMES[level]


def depth_of(color_system: str | None, no_color: bool = False) -> ColorDepth:
    """The depth of a console with that `color_system` (None: it shows no colour); with `no_color` none is wanted.

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
        self.look: StyleSpecs = {ColorDepth.NONE: theme.plain, ColorDepth.SIXTEEN: theme.sixteen}.get(
            depth, theme.styles
        )
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
        """The character of a level: it is never shown by colour alone."""
        return self.glyphs[LEVEL_NAMES[level]]

    def cause(self, signature: str, ground: str = "background") -> Style:
        """The style of an entry of the ledger: always the same for one signature."""
        known = _CAUSES.get(signature)
        return self.style(known or f"cause{crc32(signature.encode(errors='replace')) % COLOURS_OF_CAUSES}", ground)

    def source(self, index: int, ground: str = "background") -> Style:
        """The style of the name of a log, by its index."""
        return self.style(f"source{index % COLOURS_OF_SOURCES}", ground)

    def glyph(self, name: str) -> str:
        """A character of one cell, by name (`perfmon.textgraphics.cells`); KeyError for a name that there is not."""
        return self.glyphs[name]

    def textual_theme(self) -> Theme:
        """The theme for what Textual draws itself: the screen, labels and inputs."""
        look = self.look
        ground, text, accent = look["background"].background, _css(look["text"].colour), _css(look["accent"].colour)
        selection = look["selection"]
        if "reverse" in selection.attributes:  # where Textual accepts no attributes: the terminal's white on black
            selection = StyleSpec("black", "white")
        return Theme(
            name=self.theme.name,
            primary=accent,
            accent=accent,
            error=_css(look["critical"].colour),
            foreground=text,
            background=_css(ground),
            surface=_css(ground),
            panel=_css(look["panel"].background),
            dark=self.theme.dark,
            ansi=ground is None,
            variables={
                "ansi-background": _css(ground),  # these two are missing from some of Textual's own tables of variables
                "ansi-foreground": text,
                "text-disabled": _css(look["faint"].colour),
                "border": _css(look["frame-focus"].colour),
                "border-blurred": _css(look["frame"].colour),
                "input-cursor-foreground": _css(ground),
                "input-cursor-background": text,
                "input-cursor-text-style": "reverse" if text == "ansi_default" else "none",
                **{f"{name}-selection-foreground": _css(selection.colour) for name in ("input", "screen")},
                **{f"{name}-selection-background": _css(selection.background) for name in ("input", "screen")},
            },
        )


def _css(word: str | None) -> str:
    if word is None:
        return "ansi_default"
    return word if word.startswith("#") else "ansi_" + word.replace("-", "_")


def _over(front: Style, below: Style) -> Style:
    """Reversed on reversed is not reversed: else a reversed cursor could not be seen on it."""
    return below + front + Style(reverse=False) if front.reverse and below.reverse else below + front


def _style(spec: StyleSpec) -> Style:
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
    """None for the terminal's default too: what is left out, no escape sequence has to set."""
    return None if word is None or word == "default" else Color.parse(word.replace("-", "_"))
