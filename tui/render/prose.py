"""Lines of words with the names of their styles, and long words laid out over several lines."""

from __future__ import annotations

from perfmon.drawing import fit
from perfmon.text import plain

from ..skin import Skin
from .rows import Row, cells

Words = tuple[tuple[str, str], ...]
"""(text, name of a style): a row before anybody knows on which ground it will stand."""
_LONGEST = 4000


def dressed(words: Words, skin: Skin, ground: str) -> Row:
    """The words as they are drawn, whatever they came with."""
    return tuple((text if text.isprintable() else plain(text), skin.style(style, ground)) for text, style in words)


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells, broken at spaces where there are any; at least one line."""
    lines, line, room = [], "", max(1, width)
    for word in plain(text, _LONGEST).split(" "):
        rest = word
        if line and cells(line) + 1 + cells(rest) <= room:
            line = f"{line} {rest}"
            continue
        if line:
            lines.append(line)
        while cells(rest) > room:
            head = _head(rest, room)
            lines.append(head)
            rest = rest[len(head) :]
        line = rest
    return [*lines, line] if line or not lines else lines


def paragraph(text: str, width: int, style: str, mark: str = "", mark_style: str = "muted") -> list[Words]:
    """`text` behind a mark, the lines below the first as far in as that."""
    indent = cells(mark)
    lines = wrapped(text, width - indent)
    first: Words = ((mark, mark_style), (lines[0], style))
    return [first, *(((" " * indent, style), (line, style)) for line in lines[1:])]


def rule(title: str, skin: Skin, width: int, note: str = "") -> Words:
    """A heading with a line behind it."""
    line = skin.glyph("horizontal")
    head: Words = ((f"{line}{line} ", "frame"), (title, "title"), (f"  {note} " if note else " ", "muted"))
    return (*head, (line * max(0, width - sum(cells(text) for text, _ in head)), "frame"))


def ending(text: str, width: int, skin: Skin) -> str:
    """The end of `text` in exactly `width` cells: what tells places and files apart stands there."""
    text = plain(text, _LONGEST)
    if cells(text) > width:
        text = text[-max(1, width) :]
        while cells(text) >= max(1, width):
            text = text[1:]
        text = skin.glyph("cut") + text
    return fit(text, width, glyphs=skin.glyphs)


def ends(text: str, width: int, skin: Skin) -> str:
    """Both ends of `text` in exactly `width` cells: names begin with what they are and end with which one it is."""
    text = plain(text, _LONGEST)
    if cells(text) <= width or width < 5:
        return ending(text, width, skin)
    head = text[: width // 2]
    while cells(head) > width // 2:
        head = head[:-1]
    return head + ending(text, width - cells(head), skin)


def _head(word: str, room: int) -> str:
    """As much of a long word as there is room for; at least a character."""
    size = room
    while size > 1 and cells(word[:size]) > room:
        size -= 1
    return word[:size]
