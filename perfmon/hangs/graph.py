"""The wait-for graph: which rank waits for which, by the oldest outstanding operation of each.

A rank waits in its *frontier*, the oldest operation that it has enqueued and not finished: later ones are queued behind
it. Of the members of that operation's group it waits for those that have not enqueued it, and for those that have but
are themselves held up by an older one. Ranks that wait in the same operation share a node, so that a job of 10,000
ranks has as many arrows as its groups have members.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from .model import UNKNOWN_PEER, Evidence, GroupKey, Operation, RankState

_ROOTED = frozenset(("broadcast", "_broadcast_oop", "reduce", "_reduce_oop", "gather", "scatter", "coalesced"))
"""Collectives in which some members are done before others have come."""


class Relation(StrEnum):
    """The state of a member with respect to an operation in which another one waits."""

    TOGETHER = "together"
    """It waits in the same operation."""
    HELD = "held up by an older operation"
    ABSENT = "has not enqueued it"
    FINISHED = "finished"
    ARRIVED = "arrived, for a peer has finished"
    MISSING = "no dump"
    UNKNOWN = "unknown"

    @property
    def is_behind(self) -> bool:
        """Return true where the operation cannot finish before this member comes."""
        return self in (Relation.HELD, Relation.ABSENT, Relation.MISSING)


@dataclass(frozen=True, slots=True)
class Place:
    """An operation in which ranks wait: a collective of a group, or a send or receive of one rank."""

    group: GroupKey
    seq: int
    rank: int = -1
    """Of a send or receive: whose it is."""
    name: str = ""
    peer: int = -1


@dataclass(frozen=True, slots=True)
class Frontier:
    """The oldest outstanding operation of a rank: several if they were launched as one."""

    operations: tuple[Operation, ...]
    known: bool
    """False where the evidence does not reach back to it."""


@dataclass(slots=True)
class WaitGraph:
    """Ranks, the places in which they wait, and the ranks that each place waits for."""

    evidence: Evidence
    frontiers: dict[int, Frontier] = field(default_factory=dict)
    places: dict[Place, list[int]] = field(default_factory=dict)
    """By place the ranks that wait there."""
    relations: dict[Place, dict[int, Relation]] = field(default_factory=dict)
    """By place the other members."""
    at: dict[int, list[Place]] = field(default_factory=dict)
    """By rank where it waits."""
    blockers: dict[Place, list[int]] = field(default_factory=dict)
    awaited: dict[int, list[Place]] = field(default_factory=dict)
    """By rank the places that wait for it."""

    @property
    def waiting(self) -> list[int]:
        """Ranks with an outstanding operation."""
        return [rank for rank, frontier in self.frontiers.items() if frontier.operations]

    def behind(self, place: Place) -> list[int]:
        """The ranks for which a place waits."""
        return self.blockers[place]

    def waits_for(self, rank: int) -> set[int]:
        """The ranks for which a rank waits."""
        return {other for place in self.at.get(rank, ()) for other in self.behind(place)}

    def reached_from(self, targets: Iterable[int]) -> set[int]:
        """The targets, and the ranks that wait for one of them, directly or through others."""
        seen = set(targets)
        work, passed = list(seen), set[Place]()
        while work:
            for place in self.awaited.get(work.pop(), ()):
                if place not in passed:
                    passed.add(place)
                    fresh = set(self.places[place]) - seen
                    seen |= fresh
                    work += fresh
        return seen


def frontier_of(state: RankState) -> Frontier:
    """The frontier of one rank."""
    outstanding = state.outstanding()
    if not outstanding:
        return Frontier((), not state.truncated and not _has_lost(state) and state.complete)
    first = outstanding[0]
    if first.is_p2p:  # sends and receives that were launched together share their number
        batch = [one for one in outstanding if one.is_p2p and one.group == first.group and one.seq == first.seq]
        batch = [one for one in batch if one.peer != UNKNOWN_PEER] or batch  # without what only closes the batch
    else:
        batch = [first]
    return Frontier(tuple(batch), not _has_lost(state))


def _has_lost(state: RankState) -> bool:
    """Return true if the ring buffer has overwritten operations that are not finished.

    The counters of each group say which collective is the oldest; a dump of all operations whose first one is not
    finished may have lost any.
    """
    if not state.complete:
        return False
    listed: dict[GroupKey, int] = {}
    mixed = set()
    for one in state.operations:
        if one.is_p2p:
            mixed.add(one.group)
        elif not one.finished:
            listed[one.group] = min(listed.get(one.group, one.seq), one.seq)
    for key, status in state.status.items():
        if status.enqueued > status.completed and key not in mixed:  # counters of sends and receives mix both kinds
            oldest = listed.get(key)
            if not state.truncated and (oldest is None or oldest > max(status.completed, 0) + 1):
                return True
    if not state.status and state.operations:
        first = state.operations[0]
        return not first.finished and first.record > 0 and any(one.finished for one in state.operations)
    return False


def build_graph(evidence: Evidence) -> WaitGraph:
    """The graph of what is known."""
    graph = WaitGraph(evidence)
    for rank, state in sorted(evidence.states.items()):
        graph.frontiers[rank] = frontier_of(state)
    index = _Index(evidence, graph.frontiers)
    for rank, frontier in graph.frontiers.items():
        for operation in frontier.operations if frontier.known else ():
            place = _place(operation, rank)
            mine = graph.at.setdefault(rank, [])
            if place not in mine:
                mine.append(place)
                graph.places.setdefault(place, []).append(rank)
            if place not in graph.relations:
                graph.relations[place] = index.relations(operation, rank)
    for place, ranks in graph.places.items():
        for rank in ranks:
            graph.relations[place].pop(rank, None)
        behind = [rank for rank, relation in graph.relations[place].items() if relation.is_behind]
        graph.blockers[place] = behind
        for rank in behind:
            graph.awaited.setdefault(rank, []).append(place)
    return graph


def _place(operation: Operation, rank: int) -> Place:
    if operation.peer is not None:
        return Place(operation.group, operation.seq, rank, operation.name, operation.peer)
    return Place(operation.group, operation.seq)


class _Index:
    """The state of each collective on each rank."""

    def __init__(self, evidence: Evidence, frontiers: dict[int, Frontier]) -> None:
        self._evidence = evidence
        self._frontiers = frontiers
        self._collectives: dict[int, dict[tuple[GroupKey, int], bool]] = {}
        self._last: dict[int, dict[GroupKey, int]] = {}
        for rank, state in evidence.states.items():
            listed = self._collectives[rank] = {}
            last = self._last[rank] = {}
            for one in state.operations:
                if not one.is_p2p:
                    slot = (one.group, one.seq)
                    listed[slot] = listed.get(slot, True) and one.finished
                    last[one.group] = max(last.get(one.group, -1), one.seq)

    def relations(self, operation: Operation, rank: int) -> dict[int, Relation]:
        """The other members of an operation in which `rank` waits."""
        if operation.peer is not None:
            return {operation.peer: self._of_peer(operation, rank)} if operation.peer != UNKNOWN_PEER else {}
        members = self._evidence.members_of(operation.group)
        found = {member: self._of_member(operation, member) for member in members if member != rank}
        if Relation.FINISHED in found.values() and operation.name.lower() not in _ROOTED:
            # No member finishes before all have come: of whom nothing is known, that is known.
            found = {m: Relation.ARRIVED if one is Relation.MISSING else one for m, one in found.items()}
        return found

    def _of_member(self, operation: Operation, member: int) -> Relation:
        state = self._evidence.states.get(member)
        if state is None:
            return Relation.MISSING
        group, seq = operation.group, operation.seq
        finished = self._collectives[member].get((group, seq))
        if finished is not None:
            return Relation.FINISHED if finished else self._joined(group, seq, member)
        status = state.status.get(group)
        if status is not None:
            if status.completed >= seq:
                return Relation.FINISHED
            return Relation.ABSENT if status.enqueued < seq else Relation.HELD
        last = self._last[member].get(group)
        if last is not None and last > seq:
            return Relation.FINISHED
        if last is not None and not state.complete:
            return Relation.HELD  # its own time-out is of an earlier one
        # Of a torn file the newest operations are missing, and of watchdog lines all that did not time out.
        return Relation.UNKNOWN if state.truncated or not state.complete else Relation.ABSENT

    def _joined(self, group: GroupKey, seq: int, member: int) -> Relation:
        frontier = self._frontiers[member]
        here = any(one.group == group and one.seq == seq and not one.is_p2p for one in frontier.operations)
        return Relation.TOGETHER if here and frontier.known else Relation.HELD

    def _of_peer(self, operation: Operation, rank: int) -> Relation:
        """The other side of a send or receive, which the sequence numbers of the two do not align with."""
        peer = operation.peer if operation.peer is not None else UNKNOWN_PEER
        state = self._evidence.states.get(peer)
        if state is None:
            return Relation.MISSING
        wanted = "recv" if operation.name == "send" else "send"
        matching = [one for one in state.outstanding() if one.peer == rank and one.name == wanted]
        frontier = self._frontiers[peer]
        if matching:
            return Relation.TOGETHER if matching[0] in frontier.operations and frontier.known else Relation.HELD
        return Relation.UNKNOWN if state.truncated or not state.complete else Relation.ABSENT


# --- strongly connected components --------------------------------------------------------------------------------
def cycles(graph: WaitGraph) -> list[list[int]]:
    """Sets of ranks that all wait for each other and for no rank outside: deadlocks."""
    found = []
    for component in _components(graph):
        if len(component) > 1:
            inside = set(component)
            if all(graph.waits_for(rank) <= inside for rank in component):
                found.append(sorted(component))
    return found


def _components(graph: WaitGraph) -> list[list[int]]:
    """Tarjan's algorithm over ranks and places, without recursion; of each component the ranks."""
    Node = int | Place
    numbers: dict[Node, int] = {}
    low: dict[Node, int] = {}
    stack: list[Node] = []
    on_stack: set[Node] = set()
    found: list[list[int]] = []

    def successors(node: Node) -> Sequence[Node]:
        return graph.behind(node) if isinstance(node, Place) else graph.at.get(node, [])

    for root in graph.frontiers:
        if root in numbers:
            continue
        work: list[tuple[Node, Iterable[Node]]] = []

        def enter(node: Node, work: list[tuple[Node, Iterable[Node]]] = work) -> None:
            numbers[node] = low[node] = len(numbers)
            stack.append(node)
            on_stack.add(node)
            work.append((node, iter(successors(node))))

        enter(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in numbers:
                    enter(other)
                    break
                if other in on_stack:
                    low[node] = min(low[node], numbers[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == numbers[node]:
                    component = []
                    while True:
                        other = stack.pop()
                        on_stack.discard(other)
                        component.append(other)
                        if other == node:
                            break
                    found.append([one for one in component if not isinstance(one, Place)])
    return found
