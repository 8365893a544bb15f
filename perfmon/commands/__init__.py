"""The commands: their table, and the parser made from it.

Each is a module of this package with `DESCRIPTION`, `EXAMPLE`, `add_arguments(parser)` and `run(args)`, or a class with
these where two small commands share a module. A module is imported when its command was chosen, not before:
`perfmon --help` has to answer at once.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from perfmon._version import __version__
from perfmon.core import UsageError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS = {
    "watch": "open the live monitor: follow logs and show where the time goes",
    "runs": "list the runs in a folder or on this machine, and open one",
    "ssh": "open the live monitor on remote hosts; nothing is installed there",
    "demo": "open the live monitor on a simulated run; needs no GPU and no logs",
    "analyze": "diagnose complete logs: bottleneck, cost, evidence and fix",
    "compare": "compare two runs: what changed, and whether the fix worked",
    "nccl": "analyze logs of NCCL Inspector: slow ranks, slow links; --hang: the rank that is behind",
    "profile": "analyze profiler traces (PyTorch, Nsight Systems): why GPUs are idle",
    "calibrate": "learn thresholds from a healthy run",
    "report": "write a run as one HTML file: timeline to zoom, evidence, what changed since a baseline",
    "snapshot": "write a one-page report of a run, and optionally a screenshot",
    "status": "print a one-line status, for the tmux status bar",
    "collect": "copy the logs of a run from all hosts into one archive",
    "export": "export metrics to Prometheus; print alert rules and a Grafana dashboard; write a trace",
    "record": "record logs, to replay or analyse them later",
    "replay": "play a recording in the live monitor",
    "rules": "list, explain, check and test signatures",
    "formats": "propose a format for an unrecognised log; list and check formats",
    "doctor": "check what works on this machine, with impact and fix of each problem",
    "completion": "print the shell completion script",
}
"""Every command with its line of help."""

_SHARED = {
    "watch": ("live", "Watch"),
    "ssh": ("live", "Ssh"),
    "calibrate": ("setup", "Calibrate"),
    "formats": ("setup", "Formats"),
    "collect": ("keep", "Collect"),
    "record": ("keep", "Record"),
    "demo": ("live", "Demo"),
    "replay": ("live", "Replay"),
    "profile": ("nccl", "ProfileTraces"),
    "report": ("pages", "Report"),
    "snapshot": ("pages", "Snapshot"),
    "doctor": ("setup", "Doctor"),
    "completion": ("setup", "Completion"),
}
"""Module and class of the commands that share a module; every other command is the module of its name."""

_DESCRIPTION = "Show where the time of an ML run goes: read its logs and name the bottleneck, with evidence."
_EXAMPLE = (
    "example: perfmon logs/   (same as perfmon watch logs/)\n"
    "without arguments: the run in this folder, or a list of them if there are several, or the jobs of this machine"
)


class Command(Protocol):
    """Interface of a command: a module of this package, or a class in one."""

    DESCRIPTION: str
    """Description of the command, for its `--help`."""
    EXAMPLE: str
    """At least one line that can be typed."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declares the arguments."""

    def run(self, args: argparse.Namespace) -> int:
        """Does the work; the result is the exit code."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are UsageErrors, and whose options cannot be abbreviated."""

    def __init__(self, **options: Any) -> None:
        # An abbreviation that works today would mean something else once a longer option joins it.
        options.setdefault("allow_abbrev", False)
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(**options)

    def error(self, message: str) -> NoReturn:
        """Raises UsageError: one line is enough when it points to the help."""
        raise UsageError(f"{message} (see {self.prog} --help)")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As the parent does; an unknown option is reported before a missing argument, with the one like it."""
        known = self._option_string_actions
        for word in args or () if self._subparsers is None else ():
            name = word.partition("=")[0]
            if word == "--":
                break
            if name.startswith("--") and name not in known:
                from difflib import get_close_matches

                close = get_close_matches(name, known, n=1)
                self.error(f"{name}: no such option" + (f", did you mean {close[0]}?" if close else ""))
        return super().parse_known_args(args, namespace)

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """As the parent does, but what cannot be written is an error."""
        (file or sys.stdout).write(self.format_help())


class _Version(argparse.Action):
    """Print the version, and if logs are read by compiled code, which is only looked up then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Prints it and ends the program."""
        from perfmon.sources import in_use

        sys.stdout.write(f"perfmon {__version__} ({'native' if in_use() else 'plain'} scanner)\n")
        parser.exit()


def load_command(name: str) -> Command:
    """The module or the class of a command of COMMANDS."""
    module, shared = _SHARED.get(name, (name, ""))
    home = importlib.import_module(f"{__name__}.{module}")
    return cast(Command, getattr(home, shared) if shared else home)


def build_parser(chosen: Collection[str]) -> Parser:
    """The parser, with the arguments of the `chosen` commands only."""
    parser = Parser(prog="perfmon", description=_DESCRIPTION, epilog=_EXAMPLE)
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", title="commands", required=True)
    for name, summary in COMMANDS.items():
        if name in chosen:
            module = load_command(name)
            epilog = f"example: {module.EXAMPLE}"
            module.add_arguments(commands.add_parser(name, help=summary, description=module.DESCRIPTION, epilog=epilog))
        else:
            commands.add_parser(name, help=summary)
    return parser
