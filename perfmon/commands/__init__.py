"""The commands: their table, and the parser made from it.

Each is a module of this package with `DESCRIPTION`, `EXAMPLE`, `add_arguments(parser)` and `run(args)`. A module is
imported when its command was chosen, not before: `perfmon --help` has to answer at once.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from perfmon import __version__
from perfmon.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS = {
    "watch": "the live monitor: follow logs and say where the time goes",
    "ssh": "the live monitor of runs on other machines: nothing is installed there",
    "demo": "the live monitor on a built-in run: no GPU, no logs needed",
    "analyze": "diagnose logs that are complete: the bottleneck, its cost, its evidence and its mend",
    "compare": "two runs side by side: what changed, and whether the mend worked",
    "calibrate": "learn limits from a healthy run",
    "snapshot": "write one page about a run, to paste into an issue, and a screenshot",
    "status": "print one short line about a run, for the status bar of tmux",
    "collect": "copy the logs of a run from all of its hosts into one archive",
    "export": "serve all of it to Prometheus; alert rules and a dashboard to go with that",
    "record": "keep what logs print, to replay or analyse it later",
    "replay": "play a recording in the live monitor",
    "rules": "browse, explain, check and test the signatures that findings come from",
    "formats": "learn how to read a log that perfmon does not know; list and check formats",
    "doctor": "what works on this machine, what that costs where it does not, and the mend",
    "completion": "print the completion script of a shell",
}
"""Every command with its line of help."""

_DESCRIPTION = "Says where the time of an ML run goes: reads its logs and names the bottleneck, with proof."
_EXAMPLE = "example: perfmon logs/   (the same as perfmon watch logs/)"


class Command(Protocol):
    """What a module of this package offers."""

    DESCRIPTION: str
    """What the command does, for its `--help`."""
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
        """Raises UsageError: one line is enough when it says where the help is."""
        raise UsageError(f"{message} (see {self.prog} --help)")

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        """As the parent does, but what cannot be written is an error."""
        (file or sys.stdout).write(self.format_help())


class _Version(argparse.Action):
    """Tells the version, and whether logs are read by compiled code: that is only looked up when it is asked."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Prints it and ends the program."""
        from perfmon.sources.accelerator import in_use

        sys.stdout.write(f"perfmon {__version__} ({'native' if in_use() else 'plain'} scanner)\n")
        parser.exit()


def load_command(name: str) -> Command:
    """The module of a command of COMMANDS."""
    return cast(Command, importlib.import_module(f"{__name__}.{name}"))


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
