"""Rows of styled text: built, wrapped and crop; durations and times in few cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile

from rich.cells import cell_len, set_cell_size
from rich.style import Style

from perfmon.core import LEAP_YEAR_S, TimeBase, plain
from perfmon.diagnosis import EvidenceLine
from perfmon.textgraphics import fit
from perfmon.viewmodel import MonitorState

from ..theme import ThemeStyles

# --- Rows of styled text: what panes are drawn with. Text in them is shown as it is, markup in it means nothing ---

Run = tuple[str, Style]
Row = tuple[Run, ...]


class Fitted(tuple[Run, ...]):
    """A row with foreign text that is sanitized already and takes exactly the cells of its pane."""

    __slots__ = ()


def cells(text: str) -> int:
    """Cells that `text` takes on a terminal."""
    return len(text) if text.isascii() else cell_len(text)


def row_cells(row: Iterable[Run]) -> int:
    """Cells that a row takes."""
    return sum(cells(text) for text, _ in row)


def sanitize_row(row: Iterable[Run]) -> Row:
    """The row without anything that a terminal interprets."""
    row = tuple(row)
    if "".join([text for text, _ in row]).isprintable():
        return row
    return tuple((plain(text, 4 * len(text) + 1), style) for text, style in row)  # a tab may become four blanks


def crop(row: Iterable[Run], width: int, fill: Style) -> Row:
    """The row at exactly `width` cells: cut with `…`, or filled up."""
    row = row if isinstance(row, tuple) else tuple(row)
    room = width - row_cells(row)
    if room >= 0:
        return (*row, (" " * room, fill)) if room else row
    out: list[Run] = []
    left = width
    for text, style in row:
        size = cells(text)
        if size <= left:
            if text:
                out.append((text, style))
            left -= size
            continue
        if left > 0:
            out.append((set_cell_size(text, left - 1) + "…", style))
        break
    return tuple(out)


def fitted(row: Iterable[Run], width: int, fill: Style) -> Fitted:
    """The row made sanitize_row, neighbours of one style made one, cut or filled up to `width` cells."""
    return Fitted(crop(merged(sanitize_row(row)), width, fill))


def between(left: Sequence[Run], right: Sequence[Run], width: int, fill: Run) -> Row:
    """Both ends of a row, `fill` (one cell) repeated between them; without room the right one is left out."""
    room = width - row_cells(left) - row_cells(right)
    if room < 1:
        return crop(left, width, fill[1])
    return crop((*left, (fill[0] * room, fill[1]), *right), width, fill[1])


def merged(runs: Iterable[Run]) -> Row:
    """Neighbours of the same style as one run: fewer of them are quicker to draw."""
    whole: list[Run] = []
    last: Style | None = None
    for run in runs:
        if run[1] is last:
            whole[-1] = (whole[-1][0] + run[0], run[1])
        else:
            whole.append(run)
            last = run[1]
    return tuple(whole)


def changed(old: Row, new: Row, width: int) -> tuple[int, int] | None:
    """First and one past the last cell in which two rows of `width` cells differ; None when they do not."""
    if old == new:
        return None
    if not (has_sure_cells(old) and has_sure_cells(new)):
        return 0, width
    shared = min(len(old), len(new))
    head, tail = 0, 1
    while head < shared and old[head] == new[head]:
        head += 1
    while tail <= shared and old[-tail] == new[-tail]:
        tail += 1
    first = row_cells(new[:head]) if head else 0
    last = width - row_cells(new[1 - tail :]) if tail > 1 else width
    if head < shared:
        first += _common(old[head], new[head], 1)
    if tail <= shared:
        last -= _common(old[-tail], new[-tail], -1)
    return (min(first, width - 1), max(last, first + 1))


def has_sure_cells(row: Row) -> bool:
    """Return true if every terminal uses the same cells for a row: of foreign text only ASCII."""
    return not isinstance(row, Fitted) or all(text.isascii() for text, _ in row)


def _common(before: Run, after: Run, step: int) -> int:
    """Cells that two runs of the same style share at their start (`step` 1) or end (-1)."""
    if before[1] != after[1] or not (before[0].isascii() and after[0].isascii()):
        return 0
    pairs = zip(before[0][::step], after[0][::step], strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


# --- Lines of words with the names of their styles, and long words laid out over several lines ---

Words = tuple[tuple[str, str], ...]
"""(text, name of a style): a row before anybody knows on which ground it will stand."""
_LONGEST = 4000


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a page."""

    words: Words = ()
    evidence: EvidenceLine | None = None
    """The log line that it shows: the cursor stops at it."""
    command: str = ""
    """The command that it shows, to be copied: the cursor stops at it, too."""


