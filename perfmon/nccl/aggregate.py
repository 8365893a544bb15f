"""Aggregation of log files by DuckDB: `partial` of some files, `merge` of partial results.

Both are pure functions, and all statistics are minima, maxima and sums of integers: any division of the files into
parts, on any number of hosts, gives the same result to the last bit. Raw lines are read once and are not kept.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import MissingExtraError
from perfmon.sources import usable_cores

from .files import InspectorFile, batches
from .repair import LONGEST_LINE, has_invalid_text, is_positional, rewrite
from .schema import BUSBW, BYTES, COLUMNS, COMM_TYPE, IS_WRAPPED, RANK_BITS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

BATCH_BYTES = 1 << 29
"""Text that is aggregated at once. The memory that this takes depends on the operations in it, not on its size."""
_MEMORY_MB, _MEMORY_MB_PER_CORE = 256, 64
"""Memory of the engine while it reads; what does not fit is kept in temporary files."""
_COMPACT_ROWS = 4_000_000
TABLES = ("groups", "members", "files")
"""The mergeable tables: operations, ranks of communicators, and log files."""

_LONGEST_US = 10**12
_LATEST_US = 4_102_444_800_000_000
"""The year 2100: what is later is no time."""

_RECORDS = f"""
    SELECT *, CASE WHEN is_record THEN {COMM_TYPE} END AS comm_type, {BYTES} AS bytes, {IS_WRAPPED} AS is_wrapped
    FROM (
        SELECT *, raw_id IS NOT NULL AND "rank" BETWEEN 0 AND n_ranks - 1 AND n_ranks < {1 << RANK_BITS}
            AND nnodes BETWEEN 1 AND n_ranks AND at_us BETWEEN 1 AND {_LATEST_US} AS has_header,
            coll IS NOT NULL AND size IS NOT NULL AND exec_us BETWEEN 0 AND {_LONGEST_US}
            AND (is_p2p OR sn IS NOT NULL) AS has_figures,
            has_header AND has_figures AS is_record,
            has_header AND dropped IS NOT NULL AS is_stats
        FROM (
            SELECT filename AS file, header.id AS raw_id, header.comm_name AS name, header."rank" AS "rank",
                header.n_ranks AS n_ranks, header.nnodes AS nnodes, metadata.dump_timestamp_us AS at_us,
                metadata.hostname AS host, metadata.pid AS pid, metadata.inspector_output_format_version AS version,
                p2p_perf.p2p IS NOT NULL AS is_p2p,
                coalesce(coll_perf.coll, p2p_perf.p2p) AS coll, coll_perf.coll_sn AS sn, p2p_perf.p2p_peer AS peer,
                coalesce(coll_perf.coll_msg_size_bytes, p2p_perf.p2p_msg_size_bytes) AS size,
                coalesce(coll_perf.coll_exec_time_us, p2p_perf.p2p_exec_time_us) AS exec_us,
                coalesce(coll_perf.coll_busbw_gbs, p2p_perf.p2p_busbw_gbs) AS bw,
                coalesce(dump_stats.coll_dropped_total, 0) + coalesce(dump_stats.p2p_dropped_total, 0)
                    + (CASE WHEN dump_stats IS NULL THEN NULL ELSE 0 END) AS dropped,
                proxy_trace IS NOT NULL AS is_proxy
            FROM read_json($files, columns = {COLUMNS}, format = 'newline_delimited', ignore_errors = true,
                filename = true, maximum_object_size = {LONGEST_LINE + 1})))
"""

_FLAGS = {
    "headed": "raw_id IS NOT NULL",
    "known": "is_record OR is_stats",
    "wrapped": "is_wrapped",
    "stats": "is_stats",
    "proxies": "is_proxy",
    "orphans": "has_figures AND raw_id IS NULL",
}
"""Properties by which lines of a file are counted. As bits of one key they cost less than a count of each."""
_BITS = " + ".join(f"CASE WHEN {condition} THEN {1 << bit} ELSE 0 END" for bit, condition in enumerate(_FLAGS.values()))

_IDENTIFIED = f"""
    SELECT *, CASE WHEN is_record OR is_stats THEN raw_id END AS id, ({_BITS})::UTINYINT AS flags,
        round(CASE WHEN is_wrapped OR bw IS NULL OR NOT isfinite(bw) THEN {BUSBW} ELSE bw END * 1e6) AS micro_bw
    FROM ({_RECORDS})
