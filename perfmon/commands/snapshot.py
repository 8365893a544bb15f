"""`perfmon snapshot`: one page about a run, without a screen."""

from __future__ import annotations

import argparse
import json
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.errors import ExitCode
from perfmon.units import format_seconds

from .arguments import add_data_arguments, add_formats_argument, completes_files, read_config, seconds, window
from .progress import ReadingBar

if TYPE_CHECKING:
    from perfmon.observe import Observed

DESCRIPTION = """\
Reads what the logs hold, follows them for a while if asked to, and writes one Markdown page to paste into an issue:
the verdict, why and what next, where the window went, findings with their lines, metrics, weight updates, sources.

Ctrl+C while it follows the logs ends that early: the page is written and says so, and the exit code is 130."""
EXAMPLE = "perfmon snapshot logs/ --for 30s --redact -o snapshot.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    completes_files(parser.add_argument("spec", metavar="SPEC", nargs="+", help="what to read, as for analyze"))
    parser.add_argument(
        "--for", dest="for_s", metavar="TIME", type=seconds, help="follow the logs this long first (30s, 5m)"
    )
    completes_files(
        parser.add_argument(
            "-o", "--output", metavar="FILE", type=Path, help="where the page goes; in a folder it gets a dated name"
        )
    )
    parser.add_argument("--json", action="store_true", help="the document of analyze --json instead of the page")
    parser.add_argument(
        "--redact", action="store_true", help="mask names of hosts, addresses, paths and users, each always alike"
    )
    parser.add_argument(
        "--window",
        metavar="TIME",
        type=window,
        default=600.0,
        help="what is judged, up to the last line (default: 10m; all)",
    )
    add_formats_argument(parser)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Observes, and writes what was seen."""
    from perfmon.observe import observe

    config = read_config(args)
    judged = None if args.window is None else f"{args.window}s"
    with ReadingBar("reading logs") as bar:
        seen = observe(args.spec, config, judged, args.for_s, bar, lambda: _say_following(args.for_s))
    _write(args, seen)
    return ExitCode.INTERRUPTED if seen.interrupted else ExitCode.DONE


def _say_following(for_s: float) -> None:
    print(f"perfmon: following the logs for {format_seconds(for_s)} (Ctrl+C ends that)", file=sys.stderr, flush=True)


def _write(args: argparse.Namespace, seen: Observed) -> None:
    made = datetime.now().astimezone()
    notes = [_interruption(args.for_s, seen)] if seen.interrupted else []
    for note in notes:
        print(f"perfmon: {note}", file=sys.stderr)
    text = _document(args, seen) if args.json else _page(args, seen, made, notes)
    if args.output is None:
        sys.stdout.write(text)
        return
    from perfmon.reports.saving import save

    file = save(text, args.output, made, ".json" if args.json else ".md")
    print(f"perfmon: wrote {file}", file=sys.stderr)


def _interruption(for_s: float | None, seen: Observed) -> str:
    whole = f" of {format_seconds(for_s)}" if for_s else ""
    return f"interrupted after {format_seconds(seen.watched_s)}{whole}: this is what was seen until then"


def _page(args: argparse.Namespace, seen: Observed, made: datetime, notes: list[str]) -> str:
    from perfmon.reports.page import render

    return render(seen.snapshot, seen.picture, made, redact=args.redact, notes=notes)


def _document(args: argparse.Namespace, seen: Observed) -> str:
    from perfmon.reports.document import document
    from perfmon.reports.page import cleaned

    snapshot, _ = cleaned(seen.snapshot, None, args.redact)
    return json.dumps(document(snapshot), indent=2, allow_nan=False) + "\n"
