"""Spans and weight updates as text: timeline.txt, slowest_updates.txt, and the waterfall of a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perfmon.core import format_seconds
from perfmon.diagnosis import Diagnosis, TimelineRow
from perfmon.textgraphics import Leg, axis, compact_seconds, fit, gantt, ticks
from perfmon.viewmodel import Bar, Level, MonitorState

from .layout import amount, fenced, fields_text, one_line, section, table

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
    head = ("", "update", "at", *(name.removesuffix("_ms") for name in BREAKDOWN), "queue share")
    rows = [head, *(_update_row(at, row) for at, row in enumerate(snapshot.slowest, 1))]
    yield from table(rows, frozenset({1}), (3, 40, 12, 10, 10, 10, 12))
    for at, row in enumerate(snapshot.slowest, 1):
        yield from _slowest_detail(at, row)


def _update_row(at: int, row: TimelineRow) -> tuple[str, ...]:
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


def waterfall_lines(snapshot: Diagnosis, picture: MonitorState | None) -> list[str]:
    """The last and the slowest weight updates; nothing where none was observed."""
    origin = snapshot.run.start
    bars = picture.board.bars(UPDATE) if picture else []
    bars = bars or [_bar(row, origin) for row in snapshot.timeline if row.kind == UPDATE]
    last = sorted(bars, key=lambda bar: bar.start)[-_LAST:]
    slowest = [_known(row, origin, bars) for row in snapshot.slowest[:_SLOWEST]]
    if not last and not slowest:
        return []
    lines = [LEGEND]
    if last:
        lines += ["", f"The last {len(last)}:" if len(last) > 1 else "The last one:", "", *_drawn(last, origin)]
    if slowest and slowest != last:
        title = f"The slowest {len(slowest)}:" if len(slowest) > 1 else "The slowest:"
        lines += ["", title, "", *_drawn(slowest, origin)]
    return section("Weight updates", lines)


def _known(row: TimelineRow, origin: float, bars: Sequence[Bar]) -> Bar:
    """The bar of an update, from the timeline if it is there: that knows what each line reports."""
    same = (bar for bar in bars if bar.key == row.key and abs(bar.start - origin - row.start_s) < _SAME_S)
    return next(same, None) or _bar(row, origin)


def _bar(row: TimelineRow, origin: float) -> Bar:
    """A bar from durations: the queue comes first, and what no line reports stays unknown."""
    values = {name: value for name in BREAKDOWN if (value := _number(row, name)) is not None}
    start, end = origin + row.start_s, origin + row.end_s
    queue, rpc = values.get("queue_ms"), values.get("rpc_ms")
    if queue is None:
        split, before, after = end if rpc is None else max(start, end - rpc / 1000.0), "unknown", "rpc"
    else:
        split, before, after = min(end, start + queue / 1000.0), "queue", "unknown" if rpc is None else "rpc"
    return Bar(
        UPDATE, row.key, start, end, False, Level.NONE, (Leg(before, start, split), Leg(after, split, end)), values
    )


def _drawn(bars: Sequence[Bar], origin: float) -> list[str]:
    """Bars that all begin at zero, in a code block."""
    longest = max(bar.end - bar.start for bar in bars)
    scale = axis(ticks(0.0, longest, _WIDTH, origin=0.0, zero="0", plus=""), _WIDTH)
    names = "".join(fit(name, _FIGURE + 1, right=True) for name in ("wall", "queue", "rpc"))
    lines = [f"{fit('update', _KEY)} {fit('at', _AT, right=True)}  {scale} {names}"]
    for bar in bars:
        wall = bar.end - bar.start
        legs = [Leg(leg.kind, leg.start - bar.start, leg.end - bar.start) for leg in bar.legs if leg.end > leg.start]
        if legs and not bar.open:
            legs.append(Leg("done", wall, wall))
        cells = "".join(cell for cell, _ in gantt(legs, 0.0, longest, _WIDTH, still_open=bar.open))
        times = (1000.0 * wall, bar.values.get("queue_ms"), bar.values.get("rpc_ms"))
        figures = "".join(f" {_figure(value)}" for value in times)
        start = fit(format_seconds(bar.start - origin), _AT, right=True)
        lines.append(f"{fit(bar.key or '–', _KEY)} {start}  {cells} {figures}".rstrip())
    return fenced(lines)


def _figure(ms: float | None) -> str:
    return fit("–" if ms is None else compact_seconds(ms / 1000.0, _FIGURE), _FIGURE, right=True)
