"""Waits of ranks for each other: of each process group the last rank to arrive in its collectives, and who waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING

from .shares import PARTS

if TYPE_CHECKING:
    from .analysis import Collectives, GpuUse

_TOGETHER = 8
"""Collectives that ranks must have in common before one of them can be the last."""
_LEAST_OF_PART = 4
_MOST_OF_PARTS, _LEAST_COST = 0.6, 0.05
"""From which shares of the parts, and of the time, on a rank is late: by chance some rank is the last each time."""
_JITTER_NS, _JITTER = 100_000, 0.1
"""Ranks leave the same collective together: up to so much, or so large a part of it, whatever their clocks."""
_OWN = 0.5
"""The part of a rank's delay that is its own: if it waited for another one for longer, that one is the cause."""


@dataclass(frozen=True, slots=True)
class GroupUse:
    """A process group: what its collectives take, and how much of that is waiting."""

    name: str
    ranks: tuple[int, ...]
    """Of the traces that were read."""
    count: int
    """Collectives of one rank."""
    total: float
    waiting: float
    """Nanoseconds, of one rank in the mean: of `total` the waits for the last one."""
    last: int
    """The rank that the others wait for most."""
    share: float
    """Its part of the waits, 0 to 1."""


_Group = tuple[str, frozenset[int]]
"""Name and ranks of a process group."""


@dataclass(frozen=True, slots=True)
class _Wait:
    """One collective, or several like it: the last rank to arrive, and who waits for it.

    The last one has the shortest kernel, the others wait in theirs: clocks of hosts do not matter for that.
    """

    group: _Group
    last: int
    of_rank: dict[int, float]
    """Nanoseconds."""
    start: dict[int, int]
    """On the clock of each rank."""

    @property
    def mean(self) -> float:
        """Of those that wait."""
        return sum(self.of_rank.values()) / (len(self.of_rank) - 1)


@dataclass(frozen=True, slots=True)
class _Team:
    """Ranks that have a series of collectives in common."""

    group: _Group
    held: dict[int, Collectives]


def _rounds(uses: Sequence[GpuUse]) -> list[list[GpuUse]]:
    """One trace of each rank, or several rounds of them in order of time; nothing where that is not known."""
    of_rank: dict[int, list[GpuUse]] = defaultdict(list)
    for use in sorted(uses, key=lambda use: use.start):
        if use.rank is None:
            return []
        of_rank[use.rank].append(use)
    if len(of_rank) < 2 or len({len(held) for held in of_rank.values()}) > 1:
        return []
    return [list(one) for one in zip(*of_rank.values(), strict=True)]


def _teams(uses: Sequence[GpuUse]) -> list[_Team]:
    """The series that the ranks of a round have in common."""
    of_rank = {use.rank: use.collectives for use in uses if use.rank is not None}
    series: dict[str, dict[int, Collectives]] = defaultdict(dict)
    for rank, held in of_rank.items():
        for key, one in held.items():
            series[key][rank] = one
    found = []
    for of_key in series.values():
        ranks = next(iter(of_key.values())).ranks
        if ranks and not set(ranks) <= of_key.keys():
            continue  # a member without a trace may be the last one
        alike: dict[int, dict[int, Collectives]] = defaultdict(dict)
        for rank, one in of_key.items():
            alike[one.count][rank] = one
        for members in alike.values():
            split = [members] if ranks else _together(members)
            found += [_Team((next(iter(one.values())).group, frozenset(one)), one) for one in split if len(one) > 1]
    return found


def _together(held: dict[int, Collectives]) -> list[dict[int, Collectives]]:
    """The ranks by the collectives that they leave together: of a series whose process group is not known."""
    found: list[dict[int, Collectives]] = []
    for rank, one in held.items():
        for team in found:
            other = next(iter(team.values()))
            apart = [
                (one.start[at] + one.duration[at]) - (other.start[at] + other.duration[at])
                for at in range(len(one.start))
            ]
            jitter = median([abs(late - early) for early, late in pairwise(apart)] or [0])
            if jitter <= max(_JITTER_NS, _JITTER * median(one.duration)):
                team[rank] = one
                break
        else:
            found.append({rank: one})
    return found


def _waits(uses: Sequence[GpuUse], teams: Sequence[_Team]) -> list[_Wait]:
    """The collectives of all teams, in order of time."""
    begin = {use.rank: use.start for use in uses}
    found = []
    for team in teams:
        series = next(iter(team.held.values()))
        like_it = series.count / len(series.start)
        for at in range(len(series.start)):
            durations = {rank: held.duration[at] for rank, held in team.held.items()}
            last = min(durations, key=durations.__getitem__)
            of_rank = {rank: (one - durations[last]) * like_it for rank, one in durations.items()}
            found.append(_Wait(team.group, last, of_rank, {rank: held.start[at] for rank, held in team.held.items()}))
    if len(found) < _TOGETHER:
        return []
    return sorted(found, key=lambda one: min(start - begin[rank] for rank, start in one.start.items()))


