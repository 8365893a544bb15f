"""`perfmon report`: a run as one HTML file, to look at in a browser and to pass on."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, UsageError

from ._options import (
    ProgressBar,
    add_data_arguments,
    add_sources_argument,
    add_text_output_argument,
    completes_files,
    read_config,
    write_output,
)
from ._remote import add_login_arguments, fetched, sort_specs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmon.comparison import Run
    from perfmon.core import Config
    from perfmon.sources import LogFile

DESCRIPTION = """\
Write a run as one HTML file: state and progress, verdict, time breakdown, a timeline to zoom into with all metrics, the
findings with their evidence, reasons and fixes, and with --baseline what changed since another run. The file needs no
network and no other file, and loads nothing: it can be mailed or attached. Secrets are masked.

A SOURCE is as for analyze: a file, a folder, a quoted glob, an archive of logs, a recording (.pmrec), or - for stdin;
logs on a remote host are first copied to a temporary folder."""
EXAMPLE = "perfmon report logs/ -o run.html --baseline last-week/logs"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sources_argument(parser, "logs to read")
    add_text_output_argument(parser, "HTML file to write; in a folder it gets a dated name")
    about = "compare with this run: logs, a folder, an archive or a recording"
    completes_files(parser.add_argument("--baseline", dest="other", metavar="OTHER", help=about))
    about = "mask host names, addresses, paths and users consistently"
    parser.add_argument("--redact", action="store_true", help=about)
    when = "10m before the end, 2026-08-21T14:00, 14:00:30, or seconds from the start"
    parser.add_argument("--since", metavar="TIME", help=f"ignore earlier lines: {when}")
    parser.add_argument("--until", metavar="TIME", help="ignore later lines (TIME as for --since)")
    add_login_arguments(parser)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    from perfmon.reports import keep_what_was_read, run_page

    if args.output is None:
        raise UsageError("report: name the file to write: -o run.html (-: standard output)")
    if "-" in args.spec and args.other == "-":
        raise UsageError("the run and its baseline cannot both come from stdin: put one of them into a file")
    config = read_config(args)
    if args.other is not None:
        from perfmon.core import BUILTIN

        config = replace(config, baseline=BUILTIN)  # by limits of its own start each run would be as usual
    wanted = sort_specs(args.spec, polling=False)
    with fetched(args, wanted.remote) as copies:
        this = _read(wanted.local, copies, config, args.since, args.until)
    comparison, read = None, [this]
    if args.other is not None:
        from perfmon.comparison import compare, load_criteria

        other = _read([args.other], (), config)
        comparison = compare(other, this, load_criteria(config.criteria))
        read = [this, other]
    logs = [source.spec for one in read for source in one.snapshot.run.sources]
    keep_what_was_read(args.output, [*args.spec, *([args.other] if args.other else []), *logs])
    made = datetime.now().astimezone()
    write_output(
        run_page(this.snapshot, made, comparison=comparison, redact=args.redact), args.output, ".html", "wrote"
    )
    return ExitCode.DONE


def _read(
    specs: Sequence[str], logs: Sequence[LogFile], config: Config, since: str | None = None, until: str | None = None
) -> Run:
    from perfmon.comparison import run_of
    from perfmon.core import WHOLE
    from perfmon.pipeline import Options, examine

    options = Options(
        tuple(specs), logs=tuple(logs), since=since, until=until, jobs=config.jobs, config=config, detail=WHOLE
    )
    with ProgressBar("reading logs") as bar:
        return run_of(*examine(options, bar))
