"""Files of a report about NCCL Inspector logs: summaries, plots, pages, and a log of the work."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from perfmon.core import InputError, MissingExtraError, UsageError, counted
from perfmon.nccl import (
    Ceiling,
    Job,
    JobAnalysis,
    decimal_size,
    important_sizes,
    points,
    write_parquet,
    write_summaries,
)

from .nccl_summary import nccl_document, nccl_markdown
from .plots import write_nccl_plots
from .report_page import web_page

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

OWN = ("summary", "parquet_files", "output.log", "SUMMARY.md", "summary.json", "report.html")
"""Names in the folder of a report."""
_PICTURES = 24


@dataclass(frozen=True, slots=True)
class NcclFiles:
    """Options for the files that are written in addition to summaries and pages."""

    every_plot: bool = False
    parquet: bool = False
    ceiling: Ceiling | None = None


class WorkLog:
    """The lines of `output.log`: time, level, message."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._began = time.monotonic()

    def add(self, message: str, level: str = "INFO") -> None:
        """Add a line."""
        now = datetime.now().astimezone()
        self.lines.append(f"{now:%Y-%m-%d %H:%M:%S},{now.microsecond // 1000:03d} - {level} - {message}")

    def took(self) -> str:
        """Seconds since the start."""
        return f"{time.monotonic() - self._began:.1f} s"


def prepare_folder(folder: Path) -> None:
    """Create the folder of a report, or empty that of an earlier one. Raises UsageError for any other folder."""
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if names and not (names <= set(OWN) and "output.log" in names):
            raise UsageError(f"{folder}: holds other files (choose a new folder)")
        folder.mkdir(parents=True, exist_ok=True)
        for name in sorted(names):
            path = folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error} (choose another folder)") from None


def write_nccl_report(job: Job, found: JobAnalysis, folder: Path, wanted: NcclFiles, log: WorkLog) -> None:
    """Write all files of a report. Raises InputError when the folder cannot be written."""
    log.add(f"{counted(len(job.files), 'log file')}: {counted(found.records, 'record')} ({log.took()})")
    for reason, count in found.lost.items():
        log.add(f"{counted(count, 'line')} skipped: {reason}", "WARNING")
    for note in found.notes:
        log.add(note, "WARNING")
    try:
        _write(job, found, folder, wanted, log)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error} (choose another folder)") from None


def _write(job: Job, found: JobAnalysis, folder: Path, wanted: NcclFiles, log: WorkLog) -> None:
    count = write_summaries(job.connection, folder, found.start_us, found.end_us)
    log.add(f"{counted(count, 'summary file')} written ({log.took()})")
    pictures = _step(lambda: write_nccl_plots(job.connection, found, folder, every=wanted.every_plot), log)
    log.add(f"{counted(len(pictures), 'plot')} written ({log.took()})")
    if wanted.parquet:
        count = write_parquet(job.connection, job.files, folder)
        log.add(f"{counted(count, 'Parquet file')} written ({log.took()})")
    shown = [str(path.relative_to(folder)) for path in pictures if path.parent == folder / "summary"][:_PICTURES]
    _text(folder / "SUMMARY.md", nccl_markdown(found, shown, wanted.ceiling))
    _text(folder / "summary.json", json.dumps(nccl_document(found), indent=2, allow_nan=False) + "\n")
    _text(folder / "report.html", _page(job.connection, found))
    for finding in found.findings:
        log.add(f"{finding.title}: {finding.sentence}", "WARNING")
    log.add(f"done ({log.took()})")
    _text(folder / "output.log", "".join(f"{' '.join(line.splitlines())}\n" for line in log.lines))


def _step(draw: Callable[[], list[Path]], log: WorkLog) -> list[Path]:
    """Plots need matplotlib; without it there is everything else."""
    try:
        return draw()
    except MissingExtraError as error:
        print(f"perfmon: plots were left out: {error}", file=sys.stderr)
        log.add(f"plots were left out: {error}", "WARNING")
        return []


def _text(file: Path, text: str) -> None:
    file.write_text(text, encoding="utf-8", newline="\n")


# --- The page ---

_SIZES = 40
_POINTS = 400
_RANKS = 64
_LINKS = 64
_ROWS = 500


def _page(connection: DuckDBPyConnection, found: JobAnalysis) -> str:
    """The report as one HTML file with interactive plots, which needs no network."""
    chosen = important_sizes(found.by, _SIZES)
    known = points(connection, [(stats.comm_type, stats.collective, stats.size) for stats in chosen], _POINTS)
    document: dict[str, Any] = nccl_document(found)
    document["by"] = document["by"][:_ROWS]
    document["ranks"] = [
        row | {"parts": [round(share, 4) for share in wait.shares]}
        for row, wait in zip(document["ranks"][:_RANKS], found.ranks[:_RANKS], strict=True)
    ]
    document["links"] = document["links"][:_LINKS]
    document["pairs"] = document["pairs"][:_LINKS]
    document["series"] = [
        {
            "comm_type": stats.comm_type,
            "collective": stats.collective,
            "bytes": stats.size,
            "size": decimal_size(stats.size),
            "points": [[sn, round(busbw, 3)] for sn, busbw in known.get(key, [])],
        }
        for stats in chosen
        if (key := (stats.comm_type, stats.collective, stats.size)) in known
    ]
    return web_page("NCCL collectives", "nccl.html", document, scripts=["nccl.js"])
