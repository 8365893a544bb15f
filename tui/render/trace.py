"""One weight update as a page: its phases to scale, its lines with the gaps between them, and concurrent spans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from perfmon.core import LEGS, TimeBase, counted, format_seconds, format_share, median
from perfmon.diagnosis import ClockOffset, EvidenceLine
from perfmon.logbuffer import Line
from perfmon.rules import UPDATE
from perfmon.textgraphics import axis, compact_seconds, fit, gantt, ticks
from perfmon.viewmodel import Bar, Level, MonitorState

from ..theme import LEVEL_WORDS, ThemeStyles, level_style
from .logs import Columns, Marked, gap_text, gaps_of, log_row, short_names
from .rows import Entry, Row, Words, crop, ending, moment_text, paragraph, rule, styled

_LABEL, _FIGURES = 9, 17
_MARK = 9
_USUAL = 15
"""Cells of the figure of the others."""
_WIDE = 110
_MOST_CONCURRENT = 8
_UNSURE_S = 0.05
"""From here on the uncertainty of a clock is explained."""
_LEGS = {"queue": "queue", "unknown": "wait", "rpc": "rpc", "done": "return"}
_SERVER = LEGS[1:4]
_STYLES = ("send", "queue", "rpc", "done")


@dataclass(frozen=True, slots=True)
class UpdateLines:
    """Lines of an update in the log buffer."""

    lines: tuple[Line, ...] = ()
    complete: bool = False
    """All of the book was looked through."""
    lost: bool = False
    """Lines as old as its beginning are not kept any more."""
    names: Mapping[int, str] = field(default_factory=dict)
    """Of the logs."""


@dataclass(frozen=True, slots=True)
class LogEntry(Entry):
    """A log line of the page."""

    row: Line | None = None
    gap_ms: float | None = None
    mark: str = ""
    """The phase that the gap before it is."""


def name_of(bar: Bar) -> str:
    """`def456 s43`."""
    step = f" s{bar.values['step']:.0f}" if "step" in bar.values else ""
    if bar.kind != UPDATE:
        return f"step {bar.key}" if bar.key.isdecimal() else bar.key or step.strip() or "without a name"
    return f"{bar.key or 'no id'}{step}"


def summary(bar: Bar, base: TimeBase, skin: ThemeStyles) -> Words:
    """Duration, level and start."""
    level = f"{skin.mark(bar.level)} {LEVEL_WORDS[bar.level]} " if bar.level is not Level.NONE else ""
    return (
        (f" {compact_seconds(bar.end - bar.start, 9)} ", "text"),
        (level, level_style(bar.level)),
        (f" {'since' if bar.open else 'from'} {moment_text(bar.start, base)} ", "muted"),
        ("still open " if bar.open else "", "accent"),
    )


def trace_page(bar: Bar, found: UpdateLines, picture: MonitorState, skin: ThemeStyles, width: int) -> list[Entry]:
    """The whole page at that width."""
    others = [other for other in picture.board.bars(bar.kind) if other.seq != bar.seq and not other.open]
    sections: list[tuple[str, str, list[Entry]]] = [
        (
            "PHASES",
            _standing(bar, others),
            [*map(Entry, _legs(bar, others, skin, width)), *map(Entry, _missing(bar, skin, width))],
        ),
        ("LINES", _count(found), _lines(bar, found, picture, skin, width)),
        ("CLOCKS", "", [*map(Entry, _clocks(picture, skin, width))]),
        ("AT THE SAME TIME", "", [*map(Entry, _concurrent(bar, picture, skin, width))]),
    ]
    return [entry for title, note, body in sections if body for entry in (Entry(rule(title, skin, width, note)), *body)]


def entry_row(entry: Entry, found: UpdateLines, wall: bool, skin: ThemeStyles, width: int, ground: str) -> Row:
    """A line of the page as it is drawn."""
    if not isinstance(entry, LogEntry) or entry.row is None:
        return styled(entry.words, skin, ground)
    wide = width >= _WIDE
    room = width - _MARK if wide else width
    columns = Columns.of(room, short_names(found.names), gaps=wide, wall=wall)
    marked = Marked(selected=ground == "cursor", gap_ms=entry.gap_ms)
    row = crop(log_row(entry.row, columns, skin, marked), room, skin.style("text", ground))
    return (*row, *styled(((_marked(entry.mark, skin), entry.mark or "text"),), skin, ground)) if wide else row


def _marked(mark: str, skin: ThemeStyles) -> str:
    return f" {skin.glyph('here')} {mark}" if mark else ""


# --- legs -------------------------------------------------------------------------------------------------------------
def _standing(bar: Bar, others: Sequence[Bar]) -> str:
    """Its place among the others in view, by duration: `longer than 12 of 14 others in view, p50 1.2 s`."""
    if not others:
        return ""
    lengths = [other.end - other.start for other in others]
    shorter, usual = sum(length < bar.end - bar.start for length in lengths), format_seconds(median(lengths))
    return f"longer than {shorter} of {counted(len(others), 'other')} in view, whose p50 is {usual}"


def _usual_leg(kind: str, others: Sequence[Bar]) -> str:
    """The median of that phase of the others; "" without any."""
    lengths = [leg.end - leg.start for other in others for leg in other.legs if leg.kind == kind]
    return f"p50 {compact_seconds(median(lengths), 8)}" if lengths else ""


def _legs(bar: Bar, others: Sequence[Bar], skin: ThemeStyles, width: int) -> Iterator[Words]:
    """An axis that begins with the update, and a leg a row, with what is usual where there is room."""
    span = max(1e-3, bar.end - bar.start)
    compared = _USUAL if width >= _WIDE and others else 0
    room = max(8, width - _LABEL - _FIGURES - compared - 1)
    yield ((" " * _LABEL, "faint"), (axis(ticks(0.0, span, room, origin=0.0, zero="0 s", plus=""), room), "faint"))
    for leg in bar.legs:
        moved = replace(leg, start=leg.start - bar.start, end=leg.end - bar.start)
        still_open = bar.open and leg is bar.legs[-1]
        cells = gantt((moved,), 0.0, span, room, still_open=still_open, glyphs=skin.glyphs)
        style = leg.kind if leg.kind in _STYLES else "unknown"
        took = leg.end - leg.start
        figures = f"{compact_seconds(took, 9):>9} {format_share(min(1.0, took / span)):>6}"
        yield (
            (fit(f" {_LEGS.get(leg.kind, leg.kind)}", _LABEL, glyphs=skin.glyphs), "text"),
            ("".join(char for char, _ in cells), style),
            (f" {figures}", "text"),
            (fit(f"  {_usual_leg(leg.kind, others)}", compared) if compared else "", "muted"),
        )
    if not bar.legs:
        yield ((" its phases are not in the logs", "muted"),)


def _missing(bar: Bar, skin: ThemeStyles, width: int) -> Iterator[Words]:
    if any(leg.kind == "unknown" for leg in bar.legs):
        yield from paragraph("wait: queue or network (no server log)", width - 1, "muted", "   ")
    if bar.missing:
        hint = ": add the server's log" if set(_SERVER) <= set(bar.missing) else ""
        text = f"not in the logs: {', '.join(bar.missing)}{hint}"
        yield from paragraph(text, width - 1, "stale", f" {skin.glyph('unknown')} ", "stale")


# --- lines ------------------------------------------------------------------------------------------------------------
def _count(found: UpdateLines) -> str:
    if not found.lines:
        return ""
    logs = counted(len({line.source for line in found.lines}), "log")
    return f"{counted(len(found.lines), 'line')} of {logs}  Enter log  y copy"


def _lines(bar: Bar, found: UpdateLines, picture: MonitorState, skin: ThemeStyles, width: int) -> list[Entry]:
    entries: list[Entry] = []
    lines = tuple(line._replace(text=_without_head(line.text, bar.key)) for line in found.lines)
    gaps, marks = gaps_of(lines), leg_marks([line.text for line in lines])
    for at, (line, full) in enumerate(zip(lines, found.lines, strict=True)):
        evidence = EvidenceLine(found.names.get(line.source, ""), line.number, full.text)
        gap, mark = gaps.get(at), marks.get(at, "")
        if width < _WIDE and gap is not None:
            entries.append(Entry(((f"{gap_text(gap)}", "accent"), (_marked(mark, skin), mark or "text"))))
        entries.append(LogEntry(evidence=evidence, row=line, gap_ms=gap, mark=mark))
    reason = _why_not(bar, found)
    entries += [Entry(words) for words in paragraph(reason, width - 1, "muted", " ")] if reason else []
    return entries if found.lines else [*entries, *_evidence(bar, picture, skin, width)]


def _why_not(bar: Bar, found: UpdateLines) -> str:
    """Reason for missing lines."""
    if bar.kind != UPDATE:
        return "" if found.lines else "no buffered line is of that time" if found.complete else "searching …"
    if not bar.key:
        return "its lines carry no id, so no lines can be found"
    if not found.complete:
        return "searching …"
    if found.lost:
        return "its first lines are no longer buffered"
    return "" if found.lines else "no buffered line belongs to it"


def _evidence(bar: Bar, picture: MonitorState, skin: ThemeStyles, width: int) -> list[Entry]:
    """Lines of it that are kept as evidence."""
    slowest = picture.snapshot.slowest if picture.snapshot is not None else ()
    found = [line for row in slowest if row.key == bar.key and bar.key for line in row.evidence]
    column = min(width // 3, max((len(line.source) + 8 for line in found), default=0))
    return [
        Entry(
            (
                (f" {ending(f'{line.source}:{line.line}', column, skin)}  ", "accent"),
                (fit(line.text, max(0, width - column - 4), glyphs=skin.glyphs), "text"),
            ),
            evidence=line,
        )
        for line in found
    ]


def _without_head(text: str, key: str) -> str:
    """Text after `[weights][key]`; the time before it has its own column."""
    before, found, rest = text.partition(f"[{key}]")
    return rest.lstrip() if found and key else before


def in_order(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines by time, and where clocks have only seconds as the legs of an update follow each other."""
    ranked: list[tuple[float, int, int, Line]] = []
    time, leg = float("-inf"), 0
    for at, line in enumerate(lines):
        time = time if line.time is None else line.time
        leg = next((index for index, name in enumerate(LEGS) if name in line.text), leg)
        ranked.append((time, leg, at, line))
    return tuple(line for _, _, _, line in sorted(ranked, key=lambda rank: rank[:3]))


