"""`perfmon nccl --engine ray`: partial results are made and merged by the workers of a Ray cluster.

Only aggregated tables travel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from perfmon.cluster import RayCluster, Workers, check_visible

from .aggregate import PartialTables, RepairCounts, load_tables, merge, partial
from .files import InspectorFile, batches

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MOST_BYTES = 256 << 20
_LEAST_BYTES = 64 << 10
_TASKS_PER_CPU = 2
_MERGED_AT_ONCE = 16


class RayEngine:
    """A Ray cluster as the place where logs are aggregated."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster = cluster

    def load(
        self,
        connection: DuckDBPyConnection,
        files: Sequence[InspectorFile],
        progress: Callable[[int, int], None] | None = None,
    ) -> RepairCounts:
        """Aggregate files into the tables of a database, as the local `load` does, and with the same result.

        Raises ConnectError without a cluster, and InputError where its nodes cannot do it.
        """
        seen = [replace(file, path=file.path.absolute()) for file in files]
        with self._cluster.workers([(file.path, file.size) for file in seen], {"duckdb": "nccl"}) as workers:
            tables = _tables(workers, seen, progress)
        return load_tables(connection, tables)


def _aggregate(files: Sequence[InspectorFile]) -> PartialTables:
    """Run by a worker, on one CPU."""
    for file in files:
        check_visible(file.path)
    return partial(files, cores=1)


def _merge(*tables: PartialTables) -> PartialTables:
    """Run by a worker."""
    return merge(tables)


def _tables(
    workers: Workers, files: Sequence[InspectorFile], progress: Callable[[int, int], None] | None
) -> list[PartialTables]:
    """Partial results of all files, merged until a few are left."""
    total = sum(file.volume for file in files)
    volume = max(_LEAST_BYTES, min(_MOST_BYTES, total // (_TASKS_PER_CPU * workers.free()) + 1))
    held = list(batches(files, volume))
    with workers.failures():
        parts = workers.start(_aggregate, [(batch,) for batch in held])
        workers.wait(
            {part: sum(file.volume for file in batch) for part, batch in zip(parts, held, strict=True)}, progress
        )
        combine = workers.ray.remote(num_cpus=1)(_merge)
        while len(parts) > _MERGED_AT_ONCE:
            parts = [combine.remote(*parts[at : at + _MERGED_AT_ONCE]) for at in range(0, len(parts), _MERGED_AT_ONCE)]
        tables: list[PartialTables] = workers.ray.get(parts)
    return tables
