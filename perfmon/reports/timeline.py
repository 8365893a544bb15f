"""timeline.txt and slowest_updates.txt: what happened when, and which of it happened at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from perfmon.core import format_seconds
from perfmon.diagnosis import Diagnosis, TimelineRow
from perfmon.textgraphics import axis, compact_seconds, fit, gantt, ticks
from perfmon.viewmodel import Bar, Leg, MonitorState

from .layout import amount, fenced, fields_text, one_line, table

BREAKDOWN = ("wall_ms", "queue_ms", "rpc_ms")
_SHOWN_OVERLAPS = 8


def timeline_text(snapshot: Diagnosis) -> Iterator[str]:
    """Lines in time order: start, end, duration in seconds, kind and key, fields; overlaps follow, marked `<->`."""
    yield "# start_s     end_s     dur_s    what; <-> marks overlapping spans and updates"
    if not snapshot.timeline:
        yield "no spans were observed"
    for row in sorted(snapshot.timeline, key=lambda row: (row.start_s, row.end_s)):
        duration = row.end_s - row.start_s
        name = f"{one_line(row.kind, 60)} {one_line(row.key, 120)}".rstrip()
        yield f"{row.start_s:9.3f} {row.end_s:9.3f} {duration:9.3f}  {name}  {fields_text(row.fields)}".rstrip()
        yield from (f"{'<->':>31} {one_line(other, 200)}" for other in row.overlaps[:_SHOWN_OVERLAPS])
        if len(row.overlaps) > _SHOWN_OVERLAPS:
            yield f"{'<->':>31} and {len(row.overlaps) - _SHOWN_OVERLAPS} more"


def slowest_text(snapshot: Diagnosis) -> Iterator[str]:
    """The ten slowest weight updates with their breakdown, overlaps and lines."""
    if not snapshot.slowest:
        yield "no weight update was observed"
        return
    head = ("", "trace", "at", *(name.removesuffix("_ms") for name in BREAKDOWN), "queue share")
    rows = [head, *(_slowest_row(at, row) for at, row in enumerate(snapshot.slowest, 1))]
    yield from table(rows, frozenset({1}), (3, 40, 12, 10, 10, 10, 12))
    for at, row in enumerate(snapshot.slowest, 1):
        yield from _slowest_detail(at, row)


def _slowest_row(at: int, row: TimelineRow) -> tuple[str, ...]:
    wall, queue, rpc = (_number(row, name) for name in BREAKDOWN)
    share = "–" if not wall or queue is None else f"{100 * queue / wall:.0f} %"
    shown = (amount(value, "ms") for value in (wall, queue, rpc))
    return (str(at), row.key, f"{row.start_s:.3f} s", *shown, share)


def _slowest_detail(at: int, row: TimelineRow) -> Iterator[str]:
    yield ""
    yield f"{at}. {one_line(row.key, 120)}  {fields_text(row.fields)}"
    yield from (f"   <-> {one_line(other, 200)}" for other in row.overlaps[:_SHOWN_OVERLAPS])
    yield from (f"   {one_line(item.source, 200)}:{item.line}  {one_line(item.text)}" for item in row.evidence)


def _number(row: TimelineRow, name: str) -> float | None:
    value = row.fields.get(name)
    return value if isinstance(value, float | int) else None


# --- Weight updates as text: each begins at zero, and shows how long it was queued and how long the engine took ---

UPDATE = "weight-update"
LEGEND = "○ sent   ░ queued   █ RPC   ● done   ▒ queue or network (not logged)   ▸ still open"
_LAST, _SLOWEST = 8, 5
_SAME_S = 1.0
_KEY, _AT, _WIDTH, _FIGURE = 12, 8, 40, 7


@dataclass(frozen=True, slots=True)
class _Row:
    key: str
    at_s: float
    """Since the window's beginning."""
    legs: tuple[Leg, ...]
    """Since its own beginning."""
    wall_s: float
    queue_s: float | None
    rpc_s: float | None
    still_open: bool = False