def leg_marks(texts: Sequence[str]) -> dict[int, str]:
    """Phase of the gap before a line, by position of the line: `queue` or `rpc`."""
    marks: dict[int, str] = {}
    before = ""
    for at, text in enumerate(texts):
        leg = next((name for name in LEGS if name in text), "")
        if before == "client.send" and leg in ("server.recv", "rpc.start"):
            marks[at] = "queue"
        elif before in ("server.recv", "rpc.start") and leg == "rpc.done":
            marks[at] = "rpc"
        before = leg or before
    return marks


# --- clocks and company -----------------------------------------------------------------------------------------------
def _clocks(picture: MonitorState, skin: ThemeStyles, width: int) -> Iterator[Words]:
    """Uncertainty of gaps between lines of different logs."""
    offsets = picture.snapshot.clock_offsets if picture.snapshot is not None else ()
    for offset in offsets:
        style = "warning" if offset.contradictory else "muted"
        mark = skin.glyph("warning" if offset.contradictory else "bullet")
        yield from paragraph(_clock(offset), width - 1, "text" if offset.contradictory else "muted", f" {mark} ", style)


def _clock(offset: ClockOffset) -> str:
    side = "ahead of" if offset.offset_s >= 0 else "behind"
    text = (
        f"{offset.source}: its clock is {format_seconds(abs(offset.offset_s))} {side} the client's, "
        f"± {format_seconds(offset.uncertainty_s)}, by {counted(offset.traces, 'update')}"
    )
    if offset.uncertainty_s >= _UNSURE_S and not offset.contradictory:
        text += ": gaps between lines of both logs may be off by that much, those within one log are exact"
    if offset.contradictory:
        text += "; estimates disagree: gaps between logs are unreliable"
    return text


