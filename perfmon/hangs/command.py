"""`perfmon nccl --hang`: a folder of dumps and logs, or the RAS address of a job, in; a report out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

from perfmon.core import ExitCode, InputError, UsageError, plain

from .dossier import dossiers
from .dump_files import read_dumps
from .lines import merge, read_lines
from .model import Evidence
from .ras import RISKY, RasReport, judge_ras, parse_ras, query
from .render import HangReport, document, markdown, text
from .verdict import judge


def read_folder(folder: Path) -> Evidence:
    """The evidence of all dumps and logs below a folder.

    Raises InputError, one line, if there are neither dumps nor watchdog lines that can be read.
    """
    if not folder.is_dir():
        what = "not a folder" if folder.exists() else "no such folder"
        raise InputError(f"{plain(str(folder))}: {what} (give the folder of the flight-recorder dumps or logs)")
    dumps = read_dumps(folder)
    lines = read_lines(folder)
    if not (dumps.states or lines.states or lines.reported or lines.stuck):
        if dumps.notes:
            raise InputError(f"{plain(str(folder))}: {dumps.notes[0]}")
        raise InputError(
            f"{plain(str(folder))}: no flight-recorder dumps and no watchdog lines (TORCH_FR_BUFFER_SIZE=2000 enables"
            " dumps, TORCH_FR_DUMP_TEMP_FILE sets where they are written)"
        )
    return merge(dumps.evidence(), lines)


Querying = Callable[[str, str, int], RasReport]
"""Queries RAS through a host, by its name: at a host and port as that one knows them."""


def report_of(
    target: str, with_dossier: bool = False, agreed: bool = False, querying: Querying | None = None
) -> HangReport:
    """The report about a folder, HOST:PORT, or `ssh://HOST/HOST:PORT` where `querying` is given.

    Raises PerfmonError, one line.
    """
    folder = Path(target).expanduser()
    address = None if folder.exists() else parse_ras(target)
    if address is None and target.startswith("ssh://"):
        raise UsageError(
            f"{plain(target, 120)}: over SSH only NCCL RAS is read: ssh://HOST/localhost:28028 (perfmon watch finds the"
            " dumps of its hosts)"
        )
    if address is not None:
        if not (agreed or _confirms(f"{target}: query NCCL RAS once")):
            raise UsageError(
                f"{plain(target, 120)}: a query has crashed jobs with {RISKY}: --yes if the job already hangs"
            )
        through, host, port = address
        found = query(host, port) if through is None or querying is None else querying(through.shown, host, port)
        verdict, places = judge_ras(found)
        return HangReport(target, verdict, ras=found, places=places)
    evidence = read_folder(folder)
    verdict, graph = judge(evidence)
    ranks = verdict.ranks or verdict.candidates
    return HangReport(
        plain(target, 200), verdict, evidence, graph, dossiers=dossiers(folder, ranks, with_dossier) if ranks else ()
    )


def run(
    target: str,
    *,
    form: str = "text",
    with_dossier: bool = False,
    agreed: bool = False,
    querying: Querying | None = None,
) -> int:
    """Prints the report in a form (text, markdown or json); the result is the exit code.

    Raises PerfmonError: UsageError or InputError (exit 2), ConnectError (exit 3).
    """
    report = report_of(target, with_dossier, agreed, querying)
    writers: dict[str, Callable[[HangReport], str]] = {
        "text": text,
        "markdown": markdown,
        "json": lambda one: json.dumps(document(one), indent=2, allow_nan=False) + "\n",
    }
    sys.stdout.write(writers[form](report))
    return ExitCode.DONE


def _confirms(question: str) -> bool:
    """Return true if the user at the terminal agrees; without a terminal no one does."""
    if not (sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    print(f"perfmon: {question}? A query has crashed jobs with {RISKY}; does the job already hang? [y/N] ", end="",
          file=sys.stderr, flush=True)  # fmt: skip
    return sys.stdin.readline().strip().lower() in ("y", "yes")
