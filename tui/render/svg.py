"""Screens as SVG images."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any
from xml.sax.saxutils import escape

from rich.color import Color, blend_rgb
from rich.color_triplet import ColorTriplet
from rich.style import Style
from rich.terminal_theme import DEFAULT_TERMINAL_THEME, MONOKAI, TerminalTheme
from textual._context import visible_screen_stack
from textual.app import App
from textual.strip import Strip

from ..theme import ThemeStyles
from .rows import Row, Run, cells, merged

# --- Rows as an SVG image that needs nothing else: no web font, no remote address ---
#
# Blocks and lines are drawn as shapes, for the fonts that a browser happens to have rarely join them. A cell is 10
# units wide and 20 high.

_WIDE, _HIGH, _PAD = 10, 20, 10
_FONTS = "ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono','Liberation Mono',Consolas,monospace"
_SIZE = 16.6
"""Of the font: its characters are then a cell wide, in most fonts to a hundredth."""
_BASE = 15
_DIM = 0.4
_SHADES = {"░": 0.4, "▒": 0.6, "▓": 0.8}
"""A little more than a terminal has: here nothing is drawn of dots."""
_PIECES = re.compile(r"\S+(?: \S+)*")
_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that are invalid in XML."""


_DOTS = {
    0x01: (0, 0), 0x02: (0, 1), 0x04: (0, 2), 0x08: (1, 0), 0x10: (1, 1), 0x20: (1, 2), 0x40: (0, 3), 0x80: (1, 3),
}  # fmt: skip
"""Column and row of a dot of braille, by its bit."""


def _parts() -> dict[str, tuple[tuple[float, float, float, float], ...]]:
    """Of characters that fill a part of their cell: the rectangles (x, y, width, height) that they fill."""
    parts = {"█": ((0.0, 0.0, 10.0, 20.0),), "▞": ((5.0, 0.0, 5.0, 10.0), (0.0, 10.0, 5.0, 10.0))}
    for shade in _SHADES:
        parts[shade] = parts["█"]
    for eighth, (low, left) in enumerate(zip("▁▂▃▄▅▆▇", "▏▎▍▌▋▊▉", strict=True), 1):
        parts[low] = ((0.0, 20 - 2.5 * eighth, 10.0, 2.5 * eighth),)
        parts[left] = ((0.0, 0.0, 1.25 * eighth, 20.0),)
    for code in range(0x2801, 0x2900):  # braille: dots of two columns and four rows
        dots = [at for bit, at in _DOTS.items() if code & bit]
        parts[chr(code)] = tuple((5.0 * column + 1.25, 5.0 * row + 1.25, 2.5, 2.5) for column, row in dots)
    return parts


_PARTS = _parts()
_LINES = {
    "─": "h10", "│": "m5 -10v20", "╭": "m5 10v-5q0 -5 5 -5", "╮": "q5 0 5 5v5", "╰": "m5 -10v5q0 5 5 5",
    "╯": "q5 0 5 -5v-5", "├": "m5 -10v20m0 -10h5", "┤": "h5m0 -10v20", "┼": "h10m-5 -10v20",
}  # fmt: skip
"""Of characters that are lines: paths from the middle of their cell's left side."""
_DRAWN = {*_PARTS, *_LINES}


class _Palette:
    """Appearance of a style with these terminal colours."""

    def __init__(self, dark: bool) -> None:
        self._own: TerminalTheme = MONOKAI if dark else DEFAULT_TERMINAL_THEME

    def colours(self, style: Style) -> tuple[ColorTriplet, ColorTriplet]:
        """Front and ground."""
        front, ground = self._known(style.color, True), self._known(style.bgcolor, False)
        if style.reverse:
            front, ground = ground, front
        return (blend_rgb(front, ground, _DIM) if style.dim else front), ground

    def _known(self, colour: Color | None, front: bool) -> ColorTriplet:
        return (colour or Color.default()).get_truecolor(self._own, front)


def svg(rows: Sequence[Row], ground: Style, title: str, *, dark: bool = True) -> str:
    """The image of `rows`; `ground` is the style of its margin, `dark` what the terminal's own colours are like.

    `title` is for those who cannot see it.
    """
    palette = _Palette(dark)
    below = palette.colours(ground)[1]
    rows = [merged(row) for row in rows]
    width = max((sum(cells(text) for text, _ in row) for row in rows), default=1) * _WIDE + 2 * _PAD
    height = len(rows) * _HIGH + 2 * _PAD
    classes: dict[str, str] = {}
    grounds = _grounds(rows, palette, below)
    shapes = _shapes(rows, palette)
    texts = list(_texts(rows, palette, classes))
    css = [f"text{{font:{_SIZE}px {_FONTS}}}"]
    css += [f".{name}{{{rules}}}" for rules, name in classes.items()]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        ' role="img">',
        f"<title>{_safe(title)}</title>",
        f"<style>{''.join(css)}</style>",
        f'<rect width="{width}" height="{height}" rx="8" fill="{below.hex}"/>',
        f'<g transform="translate({_PAD} {_PAD})" shape-rendering="crispEdges">', *grounds, *shapes, "</g>",
        f'<g transform="translate({_PAD} {_PAD})">', *texts, "</g>",
        "</svg>",
    ]) + "\n"  # fmt: skip