def waterfall_lines(snapshot: Diagnosis, picture: MonitorState | None) -> list[str]:
    """The last and the slowest weight updates; nothing where none was observed."""
    live = _live(snapshot, picture)
    rows = live or [_told(row) for row in snapshot.timeline if row.kind == UPDATE]
    last = sorted(rows, key=lambda row: row.at_s)[-_LAST:]
    slowest = [_seen(row, live) or _told(row) for row in snapshot.slowest[:_SLOWEST]]
    if not last and not slowest:
        return []
    lines = ["## Weight updates", "", LEGEND]
    if last:
        lines += ["", f"The last {len(last)}:" if len(last) > 1 else "The last one:", "", *fenced(_drawn(last))]
    if slowest and slowest != last:
        lines += ["", f"The slowest {len(slowest)}:" if len(slowest) > 1 else "The slowest:", ""]
        lines += fenced(_drawn(slowest))
    return lines


def _live(snapshot: Diagnosis, picture: MonitorState | None) -> list[_Row]:
    lanes = picture.board.spans if picture else ()
    return [_drawable(bar, snapshot.run.start) for lane in lanes if lane.kind == UPDATE for bar in lane.bars]


def _drawable(bar: Bar, origin: float) -> _Row:
    legs = tuple(Leg(leg.kind, leg.start - bar.start, leg.end - bar.start) for leg in bar.legs)
    queue, rpc = (_seconds(bar.values.get(name)) for name in ("queue_ms", "rpc_ms"))
    wall = bar.end - bar.start
    return _Row(bar.key, bar.start - origin, _ended(legs, wall, bar.open), wall, queue, rpc, bar.open)


def _seen(row: TimelineRow, live: Sequence[_Row]) -> _Row | None:
    """The same update as the board draws it, which knows what each line told."""
    return next((one for one in live if one.key == row.key and abs(one.at_s - row.start_s) < _SAME_S), None)


def _told(row: TimelineRow) -> _Row:
    queue, rpc = (_seconds(row.fields.get(name)) for name in ("queue_ms", "rpc_ms"))
    wall = row.end_s - row.start_s
    return _Row(row.key, row.start_s, _ended(_legs(wall, queue, rpc), wall, False), wall, queue, rpc)


def _legs(wall: float, queue: float | None, rpc: float | None) -> tuple[Leg, ...]:
    """Legs by their durations: the queue comes first, and what no line tells stays unknown."""
    if queue is None:
        before = wall if rpc is None else max(0.0, wall - rpc)
        return Leg("unknown", 0.0, before), Leg("rpc", before, wall)
    queued = min(queue, wall)
    return Leg("queue", 0.0, queued), Leg("unknown" if rpc is None else "rpc", queued, wall)


def _ended(legs: tuple[Leg, ...], wall: float, still_open: bool) -> tuple[Leg, ...]:
    legs = tuple(leg for leg in legs if leg.end > leg.start)
    return legs if still_open or not legs else (*legs, Leg("done", wall, wall))


def _seconds(value: object) -> float | None:
    return float(value) / 1000.0 if isinstance(value, float | int) else None


def _drawn(rows: Sequence[_Row]) -> Iterable[str]:
    longest = max(row.wall_s for row in rows)
    scale = axis(ticks(0.0, longest, _WIDTH, origin=0.0, zero="0", plus=""), _WIDTH)
    names = "".join(fit(name, _FIGURE + 1, right=True) for name in ("wall", "queue", "rpc"))
    yield f"{fit('trace', _KEY)} {fit('at', _AT, right=True)}  {scale} {names}"
    for row in rows:
        cells = "".join(cell for cell, _ in gantt(row.legs, 0.0, longest, _WIDTH, still_open=row.still_open))
        figures = "".join(f" {_figure(value)}" for value in (row.wall_s, row.queue_s, row.rpc_s))
        begin = fit(format_seconds(row.at_s), _AT, right=True)
        yield f"{fit(row.key or '–', _KEY)} {begin}  {cells} {figures}".rstrip()


def _figure(value: float | None) -> str:
    return fit("–" if value is None else compact_seconds(value, _FIGURE), _FIGURE, right=True)
