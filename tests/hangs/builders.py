"""Evidence by hand: ranks, groups and operations in a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfmon.hangs import Evidence, GroupKey, Operation, RankState, Status, build

WORLD = GroupKey("0", (0, 1, 2, 3))
PAIR = GroupKey("1", (0, 1))
OTHER = GroupKey("2", (2, 3))
GROUPS = {WORLD: "default_pg", PAIR: "tp", OTHER: "tp"}


def op(
    seq: int, group: GroupKey = WORLD, name: str = "all_reduce", *, record: int = -1, finished: bool = False,
    numel: int = 4, peer: int | None = None,
) -> Operation:  # fmt: skip
    """An operation; its record number is its sequence number unless given."""
    at = seq if record < 0 else record
    return Operation(group, seq, name, at, finished, peer, numel, numel, ("Float",))


def job(
    operations: Mapping[int, Sequence[Operation]],
    statuses: Mapping[int, Mapping[GroupKey, tuple[int, int]]] | None = None,
) -> Evidence:
    """The evidence of ranks with these operations; ranks of the world that are left out have no dump."""
    states = [RankState(rank, str(rank), list(some)) for rank, some in operations.items()]
    for state in states:
        for key, (enqueued, completed) in (statuses or {}).get(state.rank, {}).items():
            state.status[key] = Status(enqueued, completed)
    return build(states, GROUPS)
