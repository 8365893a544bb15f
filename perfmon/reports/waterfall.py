"""Weight updates as text: each begins at zero, and shows how long it was queued and how long the engine took."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfmon.drawing import axis, compact_seconds, fit, gantt, ticks
from perfmon.picture import Bar, Leg, Picture
from perfmon.snapshot import Snapshot, TimelineRow
from perfmon.units import format_seconds

from .escape import fenced

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


def waterfall_lines(snapshot: Snapshot, picture: Picture | None) -> list[str]:
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


def _live(snapshot: Snapshot, picture: Picture | None) -> list[_Row]:
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
