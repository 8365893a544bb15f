"""Analysis of one job: files in, aggregated tables and a `JobAnalysis` out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from perfmon.core import Config

from .aggregate import connect, load
from .files import InspectorFile, find_files
from .jobs import check_one_job
from .links import link_ratios
from .model import JobAnalysis
from .operations import collective_stats, coverage, losses, numbering, prepare, repeated
from .pairs import pair_ratios
from .proxies import proxy_times
from .waits import rank_waits, wait_notes

if TYPE_CHECKING:
    from types import TracebackType

    from duckdb import DuckDBPyConnection

    from .ray_engine import RayEngine


class Job:
    """The logs of a job, aggregated in a database that lives as long as this context."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self.files: list[InspectorFile] = find_files(paths)
        self.connection: DuckDBPyConnection = connect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.connection.close()

    def analyze(
        self,
        progress: Callable[[int, int], None] | None = None,
        config: Config | None = None,
        metadata: Mapping[str, str] | None = None,
        engine: RayEngine | None = None,
        slurm_job: str | None = None,
    ) -> JobAnalysis:
        """Read the files here, or by an engine, and evaluate them.

        Raises InputError if they have no record, or are of several jobs, unless all are of `slurm_job`.
        """
        repairs = (load if engine is None else engine.load)(self.connection, self.files, progress)
        prepare(self.connection)
        apart = check_one_job(self.connection, self.files, slurm_job)
        skipped, lost, notes = losses(self.connection, repairs)
        row = self.connection.execute(
            """
            SELECT (SELECT count(*) FROM ops), (SELECT sum(known - stats) FROM files), min(first_us), max(last_us),
                count(DISTINCT nullif(host, ''))
            FROM members
            """
        ).fetchone()
        assert row is not None  # noqa: S101 - an aggregate has a row
        versions = self.connection.execute(
            "SELECT DISTINCT version FROM files WHERE version IS NOT NULL ORDER BY version"
        ).fetchall()
        pairs, slow_pairs, uncompared = pair_ratios(self.connection)
        ranks = rank_waits(self.connection)
        found = JobAnalysis(
            files=len(self.files),
            records=int(row[1]),
            skipped=skipped,
            lost=lost,
            notes=(
                *notes,
                *repeated(self.connection, sum(file.copies for file in self.files)),
                *apart,
                *numbering(self.connection),
                *uncompared,
                *wait_notes(self.connection, ranks),
            ),
            groups=row[0],
            start_us=row[2],
            end_us=row[3],
            versions=tuple(version for (version,) in versions),
            by=collective_stats(self.connection),
            ranks=ranks,
            links=link_ratios(self.connection),
            pairs=pairs,
            slow_pairs=slow_pairs,
            coverage=coverage(self.connection),
            hosts=row[4],
            metadata=dict(metadata or {}),
            proxies=proxy_times(self._with_proxies()),
        )
        from .signals import find  # loads the rule engine

        return replace(found, findings=find(found, config))

    def _with_proxies(self) -> list[Path]:
        """The logs that have proxy traces."""
        rows = self.connection.execute("SELECT DISTINCT file FROM files WHERE proxies > 0").fetchall()
        names = {name for (name,) in rows}
        return [file.path for file in self.files if file.name in names]
