"""`perfmon calibrate`: limits from a healthy run."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, InputError

from ._options import (
    ProgressBar,
    add_data_arguments,
    add_text_output_argument,
    completes_files,
    read_config,
    warn,
    write_output,
)

if TYPE_CHECKING:
    from perfmon.diagnosis import Calibration, Diagnosis, RunInfo

DESCRIPTION = """\
Learn thresholds from a run that is known to be healthy, for this model and hardware. The file is for --bands,
band_files in config.toml, or ~/.config/perfmon/bands/. Metrics with too few samples keep the built-in thresholds.

A LOG is a source as for analyze: a file, a folder, a quoted glob, an archive of logs, a recording."""
EXAMPLE = "perfmon calibrate good-run/ -o bands.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completes_files(parser.add_argument("spec", metavar="LOG", nargs="+", help="logs of a healthy run"))
    add_text_output_argument(parser, "output file")
    parser.add_argument("--since", metavar="TIME", help="ignore earlier lines (TIME as for analyze)")
    parser.add_argument("--until", metavar="TIME", help="ignore later lines")
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from perfmon.core import BUILTIN, FIGURES, counted, plain
    from perfmon.diagnosis import FEWEST, as_toml, learn, uncalibrated
    from perfmon.pipeline import Options, examine
    from perfmon.reports import keep_what_was_read
    from perfmon.rules import CALIBRATED, bands_of, load_bands

    config = replace(read_config(args), baseline=BUILTIN)  # not measured by what it has just taught
    options = Options(
        specs=tuple(args.spec), since=args.since, until=args.until, jobs=config.jobs, config=config, detail=FIGURES
    )
    with ProgressBar("reading logs") as bar:
        snapshot, view, knowledge = examine(options, bar)
    name = plain(" ".join("stdin" if spec == "-" else Path(spec).name or spec for spec in args.spec), 80)
    bands = bands_of(view.store, uncalibrated(knowledge.bands, load_bands()))
    calibration = learn(view.metrics, bands, f"{CALIBRATED} {name}{_dated(snapshot.run)}")
    if not (calibration.learned or calibration.held_already):
        raise InputError(f"{name}: too few samples: no metric has {FEWEST} (name a longer run)")
    keep_what_was_read(args.output, [source.spec for source in snapshot.run.sources])
    _warn(snapshot, calibration)
    count = counted(len(calibration.learned), "metric")
    text = as_toml(calibration, _heading(name, snapshot.run))
    write_output(text, args.output, ".toml", f"wrote thresholds of {count} to")
    return ExitCode.DONE


def _dated(run: RunInfo) -> str:
    """The day of the run by its own clock, where that has one."""
    from perfmon.core import YEARLESS_S, TimeBase

    if run.time_base is not TimeBase.WALL or run.start < YEARLESS_S:
        return ""
    return f" of {datetime.fromtimestamp(run.start, UTC):%Y-%m-%d}"


def _heading(name: str, run: RunInfo) -> list[str]:
    from perfmon.core import counted, format_seconds

    logs = counted(len(run.sources), "log")
    return [
        f"Thresholds learned by perfmon from {name}{_dated(run)}: {format_seconds(run.wall_s)}, {logs}.",
        "`origin` gives the number of samples, `note` their statistics.",
        "Use: perfmon analyze LOGS --bands THIS_FILE, or copy it to ~/.config/perfmon/bands/.",
    ]


def _warn(snapshot: Diagnosis, calibration: Calibration) -> None:
    bad = {f.signature for f in snapshot.findings if f.severity.value != "info" and f.state != "pending"}
    if bad:
        names = ", ".join(sorted(bad))
        warn(f"this run has findings ({names}): the thresholds treat that as healthy")
    if not calibration.learned:
        names = ", ".join(calibration.held_already)
        warn(f"nothing to learn, the thresholds already fit: {names}")
    if calibration.too_few:
        names = ", ".join(f"{name} ({count})" for name, count in calibration.too_few.items())
        warn(f"too few samples, thresholds unchanged: {names}")
