"""What lies before the part of a run that is looked at: how often something usually happened, and when it last did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from perfmon.model import Ref, Span, Update

if TYPE_CHECKING:
    from .run_view import RunView

_LOOKED_AT = 256
"""Of the newest: a run may be watched for days."""
Told = tuple[float, float, list[tuple[Ref, str]], str | None]
"""When it began and ended, and its lines."""


def earlier(kind: str, mark: str, view: RunView) -> list[Told]:
    """Spans of a kind, and marks of a name, of the last while before the window, in time order."""
    if view.clip is None:
        return []
    low = view.clip[0]
    told = [*_spans(kind, view), *_marks(mark, view)]
    return sorted((event for event in told if event[1] < low), key=lambda event: event[0])


def _spans(kind: str, view: RunView) -> Iterator[Told]:
    held: Sequence[Span] = view.store.spans.get(kind, ())
    updates: Sequence[Update] = view.store.updates
    newest = islice(reversed(held), _LOOKED_AT) if kind != "weight-update" else islice(reversed(updates), _LOOKED_AT)
    for span in newest:
        if span.start is not None and span.end is not None:
            shift = view.shifts.get(span.source, 0.0)
            yield (span.start + shift, span.end + shift, span.refs, str(span.fields.get("url", "")))


def _marks(name: str, view: RunView) -> Iterator[Told]:
    for (marked, _), series in view.store.marks.items():
        for at in range(max(0, len(series) - _LOOKED_AT), len(series)) if marked == name else ():
            time = series.times[at] + view.shifts.get(series.sources[at], 0.0)
            yield (time, time, [(series.ref(at), series.text(at))], None)
