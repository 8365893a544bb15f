"""`perfmon report` and `perfmon snapshot`: a run as one page, for a browser or an issue, without a screen."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from datetime import datetime
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, UsageError, evidence_text, format_seconds

from ._options import (
    WINDOW_S,
    ProgressBar,
    add_data_arguments,
    add_sources_argument,
    add_text_output_argument,
    add_time_range_arguments,
    completes_files,
    examine_logs,
    is_printed,
    on_disk,
    read_config,
    seconds,
    several_runs,
    warn,
    write_output,
)
from ._remote import add_login_arguments, add_reach_arguments, connect, feed_of, fetched, print_missing, sort_specs
from ._screen import themes_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmon.monitor import Observed
    from perfmon.themes import ThemeData


class Report:
    """The command `report`."""

    DESCRIPTION = """\
Write a run as one HTML file: state and progress, verdict, time breakdown, a timeline to zoom into with all metrics, the
findings with their evidence, reasons and fixes, and with --baseline what changed since another run. The file needs no
network and no other file, and loads nothing: it can be mailed or attached. Secrets are masked.

A SOURCE is as for analyze: a file, a folder, a quoted glob, an archive of logs, a recording (.pmrec), or - for stdin;
logs on a remote host are first copied to a temporary folder."""
    EXAMPLE = "perfmon report logs/ -o run.html --baseline last-week/logs"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_sources_argument(parser, "logs to read")
        add_text_output_argument(parser, "HTML file to write; in a folder it gets a dated name")
        about = "compare with this run: logs, a folder, an archive or a recording"
        completes_files(parser.add_argument("--baseline", dest="other", metavar="OTHER", help=about))
        about = "mask host names, addresses, paths and users consistently"
        parser.add_argument("--redact", action="store_true", help=about)
        add_time_range_arguments(parser)
        add_login_arguments(parser)
        add_data_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from perfmon.comparison import compare, load_criteria, run_of
        from perfmon.core import BUILTIN, WHOLE
        from perfmon.reports import keep_what_was_read, run_page

        if args.output is None:
            raise UsageError("report: name the file to write: -o run.html (-: standard output)")
        if "-" in args.spec and args.other == "-":
            raise UsageError("the run and its baseline cannot both come from stdin: put one of them into a file")
        config = read_config(args)
        if args.other is not None:
            config = replace(config, baseline=BUILTIN)  # by limits of its own start each run would be as usual
        wanted = sort_specs(args.spec, polling=False)
        with fetched(args, wanted.remote) as logs:
            this = run_of(*examine_logs(config, wanted.local, logs, since=args.since, until=args.until, detail=WHOLE))
        comparison, read = None, [this]
        if args.other is not None:
            other = run_of(*examine_logs(config, [args.other], detail=WHOLE))
            comparison = compare(other, this, load_criteria(config.criteria))
            read = [this, other]
        sources = [source.spec for one in read for source in one.snapshot.run.sources]
        keep_what_was_read(args.output, [*args.spec, *([args.other] if args.other else []), *sources])
        made = datetime.now().astimezone()
        write_output(
            run_page(this.snapshot, made, comparison=comparison, redact=args.redact), args.output, ".html", "wrote"
        )
        return ExitCode.DONE


class Snapshot:
    """The command `snapshot`."""

    DESCRIPTION = """\
Read the logs, optionally follow them with --for, and write one Markdown page to paste into an issue: verdict, reasons
and next steps, time breakdown, findings with evidence, metrics, weight updates, sources.

--svg adds a screenshot of the live monitor's overview from the same data.