def _with_causes(waits: Sequence[_Wait]) -> list[_Wait]:
    """The same, with the rank behind each delay: who is late for its waits in another group is not the cause."""
    order: dict[int, list[int]] = defaultdict(list)
    for number, wait in enumerate(waits):
        for rank in wait.start:
            order[rank].append(number)
    place: dict[tuple[int, int], int] = {}
    for rank, numbers in order.items():
        numbers.sort(key=lambda number: waits[number].start[rank])
        place |= {(rank, number): at for at, number in enumerate(numbers)}
    cause: dict[int, int] = {}
    for number, wait in enumerate(waits):
        late, endured = wait.last, Counter[int]()
        mine = order[late]
        for at in range(place[late, number] - 1, -1, -1):
            other = waits[before := mine[at]]
            if other.group == wait.group:
                break
            if other.last != late:
                endured[cause.get(before, other.last)] += round(other.of_rank[late])
        if endured.total() > _OWN * wait.mean > 0:
            late = endured.most_common(1)[0][0]
        cause[number] = late
    return [replace(wait, last=cause[number]) for number, wait in enumerate(waits)]


def without_waits(uses: Sequence[GpuUse]) -> tuple[list[GroupUse], list[tuple[int, float]]]:
    """Take the time in which ranks wait for the last one off the communication that findings are about.

    Returns what was seen of each process group, and the late rank of each part of the time, see `_late_ranks`.
    """
    found: dict[tuple[str, tuple[int, ...]], list[GroupUse]] = defaultdict(list)
    caused, span = list[_Wait](), 0
    for each in _rounds(uses):
        teams = _teams(each)
        waits = _waits(each, teams)
        for use in each if waits else ():
            wait = sum(one.of_rank.get(use.rank, 0.0) for one in waits if use.rank is not None)
            left = 1 - min(1.0, wait / use.communication) if use.communication else 1.0
            whole = use.whole
            use.whole = replace(whole, communication=whole.communication * left, exposed=whole.exposed * left)
        for one in _group_uses(teams, waits):
            found[one.name, one.ranks].append(one)
        caused += _with_causes(waits)
        span += max(use.span for use in each)
    return sorted(map(_joined, found.values()), key=lambda one: -one.waiting), _late_ranks(uses, caused, span)


def _joined(rounds: Sequence[GroupUse]) -> GroupUse:
    """A group in all rounds; the rank is that of the round with most waits."""
    most = max(rounds, key=lambda one: one.waiting)
    count, total, waiting = (sum(getattr(one, name) for one in rounds) for name in ("count", "total", "waiting"))
    return replace(most, count=count, total=total, waiting=waiting)


def _group_uses(teams: Iterable[_Team], waits: Iterable[_Wait]) -> list[GroupUse]:
    groups: dict[_Group, list[Collectives]] = defaultdict(list)
    for team in teams:
        groups[team.group] += team.held.values()
    caused: dict[_Group, Counter[int]] = defaultdict(Counter)
    for wait in waits:
        caused[wait.group][wait.last] += round(sum(wait.of_rank.values()))
    found = []
    for group, series in groups.items():
        if not (waited := caused[group].total()):
            continue
        name, ranks = group
        whole = sum(sum(one.duration) * one.count / len(one.start) for one in series) / len(ranks)
        last, most = caused[group].most_common(1)[0]
        count = sum(one.count for one in series) // len(ranks)
        found.append(GroupUse(name, tuple(sorted(ranks)), count, whole, waited / len(ranks), last, most / waited))
    return found


def _late_ranks(uses: Iterable[GpuUse], waits: Sequence[_Wait], whole: int) -> list[tuple[int, float]]:
    """Of each part of the collectives that ranks have in common, the rank that the others wait for.

    Its speed is a percentage: the part of the `whole` time that would be left if it came with the others. Nothing where
    no rank is the last one in most parts, or it costs hardly more than the others do by chance.
    """
    if not waits:
        return []
    parts = min(PARTS, len(waits) // _LEAST_OF_PART)
    found = []
    for part in range(parts):
        here = _caused(waits[part * len(waits) // parts : (part + 1) * len(waits) // parts])
        rank, wait = here.most_common(1)[0]
        found.append((rank, 100.0 * (1.0 - min(1.0, wait * parts / whole))))
    (late, cost), *others = _caused(waits).most_common(2)
    excess = cost - sum(other for _, other in others)
    if sum(rank == late for rank, _ in found) < _MOST_OF_PARTS * parts or excess < _LEAST_COST * whole:
        return []
    seen = {use.rank for use in uses}
    if any(not seen.issuperset(one.ranks) for use in uses if use.rank == late for one in use.collectives.values()):
        return []  # it may itself wait for a rank without a trace
    return [(rank, speed if rank == late else 100.0) for rank, speed in found]


def _caused(waits: Iterable[_Wait]) -> Counter[int]:
    """The time that others wait for each rank, in the mean of those that do; nanoseconds."""
    of_pair: dict[int, Counter[int]] = defaultdict(Counter)
    for wait in waits:
        for rank, length in wait.of_rank.items():
            if rank != wait.last:
                of_pair[wait.last][rank] += round(length)
    return Counter({late: round(waiting.total() / len(waiting)) for late, waiting in of_pair.items()})
