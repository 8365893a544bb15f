"""From the wait-for graph to the ranks that caused the hang: its sinks, and what each of them is.

Everyone else waits for a sink, directly or through others. A sink is a rank without an outstanding operation (its
program never enqueued the collective), a rank whose peers have finished what it has not (its device), a rank in
another operation or size than the majority, a rank without a dump, all members of an operation together (they all
arrived, and it does not finish), or a cycle. Only what the evidence decides is a verdict; the rest are candidates.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from perfmon.core import counted

from .graph import Place, Relation, WaitGraph, build_graph, cycles
from .model import Evidence, Operation, named_ranks

MOST_MISSING = 0.10
"""Share of ranks without a dump above which those are candidates only, unless it is a single rank."""
_ANY_SIZE = ("all_to_all", "alltoall", "scatter", "gather", "coalesced", "allgather_v", "barrier")
"""Operations whose sizes may differ between the members. (`all_gather` and `reduce_scatter` are checked apart.)"""
_SAME_IN = ("all_reduce", "allreduce", "broadcast", "_all_gather_base", "_allgather_base")
_SAME_OUT = ("_reduce_scatter_base",)
_MOST_IN_CYCLE = 64
_MOST_CAUSES = 64
_UNKNOWN_SIZE = "the size of the job is unknown"


class Kind(StrEnum):
    """The way in which a rank holds the others up."""

    HOST = "host"
    """It has no outstanding operation: it never enqueued what the others wait in."""
    DEVICE = "device"
    """Its peers have finished the operation in which it waits."""
    MISMATCH = "mismatch"
    """It is in another operation, or of another size or type, than most members of its group."""
    ORDER = "order"
    """It waits in another group than the ranks that wait for it: the order of operations differs."""
    MISSING = "missing"
    """It left no dump and no line."""
    REPORTED = "reported"
    """A log line of torch names it."""
    ARRIVED = "arrived"
    """All members of the operation have arrived, and it does not finish."""
    UNKNOWN = "unknown"
    """The evidence does not reach back far enough."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Some ranks at the end of the chains of waiting."""

    kind: Kind
    ranks: tuple[int, ...]
    waiting: int
    """Ranks that wait for them, directly or through others."""
    place: Place | None = None
    operation: Operation | None = None
    """The operation that the ranks have outstanding, or in which others wait for them."""
    detail: str = ""
    """`all_reduce of 5 elements, others: all_reduce of 4`."""
    among: tuple[int, ...] = ()
    """Of a mismatch or a cycle all ranks that are part of it."""


class Answer(StrEnum):
    """The answer about a hang as a whole."""

    NAMED = "named"
    CANDIDATES = "candidates"
    ARRIVED = "all-arrived"
    UNKNOWN = "cannot-tell"
    NO_HANG = "no-hang"


@dataclass(slots=True)
class Verdict:
    """The answer, with the causes that it rests on."""

    answer: Answer
    ranks: tuple[int, ...] = ()
    """Named ranks; empty unless the answer is NAMED."""
    candidates: tuple[int, ...] = ()
    """Ranks that may be behind as well, or instead."""
    ahead: tuple[int, ...] = ()
    """Ranks that alone wait in an operation: they may have launched one too many, or the candidates one too few."""
    causes: list[Cause] = field(default_factory=list)
    waiting: int = 0
    """Ranks with an outstanding operation."""
    confidence: str = ""
    """`14 of 14 waiting ranks wait for it`."""
    reasons: list[str] = field(default_factory=list)
    """Limits of the evidence that the answer depends on."""


def judge(evidence: Evidence) -> tuple[Verdict, WaitGraph]:
    """The verdict about some evidence, and the graph that it follows from."""
    graph = build_graph(evidence)
    return _Judge(evidence, graph).verdict(), graph


