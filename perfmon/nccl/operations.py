"""Operations of a job: per-collective statistics, coverage, and losses, from the aggregated tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon.core import InputError, counted, plain

from .aggregate import execute_freely
from .model import CollectiveStats, Coverage
from .schema import P2P, RANK_BITS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from .aggregate import RepairCounts

_NOTABLE = 0.01
"""Share of operations with records that are there twice, from which on it is more than a damaged line."""
PARTS = 10
"""Parts of a job in which persistence is measured; by sequence number, which no clock of a host affects."""
PIECES = 10
"""Pieces of each part, of which those with a pause are left out."""

_VIEWS = f"""
    CREATE OR REPLACE TEMP TABLE ops AS
    SELECT id, comm_type, coll, sn, bytes, records, fewest_ranks, most_ranks AS n_ranks, fewest_nodes,
        most_nodes AS nnodes, micro_bw / records / 1e6 AS busbw,
        shortest >> {RANK_BITS} AS transfer_us, shortest & {(1 << RANK_BITS) - 1} AS last_rank, exec_us,
        exec_us - records * (shortest >> {RANK_BITS}) AS caused_us,
        most_ranks > 1 AND records = most_ranks AND fewest_ranks = most_ranks AS is_complete,
        first_us, last_us,
        least({PARTS * PIECES - 1}, floor({PARTS * PIECES} * (sn - min(sn) OVER of_function)::DOUBLE
            / (1.0 + (max(sn) OVER of_function - min(sn) OVER of_function))))::INTEGER AS piece,
        piece // {PIECES} AS part
    FROM groups WINDOW of_function AS (PARTITION BY id, coll)
"""

_SEATS = """
    CREATE OR REPLACE TEMP TABLE seats AS
    WITH places AS (
        SELECT id, "rank", coalesce(host, '') AS host, pid, max(n_ranks) AS n_ranks, sum(records) AS records
        FROM members WHERE coll IS NOT NULL GROUP BY ALL),
    settled AS (
        SELECT * FROM places
        QUALIFY row_number() OVER (PARTITION BY id, "rank" ORDER BY records DESC, host, pid) = 1),
    numbered AS (
        SELECT *, row_number() OVER (PARTITION BY id, host, pid ORDER BY "rank") AS slot,
            count(*) OVER (PARTITION BY id, host, pid) AS held FROM settled),
    -- Which GPU of a process with several it is shows only where all of them are in the communicator.
    certain AS (SELECT * FROM numbered QUALIFY held = max(held) OVER (PARTITION BY host, pid))
    SELECT *, first_value("rank") OVER largest AS job_rank, first_value(id) OVER largest AS job_comm
    FROM certain WINDOW largest AS (PARTITION BY host, pid, slot ORDER BY n_ranks DESC, records DESC, id)
