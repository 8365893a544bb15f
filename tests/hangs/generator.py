"""Hangs with a known cause: ranks with programs of collectives, executed until nothing moves, then dumped.

A job has tensor, pipeline and data parallel groups and the world, as trainers have. Each rank runs the same program as
its peers: it enqueues operations, up to some ahead of what is finished; its device works them off in order, or
each group's in the order of its own stream. A
collective finishes when all members have reached it and agree on what it is; a send when the peer has reached the
receive. One fault is put into one rank (or between all ranks of one operation), and what every rank would write as
its flight-recorder dump is the result.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from typing import Any

FAULTS = ("host", "dead", "device", "size", "name", "skip", "order", "link", "two-hosts")
SHAPES = (
    (1, 1, 4), (1, 1, 8), (2, 1, 4), (2, 2, 2), (4, 2, 2), (2, 4, 2), (4, 1, 4), (2, 2, 4), (1, 4, 4), (4, 2, 4),
)  # fmt: skip
"""Tensor, pipeline and data parallel ranks."""
_CLOCK_NS = 1_790_000_000_000_000_000


@dataclass(frozen=True)
class Op:
    """One line of a program."""

    group: int
    name: str
    numel: int
    peer: int = -1
    blocking: bool = False


@dataclass
class Group:
    """A process group."""

    name: str
    desc: str
    ranks: tuple[int, ...]


@dataclass
class Enqueued:
    """An operation that a rank's program has launched."""

    op: Op
    record: int
    seq: int
    p2p_seq: int
    at_ns: int
    finished: bool = False


@dataclass
class Rank:
    """A process."""

    number: int
    program: list[Op]
    at: int = 0
    enqueued: list[Enqueued] = field(default_factory=list)
    streams: bool = False
    """Operations of different groups do not wait for each other."""
    seqs: dict[int, int] = field(default_factory=dict)
    p2p: dict[int, int] = field(default_factory=dict)

    def outstanding(self) -> list[Enqueued]:
        """What is not finished, oldest first."""
        return [one for one in self.enqueued if not one.finished]

    def heads(self) -> list[Enqueued]:
        """What the device works on: the oldest, or the oldest of each group."""
        first: dict[int, Enqueued] = {}
        for one in self.outstanding():
            first.setdefault(one.op.group if self.streams else 0, one)
        return list(first.values())


@dataclass
class Hang:
    """A job that hangs, and why."""

    fault: str
    culprits: frozenset[int]
    """Empty where no rank is to blame."""
    decidable: bool
    """False where the dumps show two sides that differ, and not which of them is right."""
    dumps: dict[int, dict[str, Any]]
    world: int


def make(seed: int, fault: str = "") -> Hang:
    """The hang of a seed."""
    rng = random.Random(seed)
    fault = fault or FAULTS[seed % len(FAULTS)]
    while True:
        hang = _try(rng, fault)
        if hang is not None:
            return hang


