"""The commands that set perfmon up: `doctor`, `completion`, `calibrate` (thresholds) and `formats`."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, InputError, load_config

from . import COMMANDS, build_parser
from ._options import (
    add_config_argument,
    add_data_arguments,
    add_formats_argument,
    add_text_output_argument,
    add_time_range_arguments,
    check_files_exist,
    completes_files,
    examine_logs,
    existing_folders,
    read_config,
    seconds,
    warn,
    write_output,
)

if TYPE_CHECKING:
    from perfmon.diagnosis import Calibration, Diagnosis, RunInfo
    from perfmon.sources.formats import Pack


class Calibrate:
    """The command `calibrate`."""

    DESCRIPTION = """\
Learn thresholds from a run that is known to be healthy, for this model and hardware. The file is for --bands,
band_files in config.toml, or ~/.config/perfmon/bands/. Metrics with too few samples keep the built-in thresholds.

A LOG is a source as for analyze: a file, a folder, a quoted glob, an archive of logs, a recording."""
    EXAMPLE = "perfmon calibrate good-run/ -o bands.toml"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        completes_files(parser.add_argument("spec", metavar="LOG", nargs="+", help="logs of a healthy run"))
        add_text_output_argument(parser, "output file")
        add_time_range_arguments(parser)
        add_data_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from perfmon.core import BUILTIN, FIGURES, counted, plain
        from perfmon.diagnosis import FEWEST, as_toml, learn, uncalibrated
        from perfmon.reports import keep_what_was_read
        from perfmon.rules import CALIBRATED, bands_of, load_bands

        config = replace(read_config(args), baseline=BUILTIN)  # not measured by what it has just taught
        since, until = args.since, args.until
        snapshot, view, knowledge = examine_logs(config, args.spec, since=since, until=until, detail=FIGURES)
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


class Formats:
    """The command `formats`."""

    DESCRIPTION = "A format is a TOML file with patterns and samples that defines how the lines of a log are parsed."
    EXAMPLE = "perfmon formats learn train.log --id my-trainer --install"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", metavar="ACTION", title="actions", required=True)
        learn = actions.add_parser(
            "learn",
            help="propose a format for a log that perfmon does not recognise",
            epilog=f"example: {Formats.EXAMPLE}",
        )
        completes_files(learn.add_argument("log", metavar="LOG", help="log file; its first 64 MB are used"))
        learn.add_argument("--id", metavar="NAME", help="name of the format (default: the name of the log)")
        goes = learn.add_mutually_exclusive_group()
        completes_files(goes.add_argument("-o", "--output", metavar="FILE", type=Path, help="output file"))
        goes.add_argument("--install", action="store_true", help="install it in the user's configuration")
        learn.add_argument("--all", action="store_true", help="include lines that perfmon already recognises")
        listing = actions.add_parser("list", help="list all formats", epilog="example: perfmon formats list")
        check = actions.add_parser(
            "check", help="validate format files", epilog="example: perfmon formats check my-trainer.toml"
        )
        completes_files(check.add_argument("files", metavar="FILE", type=Path, nargs="+", help="files to check"))
        for action in (learn, listing, check):
            add_formats_argument(action)
            add_config_argument(action)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        return {"learn": _learn, "list": _list, "check": _check}[args.action](args)


def _packs(args: argparse.Namespace) -> tuple[Pack, ...]:
    from perfmon.sources.formats import load_packs

    return load_packs((*load_config(args.config).format_dirs, *existing_folders(args.formats)))


def _learn(args: argparse.Namespace) -> int:
    from perfmon.sources.formats import format_name, installed, keep, learn

    name, packs = format_name(args.log, args.id or ""), _packs(args)
    target = installed(name, packs) if args.install else args.output
    proposal = learn(args.log, name, packs, args.all)
    if target is None:
        print(proposal.toml, end="")
        return ExitCode.DONE
    names = ", ".join(proposal.found)
    print(f"{keep(proposal, target)}: reads {proposal.recognised} of {proposal.lines} lines ({names})")
    return ExitCode.DONE


def _list(args: argparse.Namespace) -> int:
    packs = _packs(args)
    width = max(len(pack.id) for pack in packs)
    for pack in packs:
        print(f"{pack.id:{width}}  {len(pack.patterns):3} patterns  {pack.title}")
    return ExitCode.DONE


def _check(args: argparse.Namespace) -> int:
    from perfmon.core import DataFileError
    from perfmon.sources.formats import load_pack, sample_problems

    packs = _packs(args)
    problems = []
    check_files_exist(args.files)
    for file in args.files:
        try:
            pack = load_pack(file)
        except DataFileError as error:
            problems.append(str(error))
            continue
        problems += [f"{file}: {problem}" for problem in sample_problems(pack, packs)]
    for problem in problems:
        print(problem)
    return ExitCode.FOUND if problems else ExitCode.DONE


_PATIENCE_S = 5.0
"""A driver that no process holds open takes seconds to begin; what answers sooner is not waited for."""
SHELLS = ("bash", "zsh", "fish")
_EVALUATED, _SOURCED = "$zsh_eval_context[-1] == eval", "$zsh_eval_context[-1] == (eval|file)"
"""The condition in shtab's script for zsh, and one that also works with `source`."""


class Doctor:
    """The command `doctor`."""

    DESCRIPTION = """\
Check what perfmon can use on this machine: terminal, logs, GPUs, endpoints, Ray, Slurm, SSH, libraries, configuration.
Each problem is shown with its impact and its fix. Nothing is changed.

The exit code is 0, or 2 if the configuration is broken."""
    EXAMPLE = "perfmon doctor"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the results as JSON")
        parser.add_argument(
            "--patience", metavar="TIME", type=seconds, default=_PATIENCE_S, help="maximum time to wait (default: 5s)"
        )
        add_data_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from perfmon.doctor import PROBES, Probe, State, configuration, document, examine, lines

        settings = configuration(lambda: read_config(args))
        first = Probe("configuration", PROBES[0].group, "configuration", settings, "configuration files are valid")
        checks = examine([first, *PROBES], args.patience)
        if args.json:
            json.dump(document(checks), sys.stdout, indent=2, ensure_ascii=False)
            sys.stdout.write("\n")
        else:
            print("\n".join(lines(checks)))
        broken = any(check.finding.state is State.BROKEN for check in checks)
        return ExitCode.USAGE if broken else ExitCode.DONE


class Completion:
    """The command `completion`."""

    DESCRIPTION = "Print the script that completes perfmon's commands, options and files."
    EXAMPLE = 'eval "$(perfmon completion bash)"   (zsh alike; fish: perfmon completion fish | source)'

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("shell", choices=SHELLS, help="target shell")

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        import shtab

        print(shtab.complete(build_parser(tuple(COMMANDS)), args.shell).replace(_EVALUATED, _SOURCED))
        return 0
