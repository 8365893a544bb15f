"""`perfmon analyze -o DIR`: all files of an analysis in a folder of their own."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from perfmon.errors import InputError, MissingExtraError
from perfmon.snapshot import Snapshot

from . import markdown, plots
from .document import document
from .statistics import absent_text, stats_text
from .timeline import slowest_text, timeline_text

_ALWAYS = {"queue_ms": "queue_ms_stats.txt", "rpc_ms": "rpc_ms_stats.txt", "wait_ms": "ckpt_wait_stats.txt"}
_UNFIT = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 80
_SHOWN_METRICS = 1000
_ATTEMPTS = 1000


def write_analysis(snapshot: Snapshot, folder: Path, now: datetime, with_plots: bool | None = None) -> Path:
    """Writes `folder/analysis_<timestamp>/` and returns it; an existing analysis is never overwritten.

    `with_plots`: True demands them (MissingExtraError without matplotlib), False leaves them out, None writes them
    where matplotlib is installed and says on stderr when it is not. Raises InputError when `folder` cannot be
    written.
    """
    if with_plots and not plots.available():
        raise MissingExtraError("drawing plots", "plots")
    made: Path | None = None
    try:
        made = _new_folder(folder, now)
        _write_all(snapshot, made, with_plots)
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


def _write_all(snapshot: Snapshot, made: Path, with_plots: bool | None) -> None:
    for name, metric_name in stats_files(snapshot.metrics).items():
        metric = snapshot.metrics.get(metric_name)
        _write(made / name, stats_text(metric) if metric else absent_text(metric_name))
    _write(made / "slowest_updates.txt", slowest_text(snapshot))
    _write(made / "timeline.txt", timeline_text(snapshot))
    _write(made / "summary.json", [json.dumps(document(snapshot), indent=2, allow_nan=False)])
    pictures, notes = _pictures(snapshot, made, with_plots)
    _write(made / "SUMMARY.md", [markdown.render(snapshot, notes, pictures).rstrip("\n")])


def _pictures(snapshot: Snapshot, made: Path, with_plots: bool | None) -> tuple[list[str], list[str]]:
    if with_plots is False:
        return [], []
    if plots.available():
        return [path.name for path in plots.write_plots(snapshot, made)], []
    left_out = f"Plots were left out: {MissingExtraError('drawing them', 'plots')}"
    print(f"perfmon: {left_out}", file=sys.stderr)
    return [], [left_out]


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