def _try(rng: random.Random, fault: str) -> Hang | None:
    tp, pp, dp = rng.choice(SHAPES)
    world = tp * pp * dp
    groups = _groups(tp, pp, dp)
    programs = _programs(rng, groups, world, tp, dp)
    streams = rng.random() < 0.3 and fault != "order"
    ranks = [Rank(number, program, streams=streams) for number, program in enumerate(programs)]
    guilty = rng.randrange(world)
    length = len(programs[guilty])
    index = rng.randrange(length // 3, 2 * length // 3)
    culprits, decidable = frozenset({guilty}), True
    stops: dict[int, int] = {}
    device: tuple[int, int] | None = None
    broken: set[tuple[int, int]] = set()
    program = ranks[guilty].program
    if fault in ("host", "dead"):
        stops[guilty] = index
    elif fault == "two-hosts":
        other = rng.choice([rank for rank in range(world) if rank != guilty])
        stops = {guilty: index, other: min(index, len(programs[other]) - 1)}
        culprits = frozenset(stops)
    elif fault == "device":
        wanted = [
            at for at, op in enumerate(program) if op.peer < 0 and at >= index and len(groups[op.group].ranks) > 1
        ]
        if not wanted:
            return None
        device = (guilty, wanted[0])
    elif fault in ("size", "name", "skip", "link"):
        wanted = [
            at for at, op in enumerate(program)
            if at >= index and op.name == "all_reduce" and op.peer < 0 and len(groups[op.group].ranks) > 1
        ]  # fmt: skip
        if not wanted:
            return None
        at = wanted[0]
        members = groups[program[at].group].ranks
        if fault == "size":
            program[at] = replace(program[at], numel=program[at].numel + 1)
        elif fault == "name":
            program[at] = replace(program[at], name="broadcast")
        elif fault == "skip":
            del program[at]
        else:
            seq = sum(op.group == program[at].group and op.peer < 0 for op in program[: at + 1])
            broken.add((program[at].group, seq))
            culprits = frozenset()
        decidable = fault == "link" or len(members) > 2
    elif fault == "order":
        wanted = [
            at for at in range(index, length - 1)
            if program[at].peer < 0 and program[at + 1].peer < 0
            and program[at].group != program[at + 1].group
            and min(len(groups[op.group].ranks) for op in program[at : at + 2]) > 2
        ]  # fmt: skip
        if not wanted:
            return None
        at = wanted[0]
        program[at], program[at + 1] = program[at + 1], program[at]
    depth = rng.choice([1, 1, 2, 4, 8])
    if fault == "order":
        depth = 1  # with more in flight both orders are enqueued, and the device's queues decide
    _run(rng, ranks, groups, depth, stops, device, broken)
    if not any(not one.finished for rank in ranks for one in rank.enqueued):
        return None
    if any(rank.at >= len(rank.program) and rank.number in culprits for rank in ranks) and fault != "skip":
        return None
    if fault == "skip" and not _differs(ranks, groups, guilty):
        return None
    version = rng.choice(["2.4", "2.9", "2.10"])
    ring = rng.choice([0, 64, 256])
    dumps = {rank.number: _dump(rank, groups, version, ring, rng) for rank in ranks}
    if fault == "dead":
        del dumps[guilty]
    return Hang(fault, culprits, decidable, dumps, world)


def _differs(ranks: list[Rank], groups: list[Group], guilty: int) -> bool:
    """Whether the rank that left out a collective is seen in another one, or in none: else it is one of two."""
    rank = ranks[guilty]
    return bool(rank.outstanding()) or rank.at >= len(rank.program)


def _groups(tp: int, pp: int, dp: int) -> list[Group]:
    """The world, then tensor, data and pipeline groups; ranks are numbered tensor first, then data, then stage."""
    world = tp * pp * dp
    groups = [Group("0", "default_pg", tuple(range(world)))]
    number = 1

    def add(desc: str, ranks: tuple[int, ...]) -> None:
        nonlocal number
        groups.append(Group(str(number), desc, ranks))
        number += 1

    for stage in range(pp):
        for data in range(dp):
            add("TENSOR", tuple(stage * dp * tp + data * tp + t for t in range(tp)))
    for stage in range(pp):
        for t in range(tp):
            add("DATA", tuple(stage * dp * tp + data * tp + t for data in range(dp)))
    for data in range(dp):
        for t in range(tp):
            add("PIPELINE", tuple(stage * dp * tp + data * tp + t for stage in range(pp)))
    return groups


def _programs(rng: random.Random, groups: list[Group], world: int, tp: int, dp: int) -> list[list[Op]]:
    """The same steps for all ranks: tensor collectives, sends between stages, gradients, now and then a barrier."""
    mine = {rank: {group.desc: at for at, group in enumerate(groups) if rank in group.ranks} for rank in range(world)}
    steps, layers = rng.randint(3, 5), rng.randint(2, 4)
    size = rng.choice([64, 1000, 4096])
    programs: list[list[Op]] = []
    for rank in range(world):
        own, program = mine[rank], []
        pipeline = groups[own["PIPELINE"]].ranks
        stage = pipeline.index(rank)
        for step in range(steps):
            if stage > 0:
                program.append(Op(own["PIPELINE"], "recv", size, pipeline[stage - 1]))
            for layer in range(layers):
                name = ("_all_gather_base", "all_reduce", "_reduce_scatter_base")[layer % 3]
                program.append(Op(own["TENSOR"], name, size + layer))
            if stage < len(pipeline) - 1:
                program.append(Op(own["PIPELINE"], "send", size, pipeline[stage + 1]))
            program.append(Op(own["DATA"], "all_reduce", 8 * size))
            if step % 2:
                program.append(Op(0, "all_reduce", 1, blocking=True))
        programs.append(program)
    return programs


def _run(
    rng: random.Random, ranks: list[Rank], groups: list[Group], depth: int, stops: dict[int, int],
    device: tuple[int, int] | None, broken: set[tuple[int, int]],
) -> None:  # fmt: skip
    clock = _CLOCK_NS
    moved = True
    while moved:
        moved = False
        order = list(range(len(ranks)))
        rng.shuffle(order)
        for number in order:
            rank = ranks[number]
            while (
                rank.at < len(rank.program) and rank.at != stops.get(number, -1)
                and len(rank.outstanding()) < depth
                and not (rank.outstanding() and rank.enqueued[-1].op.blocking)
            ):  # fmt: skip
                clock += rng.randint(1, 50_000)
                _enqueue(rank, groups, clock)
                moved = True
            moved |= _work_off(rank, ranks, groups, device, broken)


def _enqueue(rank: Rank, groups: list[Group], clock: int) -> None:
    op = rank.program[rank.at]
    rank.at += 1
    counts = rank.p2p if op.peer >= 0 else rank.seqs
    counts[op.group] = counts.get(op.group, 0) + 1
    one = Enqueued(op, len(rank.enqueued), rank.seqs.get(op.group, 0), rank.p2p.get(op.group, 0), clock)
    rank.enqueued.append(one)


def _work_off(
    rank: Rank, ranks: list[Rank], groups: list[Group], device: tuple[int, int] | None, broken: set[tuple[int, int]]
) -> bool:
    """Finishes what can be finished."""
    moved = False
    while True:
        ready = [
            one for one in rank.heads()
            if device != (rank.number, one.record) and _can_finish(one, rank, ranks, groups, broken)
        ]  # fmt: skip
        if not ready:
            return moved
        ready[0].finished = moved = True


def _can_finish(
    one: Enqueued, rank: Rank, ranks: list[Rank], groups: list[Group], broken: set[tuple[int, int]]
) -> bool:
    op = one.op
    if op.peer >= 0:
        wanted = "recv" if op.name == "send" else "send"
        mine = [e for e in rank.enqueued if e.op.peer == op.peer and e.op.name == op.name].index(one)
        theirs = [e for e in ranks[op.peer].enqueued if e.op.peer == rank.number and e.op.name == wanted]
        return mine < len(theirs) and _reached(theirs[mine], ranks[op.peer])
    if (op.group, one.seq) in broken:
        return False
    for member in groups[op.group].ranks:
        found = [e for e in ranks[member].enqueued if e.op.group == op.group and e.seq == one.seq and e.op.peer < 0]
        if not found or not _reached(found[0], ranks[member]):
            return False
        if (found[0].op.name, found[0].op.numel) != (op.name, op.numel):
            return False
    return True


def _reached(one: Enqueued, rank: Rank) -> bool:
    """Whether the device of a rank has come to an operation."""
    return one.finished or one in rank.heads()


def _dump(rank: Rank, groups: list[Group], version: str, ring: int, rng: random.Random) -> dict[str, Any]:
    """What the process would write; `ring` 0: only what is not finished."""
    own = [at for at, group in enumerate(groups) if rank.number in group.ranks]
    ids = {at: number for number, at in enumerate(own)}
    shown = [one for one in rank.enqueued if not one.finished] if not ring else rank.enqueued[-ring:]
    base = rng.randrange(10_000)
    table: dict[str, Any] = {
        "version": version,
        "pg_config": {
            groups[at].name: {"name": groups[at].name, "desc": groups[at].desc, "ranks": str(list(groups[at].ranks))}
            for at in own
        },
    }
    if version != "2.4":
        table["nccl_version" if version == "2.9" else "comm_lib_version"] = "2.27.5"
    table["pg_status"] = {
        str(ids[at]): {
            "last_enqueued_collective": max((_last(one) for one in rank.enqueued if one.op.group == at), default=-1),
            "last_started_collective": -1,
            "last_completed_collective": max(
                (_last(one) for one in rank.enqueued if one.op.group == at and one.finished), default=-1
            ),
        }
        for at in own
    }
    table["entries"] = [_entry(one, rank, groups[one.op.group], ids[one.op.group], base) for one in shown]
    return table


def _last(one: Enqueued) -> int:
    return one.p2p_seq if one.op.peer >= 0 else one.seq


def _entry(one: Enqueued, rank: Rank, group: Group, pg_id: int, base: int) -> dict[str, Any]:
    op, name = one.op, one.op.name
    if op.peer >= 0:
        mine, peer = group.ranks.index(rank.number), group.ranks.index(op.peer)
        name = f"send {mine}->{peer}" if name == "send" else f"recv {mine}<-{peer}"
    return {
        "record_id": base + one.record,
        "pg_id": pg_id,
        "process_group": (group.name, group.desc),
        "collective_seq_id": one.seq,
        "p2p_seq_id": one.p2p_seq,
        "op_id": one.seq + one.p2p_seq,
        "profiling_name": f"nccl:{name}",
        "time_created_ns": one.at_ns,
        "input_sizes": [[op.numel]],
        "input_dtypes": ["Float"],
        "output_sizes": [[op.numel]],
        "output_dtypes": ["Float"],
        "state": "completed" if one.finished else "scheduled",
        "time_discovered_started_ns": None,
        "time_discovered_completed_ns": one.at_ns + 1 if one.finished else None,
        "retired": one.finished,
        "timeout_ms": 600_000,
        "is_p2p": op.peer >= 0,
    }