class _Judge:
    def __init__(self, evidence: Evidence, graph: WaitGraph) -> None:
        self._evidence = evidence
        self._graph = graph

    def verdict(self) -> Verdict:
        """All sinks, and the answer that follows from them."""
        waiting = self._graph.waiting
        causes = [*self._idle(), *self._at_places(), *self._cycles(), *self._missing(), *self._reported()]
        causes += self._too_old(causes)
        verdict = Verdict(Answer.UNKNOWN, causes=causes, waiting=len(waiting))
        self._decide(verdict)
        verdict.reasons = self._reasons(verdict)
        return verdict

    def _cause(self, kind: Kind, ranks: Iterable[int], place: Place | None = None, **more: object) -> Cause:
        found = tuple(sorted(ranks))
        held_up = self._graph.reached_from(found) - set(found)
        return Cause(kind, found, len(held_up), place, **more)  # type: ignore[arg-type]

    def _one_by_one(self, kind: Kind, ranks: Sequence[int]) -> list[Cause]:
        """A cause for each rank; of very many one for all."""
        if len(ranks) > _MOST_CAUSES:
            return [self._cause(kind, ranks, operation=self._wanted(ranks[0]))]
        return [self._cause(kind, [rank], operation=self._wanted(rank)) for rank in ranks]

    def _size_words(self) -> str:
        stated = self._evidence.stated_size
        return f"{_UNKNOWN_SIZE} (a line states {stated}, which may be that of a group)" if stated else _UNKNOWN_SIZE

    # --- kinds of sinks
    def _idle(self) -> list[Cause]:
        """Ranks without an outstanding operation, which others wait for."""
        idle = [
            rank for rank, frontier in self._graph.frontiers.items()
            if not frontier.operations and rank in self._graph.awaited and self._is_idle(rank)
        ]  # fmt: skip
        return self._one_by_one(Kind.HOST, idle)

    def _is_idle(self, rank: int) -> bool:
        """Return true if nothing is outstanding for sure; of watchdog lines, if the counters prove it is behind."""
        if self._graph.frontiers[rank].known:
            return True
        state = self._evidence.states[rank]
        return not state.complete and any(
            relations.get(rank) is Relation.ABSENT for relations in self._graph.relations.values()
        )

    def _wanted(self, rank: int) -> Operation | None:
        """The operation in which most others wait for a rank."""
        places = self._graph.awaited.get(rank, ())
        best = max(places, key=lambda place: len(self._graph.places[place]), default=None)
        return self._operation_at(best, self._graph.places[best][0]) if best is not None else None

    def _operation_at(self, place: Place, rank: int) -> Operation | None:
        found = self._graph.frontiers[rank].operations
        return next((one for one in found if one.group == place.group and one.seq == place.seq), None)

    def _at_places(self) -> list[Cause]:
        """Operations that wait for no rank: of those ranks that wait there alone."""
        causes = []
        for place, ranks in self._graph.places.items():
            open_ranks = [rank for rank in ranks if not any(self._graph.behind(at) for at in self._graph.at[rank])]
            if open_ranks:
                causes.append(self._at_place(place, open_ranks))
        return causes

    def _at_place(self, place: Place, ranks: Sequence[int]) -> Cause:
        relations = self._graph.relations[place]
        operation = self._operation_at(place, ranks[0])
        odd = self._odd(place)
        if odd is not None:
            minority, among, detail = odd
            return self._cause(Kind.MISMATCH, minority, place, operation=operation, detail=detail, among=among)
        finished = [rank for rank, relation in relations.items() if relation is Relation.FINISHED]
        together = [rank for rank, relation in relations.items() if relation is Relation.TOGETHER]
        named = place.group.ranks or self._evidence.is_world(place.group)
        unknown = not named or Relation.UNKNOWN in relations.values()
        if place.rank >= 0:  # a send or a receive: both sides are there, or the other one is not known
            return self._at_transfer(place, operation, bool(together))
        if unknown:
            return self._cause(Kind.UNKNOWN, ranks, place, operation=operation)
        if finished and len(ranks) <= len(finished):
            return self._cause(Kind.DEVICE, ranks, place, operation=operation, among=tuple(sorted(finished)))
        if not self._evidence.lists_all(place.group):
            return self._cause(Kind.UNKNOWN, ranks, place, operation=operation, detail=self._size_words())
        return self._cause(Kind.ARRIVED, ranks, place, operation=operation)

    def _at_transfer(self, place: Place, operation: Operation | None, together: bool) -> Cause:
        """A send and its receive that are both there, and do not finish: of different size, or for another reason."""
        if not together or operation is None:
            return self._cause(Kind.UNKNOWN, [place.rank], place, operation=operation)
        both = (place.rank, place.peer)
        other = next(one for one in self._evidence.states[place.peer].outstanding() if one.peer == place.rank)
        if None not in (operation.numel_in, other.numel_in) and operation.numel_in != other.numel_in:
            words = f"{operation.name} of {operation.numel_in} elements, {other.name} of {other.numel_in}"
            return self._cause(Kind.MISMATCH, (), place, operation=operation, detail=words, among=tuple(sorted(both)))
        return self._cause(Kind.ARRIVED, both, place, operation=operation)

    def _odd(self, place: Place) -> tuple[tuple[int, ...], tuple[int, ...], str] | None:
        """Members whose operation of this number is not that of the majority: they, all members, and the words.

        No ranks where it is a tie; None where all agree.
        """
        if place.rank >= 0:
            return None
        shapes: dict[int, tuple[object, ...]] = {}
        for rank in self._evidence.members_of(place.group):
            state = self._evidence.states.get(rank)
            if state is None:
                continue
            found = [
                one for one in state.operations
                if one.seq == place.seq and one.group == place.group and not one.is_p2p
            ]  # fmt: skip
            if found and found[0].name:  # a line may show the number alone
                shapes[rank] = (tuple(sorted({one.name.lower() for one in found})), *_sizes(found))
        names = Counter(shape[0] for shape in shapes.values())
        key: Callable[[int], object] = (lambda rank: shapes[rank][0]) if len(names) > 1 else shapes.__getitem__
        counts = Counter(key(rank) for rank in shapes)
        if len(counts) < 2:
            return None
        ((usual, most), (_, second), *_) = counts.most_common()
        among = tuple(sorted(shapes))
        words = "; ".join(
            f"{_shape_words(shape)} on {counted(number, 'rank')}" for shape, number in _by_words(counts)[:3]
        )
        if 2 * most <= len(shapes) or most == second:
            return (), among, words
        return tuple(sorted(rank for rank in shapes if key(rank) != usual)), among, words

    def _cycles(self) -> list[Cause]:
        """Ranks that wait for each other: those that alone would break the circle took another way."""
        causes = []
        for ranks in cycles(self._graph):
            places: dict[Place, list[int]] = {}
            for rank in ranks:
                for place in self._graph.at[rank]:
                    places.setdefault(place, []).append(rank)
            breaking = [
                some for place, some in places.items()
                if 2 * len(some) < len(ranks) and self._breaks(ranks, frozenset(some))
            ] if len(places) <= _MOST_IN_CYCLE else []  # fmt: skip
            least = min((len(some) for some in breaking), default=0)
            small = {tuple(sorted(some)) for some in breaking if len(some) == least}
            odd = next(iter(small)) if len(small) == 1 else ()
            first = self._graph.at[odd[0] if odd else ranks[0]][0]
            operation = self._operation_at(first, odd[0] if odd else ranks[0])
            causes.append(self._cause(Kind.ORDER, odd, first, operation=operation, among=tuple(ranks)))
        return causes

    def _breaks(self, ranks: Sequence[int], without: frozenset[int]) -> bool:
        """Return true if all ranks of a cycle would be free as soon as `without` continued."""
        left = {rank: self._graph.waits_for(rank) for rank in ranks if rank not in without}
        free = set(without)
        while left:
            ready = [rank for rank, others in left.items() if others <= free]
            if not ready:
                return False
            free.update(ready)
            for rank in ready:
                del left[rank]
        return True

    def _missing(self) -> list[Cause]:
        """Ranks of which there is nothing, and which others wait for."""
        missing = [rank for rank in self._evidence.missing if rank in self._graph.awaited]
        return self._one_by_one(Kind.MISSING, missing)

    def _reported(self) -> list[Cause]:
        return [
            self._cause(Kind.REPORTED, [rank], operation=self._wanted(rank), detail=text)
            for rank, text in sorted(self._evidence.reported.items())
        ]

    def _too_old(self, causes: Sequence[Cause]) -> list[Cause]:
        """Ranks whose oldest operation is not known, and which others wait for."""
        listed = {rank for cause in causes for rank in cause.ranks}
        return self._one_by_one(
            Kind.UNKNOWN,
            [
                rank for rank, frontier in self._graph.frontiers.items()
                if not frontier.known and rank in self._graph.awaited and rank not in listed
            ],
        )  # fmt: skip

    # --- the answer
    def _decide(self, verdict: Verdict) -> None:
        by_kind: dict[Kind, list[Cause]] = {}
        for cause in verdict.causes:
            by_kind.setdefault(cause.kind, []).append(cause)
        proven = [
            cause for kind in (Kind.HOST, Kind.DEVICE, Kind.MISMATCH, Kind.ORDER) for cause in by_kind.get(kind, [])
        ]
        named = {rank for cause in proven for rank in cause.ranks}
        reported = {rank for cause in by_kind.get(Kind.REPORTED, []) for rank in cause.ranks}
        missing = {rank for cause in by_kind.get(Kind.MISSING, []) for rank in cause.ranks}
        unknown = {rank for cause in by_kind.get(Kind.UNKNOWN, []) for rank in cause.ranks}
        tied = {rank for cause in proven if not cause.ranks for rank in cause.among}
        idle = self._idle_elsewhere()
        # Where the members of a group are not known, one without a dump may be among them.
        possible = missing | idle | (set(self._evidence.missing) if unknown else set())
        if not (verdict.waiting or reported or self._evidence.stuck):
            states = self._evidence.states
            lost = any(states[rank].truncated and not one.known for rank, one in self._graph.frontiers.items())
            verdict.answer = Answer.UNKNOWN if lost else Answer.NO_HANG
            return
        if not (named or tied) and reported:
            named = reported
        if named and len(named) > verdict.waiting and {cause.kind for cause in proven} == {Kind.HOST}:
            verdict.ahead = tuple(sorted(self._graph.waiting))
            verdict.answer, verdict.candidates = Answer.CANDIDATES, tuple(sorted({*named, *verdict.ahead}))
        elif named and self._is_vague(proven):
            verdict.answer, verdict.candidates = Answer.CANDIDATES, tuple(sorted(named))
        elif named:
            verdict.answer, verdict.ranks = Answer.NAMED, tuple(sorted(named))
            verdict.candidates = tuple(sorted(((missing if self._is_few(missing) else set()) | tied) - named))
        elif tied:
            verdict.answer, verdict.candidates = Answer.CANDIDATES, tuple(sorted(tied | missing))
        elif missing and not (idle or unknown or by_kind.get(Kind.ARRIVED)) and self._is_only(missing):
            verdict.answer, verdict.ranks = Answer.NAMED, tuple(sorted(missing))
        elif by_kind.get(Kind.ARRIVED) and not (unknown or missing):
            verdict.answer = Answer.ARRIVED
        elif 0 < 2 * len(possible) <= len(self._evidence.world):
            verdict.answer, verdict.candidates = Answer.CANDIDATES, tuple(sorted(possible))
        if self._evidence.stuck and verdict.answer in (Answer.UNKNOWN, Answer.ARRIVED):
            verdict.answer, verdict.candidates = Answer.CANDIDATES, tuple(sorted(self._evidence.stuck))
        verdict.confidence = self._confidence(verdict)

    def _is_vague(self, proven: Sequence[Cause]) -> bool:
        """Several ranks are behind by watchdog lines alone: one may have held up the others in a group unseen."""
        ranks = {rank for cause in proven for rank in cause.ranks}
        states = self._evidence.states
        return len(ranks) > 1 and not any(states[rank].complete for rank in ranks if rank in states)

    def _idle_elsewhere(self) -> set[int]:
        """Ranks with a dump and nothing outstanding, for which no rank waits directly."""
        return {
            rank for rank, frontier in self._graph.frontiers.items()
            if not frontier.operations and frontier.known and rank not in self._graph.awaited
        }  # fmt: skip

    def _is_only(self, missing: set[int]) -> bool:
        """Return true if the ranks are few, and those that wait for them have no peers that are not known."""
        places = {place for rank in missing for place in self._graph.awaited[rank]}
        evidence = self._evidence
        # Members of a group print lines when it times out: one that does not is suspect, however many ranks there are.
        is_sized = evidence.sized or evidence.stated_size == len(evidence.world)
        return self._is_few(missing) and (is_sized or all(place.group.ranks for place in places))

    def _is_few(self, missing: set[int]) -> bool:
        lost = len(self._evidence.missing)
        return lost == len(missing) == 1 or lost <= MOST_MISSING * len(self._evidence.world)

    def _confidence(self, verdict: Verdict) -> str:
        ranks = set(verdict.ranks or verdict.candidates)
        if not ranks:
            return ""
        waiting = set(self._graph.waiting) - ranks
        if not waiting:
            return ""
        peers = {
            rank for cause in verdict.causes
            if cause.kind is Kind.MISMATCH and cause.place is not None and ranks & {*cause.ranks, *cause.among}
            for rank in self._graph.places[cause.place]
        }  # fmt: skip
        held_up = (self._graph.reached_from(ranks | peers) - ranks) & waiting
        who, wait = counted(len(waiting), "waiting rank"), "waits" if len(held_up) == 1 else "wait"
        return f"{len(held_up)} of {who} {wait} for {'it' if len(ranks) == 1 else 'them'}"

    def _reasons(self, verdict: Verdict) -> list[str]:
        reasons = []
        missing = self._evidence.missing
        if missing and verdict.answer is not Answer.NO_HANG:
            reasons.append(f"no dump or line of {len(missing)} of {len(self._evidence.world)} ranks")
        lost = [rank for rank, frontier in self._graph.frontiers.items() if not frontier.known]
        if lost and any(self._evidence.states[rank].complete for rank in lost):
            reasons.append(f"the dumps of {counted(len(lost), 'rank')} do not reach back to the oldest operation")
        silent = sorted({*verdict.ranks, *verdict.candidates} & set(missing) & self._evidence.alive)
        if silent:
            reasons.append(f"rank {silent[0]} printed watchdog lines, so it was alive" if len(silent) == 1 else
                           f"ranks {named_ranks(silent)} printed watchdog lines, so they were alive")  # fmt: skip
        for rank, line in sorted(self._evidence.stuck.items())[:3]:
            reasons.append(f"the watchdog of rank {rank} made no progress itself: {line[:200]}")
        if not self._evidence.sized and self._evidence.states and verdict.answer is not Answer.NO_HANG:
            reasons.append(f"{self._size_words()}: {counted(len(self._evidence.world), 'rank')} known")
        if self._evidence.states and not any(state.complete for state in self._evidence.states.values()):
            reasons.append("watchdog lines only show operations that timed out")
        return reasons


def _sizes(operations: Sequence[Operation]) -> tuple[object, ...]:
    """Sizes and types that must be the same on all members."""
    if len(operations) > 1:
        return ()
    (one,) = operations
    name = one.name.lower()
    if name in _SAME_IN:
        return (one.numel_in, one.dtypes)
    if name in _SAME_OUT:
        return (one.numel_out, one.dtypes)
    return (one.dtypes,) if not any(word in name for word in _ANY_SIZE) and name != "barrier" else ()


def _by_words(counts: Counter[object]) -> list[tuple[object, int]]:
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))


def _shape_words(shape: object) -> str:
    """`all_reduce of 4 elements (Float)` of a key of the comparison."""
    parts = shape if isinstance(shape, tuple) else (shape,)
    if not parts or not isinstance(parts[0], tuple):
        return "+".join(str(part) for part in parts)
    text = "+".join(str(name) for name in parts[0])
    for part in parts[1:]:
        if isinstance(part, int):
            text += f" of {part} elements"
        elif isinstance(part, tuple) and part:
            text += f" ({', '.join(str(one) for one in part)})"
    return text
