"""A log line as a row: time, log, level, text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from rich.style import Style

from perfmon.core import plain
from perfmon.logbuffer import Line, LogLevel, Query
from perfmon.textgraphics import fit, spark

from ..theme import ThemeStyles
from .rows import Fitted, Row, Run, cells, fitted, row_cells

_DAY = 86400
_NAME_CELLS = 10
_GAP_CELLS = 14
_LEVELS: Mapping[LogLevel, tuple[str, str]] = {
    LogLevel.WARNING: ("warning", "warning"),
    LogLevel.ERROR: ("critical", "critical"),
    LogLevel.CRITICAL: ("critical", "critical"),
}
"""Glyph and style of a line's mark."""
_STAMP = re.compile(
    # A launcher may put the name of a rank before the time, a server its process and how grave the line is.
    r"(?P<before>\[[\w.-]{1,24}\]: ?|(?:\([\w .=-]{1,40}\) )?(?:(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?=\d\d-\d\d ))?)"
    r"\[?(?:\d\d-\d\d |\d{4}[-/]\d\d[-/]\d\d[T ])?\d\d:\d\d:\d\d(?P<part>[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]?"
    r"(?:\s*[|:-](?=\s))?\s+(?=\S)"
)


class Marked(NamedTuple):
    """Marks of a line in the pane."""

    selected: bool = False
    evidence: bool = False
    """A finding rests on it."""
    marked: bool = False
    gap_ms: float | None = None
    """Milliseconds since the line of the same trace above it."""
    folded: int = 0
    """Lines of requests after it that are not shown."""


UNMARKED = Marked()


@dataclass(frozen=True, slots=True)
class Columns:
    """Layout of lines at one width."""

    width: int
    names: Mapping[int, str]
    """Short names of the logs, all equally wide."""
    clock: int
    """Cells for the time: 12, 8 or none."""
    gaps: bool = False
    wall: bool = True
    """Times are those of clocks, not of a stopwatch."""
    begin: int = 0
    """First character of the text that is shown."""
    queries: tuple[Query, ...] = field(default=())
    """Text to highlight."""

    @classmethod
    def of(cls, width: int, names: Mapping[int, str], **others: object) -> Columns:
        """For that width: what is less important than the text goes first."""
        clock = 12 if width >= 100 else 8 if width >= 60 else 0
        most = max(map(cells, names.values()), default=0)
        room = _NAME_CELLS + 2 * (width >= 80) if width >= 60 else 5 if width >= 40 else 0
        short = {index: fit(name, min(most, room)) for index, name in names.items()}
        return cls(width, short, clock, **others)  # type: ignore[arg-type]


def short_names(names: Mapping[int, str]) -> dict[int, str]:
    """As little of the logs' names as distinguishes them: file names without their ends, or the folder that differs."""
    parts = {index: PurePath(name.replace(":", "/")).parts or (name,) for index, name in names.items()}
    # How many of those that end alike have a part at a depth: there may be thousands.
    alike = Counter((own[-1], depth, part) for own in parts.values() for depth, part in enumerate(reversed(own)))
    short: dict[int, str] = {}
    for index, own in parts.items():
        stem, (last, *folders) = PurePath(own[-1]).stem or own[-1], reversed(own)
        differing = (part for depth, part in enumerate(folders, 1) if alike[last, depth, part] == 1)
        short[index] = plain(next(differing, stem) if alike[last, 0, last] > 1 else stem, 40)
    return short


