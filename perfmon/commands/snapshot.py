"""`perfmon snapshot`: one page about a run, without a screen."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from functools import partial
from io import TextIOWrapper
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, UsageError, format_seconds, plain, without_secrets

from ._options import (
    ProgressBar,
    add_data_arguments,
    add_formats_argument,
    add_text_output_argument,
    completes_files,
    is_printed,
    on_disk,
    read_config,
    seconds,
    window,
)
from ._remote import add_reach_arguments, connect, feed_of, print_missing, sort_specs
from ._screen import themes_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfmon.monitor import Observed
    from perfmon.themes import ThemeData

DESCRIPTION = """\
Read the logs, optionally follow them with --for, and write one Markdown page to paste into an issue: verdict, reasons
and next steps, time breakdown, findings with evidence, metrics, weight updates, sources.

--svg adds a screenshot of the live monitor's overview from the same data.

Ctrl+C while following stops early: the page is still written, with a note, and the exit code is 130."""
EXAMPLE = "perfmon snapshot logs/ --for 30s --redact -o snapshot.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    completes_files(parser.add_argument("spec", metavar="SOURCE", nargs="+", help="sources, as for watch"))
    parser.add_argument(
        "--for", dest="for_s", metavar="TIME", type=seconds, help="follow the logs for this long first (30s, 5m)"
    )
    add_text_output_argument(parser, "output file; in a folder it gets a dated name")
    parser.add_argument("--json", action="store_true", help="write the JSON of analyze --json instead of the page")
    parser.add_argument(
        "--redact", action="store_true", help="mask host names, addresses, paths and users consistently"
    )
    completes_files(parser.add_argument("--svg", metavar="FILE", type=on_disk, help="also write a screenshot as SVG"))
    parser.add_argument(
        "--size",
        metavar="COLUMNSxROWS",
        type=cells,
        default=(160, 45),
        help="terminal size of the screenshot (default: 160x45)",
    )
    parser.add_argument("--theme", metavar="NAME", help="theme of the screenshot")
    parser.add_argument(
        "--window",
        metavar="TIME",
        type=window,
        default=600.0,
        help="analysis window up to the last line (default: 10m; all)",
    )
    add_reach_arguments(parser)
    add_formats_argument(parser)
    add_data_arguments(parser)


def cells(text: str) -> tuple[int, int]:
    """A size such as `160x45`, for argparse."""
    columns, _, rows = text.lower().partition("x")
    if not (columns.isdecimal() and rows.isdecimal() and 20 <= int(columns) <= 400 and 5 <= int(rows) <= 200):
        raise argparse.ArgumentTypeError(f"expected a size from 20x5 to 400x200, such as 160x45, not {text!r}")
    return int(columns), int(rows)


def run(args: argparse.Namespace) -> int:
    """Observes, and writes what was seen."""
    from perfmon.monitor import observe

    config = read_config(args)
    judged = None if args.window is None else f"{args.window}s"
    opened = themes_for(config, args.theme) if args.svg else None
    columns = _columns(args.size[0]) if args.svg else None
    wanted = sort_specs(args.spec)
    if wanted.asked and args.for_s is None:
        raise UsageError(f"{wanted.asked[0].shown}: pollers need a duration: --for 30s")
    fleet = connect(args, wanted.remote, history=args.history) if wanted.remote else None
    feed = partial(feed_of, fleet, wanted.local, asked=wanted.asked) if fleet is not None or wanted.asked else None
    with ProgressBar("reading logs") as bar:
        seen = observe(wanted.local, config, judged, args.for_s, bar, lambda: _say_following(args.for_s), columns, feed)
    if fleet is not None:
        print_missing(fleet)
    _write(args, seen)
    if opened is not None:
        _draw(args, opened, seen)
    return ExitCode.INTERRUPTED if seen.interrupted else ExitCode.DONE


def _columns(width: int) -> int:
    from perfmon.tui import board_columns

    return board_columns(width)


def _say_following(for_s: float) -> None:
    print(f"perfmon: following the logs for {format_seconds(for_s)} (Ctrl+C stops)", file=sys.stderr, flush=True)


def _write(args: argparse.Namespace, seen: Observed) -> None:
    made = datetime.now().astimezone()
    notes = [_interruption(args.for_s, seen)] if seen.interrupted else []
    for note in notes:
        print(f"perfmon: {note}", file=sys.stderr)
    text = _document(args, seen) if args.json else _page(args, seen, made, notes)
    if is_printed(args.output):
        _print(text)
        return
    from perfmon.reports import save

    file = save(text, args.output, made, ".json" if args.json else ".md")
    print(f"perfmon: wrote {file}", file=sys.stderr)


def _print(text: str) -> None:
    """Shown in what the terminal can show; what is not for a terminal is UTF-8, as a page in a file is."""
    if isinstance(sys.stdout, TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)


def _interruption(for_s: float | None, seen: Observed) -> str:
    whole = f" of {format_seconds(for_s)}" if for_s else ""
    return f"interrupted after {format_seconds(seen.watched_s)}{whole}: the page shows the data until then"


def _page(args: argparse.Namespace, seen: Observed, made: datetime, notes: list[str]) -> str:
    from perfmon.reports import render_page

    followed = args.for_s is not None
    return render_page(seen.snapshot, seen.picture if followed else None, made, redact=args.redact, notes=notes)


def _document(args: argparse.Namespace, seen: Observed) -> str:
    from perfmon.reports import cleaned, document

    snapshot, _ = cleaned(seen.snapshot, None, args.redact)
    return json.dumps(document(snapshot), indent=2, allow_nan=False) + "\n"


def _draw(args: argparse.Namespace, opened: tuple[dict[str, ThemeData], str], seen: Observed) -> None:
    """The screen without a terminal; from a redacted one the log is left out, for its lines are as they were."""
    import asyncio

    from perfmon.logbuffer import LogBuffer
    from perfmon.reports import cleaned, save
    from perfmon.tui import AppOptions, shoot

    _, picture = cleaned(seen.snapshot, seen.picture, args.redact)
    assert picture is not None  # noqa: S101 - asked for with `columns`
    book = LogBuffer() if args.redact or seen.logbook is None else seen.logbook
    opening = AppOptions("snapshot" if args.redact else _title(args.spec), *opened)
    image = asyncio.run(shoot(picture, book, opening, args.size, without=("log",) if args.redact else ()))
    print(f"perfmon: wrote {save(image, args.svg, datetime.now().astimezone(), '.svg')}", file=sys.stderr)


def _title(specs: Sequence[str]) -> str:
    return without_secrets(plain(" ".join("stdin" if spec == "-" else spec for spec in specs), 200))
