"""`perfmon runs`, and plain `perfmon`: the runs in a folder and on this machine, one of which is opened."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, InputError, PerfmonError, UsageError, evidence_text, plain

from ._options import add_data_arguments, completes_folders, read_config
from ._remote import add_polls_argument, feed_of
from ._screen import Screen, SourceCheck, add_screen_arguments, check_keys, themes_for

if TYPE_CHECKING:
    from perfmon.core import Config
    from perfmon.monitor import Feed
    from perfmon.sources import LogGroup
    from perfmon.sources.pollers import PollRequest
    from perfmon.sources.remote import Discovery
    from perfmon.status import RunRow

DESCRIPTION = """\
List the runs whose logs are in FOLDER (default: here), those that need attention first, then the newest: state,
verdict, steps, age of the last line, place.
Enter opens one in the live monitor, esc comes back to the list. Without FOLDER and without logs here, runs of jobs on
this machine are listed by the logs that their processes write.

Each folder with logs is a run; folders named like a part of one (logs, trainer, rank_0, node-1) belong to the folder
around them, unless more folders next to them hold logs of the same names, as runs do. Logs named by batch jobs
(slurm-1234.out) are a run for each job. A folder that has logs of its own is one run, with all below it, unless folders
of runs are below it. Without a terminal, or with --plain, the list is printed.

Plain `perfmon`, and `perfmon FOLDER`, do the same, but open a single run at once; `perfmon watch FOLDER` watches all
logs below the folder together."""
EXAMPLE = "perfmon runs outputs/"
NOTHING = "no logs here and no running job found: name a source (perfmon SOURCE...), or try perfmon demo"
_SHOWN = 200
_WIDTHS = (9, 60, 13, 9, 9)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    completes_folders(
        parser.add_argument("folder", metavar="FOLDER", nargs="?", type=Path, help="folder with runs (default: here)")
    )
    parser.add_argument("--plain", action="store_true", help="print the list and exit")
    add_screen_arguments(parser)
    add_polls_argument(parser)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from perfmon.status import rows_of

    config = read_config(args)
    found = _Found.of(args.folder)
    rows = rows_of(found.groups)[:_SHOWN]
    if args.plain or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return _print(rows, config)
    return _choose(args, config, found, rows)


# --- Finding ---


@dataclass(frozen=True, slots=True)
class _Found:
    """The runs that were found."""

    groups: list[LogGroup]
    folder: Path | None
    """In which they are; None for those of this machine."""
    machine: Discovery | None = None

    @classmethod
    def of(cls, folder: Path | None) -> _Found:
        """The runs in a folder; of this machine, where none is named and there are none here."""
        try:
            return cls(_in_folder(folder or Path()), folder or Path())
        except PerfmonError:
            if folder is not None:
                raise
        from perfmon.sources import grouped
        from perfmon.sources.remote import discover_here

        machine = discover_here()
        if not machine.logs:
            raise UsageError(NOTHING)
        return cls(grouped(machine.paths, "/"), None, machine)

    def again(self) -> list[LogGroup]:
        """Those that there are now; on this machine nothing is looked for again, which would query its ports."""
        try:
            return self.groups if self.folder is None else _in_folder(self.folder)
        except PerfmonError:
            return self.groups

    def pollers(self, paths: Sequence[str]) -> list[PollRequest]:
        """The metrics pages of the processes that write these logs."""
        from perfmon.sources.pollers import requests_for

        if self.machine is None:
            return []
        of_run = tuple(process for process in self.machine.processes if set(process.writes) & set(paths))
        return requests_for(replace(self.machine, processes=of_run))


def _in_folder(folder: Path) -> list[LogGroup]:
    from perfmon.sources import runs_in

    if not folder.is_dir():
        problem = "not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{plain(str(folder))}: {problem} (perfmon SOURCE opens a file)")
    return runs_in(str(folder))


# --- Showing ---


def _print(rows: Sequence[RunRow], config: Config) -> int:
    from perfmon.status import look, ordered
    from perfmon.textgraphics import fit

    names = ("state", "verdict", "step", "left", "last line")
    print("  ".join([*(fit(name, room) for name, room in zip(names, _WIDTHS, strict=True)), "run"]))
    for seen in ordered(look(row, config) for row in rows):
        cells = (seen.word, seen.verdict, seen.steps, seen.left, seen.age_text(time.time()))
        shown = [fit(cell, room) for cell, room in zip(cells, _WIDTHS, strict=True)]
        print("  ".join([*shown, plain(seen.group.name, 400)]))
    return ExitCode.DONE


def _choose(args: argparse.Namespace, config: Config, found: _Found, rows: Sequence[RunRow]) -> int:
    """Show the list, and open what is chosen there, until the user leaves."""
    from perfmon.status import look, rows_of
    from perfmon.textgraphics import glyphs_for
    from perfmon.tui import BACK, AppOptions, RunsApp

    check_keys(config)
    place = "this machine" if found.folder is None else plain(os.path.abspath(found.folder), 200)
    at = 0
    while True:
        themes, theme = themes_for(config, args.theme)
        app = RunsApp(
            rows,
            AppOptions(place, themes, theme, "auto", config.keys, glyphs_for(os.environ)),
            lambda: rows_of(found.again())[:_SHOWN],
            lambda row: look(row, config),
            together=found.folder is not None,
            cursor=at,
        )
        left = app.run(mouse=not args.no_mouse)
        if app.fault is not None:
            raise app.fault
        rows, at = app.list.runs, app.list.cursor or 0
        if app.choice is None:
            app.settle()
            return left or app.return_code or ExitCode.DONE
        group = app.choice.group
        specs = (os.path.abspath(found.folder or "."),) if group is None else group.specs
        paths = () if group is None else group.paths
        code = _open(args, config, specs, found.pollers(paths), together=group is None)
        if code != BACK:
            return code


def _open(
    args: argparse.Namespace, config: Config, specs: Sequence[str], pollers: Sequence[PollRequest], *, together: bool
) -> int:
    """Open the live monitor; esc returns BACK."""
    from perfmon.sources.pollers import DEFAULT

    polled = () if args.no_polls else (*DEFAULT, *pollers)

    def feed() -> Feed:
        return feed_of(None, specs, pollers=polled)  # nothing of it is loaded before the first frame is on the screen

    check = partial(SourceCheck, "esc: back to the list of runs", together)
    screen = Screen(args=args, title=_title(specs), specs=specs, feed=feed, check=check, back=True, again=True)
    return screen.open(config)


def _title(specs: Sequence[str]) -> str:
    here = os.getcwd()
    first = os.path.relpath(specs[0]) if specs[0].startswith(f"{here}/") else specs[0]
    first = os.path.basename(here) or here if first == here else first
    return evidence_text(first if len(specs) == 1 else f"{first} and {len(specs) - 1} more", 200)
