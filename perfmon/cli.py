"""The command line: runs the chosen command and turns whatever happens into an exit code and one line.

stdout carries data, stderr narration.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn, TextIO

from perfmon.commands import COMMANDS, build_parser, load_command
from perfmon.core import ExitCode, PerfmonError, UsageError, plain

if TYPE_CHECKING:
    from typing_extensions import Buffer


# --- The standard streams of the program, whatever the shell made of them ---

_STDERR = 2


def repair_standard_streams() -> None:
    """To be called first: no other file takes the place of a closed stream, and what is said is never an error.

    stdout carries data: where that cannot be written the program says so. stderr is narration: it gets lost.
    """
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:  # closed by the shell (`2>&-`)
            # It is the first that is free. What is closed cannot be read: an empty input would be another thing.
            os.open(os.devnull, os.O_WRONLY)
    raw = _Forgiving(_STDERR, "w", closefd=False)
    known = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), known, "backslashreplace", line_buffering=True)


class _Forgiving(io.FileIO):
    """Takes everything, also what a full disk or a closed terminal has no room for."""

    def write(self, data: Buffer, /) -> int:
        """Says that all of it was written."""
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes


_DEBUG = "PERFMON_DEBUG"
_SCP = re.compile(r"[^/@\s]+@[^/@\s]+:[/~]")
"""`user@host:/path`, on another machine."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _command(argv: Sequence[str]) -> list[str]:
    """The arguments with a command at their head: what is no command's name is watched, and so is this folder.

    Raises UsageError for a word that is neither a command nor anything that exists.
    """
    name = next((word for word in argv if not word.startswith("-") or word == "-"), "")
    if name in COMMANDS or (argv and not name):
        return list(argv)
    if argv and argv[0].startswith("--"):  # options of the monitor, then what it watches
        return ["watch", *argv]
    if not argv:
        return ["watch", *_here()]
    if name == "-" or os.path.exists(name) or any(sign in name for sign in "*?[=") or "://" in name or _SCP.match(name):
        return ["watch", *argv]
    if _is_polled(name):
        return ["watch", *argv]
    raise UsageError(f"{name}: no such command, file or folder (see perfmon --help)")


def _is_polled(name: str) -> bool:
    """Whether pollers are asked for by this name. Raises UsageError where it is a wrong one of their kinds."""
    from perfmon.sources.pollers import parse_request

    return parse_request(name) is not None


def _here() -> list[str]:
    """This folder, when there are logs in it; else the logs of whatever runs on this machine."""
    from perfmon.sources import discover

    try:
        discover(["."])
    except PerfmonError:
        return _running()
    return ["."]


def _running() -> list[str]:
    from perfmon.sources.remote import describe, discover_here, requests_for

    found = discover_here()
    asked = [one.shown for one in requests_for(found)]
    if not (found.logs or asked):
        raise UsageError(
            "no logs here and no running job found: name a source (perfmon SOURCE...), or try perfmon demo"
        )
    print("\n".join(describe("here", found)), file=sys.stderr)
    return [*found.paths, *asked]


def _dispatch(argv: Sequence[str]) -> int:
    argv = _command(argv)
    name = next((word for word in argv if not word.startswith("-")), "")
    parser = build_parser((name,))
    args = parser.parse_args(argv)
    return load_command(name).run(args)


def _say(message: str) -> None:
    with suppress(OSError):  # a full disk under stderr must not change what the shell is told
        print(f"perfmon: {plain(message, 2000)}", file=sys.stderr, flush=True)


def _unexpected(error: Exception) -> int:
    if os.environ.get(_DEBUG):
        import traceback

        traceback.print_exc()
    said = f"{type(error).__name__}: {error}".rstrip(": ")
    _say(f"unexpected {said} (a bug in perfmon; {_DEBUG}=1 shows the traceback)")
    return ExitCode.USAGE


def _robust(stream: TextIO) -> None:
    """Shows a name that is not valid text as escapes, where printing it would end the program."""
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")


def _silence_stdout() -> None:
    """What is still held back would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _quiet_pipe() -> int:
    """The reader went away (`perfmon … | head`): nothing more to say."""
    _silence_stdout()
    return ExitCode.DONE


def _no_room(error: OSError) -> int:
    """Only what is written can meet these; files that perfmon writes have their own message."""
    _silence_stdout()
    _say(f"standard output cannot be written: {error.strerror} (redirect it elsewhere)")
    return ExitCode.USAGE


def _left(leaving: SystemExit) -> int:
    """Exit code where argparse has said all there is to say."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _quiet_pipe()
    except OSError as error:
        return _no_room(error)
    return leaving.code if isinstance(leaving.code, int) else ExitCode.DONE


def command() -> NoReturn:
    """The program: ends at once where nothing else runs, as taking apart what was read only takes time."""
    import threading

    repair_standard_streams()
    code = main()
    with suppress(Exception):  # whoever reads them went away
        sys.stdout.flush()
        sys.stderr.flush()
    if threading.active_count() == 1:
        os._exit(code)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; the result is what the shell is told (see `ExitCode`)."""
    if sys.stdout is None:  # closed by the shell (`>&-`): files may still be written
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - it lives as long as the program
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - likewise
    _robust(sys.stdout)
    _robust(sys.stderr)
    try:
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except PerfmonError as error:
        _say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        return _quiet_pipe()
    except SystemExit as leaving:  # argparse, after --help and --version
        return _left(leaving)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            return _no_room(error)
        return _unexpected(error)
    return code