def _concurrent(bar: Bar, picture: MonitorState, skin: ThemeStyles, width: int) -> Iterator[Words]:
    """Other spans that share time with it, those that share most first."""
    others = [
        (min(bar.end, other.end) - max(bar.start, other.start), other)
        for lane in picture.board.spans
        for other in lane.bars
        if other.start < bar.end and other.end > bar.start and (other.kind, other.seq) != (bar.kind, bar.seq)
    ]
    others.sort(key=lambda pair: (-pair[0], pair[1].start))
    span = max(1e-9, bar.end - bar.start)
    for shared, other in others[:_MOST_CONCURRENT]:
        name = fit(f"{other.kind.replace('-', ' ')} {other.key}", 28 if width >= 80 else 20, glyphs=skin.glyphs)
        level = skin.mark(other.level) if other.level is not Level.NONE else " "
        began = f"  from {moment_text(other.start, picture.time_base)}" if width >= 80 else ""
        yield (
            (f" {name} ", "text"),
            (f"{compact_seconds(other.end - other.start, 8):>8} ", "text"),
            (f"{level} ", level_style(other.level)),
            (f"{format_share(min(1.0, shared / span)):>6} of it{began}", "muted"),
        )
    if len(others) > _MOST_CONCURRENT:
        yield ((f" {len(others) - _MOST_CONCURRENT} more", "faint"),)
