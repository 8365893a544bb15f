"""Summary files have the layout, columns and values of NVIDIA's exporter."""

from __future__ import annotations

import csv
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from lab.nccl_logs import Plan, write
from perfmon.nccl import Job, decimal_size, write_parquet, write_summaries
from perfmon.nccl.summaries import CSV_COLUMNS, file_part, utc_offsets

pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")


@pytest.fixture
def berlin() -> Iterator[None]:
    """A time zone with summer time."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


def plain_rows(folder: Path) -> dict[str, list[dict[str, str]]]:
    """The rows of every file as the exporter defines them, computed record by record."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for path in folder.glob("*.log"):
        for text in path.read_text().splitlines():
            record = json.loads(text)
            head, coll = record["header"], record["coll_perf"]
            kind = "mixed"
            if head["n_ranks"] == 1:
                kind = "single-rank"
            elif head["nnodes"] == 1:
                kind = "nvlink-only"
            elif head["n_ranks"] == head["nnodes"]:
                kind = "hca-only"
            groups[kind, coll["coll"], coll["coll_msg_size_bytes"], coll["coll_sn"], head["id"]].append(record)
    files: dict[str, list[dict[str, str]]] = defaultdict(list)
    for (kind, coll, size, sn, comm), records in sorted(groups.items()):
        stamps = [record["metadata"]["dump_timestamp_us"] for record in records]
        duration = max(stamps) - min(stamps)
        human = f"{duration:.1f}μs" if duration < 1000 else f"{duration / 1000:.1f}ms"
        human = human if duration < 1_000_000 else f"{duration / 1_000_000:.1f}s"
        means = [record["coll_perf"]["coll_busbw_gbs"] for record in records]
        row = {
            "id": comm,
            "coll_sn": sn,
            "coll_msg_size_bytes": size,
            "mean_coll_busbw_gbs": sum(means) / len(means),
            "log_count": len(records),
            "n_ranks": f"[{records[0]['header']['n_ranks']}]",
            "nnodes": f"[{records[0]['header']['nnodes']}]",
            "coll_start_timestamp_us": min(stamps),
            "coll_end_timestamp_us": max(stamps),
            "coll_duration_us": duration,
            "human_readable_coll_msg_size_bytes": decimal_size(size),
            "coll_start_datetime": local(min(stamps)),
            "coll_end_datetime": local(max(stamps)),
            "coll_duration_human": human,
        }
        name = f"msg_size_{size}_{decimal_size(size)}/summary_{kind}_{coll}_{size}.csv"
        files[name].append({key: str(value) for key, value in row.items()})
    return files


def local(at_us: int) -> str:
    """Local time as the exporter writes it."""
    return datetime.fromtimestamp(at_us / 1_000_000).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


@pytest.mark.usefixtures("berlin")
def test_files_are_those_of_the_exporter(tmp_path: Path) -> None:
    write(tmp_path / "logs", Plan(nodes=2, gpus=2, steps=4, layers=2))
    with Job([tmp_path / "logs"]) as job:
        found = job.analyze()
        count = write_summaries(job.connection, tmp_path / "out", found.start_us, found.end_us)
    expected = plain_rows(tmp_path / "logs")
    written = {str(path.relative_to(tmp_path / "out" / "summary")): path for path in (tmp_path / "out").rglob("*.csv")}
    assert count == len(written)
    assert set(written) == set(expected)
    for name, path in written.items():
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert tuple(rows[0]) == CSV_COLUMNS
        assert len(rows) == len(expected[name])
        for row, wanted in zip(rows, expected[name], strict=True):
            assert float(row.pop("mean_coll_busbw_gbs")) == pytest.approx(
                float(wanted.pop("mean_coll_busbw_gbs")), 1e-12
            )
            assert row == wanted


@pytest.mark.usefixtures("berlin")
def test_a_job_may_cross_the_start_of_summer_time() -> None:
    start = 1774742400_000_000  # 2026-03-29 00:00 UTC, an hour before
    offsets = utc_offsets(start, start + 2 * 3600_000_000)
    assert offsets == [(0, 3600_000_000), (start + 3600_000_000, 7200_000_000)]


def test_sizes_are_decimal() -> None:
    sizes = (0, 1, 999, 1000, 8 << 20, 128 << 20, 1 << 30)
    assert [decimal_size(size) for size in sizes] == [
        "0B", "1.00B", "999.00B", "1.00KB", "8.39MB", "134.22MB", "1.07GB",
    ]  # fmt: skip


def test_names_from_logs_are_no_paths() -> None:
    assert file_part("../../etc/x") == "_etc_x"
    assert file_part("/") == "_"
    assert len(file_part("x" * 500)) == 40


def test_parquet_has_every_record_under_names_of_its_own(tmp_path: Path) -> None:
    plan = Plan(nodes=1, gpus=2, steps=2, layers=1, form="4.3")
    write(tmp_path / "logs" / "a", plan)
    for file in write(tmp_path / "logs" / "b", plan).save(tmp_path / "logs" / "b"):  # the same names, not copies
        file.write_text(file.read_text().replace('"git_rev":""', '"git_rev":"b"'))
    with Job([tmp_path / "logs"]) as job:
        found = job.analyze()
        assert write_parquet(job.connection, job.files, tmp_path / "out") == 4
        rows = job.connection.execute(
            "SELECT count(*), count(DISTINCT hostname), max(coll_busbw_gbs) > 0 FROM read_parquet(?)",
            [str(tmp_path / "out" / "parquet_files" / "*.parquet")],
        ).fetchone()
    assert len(list((tmp_path / "out" / "parquet_files").iterdir())) == 4
    assert rows == (found.records, 1, True)
