"""The spans of the last while: a run is watched for days, and each look at it is at minutes.

What it gives is a superset of what reaches into the time asked for; who asks still cuts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from .model import Span, Update
from .store import Store

UPDATES = "weight-update"
_SPARE_S = 60.0
_FEW = 256
_NONE: deque[Span] = deque()


class Recent:
    """Remembers which spans of a store are recent, so that the others need not be looked at again."""

    def __init__(self, store: Store, opened: Callable[[], Iterable[Span]] = tuple) -> None:
        self._store = store
        self.opened = opened
        """Spans that have begun and not ended, weight updates apart."""
        self._kept: dict[str, _Kept] = {}

    @property
    def kinds(self) -> list[str]:
        """Kinds of spans that the store holds, weight updates among them."""
        return [*self._store.spans, *([UPDATES] if self._store.updates else [])]

    def spans(self, kind: str, since: float) -> Sequence[Span]:
        """Spans of a kind that end at `since` or later, or not yet, and some earlier ones, in no order.

        `since` is in seconds on the logs' own axes: the earliest of them when they lie apart (see `on_own_axes`).
        """
        held: deque[Update] | deque[Span] = self._store.updates
        if kind != UPDATES:
            held = self._store.spans.get(kind, _NONE)
        kept = self._kept.get(kind)
        stamp = (self._store.dropped["spans"], self._store.dropped["updates"], self._store.shifted)
        size = len(held)
        if kept is None or kept.stamp != stamp or since < kept.since or size < kept.seen:
            kept = self._kept[kind] = _Kept(stamp, since - _SPARE_S)
        # A deque gives its end quickly and its middle slowly: what is new is taken from the end.
        fresh = list(islice(reversed(held), size - kept.seen))
        kept.seen = size
        kept.spans += [span for span in fresh if _reaches(span, kept.since) or _may_move(span)]
        if len(kept.spans) > 2 * kept.after_cut + _FEW:
            kept.since = since - _SPARE_S
            kept.spans = [span for span in kept.spans if _reaches(span, kept.since)]
            kept.after_cut = len(kept.spans)
        return kept.spans


def on_own_axes(time: float, shifts: Mapping[int, float]) -> float:
    """The earliest that a moment of the run's axis is on the axis of any log; logs without a shift are on the run's."""
    return time - max((0.0, *shifts.values()))


class _Kept:
    __slots__ = ("after_cut", "seen", "since", "spans", "stamp")

    def __init__(self, stamp: tuple[int, int, int], since: float) -> None:
        self.stamp, self.since = stamp, since
        self.seen = 0
        self.after_cut = 0
        self.spans: list[Span] = []


def _reaches(span: Span, since: float) -> bool:
    return span.end is None or span.end >= since


def _may_move(span: Span) -> bool:
    """So far only the server told of it: once the client does it lies on the client's axis, which may be hours away."""
    return isinstance(span, Update) and span.client is None