def clock_text(time: float | None, size: int, wall: bool) -> str:
    """`14:11:28.904`, `14:11:28` or `1240.123` in `size` cells."""
    if time is None or not abs(time) < 1e15:
        return " " * size
    if not wall:
        return f"{time:{size}.3f}"[:size]
    seconds, ms = divmod(int(time * 1000 // 1), 1000)
    minutes, second = divmod(seconds % _DAY, 60)
    text = f"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}"
    return f"{text}.{ms:03d}" if size >= 12 else text


def gap_text(ms: float | None) -> str:
    """`+30333.3 ms` in its column."""
    return " " * _GAP_CELLS if ms is None else f"{ms:+.1f} ms "[:_GAP_CELLS].rjust(_GAP_CELLS)


def log_row(line: Line, columns: Columns, skin: ThemeStyles, marked: Marked = UNMARKED) -> Fitted:
    """The row of a line. A time that has its column is not repeated in the text."""
    ground = "cursor" if marked.selected else "background"
    text, clock = line.text, " "
    if columns.clock:
        stamp = _STAMP.match(text) if line.dated else None
        time = clock_text(line.time if line.dated else None, columns.clock, columns.wall)
        if columns.wall and time.endswith(".000") and (stamp is None or stamp["part"] is None):
            time = time[:-4] + "    "
        clock = f" {time} "
        if stamp is not None:
            text = _apart(stamp["before"]) + text[stamp.end() :]
    runs = [(clock, skin.style("muted", ground))]
    name = columns.names.get(line.source, "")
    if name:
        runs.append((name + " ", skin.source(line.source, ground)))
    if columns.gaps:
        runs.append((gap_text(marked.gap_ms), skin.style("accent", ground)))
    glyph, style = _LEVELS.get(line.level, ("", "text"))
    own = skin.style("muted" if line.level is LogLevel.DEBUG else style, ground)
    blank = "   "
    if marked.marked or marked.evidence or glyph:
        sign = skin.glyph("bullet") if marked.marked else skin.glyph("next") if marked.evidence else " "
        runs.append((sign, skin.style("accent", ground)))
        runs.append(((skin.glyph(glyph) if glyph else " ") + " ", skin.style(style, ground)))
        blank = ""
    room = max(0, columns.width - row_cells(runs) - len(blank))
    if marked.folded:
        more = f"  {skin.glyph('next')} {marked.folded} more"
        room = max(0, room - cells(more))
        shown = text[columns.begin : columns.begin + room]
        runs += [(blank + shown + " " * (room - cells(shown)), own), (more, skin.style("accent", ground))]
        return fitted(runs, columns.width, own)
    if columns.queries:
        runs.append((blank, own))
        runs += _text(text, columns, own, skin, room)
    else:
        runs.append((blank + text[columns.begin : columns.begin + room + 1], own))
    return fitted(runs, columns.width, own)


def histogram_row(columns: Sequence[Sequence[float]], right: str, skin: ThemeStyles) -> Row:
    """Lines over time as bars; a sign in their place where there are errors or warnings."""
    most = max((lines for lines, _, _ in columns), default=0.0)
    bars = spark([lines for lines, _, _ in columns], 0.0, most, glyphs=skin.glyphs) if most > 0 else " " * len(columns)
    runs: list[Run] = [(" ", skin.style("text"))]
    for bar, (lines, warnings, errors) in zip(bars, columns, strict=True):
        sign = "critical" if errors else "warning" if warnings else ""
        runs.append((skin.glyph(sign) if sign else bar if lines else " ", skin.style(sign or "muted")))
    return (*runs, (f" {right}", skin.style("faint")))


def _apart(before: str) -> str:
    return f"{before} " if before and not before.endswith(" ") else before


def _text(text: str, columns: Columns, style: Style, skin: ThemeStyles, room: int) -> list[Run]:
    """Visible part of a line, with search matches highlighted."""
    begin = columns.begin
    end = min(len(text), begin + 2 * room + 2)
    spans = sorted(
        (max(low, begin), min(high, end))
        for query in columns.queries
        for low, high in query.spans(text)
        if high > begin and low < end
    )
    runs: list[Run] = []
    at = begin
    match = skin.style("match")
    for low, high in spans:
        if high > at:
            runs += [(text[at : max(low, at)], style), (text[max(low, at) : high], match)]
            at = high
    runs.append((text[at:end], style))
    return [(part, own) for part, own in runs if part]


def gaps_of(lines: Sequence[Line]) -> dict[int, float]:
    """Milliseconds between each line and the one above it, by the line's position."""
    gaps: dict[int, float] = {}
    for at in range(1, len(lines)):
        before, line = lines[at - 1], lines[at]
        if line.time is None or before.time is None:
            continue
        gap = line.time - before.time
        if line.mono is not None and before.mono is not None and abs(line.mono - before.mono - gap) < 2.0:
            gap = line.mono - before.mono  # one clock, and finer than the one at the head of the lines
        gaps[at] = 1000.0 * gap
    return gaps
