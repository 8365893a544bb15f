"""Files of an analysis in a folder (`perfmon analyze -o DIR`): written whole or not at all."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from perfmon.core import InputError, MissingExtraError, UsageError, format_share, replacing
from perfmon.diagnosis import Diagnosis, MetricStats

from . import plots
from .json_report import json_text
from .layout import STATISTICS, limits_text, one_line
from .sections import slowest_text, timeline_text
from .snapshot_page import render_page

# --- One `*_stats.txt`: the statistics of a metric, one figure a line, as a person and `awk` can read it ---


def stats_text(metric: MetricStats) -> Iterator[str]:
    """Name and unit, then `statistic value` in that unit, then the share of samples in each band."""
    yield f"{one_line(metric.name, 200)}" + (f" ({one_line(metric.unit, 40)})" if metric.unit else "")
    for name in STATISTICS:
        yield f"{name:<9}{getattr(metric.summary, name):.10g}"
    yield f"{'last':<9}{metric.last:.10g}"
    if metric.band is None:
        return
    yield f"level    {metric.band}" + (
        f" (thresholds from {one_line(metric.bands_from, 80)})" if metric.bands_from else ""
    )
    for band, limit in zip(("good", "warning", "critical"), limits_text(metric), strict=True):
        yield f"{band:<9}{format_share(metric.band_shares.get(band, 0.0)):>8} of samples  {limit}"


# --- `perfmon analyze -o DIR`: all files of an analysis in a folder of their own ---

_ALWAYS = {"queue_ms": "queue_ms_stats.txt", "rpc_ms": "rpc_ms_stats.txt", "wait_ms": "ckpt_wait_stats.txt"}
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 80
_SHOWN_METRICS = 1000
_ATTEMPTS = 1000


def write_analysis(snapshot: Diagnosis, folder: Path, now: datetime) -> Path:
    """Write `folder/analysis_<timestamp>/` and return it; an existing analysis is never overwritten.

    Plots are left out, with a message on stderr, where matplotlib is not installed. Raises InputError when `folder`
    cannot be written.
    """
    made: Path | None = None
    try:
        made = _new_folder(folder, now)
        _write_all(snapshot, made, now)
    except OSError as error:
        if made is not None:
            shutil.rmtree(made, ignore_errors=True)  # half an analysis would be taken for a whole one
        raise InputError(f"{folder}: cannot be written: {error.strerror or error} (choose another folder)") from None
    return made


def _new_folder(folder: Path, now: datetime) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"analysis_{now:%Y%m%d_%H%M%S}"
    for attempt in range(1, _ATTEMPTS):
        made = folder / (stem if attempt == 1 else f"{stem}_{attempt}")
        try:
            made.mkdir()
        except FileExistsError:
            continue
        return made
    raise InputError(f"{folder}: holds {_ATTEMPTS} analyses of this second already (choose another folder)")


def _write_all(snapshot: Diagnosis, made: Path, now: datetime) -> None:
    for name, metric_name in stats_files(snapshot.metrics).items():
        metric = snapshot.metrics.get(metric_name)
        _write(made / name, stats_text(metric) if metric else [metric_name, "count    0", "not observed"])
    _write(made / "slowest_updates.txt", slowest_text(snapshot))
    _write(made / "timeline.txt", timeline_text(snapshot))
    _write(made / "summary.json", [json_text(snapshot).rstrip("\n")])
    pictures: list[str] = []
    notes: list[str] = []
    if plots.available():
        pictures = [path.name for path in plots.write_plots(snapshot, made)]
    else:
        notes = [f"Plots were left out: {MissingExtraError('drawing them', 'plots')}"]
        print(f"perfmon: {notes[0]}", file=sys.stderr)
    page = render_page(snapshot, made=now, notes=notes, images=pictures, resolved=True)
    _write(made / "SUMMARY.md", [page.rstrip("\n")])


def stats_files(metrics: Iterable[str]) -> dict[str, str]:
    """File name → metric name: every metric has its own file, whatever characters its name has."""
    named = {file: metric for metric, file in _ALWAYS.items()}
    taken = {file.lower() for file in named}
    for metric in [metric for metric in metrics if metric not in _ALWAYS][:_SHOWN_METRICS]:
        stem = _UNFIT.sub("_", metric[: 4 * _LONGEST])[:_LONGEST].strip("._-") or "metric"
        file, number = f"{stem}_stats.txt", 1
        while file.lower() in taken:
            number += 1
            file = f"{stem}_{number}_stats.txt"
        taken.add(file.lower())
        named[file] = metric
    return named


def _write(path: Path, lines: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.writelines(f"{line}\n" for line in lines)


# --- Writes a report where it was asked for: whole or not at all, so that no one reads half of one ---


def keep_what_was_read(target: Path | None, read: Iterable[str]) -> None:
    """Raises UsageError where `target` is one of the files that were read: a log is written once, and not by us."""
    if target is None or not target.is_file():
        return
    for name in read:
        with suppress(OSError):  # stdin, a log in an archive
            if target.samefile(name):
                raise UsageError(f"{target}: this would overwrite a log that was read (choose another place)")


def save(text: str, target: Path, made: datetime, suffix: str = ".md") -> Path:
    """Writes `text` to `target`, which it replaces; in a folder, to a file named after the moment.

    Returns the file. Raises InputError when it cannot be written; what was there before is then still there.
    """
    file = _named(target, made, suffix) if target.is_dir() else target
    try:
        if file.exists() and not file.is_file():  # a pipe, a device
            file.write_text(text, encoding="utf-8")
        else:
            with replacing(os.path.realpath(file), 0o666) as out:
                if file.exists():
                    os.fchmod(out.fileno(), file.stat().st_mode & 0o777)
                out.write(text.encode())
    except OSError as error:
        raise InputError(f"{file}: cannot be written: {error.strerror or error} (choose another place)") from None
    return file


def _named(folder: Path, made: datetime, suffix: str) -> Path:
    stem = f"perfmon_{made:%Y%m%d_%H%M%S}"
    names = (folder / f"{stem}{f'_{number}' if number > 1 else ''}{suffix}" for number in range(1, 1000))
    return next((name for name in names if not name.exists()), folder / f"{stem}{suffix}")