"""

# Clamped, as implausible values are evaluated, too, before they are left out.
_PACKED = f'min((least(greatest(exec_us, 0), {_LONGEST_US}) << {RANK_BITS}) | "rank")'
_STATISTICS = {
    "records": ("count(*)", "sum"),
    "micro_bw": ("sum(micro_bw)", "sum"),  # in 1e-3 MB/s: doubles hold sums of integers exactly
    "exec_us": ("sum(exec_us::DOUBLE)", "sum"),
    "shortest": (_PACKED, "min"),
    "first_us": ("min(at_us)", "min"),
    "last_us": ("max(at_us)", "max"),
    "fewest_ranks": ("min(n_ranks)", "min"),
    "most_ranks": ("max(n_ranks)", "max"),
    "fewest_nodes": ("min(nnodes)", "min"),
    "most_nodes": ("max(nnodes)", "max"),
    "dropped": ("max(dropped)", "max"),
}
"""Each statistic of records: how it is computed, and how parts of it are merged."""
_OF_PARTS = _STATISTICS | {
    "name": ("max(name)", "max"),
    "version": ("max(version)", "max"),
    **{name: (f"coalesce(sum(records) FILTER (flags & {1 << bit} > 0), 0)", "sum") for bit, name in enumerate(_FLAGS)},
}
"""The same with those that are computed from parts of members: they are the same in all records of a part."""
_KEYS = {
    "groups": ("id", "comm_type", "coll", "sn", "bytes"),
    "members": ("id", "comm_type", "coll", "bytes", "n_ranks", "nnodes", "rank", "host", "pid", "peer"),
    "files": ("file",),
}
_PARTS_OF_MEMBERS = (*_KEYS["members"], "file", "name", "version", "flags")
_KEPT = {
    "groups": (
        "records", "micro_bw", "exec_us", "shortest", "first_us", "last_us",
        "fewest_ranks", "most_ranks", "fewest_nodes", "most_nodes",
    ),
    "members": ("records", "micro_bw", "exec_us", "shortest", "first_us", "last_us", "name", "dropped"),
    "files": ("records", *_FLAGS, "first_us", "last_us", "version"),
}  # fmt: skip


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def _combined(name: str) -> str:
    """Columns of a table whose parts are combined."""
    return ", ".join(f'{_OF_PARTS[column][1]}("{column}") AS "{column}"' for column in _KEPT[name])


def _from_scan(name: str) -> str:
    """Query for the rows of a table from those of a scan."""
    keys = _quoted(_KEYS[name])
    if name == "groups":
        return f"SELECT {keys}, {_quoted(_KEPT[name])} FROM scan WHERE is_group AND id IS NOT NULL AND sn IS NOT NULL"
    computed = ", ".join(
        f'{_OF_PARTS[column][0] if column not in _STATISTICS else f"{_STATISTICS[column][1]}({column})"} AS "{column}"'
        for column in _KEPT[name]
    )
    return (
        f"SELECT {keys}, {computed} FROM scan WHERE NOT is_group "
        f"{'AND id IS NOT NULL' if name == 'members' else ''} GROUP BY {keys}"
    )


_SCAN = f"""
    CREATE OR REPLACE TEMP TABLE scan AS
    SELECT grouping(sn) = 0 AS is_group, {_quoted(list(dict.fromkeys((*_KEYS["groups"], *_PARTS_OF_MEMBERS))))},
        {", ".join(f'{how} AS "{name}"' for name, (how, _) in _STATISTICS.items())}
    FROM ({_IDENTIFIED})
    GROUP BY GROUPING SETS (({_quoted(_KEYS["groups"])}), ({_quoted(_PARTS_OF_MEMBERS)}))
"""


_RENAME = """
    UPDATE scan SET file = renamed.path FROM (SELECT unnest($names) AS name, unnest($paths) AS path) AS renamed
    WHERE scan.file = renamed.name AND renamed.name <> renamed.path
