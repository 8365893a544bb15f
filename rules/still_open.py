"""What has begun and not ended: an evaluation that runs, and the wait that it causes.

A run that is watched is told how long something took when it is over. Until then a start that was told is worth as
much, as long as it is plausible: a log that lost the end of one would have it go on for ever.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from .items import Item
from .silence import is_over

if TYPE_CHECKING:
    from .run_view import RunView

_KINDS = ("evaluation", "batch-wait")
_LONGEST_S = 1800.0
_LEAST_S = 300.0
_TIMES = 3.0
"""Times the longest that has ended."""


def still_open(view: RunView, ended: Mapping[str, Sequence[Item]]) -> dict[str, list[Item]]:
    """By kind; nothing where nobody watches. `ended` are those that have."""
    if view.present is None or view.recent is None:
        return {}
    found: dict[str, list[Item]] = {}
    for span in view.recent.opened():
        if span.kind not in _KINDS or span.start is None or is_over(view.store.sources[span.source]):
            continue
        start = span.start + view.shifts.get(span.source, 0.0)
        others = ended.get(span.kind, ())
        if start < view.present <= start + _most(others) and not _was_lost(start, span.source, others):
            item = Item(start, view.present, {}, span.fields, span.refs, "", span.key, span.source)
            found.setdefault(span.kind, []).append(item)
    return found


def _most(others: Sequence[Item]) -> float:
    """Seconds that it may plausibly last."""
    if not others:
        return _LONGEST_S
    return max(_LEAST_S, _TIMES * max(item.end - item.start for item in others))


def _was_lost(start: float, source: int, others: Sequence[Item]) -> bool:
    """One of the same log began later and has ended: that this one did was not told."""
    return any(item.source == source and item.start > start for item in others)
