"""Logs as rows: a line with its time, log and level; a log with its freshness, rate, and how well it is understood."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import NamedTuple

from rich.style import Style

from perfmon.core import TimeBase, counted, format_bytes, format_share, plain
from perfmon.logbuffer import Line, LogLevel, Query
from perfmon.textgraphics import bar, compact, compact_bytes, compact_seconds, fit, spark
from perfmon.viewmodel import Freshness, MonitorState, SourceStatus, levels_text, little_is_recognised

from ..theme import ThemeStyles
from .rows import Fitted, Row, Run, Words, cells, ending, ends, fitted, moment_text, paragraph, row_cells, rule

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
    """`+333.3 ms` or `+30.33 s` in its column."""
    if ms is None:
        return " " * _GAP_CELLS
    text = f"{ms:+.1f} ms " if abs(ms) < 1000 else f"{ms / 1000:+.2f} s "
    return text[:_GAP_CELLS].rjust(_GAP_CELLS)


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
    for height, (lines, warnings, errors) in zip(bars, columns, strict=True):
        sign = "critical" if errors else "warning" if warnings else ""
        runs.append((skin.glyph(sign) if sign else height if lines else " ", skin.style(sign or "muted")))
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


# --- A log as one row: whether it is about the present, how fast it grows, and what is wrong with it ---

STYLES = {
    Freshness.FRESH: "good",
    Freshness.IDLE: "muted",
    Freshness.LAGGING: "warning",
    Freshness.STALE: "stale",
    Freshness.WAITING: "muted",
    Freshness.ENDED: "faint",
}


def freshness_word(freshness: Freshness) -> str:
    """Name a freshness on the screen, where stale is a word for rollouts."""
    return "silent" if freshness is Freshness.STALE else freshness.value


def age(source: SourceStatus) -> str:
    """Since something was last read of it; whole seconds, so that it changes once a second at most."""
    if source.age_s is None:
        return "-"
    whole = max(0, int(source.age_s))
    return "now" if whole == 0 else f"{whole}s" if whole < 100 else compact_seconds(whole, 6).replace(" ", "")


def problems(source: SourceStatus) -> str:
    """Its problem in a few words; "" without one."""
    parts = [text] if (text := levels_text((source,), 30)) else []
    parts += [f"{source.errors} lost"] if source.errors else []
    parts += [f"{source.skipped} skipped"] if source.skipped else []
    return " · ".join([*parts, *source.notes[-1:]])


def common_ending(names: Sequence[str]) -> str:
    """The ending that all logs have, with its dot; "" where there is none, or only one log."""
    endings = {PurePath(name).suffix for name in names}
    return endings.pop() if len(endings) == 1 and len(names) > 1 else ""


def source_row(source: SourceStatus, skin: ThemeStyles, width: int, folder: str = "", common: str = "") -> Words:
    """Exactly `width` cells: the narrower, the fewer columns; the name without the folder that all logs lie in.

    Where there is no room for it the name goes without the ending that all have in `common`, too.
    """
    words: list[tuple[str, str]] = []
    wide, narrow = width >= 72, width < 36
    tail: list[tuple[str, str]] = [
        (f" {compact(source.lines_per_s, 3 if narrow else 6)}/s".rjust(6 if narrow else 9), "text"),
        *([(f" {compact_bytes(source.bytes_per_s, 8)}/s".rjust(12), "muted")] if width >= 96 else []),
        (age(source).rjust(7), STYLES[source.freshness]),
    ]
    words.append((f" {skin.glyph(source.freshness.value)} ", STYLES[source.freshness]))
    if width >= 44:
        words.append((fit(freshness_word(source.freshness), 8), STYLES[source.freshness]))
    room = width - sum(len(text) for text, _ in (*words, *tail))
    trouble = problems(source)
    problem_cells = min(60, room // 4) if wide and (trouble or width >= 120) else 0
    form = 20 if width >= 96 else 14 if wide else 0
    name = max(0, room - (problem_cells + 1 if problem_cells else 0) - (form + 1 if form else 0))
    shown = source.name.removeprefix(folder)
    shown = shown.removesuffix(common) if cells(shown) > name else shown
    words.append((ends(shown, name, skin), f"source{source.index % 8}"))
    if form:
        words.append((" " + fit(source.format, form, glyphs=skin.glyphs), "muted"))
    words += tail
    if problem_cells:
        style = "critical" if source.error_lines else "warning" if source.errors or source.warning_lines else "muted"
        words.append((" " + fit(trouble, problem_cells, glyphs=skin.glyphs), style))
    return tuple(words)


# --- Parse coverage of each log: recognised lines by pattern, and unrecognised lines ---

_BAR, _PATTERNS = 12, 40


def doctor(picture: MonitorState, skin: ThemeStyles, width: int) -> tuple[list[Words], list[int]]:
    """All logs one below another, and the line at which each begins."""
    rows: list[Words] = []
    starts: list[int] = []
    for source in picture.sources:
        starts.append(len(rows))
        rows += [*_section(source, picture.time_base, skin, width), ((" ", "text"),)]
    return rows or [((" no logs yet", "muted"),)], starts


def _section(source: SourceStatus, base: TimeBase, skin: ThemeStyles, width: int) -> list[Words]:
    style = STYLES[source.freshness]
    name = ending(source.name, min(len(source.name), max(8, width - 24)), skin)
    rows = [rule(name, skin, width, freshness_word(source.freshness))]
    for label, value, look in _facts(source, base, style):
        rows += paragraph(value, width - 2, look, f" {label:<8}", "muted")
    rows += [words for note in source.notes for words in paragraph(note, width - 2, "text", " ! ", "warning")]
    rows += _patterns(source, skin, width)
    if little_is_recognised(source):
        command = f"`perfmon formats learn {shlex.quote(source.name)}` or :learn proposes a format for it"
        rows += paragraph(command, width - 2, "text", " > ", "accent")
    if source.unparsed:
        rows.append(((" unrecognised lines", "muted"),))
        rows += [((" ? ", "stale"), (fit(text, width - 4, glyphs=skin.glyphs), "text")) for text in source.unparsed]
    return rows


def _facts(source: SourceStatus, base: TimeBase, style: str) -> Iterable[tuple[str, str, str]]:
    share = format_share(source.events / source.lines) if source.lines else "0 %"
    missing = " - see `perfmon analyze LOG --explain-formats`" if source.lines and not source.events else ""
    matched = f"{source.events:,} of {counted(source.lines, 'line')} recognised ({share}){missing}"
    yield "format", f"{source.format}; {matched}", "text" if source.events else "warning"
    rates = f"{compact(source.lines_per_s, 6)} lines/s, {format_bytes(source.bytes_per_s)}/s"
    read = f"{format_bytes(source.bytes)} read, {rates}"
    yield "read", f"{read}, last {age(source)}{'' if age(source) in ('-', 'now') else ' ago'}", style
    if source.last is not None:
        yield "clock", f"last timestamp {moment_text(source.last, base)}{_offset(source.offset_s)}", "text"
    else:
        yield "clock", "no timestamp yet", "muted"
    if source.errors or source.skipped:
        lost = f"{counted(source.errors, 'error')}, {source.skipped} lines with implausible values"
        yield "lost", lost, "warning" if source.errors else "text"


def _offset(offset_s: float | None) -> str:
    if offset_s is None:
        return ""
    sign = "-" if offset_s < 0 else "+"
    return f"; {sign}{compact_seconds(abs(offset_s), 8)} against the client's clock"


def _patterns(source: SourceStatus, skin: ThemeStyles, width: int) -> list[Words]:
    ordered = sorted(source.patterns.items(), key=lambda pattern: (-pattern[1], pattern[0]))
    most = ordered[0][1] if ordered else 1
    rows: list[Words] = []
    for name, lines in ordered[:_PATTERNS]:
        drawn = bar(lines / max(1, most), _BAR, skin.glyphs)
        room = max(0, width - 12 - _BAR)
        rows.append(((f"{lines:>9} ", "text"), (f"{drawn} ", "accent"), (fit(name, room, glyphs=skin.glyphs), "muted")))
    if len(ordered) > _PATTERNS:
        rows.append(((f" {len(ordered) - _PATTERNS} more patterns", "faint"),))
    return rows
