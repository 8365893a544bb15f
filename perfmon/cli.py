"""The command line: runs the chosen command and turns every outcome into an exit code and one line.

stdout carries data, stderr messages.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from perfmon.commands import COMMANDS, build_parser, load_command
from perfmon.core import ExitCode, PerfmonError, UsageError, evidence_text

if TYPE_CHECKING:
    from typing_extensions import Buffer


_DEBUG = "PERFMON_DEBUG"
_SCP = re.compile(r"[^/@\s]+@[^/@\s]+:[/~]")
"""`user@host:/path`, on another machine."""
_OWN = ("-h", "--help", "--version")
"""Options that need no command."""
_ALIKE = 0.7
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


# --- The standard streams of the program, whatever the shell made of them ---


def repair_standard_streams() -> None:
    """Call first: no other file takes the place of a closed stream, and a failing stderr never stops the program.

    stdout carries data: an error of it is reported. stderr carries messages: those are lost.
    """
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:  # closed by the shell (`2>&-`)
            # It is the first that is free. What is closed cannot be read: an empty input would be another thing.
            os.open(os.devnull, os.O_WRONLY)
    raw = _Forgiving(2, "w", closefd=False)
    encoding = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=True)


class _Forgiving(io.FileIO):
    """Takes everything, also what a full disk or a closed terminal has no room for."""

    def write(self, data: Buffer, /) -> int:
        """Return the full length, whatever was written."""
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


def print_error(message: str) -> None:
    """Print one line on stderr."""
    with suppress(OSError):  # a full disk under stderr must not change the exit code
        print(f"perfmon: {evidence_text(message, 2000)}", file=sys.stderr, flush=True)


# --- Choosing and running the command ---


def _command(argv: Sequence[str]) -> list[str]:
    """The arguments with a command in front: what is not the name of one is monitored, and so is this folder.

    Raises UsageError for a word that is neither a command nor a source.
    """
    name = next((word for word in argv if not word.startswith("-") or word == "-"), "")
    if name in COMMANDS or (argv and not name and argv[0] in _OWN):
        return list(argv)
    if argv and argv[0].startswith("--"):  # options of the monitor, then what it watches
        return ["runs" if _lists_runs(argv) else "watch", *argv]
    if not argv:
        return _here()
    if name == "-" or os.path.exists(name) or any(sign in name for sign in "*?[=") or "://" in name or _SCP.match(name):
        return ["runs" if _lists_runs(argv) else "watch", *argv]
    from perfmon.sources.pollers import parse_request

    if parse_request(name) is not None:
        return ["watch", *argv]
    from difflib import get_close_matches

    close = get_close_matches(name, COMMANDS, n=1, cutoff=_ALIKE)
    if close:
        raise UsageError(f"{name}: no such command, file or folder (did you mean perfmon {close[0]}?)")
    if os.sep in name or "." in name:
        wait = f"to wait until it is there: perfmon watch {name}"
        raise UsageError(f"{name}: no such file or folder ({wait})")
    raise UsageError(f"{name}: no such command, file or folder (see perfmon --help)")


def _here() -> list[str]:
    """The command for the logs in this folder, else for those of jobs on this machine: one run is opened at once."""
    from perfmon.sources import runs_in

    try:
        runs = runs_in(".")
    except PerfmonError:
        return _running()
    return ["runs"] if len(runs) > 1 else ["watch", "."]


def _lists_runs(argv: Sequence[str]) -> bool:
    """Return true for one folder that holds several runs, with no options but those of the list."""
    if not any(os.path.isdir(word) for word in argv) or any(word in _OWN for word in argv):
        return False
    from perfmon.sources import runs_in

    try:
        folder = build_parser(("runs",)).parse_args(["runs", *argv]).folder
        return folder is not None and folder.is_dir() and len(runs_in(str(folder))) > 1
    except PerfmonError:  # not of the list, or nothing to read: reported by `watch`
        return False


def _running() -> list[str]:
    from perfmon.sources import grouped
    from perfmon.sources.pollers import requests_for
    from perfmon.sources.remote import describe, discover_here

    found = discover_here()
    pollers = [request.shown for request in requests_for(found)]
    if not (found.logs or pollers):
        raise UsageError(
            "no logs here and no running job found: name a source (perfmon SOURCE...), or try perfmon demo"
        )
    if len(grouped(found.paths, "/")) > 1:
        return ["runs"]
    print("\n".join(describe("here", found)), file=sys.stderr)
    return ["watch", *found.paths, *pollers]


def _dispatch(argv: Sequence[str]) -> int:
    argv = _command(argv)
    name = next((word for word in argv if not word.startswith("-")), "")
    try:
        args = build_parser((name,)).parse_args(argv)
        code = load_command(name).run(args)
    except SystemExit as leaving:  # argparse, after --help and --version
        code = leaving.code if isinstance(leaving.code, int) else ExitCode.DONE
    sys.stdout.flush()
    return code


def _exit_unwritable(code: ExitCode) -> int:
    """Drop the rest of the output: it would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def command() -> NoReturn:
    """Run the program; exit at once where no other thread runs, as freeing what was read only takes time."""
    import threading

    repair_standard_streams()
    code = main()
    with suppress(Exception):  # their reader went away
        sys.stdout.flush()
        sys.stderr.flush()
    if threading.active_count() == 1:
        os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code (see `ExitCode`)."""
    # A stream is None if the shell closed it (`>&-`): files may still be written.
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the program
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the program
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # names may not be valid text
            stream.reconfigure(errors="backslashreplace")
    try:
        return _dispatch(sys.argv[1:] if argv is None else argv)
    except PerfmonError as error:
        print_error(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        print_error("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:  # the reader went away (`perfmon … | head`)
        return _exit_unwritable(ExitCode.DONE)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _DISK_FULL:  # files that perfmon writes have their own message
            code = _exit_unwritable(ExitCode.USAGE)
            print_error(f"standard output cannot be written: {error.strerror} (redirect it elsewhere)")
            return code
        if os.environ.get(_DEBUG):
            import traceback

            traceback.print_exc()
        what = f"{type(error).__name__}: {error}".rstrip(": ")
        print_error(f"unexpected {what} (a bug in perfmon; {_DEBUG}=1 shows the traceback)")
        return ExitCode.USAGE
