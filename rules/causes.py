"""Which finding explains which: by the causes that signatures name, on the same key or over the same time."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.ledger import Window, length, union, without

from .claims import extent
from .conditions.base import Level
from .found import FIRING, PENDING, Found
from .view import View

_LEAST_SHARE = 0.5
_POINT_S = 1e-6
_DUE = 1.5
"""Times the seconds that a cause must last within which it is proven, or is none."""


def hold_back(found: Sequence[Found], view: View) -> None:
    """While somebody watches, a symptom waits for a cause that is about to be proven: what is told first is right.

    That is a cause which lasts for less than it must as yet, and goes on or does not take much longer to, or of which
    one more occurrence is enough. Nothing waits for one that lacks other proof, nor where nothing more is to come.
    """
    if view.present is None:
        return
    now = view.window[1]
    due = [cause for cause in found if not cause.counts and _is_due(cause, now)]
    for finding in found:
        if finding.state == FIRING and any(_is_symptom(finding, cause, view) for cause in due):
            finding.state, finding.claims = PENDING, []


def _is_due(cause: Found, now: float) -> bool:
    if any(occurrence.so_far for occurrence in cause.occurrences):
        return True
    if cause.signature.for_s:
        return now - cause.first <= _DUE * cause.signature.for_s
    least, _ = cause.subject.critical_count or cause.signature.critical_count
    critical = sum(occurrence.level is Level.CRITICAL for occurrence in cause.occurrences)
    return least > 1 and critical == least - 1


def _is_symptom(finding: Found, other: Found, view: View) -> bool:
    """The cause, which holds now, explains all of the symptom, or the newest of it: it may have begun meanwhile."""
    if other.rank >= finding.rank or other.signature.id not in {cause.signature for cause in finding.signature.causes}:
        return False
    held = _held(other, view)
    if _same_time(finding, _held(finding, view), held):
        return True
    newest, now = extent(finding.occurrences[-1].item, view), view.window[1]
    began = min((start for start, _ in held), default=now)
    return length([newest]) > 0 and length([(max(newest[0], began), newest[1])]) >= _LEAST_SHARE * length([newest])


def explain(found: Sequence[Found], view: View) -> None:
    """Links each finding to the first of its signature's causes that explains it; pending ones explain nothing."""
    held = [_held(finding, view) for finding in found]
    for at, finding in enumerate(found):
        if finding.counts:
            finding.explained_by = _cause(at, found, held)


def _cause(at: int, found: Sequence[Found], held: Sequence[list[Window]]) -> int | None:
    finding = found[at]
    for cause in finding.signature.causes:
        for other_at, other in enumerate(found):
            if other.signature.id != cause.signature or not other.counts or other.rank >= finding.rank:
                continue
            if cause.match == "key":
                same = _same_keys(finding, other)
            else:
                others = held[other_at] if cause.match == "time" else other.claims
                same = _same_time(finding, held[at], others)
            if same:
                return other_at
    return None


def _held(finding: Found, view: View) -> list[Window]:
    """The time that a finding's occurrences take, whether it is lost or not."""
    return union([*finding.claims, *(extent(occurrence.item, view) for occurrence in finding.occurrences)])


def _same_keys(finding: Found, other: Found) -> bool:
    """At least half of the occurrences share their key (a step) with one of the other's."""
    keys = {occurrence.item.key for occurrence in other.occurrences} - {""}
    hits = sum(occurrence.item.key in keys for occurrence in finding.occurrences)
    return hits > 0 and hits >= _LEAST_SHARE * len(finding.occurrences)


def _same_time(finding: Found, own: list[Window], others: list[Window]) -> bool:
    """At least half of what the finding costs (where it costs nothing: of its time) lies within the other's time."""
    mine = finding.claims or own
    total = length(mine)
    if total > 0:
        return total - length(without(mine, others)) >= _LEAST_SHARE * total
    ends = [occurrence.item.end for occurrence in finding.occurrences]
    hits = sum(any(start - _POINT_S <= end <= stop + _POINT_S for start, stop in others) for end in ends)
    return hits > 0 and hits >= _LEAST_SHARE * len(ends)
