"""timeline.txt and slowest_updates.txt: what happened when, and which of it happened at once."""

from __future__ import annotations

from collections.abc import Iterator

from perfmon.snapshot import Snapshot, TimelineRow

from .layout import one_line, table
from .wording import amount, fields_text

BREAKDOWN = ("wall_ms", "queue_ms", "rpc_ms")
_SHOWN_OVERLAPS = 8


def timeline_text(snapshot: Snapshot) -> Iterator[str]:
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


def slowest_text(snapshot: Snapshot) -> Iterator[str]:
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
