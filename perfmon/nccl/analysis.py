"""Analysis of one job: files in, aggregated tables and a `JobAnalysis` out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from perfmon.core import Config, counted, format_share, plain

from .aggregate import connect, load
from .files import InspectorFile, find_files
from .jobs import check_one_job
from .links import link_ratios
from .model import JobAnalysis, RankWait
from .operations import collective_stats, coverage, losses, numbering, prepare, repeated
from .pairs import pair_ratios
from .proxies import proxy_times
from .schema import ROOTED
from .waits import rank_waits

if TYPE_CHECKING:
    from types import TracebackType

    from duckdb import DuckDBPyConnection

    from .ray_engine import RayEngine

_RARE = 50
"""Operations: half as many as pieces, so that a pause in each would not be left out."""
_REASONS = " (checkpoints, evaluation, or a stall in each of few steps?)"
_FELT = 2
"""Operations in which one pause is felt: in those of two communicators."""
_PAUSES = f"""
    WITH late AS (
        SELECT o.coll, o.sn, o.id, o.caused_us / (o.n_ranks - 1) AS late_us FROM ops AS o
            JOIN seats AS s ON s.id = o.id AND s."rank" = o.last_rank
        WHERE o.is_complete AND o.coll NOT IN {ROOTED} AND s.host = ? AND s.pid IS NOT DISTINCT FROM ? AND s.slot = ?)
    SELECT count(*), if(count(*) > {_FELT}, median(late_us), max(late_us)),
        arg_max(coll, late_us), arg_max(sn, late_us), arg_max(id, late_us)
    FROM late WHERE late_us > (SELECT max(late_us) FROM late) / 2
"""
"""Operations for which a rank was late by more than half of its longest delay."""
_GAPS = """
    WITH own AS (SELECT id FROM seats WHERE host = ? AND pid IS NOT DISTINCT FROM ? AND slot = ?),
    seen AS (
        SELECT id, max(n_ranks) AS n_ranks, list(DISTINCT "rank") AS ranks FROM members JOIN own USING (id)
        WHERE coll IS NOT NULL GROUP BY id)
    SELECT id, list_filter(range(n_ranks), lambda one: NOT list_contains(ranks, one))[:5] AS missing
    FROM seen WHERE len(missing) > 0 ORDER BY n_ranks, id
"""
"""Ranks without records in the communicators of a rank."""
_SHOWN = 4
_NOTABLE_SHARE, _NOTABLE_WAIT = 0.25, 0.02
"""Shares of all waiting, and of kernel time, from which on it is worth a note that a rank is not judged."""


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
                *_wait_notes(self.connection, ranks),
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


def _wait_notes(connection: DuckDBPyConnection, waits: Sequence[RankWait]) -> list[str]:
    """Notes if much of the waiting is for a rank that was late for a while only, or that may have waited itself."""
    if not waits:
        return []
    last = max(waits, key=lambda one: one.caused_us)
    is_notable = min(last.uncertain, last.last_share) > _NOTABLE_SHARE and last.comm_share > _NOTABLE_WAIT
    notes = _gap_notes(connection, last) if is_notable else []
    return [*notes, _pause_note(connection, waits[0])] if waits[0].has_paused else notes


def _gap_notes(connection: DuckDBPyConnection, wait: RankWait) -> list[str]:
    seat = wait.seat
    gaps = connection.execute(_GAPS, [seat.host, seat.pid, seat.slot]).fetchall()
    if not gaps:
        return []
    shown = ", ".join(
        f"rank{'' if len(ranks) == 1 else 's'} {', '.join(map(str, ranks[:_SHOWN]))}"
        f"{', …' if len(ranks) > _SHOWN else ''} of communicator {plain(comm, 40)}"
        for comm, ranks in gaps[:_SHOWN]
    )
    return [
        f"{plain(seat.label, 120)} came last in {format_share(wait.last_share)} of the waiting, but may have waited "
        f"itself for ranks without records ({shown}{', …' if len(gaps) > _SHOWN else ''}): with their logs it can be "
        "decided"
    ]


def _pause_note(connection: DuckDBPyConnection, wait: RankWait) -> str:
    seat = wait.seat
    row = connection.execute(_PAUSES, [seat.host, seat.pid, seat.slot]).fetchone()
    assert row is not None  # noqa: S101 - it came last somewhere
    count, late_us, coll, sn, comm = row
    which = f"for one operation ({plain(coll, 40)} {sn} of communicator {plain(comm, 40)})"
    if count > _FELT:
        which = f"in {counted(count, 'operation')}{_REASONS if count < _RARE else ''}"
    return (
        f"{plain(seat.label, 120)} was late by {late_us / 1e6:.3g} s {which}: it is the origin of "
        f"{format_share(wait.share)} of all waiting, but of {format_share(wait.lasting_share)} in the rest of the job"
    )
