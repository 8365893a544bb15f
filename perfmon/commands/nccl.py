"""`perfmon nccl`: collectives of NCCL; with --hang the rank that is behind."""

from __future__ import annotations

import argparse

from perfmon.core import UsageError

DESCRIPTION = """\
Name the rank that holds up a hung job. --hang reads a folder with flight-recorder dumps of PyTorch (pickle or JSON),
logs with watchdog lines, or both: the oldest outstanding operation of each rank gives the ranks that all others wait
for. Where the evidence does not decide, the report states so.

With HOST:PORT the job's NCCL RAS is queried once (NCCL 2.24 or newer, port 28028), for a job that already hangs:
a query has crashed jobs with some versions of NCCL."""
EXAMPLE = "perfmon nccl --hang ~/.cache/torch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    add_hang_arguments(parser)


def add_hang_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of --hang."""
    parser.add_argument(
        "--hang", metavar="DIR|HOST:PORT", help="name the rank that is behind: folder of dumps and logs, or NCCL RAS"
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the report as JSON")
    output.add_argument("--markdown", action="store_true", help="print the report as Markdown")
    parser.add_argument(
        "--dossier",
        action="store_true",
        help="with --hang: also dump the stacks of the ranks that are behind, if they run on this host and py-spy is"
        " installed (it reads the memory of the processes)",
    )
    parser.add_argument("--yes", action="store_true", help="with --hang HOST:PORT: query without confirmation")


def run(args: argparse.Namespace) -> int:
    """Reads and reports."""
    if args.hang is None:
        raise UsageError("--hang DIR|HOST:PORT is required (see perfmon nccl --help)")
    return run_hang(args)


def run_hang(args: argparse.Namespace) -> int:
    """The report of --hang."""
    from perfmon.hangs import run

    form = "json" if args.json else "markdown" if args.markdown else "text"
    return run(args.hang, form=form, with_dossier=args.dossier, agreed=args.yes)
