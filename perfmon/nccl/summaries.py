"""Summary files of every (type, collective, size) with the names, columns and values of NVIDIA's exporter.

`coll_duration_us` is the time between the first and the last dump of an operation, as there. It is no duration of the
operation: kernel times are in the reports.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime
from functools import partial
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING

from .files import InspectorFile
from .schema import decimal_size

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

CSV_COLUMNS = (
    "id", "coll_sn", "coll_msg_size_bytes", "mean_coll_busbw_gbs", "log_count", "n_ranks", "nnodes",
    "coll_start_timestamp_us", "coll_end_timestamp_us", "coll_duration_us", "human_readable_coll_msg_size_bytes",
    "coll_start_datetime", "coll_end_datetime", "coll_duration_human",
)  # fmt: skip
_UNFIT = re.compile(r"[^A-Za-z0-9_]+")
_ROWS = 20_000
"""Rows that are held at once."""
_DAY_US = 86_400_000_000


def size_folder(size: int) -> str:
    """Name of the folder of a message size."""
    return f"msg_size_{size}_{decimal_size(size)}"


def file_part(collective: str) -> str:
    """Name of a collective as a part of a file name: names come from logs."""
    return _UNFIT.sub("_", collective[:40]) or "unnamed"


def _clock(column: str, offsets: list[tuple[int, int]]) -> str:
    """SQL for a local time with milliseconds; each offset from UTC holds from its time on."""
    cases = "".join(f"WHEN {column} >= {since} THEN {offset} " for since, offset in reversed(offsets))
    local = f"make_timestamp({column} + (CASE {cases}ELSE 0 END)::BIGINT)"
    return f"strftime({local}, '%Y-%m-%d %H:%M:%S.%g')"


def utc_offsets(start_us: int, end_us: int) -> list[tuple[int, int]]:
    """Offsets of local time from UTC in microseconds, each with the time since which it holds."""

    def offset(at_us: int) -> int:
        zone = datetime.fromtimestamp(at_us // 1_000_000).astimezone().utcoffset()
        return round(zone.total_seconds() * 1e6) if zone else 0

    offsets = [(0, offset(start_us))]
    for since in range(start_us, end_us + _DAY_US, _DAY_US):
        day_end = min(since + _DAY_US, end_us)
        if since < day_end and offset(day_end) != offsets[-1][1]:
            before = offsets[-1][1]
            seconds = range(since // 1_000_000, day_end // 1_000_000 + 1)
            at = bisect_right(seconds, False, key=lambda second: offset(second * 1_000_000) != before)
            offsets.append((seconds[min(at, len(seconds) - 1)] * 1_000_000, offset(day_end)))
    return offsets


def _lines(
    connection: DuckDBPyConnection, start_us: int, end_us: int
) -> Iterator[tuple[str, str, Iterator[tuple[int, str]]]]:
    """(type, collective, its lines with their message size, in order of sizes) of all operations."""
    offsets = utc_offsets(start_us, end_us)
    line = f"""concat_ws(',',
        CASE WHEN regexp_matches(id, '[",\\r\\n]') THEN '"' || replace(id, '"', '""') || '"' ELSE id END,
        sn, bytes, coalesce(busbw::VARCHAR, ''), records,
        '[' || CASE WHEN fewest_ranks < n_ranks THEN fewest_ranks || ' ' ELSE '' END || n_ranks || ']',
        '[' || CASE WHEN fewest_nodes < nnodes THEN fewest_nodes || ' ' ELSE '' END || nnodes || ']',
        first_us, last_us, last_us - first_us, $size,
        {_clock("first_us", offsets)}, {_clock("last_us", offsets)},
        CASE WHEN last_us - first_us < 1000 THEN format('{{:.1f}}μs', (last_us - first_us)::DOUBLE)
            WHEN last_us - first_us < 1000000 THEN format('{{:.1f}}ms', (last_us - first_us) / 1e3)
            ELSE format('{{:.1f}}s', (last_us - first_us) / 1e6) END)"""
    kinds = connection.execute("SELECT DISTINCT comm_type, coll, bytes FROM ops ORDER BY ALL").fetchall()
    for comm_type, coll in dict.fromkeys((comm_type, coll) for comm_type, coll, _ in kinds):
        sizes = [size for of_type, of_coll, size in kinds if (of_type, of_coll) == (comm_type, coll)]
        cursor = connection.execute(
            f"""
            SELECT bytes, {line.replace("$size", "size_text")}
            FROM ops JOIN (SELECT unnest($sizes::UBIGINT[]) AS bytes, unnest($texts::VARCHAR[]) AS size_text)
                USING (bytes)
            WHERE comm_type = $comm_type AND coll = $coll ORDER BY bytes, sn, id
            """,
            {
                "sizes": sizes,
                "texts": [decimal_size(size) for size in sizes],
                "comm_type": comm_type,
                "coll": coll,
            },
        )
        yield comm_type, coll, chain.from_iterable(iter(partial(cursor.fetchmany, _ROWS), []))


def write_summaries(connection: DuckDBPyConnection, folder: Path, start_us: int, end_us: int) -> int:
    """Write the summary files below `folder/summary` and return their number. Raises OSError."""
    count = 0
    header = ",".join(CSV_COLUMNS)
    for comm_type, coll, lines in _lines(connection, start_us, end_us):
        for size, mine in groupby(lines, key=lambda row: row[0]):
            below = folder / "summary" / size_folder(size)
            below.mkdir(parents=True, exist_ok=True)
            name = f"summary_{comm_type}_{file_part(coll)}_{size}.csv"
            with (below / name).open("w", encoding="utf-8", newline="\n") as file:
                file.write(f"{header}\n")
                file.writelines(f"{line}\n" for _, line in mine)
            count += 1
    return count


def write_parquet(connection: DuckDBPyConnection, files: list[InspectorFile], folder: Path) -> int:
    """Write the records of each log file as Parquet below `folder/parquet_files` and return the number of files.

    Files of the same name in different folders get different names. Raises OSError.
    """
    from .aggregate import records_of

    below = folder / "parquet_files"
    below.mkdir(parents=True, exist_ok=True)
    taken: set[str] = set()
    for file in files:
        # The exporter removes the last ending only: `x.log.gz` becomes `x.log.parquet`.
        stem = name = Path(file.name).stem
        number = 1
        while name.lower() in taken:
            number += 1
            name = f"{stem}_{number}"
        taken.add(name.lower())
        target = str(below / f"{name}.parquet").replace("'", "''")
        with records_of(connection, file) as query:
            connection.execute(
                f"""
                COPY (SELECT id, name AS comm_name, "rank", n_ranks, nnodes, comm_type,
                    is_p2p, coll, sn AS coll_sn, peer AS p2p_peer, bytes AS coll_msg_size_bytes,
                    exec_us AS coll_exec_time_us, micro_bw / 1e6 AS coll_busbw_gbs,
                    version AS inspector_output_format_version, at_us AS dump_timestamp_us, host AS hostname, pid
                FROM {query} WHERE coll IS NOT NULL AND id IS NOT NULL)
                TO '{target}' (FORMAT parquet, COMPRESSION zstd)
                """
            )
    return len(files)
