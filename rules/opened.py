"""What was told to begin and never to end: a weight update that hangs, seen by whoever watches, and afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from perfmon.model import LEGS, Ref, Span, Update

from .finished import finished_at
from .in_flight import way
from .items import UPDATE, Item
from .silence import said_farewell
from .successors import bygone_of

if TYPE_CHECKING:
    from .run_view import RunView

OPEN_VALUES = ("duration_s", "idle_s")
"""What an item tells: since when it is open, and since when nothing has made progress."""
_PHASES = re.compile(r"paus|resum|broadcast|load|gather|sync", re.IGNORECASE)
_NAMES = {"paus": "pause", "resum": "resume"}
_RECEIVED, _CALLED, _DONE = (1 << LEGS.index(leg) for leg in ("server.recv", "rpc.start", "client.done"))


def open_items(kind: str, view: RunView) -> list[Item]:
    """Spans of a kind that began and are open at the end of what is observed, on the run's axis.

    One that was followed by another in the same log lost its end, and so did those of a run that is over.
    Of a run that has ended as it should nothing is open.
    """
    if finished_at(view) is not None:
        return []
    opened: list[Span] = list(_updates(view) if kind == UPDATE else _spans(kind, view))
    gone = view.fact(bygone_of)
    items = []
    for span in opened:
        if span.start is None or span.source in gone or said_farewell(view.store.sources[span.source]):
            continue
        start, end = span.start + view.shifts.get(span.source, 0.0), view.window[1]
        if start < end and not _followed(kind, span, opened, view):
            values = {"duration_s": end - start, "idle_s": end - max(start, _progress(view))}
            fields = span.fields | {"phase": _phase(span, span.refs)}
            items.append(Item(start, end, values, fields, tuple(span.refs), "", span.key, span.source, span))
    return sorted(items, key=lambda item: (item.start, item.key))


def _spans(kind: str, view: RunView) -> Iterator[Span]:
    return (span for span in view.store.opened() if span.kind == kind and not isinstance(span, Update))


def _updates(view: RunView) -> Iterator[Span]:
    return (update for update in view.store.updates if update.end is None and not update.legs & _DONE)


def _followed(kind: str, span: Span, opened: Sequence[Span], view: RunView) -> bool:
    """Another one of its log (of updates: to its server) began later."""
    start = span.start or 0.0
    if isinstance(span, Update):
        return any(way(other) == way(span) and (other.start or 0.0) > start for other in view.store.updates)
    others = [*opened, *view.store.spans.get(kind, ())]
    return any(other.source == span.source and (other.start or 0.0) > start for other in others)


def _progress(view: RunView) -> float:
    """When any log of the run last told of progress."""
    lasts = [
        max(track.times) + view.shifts.get(source, 0.0)
        for (source, _), track in view.store.progress.tracks.items()
        if len(track.times) and not view.store.sources[source].polled
    ]
    return max([*lasts, *(track.times[-1] for track in view.steps.values() if len(track))], default=float("-inf"))


def _phase(span: Span, refs: Sequence[tuple[Ref, str]]) -> str:
    """Which part of an update is under way, by its legs, or by what its line says."""
    if isinstance(span, Update):
        if not span.legs & (_RECEIVED | _CALLED):
            return "sent and not received"
        return "the call into the engine" if span.legs & _CALLED else "received and not started"
    found = next((match for _, text in refs if (match := _PHASES.search(text))), None)
    return "" if found is None else _NAMES.get(found[0].lower(), found[0].lower())