def styled(words: Words, skin: ThemeStyles, ground: str) -> Row:
    """The words as they are drawn, whatever they came with."""
    return tuple((text if text.isprintable() else plain(text), skin.style(style, ground)) for text, style in words)


def panel_row(left: Words, right: Words, width: int, skin: ThemeStyles) -> Row:
    """A title or a foot on the ground of panels."""
    return between(styled(left, skin, "panel"), styled(right, skin, "panel"), width, (" ", skin.style("panel")))


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


def rule(title: str, skin: ThemeStyles, width: int, note: str = "") -> Words:
    """A heading with a line behind it."""
    line = skin.glyph("horizontal")
    head: Words = ((f"{line}{line} ", "frame"), (title, "title"), (f"  {note} " if note else " ", "muted"))
    return (*head, (line * max(0, width - sum(cells(text) for text, _ in head)), "frame"))


def ending(text: str, width: int, skin: ThemeStyles) -> str:
    """The end of `text` in exactly `width` cells: it distinguishes places and files."""
    text = plain(text, _LONGEST)
    if cells(text) > width:
        text = text[-max(1, width) :]
        while cells(text) >= max(1, width):
            text = text[1:]
        text = skin.glyph("cut") + text
    return fit(text, width, glyphs=skin.glyphs)


def ends(text: str, width: int, skin: ThemeStyles) -> str:
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


# --- Moments on the run's axis, as people read them ---


def moment_text(time: float, base: TimeBase) -> str:
    """`14:06:38` by the clock of the logs; `t=1240.1` or `1240.1 s` where there is only another one."""
    if base is TimeBase.WALL:
        try:
            return f"{datetime.fromtimestamp(time, UTC):%H:%M:%S}"
        except (OverflowError, ValueError, OSError):
            return "-"
    return f"t={time:.1f}" if base is TimeBase.MONOTONIC else f"{time:.1f} s"


def plain_moment(time: float, picture: MonitorState) -> str:
    """A time on the axis: time of day, or seconds where no clock shows the day."""
    wall = picture.time_base is TimeBase.WALL
    return moment_text(time, TimeBase.WALL if wall else TimeBase.NONE)


def day_text(time: float, picture: MonitorState) -> str:
    """`2026-03-02` by the clock of the logs, `03-02` where they have no year; "" for no time of ours."""
    try:
        if picture.yearless:
            return f"{datetime.fromtimestamp(time + LEAP_YEAR_S, UTC):%m-%d}"
        return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d}"
    except (OverflowError, ValueError, OSError):
        return ""


_BREAKS = re.compile(r"(?<!\d) ")
"""Not between a figure and its unit."""


def halves(text: str, room: int, cut_off: str) -> tuple[str, str]:
    """As many whole words as fit, marked where more follow, and the words that follow."""
    if cells(text) <= room:
        return text, ""
    ends = [end.start() for end in _BREAKS.finditer(text) if cells(text[: end.start()]) + 2 <= room]
    end = ends[-1] if ends else max(0, room - 2)
    return f"{text[:end].rstrip(' ,;:(')} {cut_off}", text[end:].strip()