"""
"""Each rank of each communicator with its process, and with the rank of that process in its largest communicator."""


def prepare(connection: DuckDBPyConnection) -> None:
    """Create the tables `ops` and `seats`. Raises InputError if no record was read."""
    row = connection.execute("SELECT count(*) FROM members WHERE coll IS NOT NULL").fetchone()
    if row is None or row[0] == 0:
        raise InputError(
            "no record of NCCL Inspector in these files "
            "(set NCCL_PROFILER_PLUGIN, NCCL_INSPECTOR_ENABLE=1 and NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS)"
        )
    execute_freely(connection, _VIEWS)
    connection.execute("DROP TABLE groups")
    connection.execute(_SEATS)
    connection.execute("RESET memory_limit")  # results are small from here on
    # Queries from here on are few: each gives back what it took, which while reading would cost half of the time.
    connection.execute("SET allocator_flush_threshold = '1MB'")


def collective_stats(connection: DuckDBPyConnection) -> tuple[CollectiveStats, ...]:
    """Statistics of every (type, collective, size), the most time first."""
    rows = connection.execute(
        f"""
        SELECT comm_type, coll, bytes, count(*), sum(records), round(favg(busbw), 9),
            quantile_cont(busbw, 0.05), median(busbw), quantile_cont(busbw, 0.95), min(busbw), max(busbw),
            median(transfer_us) FILTER (is_complete OR n_ranks = 1),
            sum(caused_us) FILTER (is_complete) / nullif(sum(exec_us) FILTER (is_complete), 0) AS wait,
            sum(exec_us) AS total_us
        FROM ops GROUP BY comm_type, coll, bytes
        UNION ALL
        SELECT comm_type, coll, bytes, sum(records)::BIGINT, sum(records), sum(micro_bw) / sum(records) / 1e6,
            quantile_cont(micro_bw / records / 1e6, 0.05), median(micro_bw / records / 1e6),
            quantile_cont(micro_bw / records / 1e6, 0.95), min(micro_bw / records / 1e6),
            max(micro_bw / records / 1e6), median(shortest >> {RANK_BITS}), NULL, sum(exec_us)
        FROM members WHERE coll IN {P2P} GROUP BY comm_type, coll, bytes
        ORDER BY total_us DESC, 1, 2, 3
        """
    ).fetchall()
    return tuple(CollectiveStats(*row[:5], *(value or 0.0 for value in row[5:11]), *row[11:]) for row in rows)


def coverage(connection: DuckDBPyConnection) -> Coverage:
    """Ranks and operations that the logs have, of those that there must have been."""
    missing = connection.execute(
        """
        SELECT id, max(n_ranks) - count(DISTINCT "rank") AS missing FROM members WHERE coll IS NOT NULL
        GROUP BY id HAVING missing > 0 ORDER BY missing DESC, id
        """
    ).fetchall()
    comms = connection.execute("SELECT count(DISTINCT id) FROM members WHERE coll IS NOT NULL").fetchone()
    ops = connection.execute("SELECT count(*) FILTER (n_ranks > 1), count(*) FILTER (is_complete) FROM ops").fetchone()
    dropped = connection.execute("SELECT coalesce(sum(dropped), 0) FROM members WHERE coll IS NULL").fetchone()
    assert comms is not None and ops is not None and dropped is not None  # noqa: S101, PT018 - aggregates have a row
    return Coverage(comms[0], dict(missing), ops[0], ops[1], int(dropped[0]))


def numbering(connection: DuckDBPyConnection) -> list[str]:
    """A note if the ranks of processes are not those of one communicator: then several have the same number."""
    rows = connection.execute(
        """
        SELECT max(s.n_ranks), max(m.name) FROM seats AS s JOIN members AS m ON m.id = s.id
        WHERE s.id = s.job_comm AND s.n_ranks > 1 GROUP BY s.id ORDER BY 1 DESC, s.id
        """
    ).fetchall()
    if len(rows) < 2:
        return []
    size, name = rows[0]
    such = f" {plain(name, 40)}" if name and name != "unknown" else ""
    return [
        f"no communicator of all processes has records: ranks are numbered within {len(rows)} communicators, such "
        f"as one of {counted(size, 'rank')}{such}; host and pid distinguish them"
    ]


def repeated(connection: DuckDBPyConnection, copies: int) -> list[str]:
    """Notes about copies of logs that were left out, and about records that are there twice all the same."""
    notes = [f"{counted(copies, 'file')} left out: the same text as another one of that name"] if copies else []
    row = connection.execute(
        "SELECT count(*) FILTER (records > n_ranks), count(*) FROM ops WHERE n_ranks > 1"
    ).fetchone()
    if row is not None and row[0] > _NOTABLE * row[1]:
        notes.append(
            f"{counted(row[0], 'operation')} with more records than ranks, as of logs that are there twice with "
            "different names: these do not show who waited"
        )
    return notes


def losses(connection: DuckDBPyConnection, repairs: RepairCounts) -> tuple[int, dict[str, int], list[str]]:
    """(skipped lines, the same by reason, notes in words)."""
    row = connection.execute(
        """
        SELECT sum(records - headed - orphans - proxies), sum(orphans), sum(headed - known - proxies), sum(wrapped),
            count(*) FILTER (known = 0)
        FROM files
        """
    ).fetchone()
    other, orphans, incomplete, wrapped, foreign = (int(value or 0) for value in row or (0,) * 5)
    counts = {
        "not a record": max(0, other),
        "no header before it": orphans,
        "incomplete": max(0, incomplete),
        "too long": repairs.too_long,
    }
    notes = []
    if wrapped:
        notes.append(f"{counted(wrapped, 'size')} of an unknown data type (uint8) restored from the wrapped count")
    if repairs.cut_files:
        notes.append(f"{counted(repairs.cut_files, 'compressed file')} cut or damaged: records behind that are lost")
    if repairs.unreadable:
        notes.append(f"{counted(repairs.unreadable, 'file')} could not be read")
    if foreign:
        notes.append(f"{counted(foreign, 'file')} without a record")
    lost = {reason: count for reason, count in counts.items() if count}
    return sum(lost.values()), lost, notes