Ctrl+C, SIGTERM or SIGHUP while following stops early: the page is still written, with a note, and the exit code is
130."""
    EXAMPLE = "perfmon snapshot logs/ --for 30s --redact -o snapshot.md"

    @staticmethod
    def add_arguments(parser: argparse.ArgumentParser) -> None:
        add_sources_argument(parser)
        about = "follow the logs for this long first (30s, 5m)"
        parser.add_argument("--for", dest="for_s", metavar="TIME", type=seconds, help=about)
        add_text_output_argument(parser, "output file; in a folder it gets a dated name")
        parser.add_argument("--json", action="store_true", help="write the JSON of analyze --json instead of the page")
        about = "mask host names, addresses, paths and users consistently"
        parser.add_argument("--redact", action="store_true", help=about)
        about = "also write a screenshot as SVG"
        completes_files(parser.add_argument("--svg", metavar="FILE", type=on_disk, help=about))
        about = "terminal size of the screenshot (default: 160x45)"
        parser.add_argument("--size", metavar="COLUMNSxROWS", type=cells, default=(160, 45), help=about)
        parser.add_argument("--theme", metavar="NAME", help="theme of the screenshot")
        about = "analysis window up to the last line (default: 10m; all)"
        parser.add_argument("--window", metavar="TIME", type=_window, default=WINDOW_S, help=about)
        add_reach_arguments(parser)
        add_data_arguments(parser)

    @staticmethod
    def run(args: argparse.Namespace) -> int:
        from perfmon.monitor import observe

        config = read_config(args)
        judged = None if args.window is None else f"{args.window}s"
        opened = themes_for(config, args.theme) if args.svg else None
        columns = _columns(args.size[0]) if args.svg else None
        wanted = sort_specs(args.spec)
        if wanted.pollers and args.for_s is None:
            raise UsageError(f"{wanted.pollers[0].shown}: pollers need a duration: --for 30s")
        if wanted.collectives is not None and args.for_s is None:
            raise UsageError("nccl=DIR: needs a duration: --for 30s (complete logs: perfmon nccl DIR)")
        fleet = connect(args, wanted.remote, history=args.history) if wanted.remote else None
        live = fleet is not None or wanted.pollers or wanted.inspector
        feed = (
            partial(feed_of, fleet, wanted.local, pollers=wanted.pollers, inspector=wanted.collectives)
            if live
            else None
        )
        if note := several_runs(wanted.local):
            warn(note)
        started = partial(warn, f"following the logs for {format_seconds(args.for_s or 0.0)} (Ctrl+C stops)")
        with ProgressBar("reading logs") as bar:
            observed = observe(wanted.local, config, judged, args.for_s, bar, started, columns, feed)
        if fleet is not None:
            print_missing(fleet)
        _write(args, observed)
        if opened is not None:
            _draw(args, opened, observed)
        return ExitCode.INTERRUPTED if observed.interrupted else ExitCode.DONE


def _window(text: str) -> float | None:
    """A duration, or None for `all`, for argparse."""
    return None if text == "all" else seconds(text)


def cells(text: str) -> tuple[int, int]:
    """A size such as `160x45`, for argparse."""
    columns, _, rows = text.lower().partition("x")
    if not (columns.isdecimal() and rows.isdecimal() and 20 <= int(columns) <= 400 and 5 <= int(rows) <= 200):
        raise argparse.ArgumentTypeError(f"expected a size from 20x5 to 400x200, such as 160x45, not {text!r}")
    return int(columns), int(rows)


def _columns(width: int) -> int:
    from perfmon.tui import board_columns

    return board_columns(width)


def _write(args: argparse.Namespace, observed: Observed) -> None:
    notes = [_interruption(args.for_s, observed)] if observed.interrupted else []
    for note in notes:
        warn(note)
    if is_printed(args.output) and isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")  # as in a file; a terminal gets what it can show
    if args.json:
        from perfmon.reports import cleaned, json_text

        snapshot, _ = cleaned(observed.snapshot, None, args.redact)
        write_output(json_text(snapshot), args.output, ".json", "wrote")
        return
    from perfmon.reports import render_page

    picture = None if args.for_s is None else observed.picture
    page = render_page(observed.snapshot, picture, datetime.now().astimezone(), redact=args.redact, notes=notes)
    write_output(page, args.output, ".md", "wrote")


def _interruption(for_s: float | None, observed: Observed) -> str:
    whole = f" of {format_seconds(for_s)}" if for_s else ""
    return f"interrupted after {format_seconds(observed.watched_s)}{whole}: the page shows the data until then"


def _draw(args: argparse.Namespace, opened: tuple[dict[str, ThemeData], str], observed: Observed) -> None:
    """The screen without a terminal; from a redacted one the log is left out, for its lines are as they were."""
    import asyncio

    from perfmon.logbuffer import LogBuffer
    from perfmon.reports import cleaned, save
    from perfmon.tui import AppOptions, shoot

    _, picture = cleaned(observed.snapshot, observed.picture, args.redact)
    assert picture is not None  # noqa: S101 - requested with `columns`
    book = LogBuffer() if args.redact or observed.logbook is None else observed.logbook
    opening = AppOptions("snapshot" if args.redact else _title(args.spec), *opened)
    image = asyncio.run(shoot(picture, book, opening, args.size, without=("log",) if args.redact else ()))
    warn(f"wrote {save(image, args.svg, datetime.now().astimezone(), '.svg')}")


def _title(specs: Sequence[str]) -> str:
    return evidence_text(" ".join("stdin" if spec == "-" else spec for spec in specs), 200)
