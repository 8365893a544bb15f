"""Attributes the observed time: each second belongs to one cause, to proven work, or is unaccounted for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TypeVar

PRODUCTIVE = "productive"
UNACCOUNTED = "unaccounted"
STARTUP, RESTORE, WASTED, DOWNTIME = "startup", "restore", "wasted-progress", "downtime"
CHECKPOINT, EVALUATION, IDLE = "checkpoint", "evaluation", "idle"
REST = (PRODUCTIVE, STARTUP, CHECKPOINT, EVALUATION, RESTORE, WASTED, DOWNTIME, IDLE, UNACCOUNTED)
"""Entries of the time breakdown that are no finding's."""

Window = tuple[float, float]
_Time = TypeVar("_Time", int, float)


@dataclass(frozen=True, slots=True)
class LostInterval:
    """An interval that one finding claims as lost."""

    owner: int
    """Index of the finding."""
    rank: float
    """The smallest rank gets the time."""
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Shares:
    """Seconds by owner, and what is left."""

    lost: dict[int, float]
    rest: dict[str, float]
    """By REST: what evidence shows of the time that no finding claims."""
    kept: dict[int, list[Window]]
    """The intervals that each owner got."""


def union(intervals: Iterable[Window]) -> list[Window]:
    """Ascending intervals that do not touch."""
    merged: list[Window] = []
    for start, end in sorted(interval for interval in intervals if interval[1] > interval[0]):
        if merged and start <= merged[-1][1]:
            if end > merged[-1][1]:
                merged[-1] = (merged[-1][0], end)
        else:
            merged.append((start, end))
    return merged


def length(intervals: Iterable[Window]) -> float:
    """Seconds in intervals that do not overlap."""
    return sum(end - start for start, end in intervals)


def without(intervals: Sequence[tuple[_Time, _Time]], cut: Sequence[tuple[_Time, _Time]]) -> list[tuple[_Time, _Time]]:
    """`intervals` less `cut`; both ascending and without overlap."""
    left: list[tuple[_Time, _Time]] = []
    at = 0
    for start, end in intervals:
        while at < len(cut) and cut[at][1] <= start:
            at += 1
        position, ahead = start, at
        while ahead < len(cut) and cut[ahead][0] < end:
            if cut[ahead][0] > position:
                left.append((position, cut[ahead][0]))
            position = max(position, cut[ahead][1])
            ahead += 1
        if position < end:
            left.append((position, end))
    return left


def intersection(
    left: Sequence[tuple[_Time, _Time]], right: Sequence[tuple[_Time, _Time]]
) -> list[tuple[_Time, _Time]]:
    """Intersect two lists of intervals."""
    left, right = sorted(left), sorted(right)
    common: list[tuple[_Time, _Time]] = []
    i = j = 0
    while i < len(left) and j < len(right):
        start, end = max(left[i][0], right[j][0]), min(left[i][1], right[j][1])
        if start < end:
            common.append((start, end))
        if left[i][1] < right[j][1]:
            i += 1
        else:
            j += 1
    return common


def attribute_time(
    window: Window,
    claims: Iterable[LostInterval],
    proven: Sequence[tuple[str, Sequence[Window]]],
    outside: Sequence[Window] = (),
) -> Shares:
    """Attribute each second to the claim with the smallest rank, else to the first of `proven` that contains it.

    The rest is unaccounted for; the intervals `outside` (between runs) are not attributed.
    """
    low, high = window
    starts = sorted(
        (
            (max(claim.start, low), min(claim.end, high), claim.rank, claim.owner)
            for claim in claims
            if min(claim.end, high) > max(claim.start, low)
        ),
    )
    kept = _sweep(starts)
    claimed = union(interval for intervals in kept.values() for interval in intervals)
    lost = {owner: length(intervals) for owner, intervals in kept.items()}
    left = without([window] if high > low else [], union([*claimed, *outside]))
    rest: dict[str, float] = dict.fromkeys(REST, 0.0)
    for name, intervals in proven:
        part = intersection(left, union(intervals))
        rest[name] += length(part)
        left = without(left, part)
    rest[UNACCOUNTED] = length(left)
    return Shares(lost, rest, kept)


def _sweep(starts: list[tuple[float, float, float, int]]) -> dict[int, list[Window]]:
    """Walks over the claims by start; a heap holds those that are open, best rank on top."""
    kept: dict[int, list[Window]] = {}
    active: list[tuple[float, int, float]] = []
    at, position = 0, float("-inf")
    while at < len(starts) or active:
        if not active:
            position = max(position, starts[at][0])
        while at < len(starts) and starts[at][0] <= position:
            _, end, rank, owner = starts[at]
            heappush(active, (rank, owner, end))
            at += 1
        while active and active[0][2] <= position:
            heappop(active)
        if not active:
            continue
        _, owner, end = active[0]
        until = min(end, starts[at][0]) if at < len(starts) else end
        intervals = kept.setdefault(owner, [])
        if intervals and intervals[-1][1] == position:
            intervals[-1] = (intervals[-1][0], until)
        else:
            intervals.append((position, until))
        position = until
    return kept
