"""The lifecycle of a finding: from occurrences to its state and the time of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from perfmon.core import Severity, Window

from .conditions import Condition, Level
from .run_facts import Item, Stream, View
from .signatures import Signature, Subject

PENDING, FIRING, RESOLVING, RESOLVED = "pending", "firing", "resolving", "resolved"
_UNSURE_RANK = 10.0
_LOOKED_AT = 20


@dataclass(slots=True)
class Occurrence:
    """An item for which a signature's conditions hold."""

    item: Item
    level: Level
    unsure: bool
    """A required condition could not be observed."""
    so_far: bool = False
    """A condition holds only if what happens now continues for longer."""


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A signature that may explain a finding, with the level of each of its conditions in one of its occurrences."""

    signature: Signature
    item: Item
    levels: tuple[Level, ...]

    @property
    def proven(self) -> bool:
        """All that must hold does."""
        return all(
            level.holds or (level is Level.UNKNOWN and condition.if_missing == "pass")
            for condition, level in self._judged
            if condition.must_hold
        )

    @property
    def refuted(self) -> bool:
        """Something that is required does not hold. Where only a gate does not, nothing is known."""
        return any(level is Level.NO for condition, level in self._judged if condition.role == "required")

    @property
    def _judged(self) -> Iterable[tuple[Condition, Level]]:
        return zip(self.signature.conditions, self.levels, strict=True)

    @property
    def is_undecidable(self) -> bool:
        """Nothing in logs can decide it, and nothing that was observed supports it."""
        return bool(self.signature.decided_by) and not any(level.holds for level in self.levels) and not self.refuted

    @property
    def likelihood(self) -> tuple[int, float, float]:
        """Sorts hypotheses: proven ones first, by precedence; others by what of them holds, then refuted ones, then
        those that nothing in the run decides.
        """
        if self.proven:
            return (3, -self.signature.rank, 0.0)
        seen = [level for level in self.levels if level is not Level.UNKNOWN]
        share = sum(level.holds for level in seen) / len(seen) if seen else 0.0
        return (0 if self.is_undecidable else 1 if self.refuted else 2, share, -self.signature.rank)


@dataclass(slots=True)
class Found:
    """A finding before it is put in words."""

    signature: Signature
    subject: Subject
    identity: dict[str, str]
    occurrences: list[Occurrence]
    """In time order."""
    total: int
    """Items that were evaluated."""
    severity: Severity
    state: str
    first: float
    last: float
    since: float = 0.0
    """The start of the last of its episodes: it has not paused since then."""
    claims: list[Window] = field(default_factory=list)
    """The time that it cost, on the run's axis."""
    explained_by: int | None = None
    """Index of the finding that explains this one."""
    established: bool = True
    """Some finding of this signature has all its required conditions observed."""
    hypotheses: list[Hypothesis] = field(default_factory=list)
    """Signatures that may explain it, the likeliest first."""

    @property
    def counts(self) -> bool:
        """True for all but pending findings."""
        return self.state != PENDING

    @property
    def rank(self) -> float:
        """Precedence; a signature whose conditions were never all observed yields to one whose were."""
        return self.signature.rank + (0.0 if self.established else _UNSURE_RANK)

    @property
    def sentence(self) -> str:
        """Its template."""
        return self.subject.sentence or self.signature.sentence

    def best(self, view: View) -> tuple[Occurrence, list[Level]]:
        """The occurrence in which most conditions hold, and the level of each; of many a few worst are compared."""
        worst = sorted(self.occurrences, key=lambda o: (-o.level, o.unsure, o.item.start - o.item.end, o.item.start))
        judged = [(o, [c.judge(o.item, view) for c in self.signature.conditions]) for o in worst[:_LOOKED_AT]]
        return max(judged, key=lambda pair: sum(level.holds for level in pair[1]))


def share_critical(occurrences: Sequence[Occurrence], total: int) -> float:
    """Share of all judged items that are critical occurrences."""
    return sum(occurrence.level is Level.CRITICAL for occurrence in occurrences) / max(total, 1)


# --- From occurrences of one identity to a state ---
#
# Occurrences that are not further apart than the hold time make an episode. An episode fires when it has enough of them
# (m of n neighbouring items: `critical_count` of critical ones, `for_count` of any) and lasts for `for_s`:
#
# pending    conditions hold now, but not yet often or long enough
# firing     they do, and no more items of their stream were clear since than usually are between two of them
# resolving  more were clear since the last one, and the hold time after it is not over
# resolved   it is over
#
# The hold time is `keep_firing_for_s`, or two usual intervals between items where these are rarer: a finding never
# flaps faster than the window in which it is visible. A value between the limit and the clear limit (of a band: between
# critical and good) continues an episode that fires and starts none.

