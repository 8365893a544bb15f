"""`perfmon analyze`: the diagnosis of logs that are complete."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import ExitCode, Progress, Severity

from ._options import (
    add_baseline_argument,
    add_data_arguments,
    add_sources_argument,
    add_time_range_arguments,
    completes_folders,
    examine_logs,
    on_disk,
    read_config,
    warn,
)
from ._remote import add_login_arguments, fetched, sort_specs

if TYPE_CHECKING:
    from perfmon.core import Config
    from perfmon.diagnosis import Diagnosis
    from perfmon.sources import LogFile

DESCRIPTION = """\
Diagnose a run from its logs: the bottleneck, its cost, the evidence, and the fix. Formats are detected; the summary
goes to stdout.

A SOURCE is a file (also .gz .bz2 .xz .zst), a folder, a quoted glob, an archive of logs (.tar.* .zip), a recording
(.pmrec), or - for stdin. Logs on a remote host, ssh://user@host/path or user@host:/path, are first copied to a
temporary folder."""
_SHOWN_UNREAD = 3
EXAMPLE = "perfmon analyze logs/ --since 30m --fail-on critical"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_sources_argument(parser, "logs to read")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print the whole diagnosis as JSON")
    output.add_argument(
        "--explain-formats", action="store_true", help="print which formats were recognised, with example lines"
    )
    about = "write the report files into a new folder in DIR"
    completes_folders(parser.add_argument("-o", "--output", metavar="DIR", type=on_disk, help=about))
    parser.add_argument(
        "--fail-on",
        choices=["warning", "critical"],
        help="exit with 1 if a finding has this severity or a higher one (pending findings do not count)",
    )
    add_time_range_arguments(parser)
    about = "number of reader processes (default: one per core)"
    parser.add_argument("--jobs", metavar="N", type=_positive, help=about)
    add_baseline_argument(parser)
    add_login_arguments(parser)
    add_data_arguments(parser)


def run(args: argparse.Namespace) -> int:
    config = read_config(args)
    wanted = sort_specs(args.spec, polling=False)
    with fetched(args, wanted.remote) as logs:
        return _report(args, _diagnose(args, config, wanted.local, logs))


def _report(args: argparse.Namespace, snapshot: Diagnosis) -> int:
    if args.output:
        _write(args, snapshot)
    if args.json or args.explain_formats or not args.output:
        sys.stdout.write(_rendered(args, snapshot))
    unread = _unread(snapshot, args.spec)
    for note in unread:
        warn(note)
    if _found(snapshot, args.fail_on):
        return ExitCode.FOUND
    return ExitCode.USAGE if unread else ExitCode.DONE


def _unread(snapshot: Diagnosis, specs: Sequence[str]) -> list[str]:
    """Reasons why logs that were named one by one, or all logs, could not be read.

    "No bottleneck" is no answer about those.
    """
    from perfmon.core import counted
    from perfmon.sources import display_name

    named = {"stdin" if spec == "-" else display_name(Path(spec).expanduser()) for spec in specs}
    sources = snapshot.run.sources
    unreadable = [source for source in sources if source.errors and not source.bytes]
    reported = (
        unreadable if len(unreadable) == len(sources) else [source for source in unreadable if source.spec in named]
    )
    notes = [source.notes[0] for source in reported if source.notes]
    more = len(notes) - _SHOWN_UNREAD
    return [*notes[:_SHOWN_UNREAD], f"{counted(more, 'more log')} could not be read either"] if more > 1 else notes


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected an integer of at least 1, not {text!r}")
    return int(text)


def _diagnose(args: argparse.Namespace, config: Config, specs: Sequence[str], logs: Sequence[LogFile]) -> Diagnosis:
    from perfmon.core import AUTO, FIGURES, WHOLE
    from perfmon.rules import LEARNED

    detail = WHOLE if args.output else FIGURES
    snapshot, _, knowledge = examine_logs(
        config, specs, logs, since=args.since, until=args.until, jobs=args.jobs, detail=detail
    )
    if config.baseline == AUTO and not any(m.bands_from.startswith(LEARNED) for m in snapshot.metrics.values()):
        from perfmon.core import format_seconds

        # judges: what judges is imported when processes that scan are at work
        from perfmon.diagnosis import LEAST_S

        short = f"the run is shorter than {format_seconds(LEAST_S)}, or has no timestamps"
        warn(f"--baseline auto: {knowledge.learned or f'{short}: nothing is learned'}")
    return snapshot


def _write(args: argparse.Namespace, snapshot: Diagnosis) -> None:
    from perfmon.reports import write_analysis

    folder = write_analysis(snapshot, args.output, datetime.now().astimezone())
    # The folder is the result, hence data; with another document on stdout it is a message.
    print(folder, file=sys.stderr if args.json or args.explain_formats else sys.stdout)


def _rendered(args: argparse.Namespace, snapshot: Diagnosis) -> str:
    if args.json:
        from perfmon.reports import json_text

        return json_text(snapshot)
    from perfmon.reports import text_summary  # alone: the pages of files take a tenth of a start to import

    return text_summary.render_formats(snapshot) if args.explain_formats else text_summary.render(snapshot)


def _found(snapshot: Diagnosis, bar: str | None) -> bool:
    if bar is None:
        return False
    if snapshot.run.state in (Progress.FAILED, Progress.STALLED):
        return True
    return any(f.severity.rank >= Severity(bar).rank and f.state != "pending" for f in snapshot.findings)
