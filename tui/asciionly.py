"""Writes plain ASCII where the terminal has no UTF-8: log text and punctuation too, each in as many cells as before."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from perfmon.glyphs import ASCII

from .colourless import line_filters
from .skin import Skin

_KNOWN = {"…": "~", "·": "-", "×": "x", "–": "-", "—": "-", "’": "'", "“": '"', "”": '"', "\u202f": " ", "\xa0": " "}


class AsciiOnly(LineFilter):
    """Every other character becomes question marks, as many as it has cells."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same segments, as wide as before."""
        return [
            segment if segment.text.isascii() else Segment(ascii_text(segment.text), segment.style, segment.control)
            for segment in segments
        ]


def ascii_text(text: str) -> str:
    """A text of as many cells without anything but ASCII."""
    return "".join(char if char.isascii() else _KNOWN.get(char) or "?" * cell_len(char) for char in text)


ASCII_ONLY = AsciiOnly()


def filters_for(skin: Skin, filters: Sequence[LineFilter] = ()) -> Sequence[LineFilter]:
    """What all lines go through on a terminal: `filters` are Textual's own."""
    more = line_filters(skin.depth, filters)
    return [*more, ASCII_ONLY] if skin.glyphs is ASCII else more