Count = tuple[int, int]
_RHYTHM = 8
"""Occurrences that define the usual number of items between two of them."""


@dataclass(slots=True)
class Lifecycle:
    """The state of the occurrences of one identity."""

    state: str
    occurrences: list[Occurrence]
    """Those of the episodes that fired; of a pending one those so far."""
    critical: bool
    since: float
    """The start of the last episode."""


def track_lifecycle(
    occurrences: Sequence[Occurrence],
    streams: Mapping[object, Stream],
    signature: Signature,
    critical_count: Count,
    now: float,
) -> Lifecycle | None:
    """The state of one identity's occurrences (in time order, CLEARING ones among them); None when nothing is left."""
    hold = _hold(occurrences, streams, signature)
    proven = [occurrence for occurrence in occurrences if not occurrence.so_far]
    enough = _enough(proven, signature.for_count, critical_count)
    fired = [episode for episode in _episodes(proven, hold) if _fires(episode, enough, signature.for_s)]
    if not fired:
        return _pending(_episodes(occurrences, hold), streams, now, hold)
    kept = [o for episode in fired for o in episode if o.level.holds]
    critical = any(o.level is Level.CRITICAL and id(o) in enough for o in kept)
    over = now - _last(fired[-1]).item.end > hold
    state = RESOLVED if over else RESOLVING if _clear_again(fired[-1], streams) else FIRING
    return Lifecycle(state, kept, critical, min(o.item.start for o in fired[-1] if o.level.holds))


def _hold(occurrences: Sequence[Occurrence], streams: Mapping[object, Stream], signature: Signature) -> float:
    intervals = (streams[key].interval for key in {o.item.stream for o in occurrences})
    return max(signature.keep_firing_for_s, 2 * max(intervals, default=0.0))


def _episodes(occurrences: Sequence[Occurrence], hold: float) -> list[list[Occurrence]]:
    episodes: list[list[Occurrence]] = []
    until = float("-inf")
    for occurrence in occurrences:
        if not episodes or occurrence.item.start - until > hold:
            episodes.append([])
        episodes[-1].append(occurrence)
        until = max(until, occurrence.item.end)
    return episodes


def _enough(occurrences: Sequence[Occurrence], of_any: Count, of_critical: Count) -> set[int]:
    """Occurrences (by id) that come m of n times in their stream, all of them or the critical ones."""
    by_stream: dict[object, list[Occurrence]] = {}
    for occurrence in occurrences:
        if occurrence.level.holds:
            by_stream.setdefault(occurrence.item.stream, []).append(occurrence)
    enough: set[int] = set()
    for mine in by_stream.values():
        enough |= _clustered(mine, max(of_any, of_critical))
        enough |= _clustered([o for o in mine if o.level is Level.CRITICAL], of_critical)
    return enough


def _clustered(mine: Sequence[Occurrence], count: Count) -> set[int]:
    least, of = count
    places = [occurrence.item.at for occurrence in mine]
    found: set[int] = set()
    for at in range(len(mine) - least + 1):
        if places[at + least - 1] - places[at] < of:
            found.update(id(o) for o in mine[at : at + least])
    return found


def _fires(episode: Sequence[Occurrence], enough: set[int], for_s: float) -> bool:
    mine = [o for o in episode if id(o) in enough]
    return bool(mine) and max(o.item.end for o in mine) - mine[0].item.start >= for_s


def _last(episode: Sequence[Occurrence]) -> Occurrence:
    """The occurrence that ended last: a long one may outlast those that began during it."""
    return max(episode, key=lambda occurrence: (occurrence.item.end, occurrence.item.at))


def _clear_again(episode: Sequence[Occurrence], streams: Mapping[object, Stream]) -> bool:
    """The stream of the last occurrence continued without one for longer than it does while they last.

    A batch during a weight update is followed by some without one: that does not resolve the finding.
    """
    last = _last(episode)
    mine = [occurrence.item.at for occurrence in episode if occurrence.item.stream == last.item.stream]
    usual = max((after - before for before, after in pairwise(mine[-_RHYTHM:])), default=1)
    return streams[last.item.stream].count_after(last.item.end, mine[-1]) >= max(1, usual)


def _pending(
    episodes: Sequence[Sequence[Occurrence]], streams: Mapping[object, Stream], now: float, hold: float
) -> Lifecycle | None:
    latest = [o for o in episodes[-1] if o.level.holds] if episodes else []
    if not latest or now - _last(latest).item.end > hold:
        return None
    last = _last(episodes[-1])
    # What continues so far may miss an occurrence, for another condition.
    if streams[last.item.stream].count_after(last.item.end, last.item.at) > last.so_far:
        return None
    return Lifecycle(PENDING, latest, False, min(o.item.start for o in latest))