def _placed(rows: Sequence[Row]) -> Iterator[tuple[int, int, Run]]:
    """Every run with its column and line."""
    for y, row in enumerate(rows):
        x = 0
        for text, style in row:
            yield x, y, (text, style)
            x += cells(text)


def _grounds(rows: Sequence[Row], palette: _Palette, below: ColorTriplet) -> list[str]:
    """Filled areas behind the text: a path per colour."""
    paths: dict[str, list[str]] = defaultdict(list)
    for x, y, (text, style) in _placed(rows):
        ground = palette.colours(style)[1]
        if ground != below:
            paths[ground.hex].append(_box(x * _WIDE, y * _HIGH, cells(text) * _WIDE, _HIGH))
    return [f'<path fill="{colour}" d="{"".join(parts)}"/>' for colour, parts in paths.items()]


def _shapes(rows: Sequence[Row], palette: _Palette) -> list[str]:
    """Blocks and lines: a path a colour, shade and kind."""
    blocks: dict[tuple[str, float], list[str]] = defaultdict(list)
    lines: dict[str, list[str]] = defaultdict(list)
    for x, y, (text, style) in _placed(rows):
        colour = palette.colours(style)[0].hex
        at = x
        for char, group in groupby(text):
            size = len(list(group))
            if char in _LINES:
                many = [f"h{_WIDE * size}"] if char == "─" else [_LINES[char]] * size
                begins = range(at, at + size)
                lines[colour] += [f"M{_WIDE * b} {y * _HIGH + 10}{p}" for b, p in zip(begins, many, strict=False)]
            elif char in _PARTS:
                blocks[colour, _SHADES.get(char, 1.0)] += _filled(char, at, y, size)
            at += size * cells(char)
    filled = [_path(colour, shade, parts) for (colour, shade), parts in blocks.items()]
    drawn = [f'<path fill="none" stroke="{colour}" d="{"".join(parts)}"/>' for colour, parts in lines.items()]
    return [*filled, *drawn]


def _path(colour: str, shade: float, parts: Sequence[str]) -> str:
    opacity = f' fill-opacity="{shade}"' if shade < 1 else ""
    return f'<path fill="{colour}"{opacity} d="{"".join(parts)}"/>'


def _filled(char: str, column: int, line: int, size: int) -> Iterator[str]:
    """Equal characters side by side are one rectangle where they touch."""
    for left, top, width, height in _PARTS[char]:
        y = line * _HIGH + top
        if width == _WIDE:
            yield _box(column * _WIDE, y, size * _WIDE, height)
        else:
            yield from (_box(at * _WIDE + left, y, width, height) for at in range(column, column + size))


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:g} {y:g}h{width:g}v{height:g}h-{width:g}z"


def _texts(rows: Sequence[Row], palette: _Palette, classes: dict[str, str]) -> Iterator[str]:
    """Words, each piece at its own column: whatever the font, columns stay under each other."""
    for x, y, (text, style) in _placed(rows):
        letters = "".join(" " * cells(char) if char in _DRAWN else char for char in _ILLEGAL.sub(" ", text))
        for piece in _PIECES.finditer(letters):
            at, size = x + cells(letters[: piece.start()]), cells(piece[0])
            length = f' textLength="{size * _WIDE}"' if size > 1 else ""
            name = classes.setdefault(_rules(style, palette), f"s{len(classes)}")
            yield f'<text class="{name}" x="{at * _WIDE}" y="{y * _HIGH + _BASE}"{length}>{escape(piece[0])}</text>'


def _rules(style: Style, palette: _Palette) -> str:
    rules = [f"fill:{palette.colours(style)[0].hex}"]
    rules += ["font-weight:bold"] if style.bold else []
    rules += ["font-style:italic"] if style.italic else []
    rules += ["text-decoration:underline"] if style.underline else []
    return ";".join(rules)


def _safe(text: str) -> str:
    return escape(_ILLEGAL.sub(" ", text))


# --- The screen as an SVG image ---


def captured(app: App[Any], skin: ThemeStyles, title: str) -> str:
    """The image; `title` is for those who cannot see it."""
    rows: list[Row] = [_row(strip) for strip in strips(app)]
    return svg(rows, skin.style("text"), title, dark=skin.theme.dark)


def _row(strip: Strip) -> Row:
    return tuple((segment.text, segment.style or Style.null()) for segment in strip if not segment.control)


def strips(app: App[Any]) -> list[Strip]:
    """The screen row by row: as `App.export_screenshot` has it, but what is still to be painted stays so."""
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips()
