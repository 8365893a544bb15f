"""Transfer times of communicators compared with those of their peers: a slow link makes all operations over it longer.

The transfer time of an operation is its shortest kernel time, which contains no waiting. Peers have the same number of
ranks and domains, and are compared by collective and message size, so no figure of any hardware is needed. Groups of
processes without a common communicator may be different jobs on different hardware: only alike ones are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from statistics import median, median_low
from typing import TYPE_CHECKING, Any, NamedTuple

from .model import LinkRatio
from .operations import PARTS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FEWEST_OPS = 3
"""Operations of a class that a communicator needs to be compared."""
SHORTEST_US = 20
"""Times are whole microseconds: below this they are too coarse."""
_LEAST_SPREAD = 0.02

_TRANSFERS = f"""
    SELECT id, comm_type, n_ranks, nnodes, coll, bytes, part, count(*), median(transfer_us), sum(exec_us)
    FROM ops WHERE is_complete GROUP BY GROUPING SETS (
        (id, comm_type, n_ranks, nnodes, coll, bytes), (id, comm_type, n_ranks, nnodes, coll, bytes, part))
    HAVING count(*) >= CASE WHEN grouping(part) = 1 THEN {FEWEST_OPS} ELSE 1 END
"""

Shape = tuple[str, int, int]
"""Type of a communicator, its ranks and domains."""
Group = tuple[tuple[Shape, int], ...]
"""Shapes of the communicators that are connected by common processes, with their numbers."""
_Kind = tuple[Shape, Group]
_MEMBERS = """
    SELECT DISTINCT id, host, pid, comm_type, n_ranks, nnodes FROM members WHERE coll IS NOT NULL AND n_ranks > 1
"""


class _Class(NamedTuple):
    """Operations that can be compared."""

    kind: _Kind
    collective: str
    size: int


class _Part(NamedTuple):
    ops: int
    transfer_us: float
    exec_us: float


def link_ratios(connection: DuckDBPyConnection) -> tuple[LinkRatio, ...]:
    """Every communicator that has peers, the slowest first."""
    row = connection.execute("SELECT coalesce(sum(exec_us), 0) FROM ops WHERE is_complete").fetchone()
    names, hosts = _names(connection)
    members = connection.execute(_MEMBERS).fetchall()
    groups = groups_of((id, (host, pid), (kind, ranks, domains)) for id, host, pid, kind, ranks, domains in members)
    return ratios_of(connection.execute(_TRANSFERS).fetchall(), row[0] if row else 0.0, names, hosts, groups)


def groups_of(members: Iterable[tuple[str, Hashable, Shape]]) -> dict[str, Group]:
    """Group of each communicator, from (communicator, process, shape) of all members."""
    parents: dict[Hashable, Hashable] = {}

    def root(one: Hashable) -> Hashable:
        while (parent := parents.get(one, one)) != one:
            parents[one] = parents.get(parent, parent)
            one = parent
        return one

    shapes = {}
    for comm, process, shape in members:
        shapes[comm] = shape
        parents[root((process,))] = root(comm)
    roots = {comm: root(comm) for comm in shapes}
    held: dict[Hashable, Counter[Shape]] = defaultdict(Counter)
    for comm, shape in shapes.items():
        held[roots[comm]][shape] += 1
    groups = {at: tuple(sorted(counts.items())) for at, counts in held.items()}
    return {comm: groups[at] for comm, at in roots.items()}


def ratios_of(
    transfers: Iterable[tuple[Any, ...]],
    total_us: float,
    names: Mapping[str, str],
    hosts: Mapping[str, tuple[str, ...]],
    groups: Mapping[str, Group],
) -> tuple[LinkRatio, ...]:
    """The ratios from medians, wherever these were made.

    `transfers` has (communicator, type, ranks, domains, collective, size, part or None for all of them, operations,
    median transfer time, kernel time of all ranks); `total_us` is the kernel time of all complete operations; names,
    hosts and groups are by communicator.
    """
    whole: dict[_Class, dict[str, _Part]] = defaultdict(dict)
    parts: dict[tuple[_Class, str], dict[int, _Part]] = defaultdict(dict)
    for comm, comm_type, ranks, domains, coll, size, part, ops, transfer, total in transfers:
        of = _Class(((comm_type, ranks, domains), groups.get(comm, ())), coll, size)
        if part is None:
            whole[of][comm] = _Part(ops, transfer, total)
        else:
            parts[of, comm][part] = _Part(ops, transfer, total)
    references = _references(whole)
    by_comm: dict[tuple[_Kind, str], list[_Class]] = defaultdict(list)
    for of, comm in references:
        by_comm[of.kind, comm].append(of)
    ratios = {
        (kind, comm): _weighted((whole[of][comm], references[of, comm]) for of in classes)
        for (kind, comm), classes in by_comm.items()
    }
    kernel_us = max(1.0, total_us)
    links = []
    for (kind, comm), classes in by_comm.items():
        ratio = ratios[kind, comm]
        peers = [other for (of_kind, name), other in ratios.items() if of_kind == kind and name != comm]
        excess = sum(
            kind[0][1] * whole[of][comm].ops * max(0.0, whole[of][comm].transfer_us - references[of, comm])
            for of in classes
        )
        courses = tuple(
            _weighted((parts[of, comm][at], references[of, comm]) for of in classes if at in parts[of, comm])
            if any(at in parts[of, comm] for of in classes)
            else None
            for at in range(PARTS)
        )
        links.append(
            LinkRatio(
                comm=comm,
                name=names.get(comm, ""),
                comm_type=kind[0][0],
                n_ranks=kind[0][1],
                hosts=hosts.get(comm, ()),
                peers=len(peers),
                ops=sum(whole[of][comm].ops for of in classes),
                ratio=ratio,
                spread=spread(peers),
                lost_share=min(1.0, excess / kernel_us),
                ratios=courses,
            )
        )
    return tuple(sorted(links, key=lambda link: (-link.ratio, link.comm)))


def _references(whole: dict[_Class, dict[str, _Part]]) -> dict[tuple[_Class, str], float]:
    """Median transfer time of the other communicators of each class."""
    found = {}
    for of, comms in whole.items():
        for comm in comms:
            others = [part.transfer_us for name, part in comms.items() if name != comm]
            if others and (usual := median_low(others)) >= SHORTEST_US:
                found[of, comm] = usual
    return found


def _weighted(pairs: Iterable[tuple[_Part, float]]) -> float:
    """Ratio of transfer times to references, weighted by the time that the operations should take."""
    held = [(part.ops * part.transfer_us, part.ops * reference) for part, reference in pairs]
    return sum(actual for actual, _ in held) / sum(usual for _, usual in held)


def spread(peers: Sequence[float]) -> float:
    """Robust standard deviation (of the median absolute deviation) of the ratios of the peers."""
    middle = median(peers)
    return max(_LEAST_SPREAD, 1.4826 * median(abs(ratio - middle) for ratio in peers))


def _names(connection: DuckDBPyConnection) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    rows = connection.execute(
        """SELECT id, max(name), list_sort(list(DISTINCT host)) FROM members WHERE coll IS NOT NULL GROUP BY id"""
    ).fetchall()
    return {row[0]: row[1] or "" for row in rows}, {row[0]: tuple(h for h in row[2] if h) for row in rows}