"""


@dataclass(slots=True)
class RepairCounts:
    """Losses that only the rewriting of a file shows."""

    too_long: int = 0
    cut_files: int = 0
    unreadable: int = 0

    def add(self, other: RepairCounts) -> None:
        """Add those of other files."""
        self.too_long += other.too_long
        self.cut_files += other.cut_files
        self.unreadable += other.unreadable


@dataclass(frozen=True, slots=True)
class PartialTables:
    """Aggregated tables of some files as Parquet, fit for any other process or host, and what was lost in reading."""

    groups: bytes
    members: bytes
    files: bytes
    repairs: RepairCounts


def available() -> bool:
    """Return true if DuckDB is installed."""
    return find_spec("duckdb") is not None


def connect(cores: int | None = None) -> DuckDBPyConnection:
    """Open an empty database in memory (default: with all cores). Raises MissingExtraError without DuckDB."""
    if not available():
        raise MissingExtraError("reading logs of NCCL Inspector", "nccl")
    import duckdb

    connection = duckdb.connect(
        config={
            "threads": cores or usable_cores(),
            "preserve_insertion_order": False,
            # By default it would be a folder in the current one.
            "temp_directory": str(Path(tempfile.gettempdir(), f"perfmon-nccl-{os.getpid()}-{secrets.token_hex(4)}")),
        }
    )
    connection.execute("SET enable_progress_bar = false")
    return connection


def partial(files: Sequence[InspectorFile], *, cores: int | None = None) -> PartialTables:
    """Aggregate some files: the records of an operation are combined as far as these files have them."""
    with connect(cores) as connection:
        return _export(connection, load(connection, files, cores=cores))


def merge(tables: Sequence[PartialTables]) -> PartialTables:
    """Combine partial results; the result is a partial result again."""
    with connect() as connection:
        return _export(connection, load_tables(connection, tables))


def load_tables(connection: DuckDBPyConnection, tables: Sequence[PartialTables]) -> RepairCounts:
    """Create the merged tables of partial results in a database."""
    with tempfile.TemporaryDirectory(prefix="perfmon-nccl-") as folder:
        for name in TABLES:
            paths = []
            for at, part in enumerate(tables):
                path = Path(folder, f"{name}-{at}.parquet")
                path.write_bytes(getattr(part, name))
                paths.append(str(path))
            connection.execute(f"CREATE TEMP TABLE parts_{name} AS FROM read_parquet(?)", [paths])
    _compact(connection)
    repairs = RepairCounts()
    for part in tables:
        repairs.add(part.repairs)
    return repairs


def _export(connection: DuckDBPyConnection, repairs: RepairCounts) -> PartialTables:
    with tempfile.TemporaryDirectory(prefix="perfmon-nccl-") as folder:
        for name in TABLES:
            order = _quoted(_KEYS[name])
            path = str(Path(folder, name)).replace("'", "''")
            connection.execute(f"COPY (FROM {name} ORDER BY {order}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        groups, members, sources = (Path(folder, name).read_bytes() for name in TABLES)
        return PartialTables(groups, members, sources, repairs)


def load(
    connection: DuckDBPyConnection,
    files: Sequence[InspectorFile],
    progress: Callable[[int, int], None] | None = None,
    *,
    cores: int | None = None,
) -> RepairCounts:
    """Aggregate files into the tables `groups`, `members` and `files` of a database."""
    losses = RepairCounts()
    connection.execute(f"SET memory_limit = '{_MEMORY_MB + _MEMORY_MB_PER_CORE * max(2, cores or usable_cores())}MB'")
    total, done = sum(file.volume for file in files), 0
    parts = list(batches(files, BATCH_BYTES))
    for batch in parts:
        _scan(connection, batch, losses)
        _append(connection)
        done += sum(file.volume for file in batch)
        if progress is not None:
            progress(done, total)
    _compact(connection, is_single=len(parts) == 1)
    return losses


def execute_freely(connection: DuckDBPyConnection, statement: str) -> None:
    """Execute a statement, a second time without the limit of memory if that was not enough."""
    import duckdb

    try:
        connection.execute(statement)
    except duckdb.OutOfMemoryException:
        connection.execute("RESET memory_limit")  # then as much as the engine takes by itself
        connection.execute(statement)


def _append(connection: DuckDBPyConnection) -> None:
    for name in TABLES:
        rows = _from_scan(name)
        exists = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [f"parts_{name}"]).fetchone()
        execute_freely(
            connection, f"INSERT INTO parts_{name} {rows}" if exists else f"CREATE TEMP TABLE parts_{name} AS {rows}"
        )
    connection.execute("DROP TABLE scan")
    count = connection.execute("SELECT count(*) FROM parts_groups").fetchone()
    if count is not None and count[0] > _COMPACT_ROWS:
        _compact(connection)
        for name in TABLES:
            connection.execute(f"ALTER TABLE {name} RENAME TO parts_{name}")


def _compact(connection: DuckDBPyConnection, *, is_single: bool = False) -> None:
    """Combine the rows of one key; those of a single batch have distinct keys already."""
    for name in TABLES:
        if is_single:
            connection.execute(f"ALTER TABLE parts_{name} RENAME TO {name}")
            continue
        keys = _quoted(_KEYS[name])
        rows = f"SELECT {keys}, {_combined(name)} FROM parts_{name} GROUP BY {keys}"
        execute_freely(connection, f"CREATE TEMP TABLE {name} AS {rows}")
        connection.execute(f"DROP TABLE parts_{name}")


# --- Reading one batch: files that a single pass cannot read are rewritten first ---


def _scan(connection: DuckDBPyConnection, batch: Sequence[InspectorFile], losses: RepairCounts) -> None:
    """Aggregate one batch into the table `scan`."""
    import duckdb

    to_rewrite = {file.path for file in batch if _needs_rewriting(file)}
    for attempt in range(3):
        with (
            tempfile.TemporaryDirectory(prefix="perfmon-nccl-") as folder,
            _prepared(batch, to_rewrite, Path(folder)) as (names, counts),
        ):
            try:
                connection.execute(_SCAN, {"files": list(names)})
            except duckdb.OutOfMemoryException:
                if attempt == 2:
                    raise
                connection.execute("RESET memory_limit")
                continue
            except duckdb.Error:
                if attempt == 2:
                    raise
                # Which file it was is not known: those that can be damaged as a whole first, then all.
                to_rewrite = {file.path for file in batch if attempt or file.compressed} or {f.path for f in batch}
                continue
            connection.execute(_RENAME, {"names": list(names), "paths": list(names.values())})
        again = _repairable(connection, batch) - to_rewrite
        if not again or attempt == 2:
            break
        to_rewrite |= again
    losses.add(counts)


def _repairable(connection: DuckDBPyConnection, batch: Sequence[InspectorFile]) -> set[Path]:
    """Files with lines that rewriting recovers: without header, or with bytes that are no text."""
    rows = connection.execute(
        f"""
        SELECT file, orphans > 0 AND stats > 0, records > headed + orphans + proxies FROM ({_from_scan("files")})
        """
    ).fetchall()
    paths = {file.name: file.path for file in batch}
    files = ((paths[name], is_incomplete, has_others) for name, is_incomplete, has_others in rows)
    return {
        path for path, is_incomplete, has_others in files if is_incomplete or (has_others and has_invalid_text(path))
    }


@contextmanager
def _prepared(
    batch: Sequence[InspectorFile], to_rewrite: set[Path], folder: Path
) -> Iterator[tuple[dict[str, str], RepairCounts]]:
    """Names for the engine, each with the path that it stands for."""
    names: dict[str, str] = {}
    counts = RepairCounts()
    for at, file in enumerate(batch):
        if file.path not in to_rewrite:
            names[file.name] = file.name
            continue
        target = folder / f"{at}.jsonl"
        try:
            with target.open("wb") as out:
                done = rewrite(file.path, out, compressed=file.compressed)
        except OSError:
            counts.unreadable += 1
            target.write_bytes(b"")
        else:
            counts.too_long += done.too_long
            counts.cut_files += done.cut
        names[str(target)] = file.name
    yield names, counts


def _needs_rewriting(file: InspectorFile) -> bool:
    """Return true for a file whose lines depend on earlier ones, or whose name or ending the engine does not take."""
    name = file.name
    if any(sign in name for sign in "*?[]{}\ufffd") or file.compressed != name.endswith(".gz"):
        return True
    return is_positional(file.path, compressed=file.compressed)


@contextmanager
def records_of(connection: DuckDBPyConnection, file: InspectorFile) -> Iterator[str]:
    """Name of a table with the records of one file; it is there as long as the context."""
    import duckdb

    for rewritten in (_needs_rewriting(file), True):
        with (
            tempfile.TemporaryDirectory(prefix="perfmon-nccl-") as folder,
            _prepared([file], {file.path} if rewritten else set(), Path(folder)) as (names, _),
        ):
            try:
                connection.execute(f"CREATE OR REPLACE TEMP TABLE records AS {_IDENTIFIED}", {"files": list(names)})
            except duckdb.Error:
                if rewritten:
                    raise
                continue
        break
    try:
        yield "records"
    finally:
        connection.execute("DROP TABLE IF EXISTS records")
