"""Leaving the screen: for a pager, and for good."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.app import App

from perfmon.logbuffer import Filter, LogBuffer, Place, View

# --- Opens a log at a line in another program: $PAGER, or lnav. No shell sees any of it ---

_AROUND = 1000


@dataclass(frozen=True, slots=True)
class Opened:
    """Command to run, and its temporary file, to be removed afterwards."""

    argv: tuple[str, ...]
    temporary: Path | None = None

    def discard(self) -> None:
        """Remove that file."""
        if self.temporary is not None:
            self.temporary.unlink(missing_ok=True)


def opened_at(
    book: LogBuffer, name: str, number: int, text: str = "", environment: Mapping[str, str] | None = None
) -> Opened | None:
    """Command that opens a log at a line: its file, if it is local and still has the line, else a temporary copy
    of what the ring holds around it. None when the ring holds neither."""
    source = next((index for index, known in book.names.items() if known == name), None)
    if source is None:
        return None
    view = View(book)
    place, path = view.find(name, number, text), book.path(source)
    # The newest line of that number stands in the file; earlier ones were rotated away.
    if path is not None and path.is_file() and (place is None or (number and view.find(name, number) == place)):
        return Opened(command(path.absolute(), number, environment))
    return None if place is None else _copied(book, place, environment)


def _copied(book: LogBuffer, place: Place, environment: Mapping[str, str] | None) -> Opened:
    view = View(book, Filter(sources=frozenset({place.source})))
    before, on = view.before(place, _AROUND).lines, view.start(place, _AROUND).lines
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="perfmon-", suffix=".log", delete=False) as file:
        file.writelines(f"{line.text}\n" for line in (*before, *on))
    path = Path(file.name)
    return Opened(command(path, len(before) + 1, environment), path)


def command(path: Path, number: int, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The arguments that open `path`, an absolute one so that it is never taken for an option, at line `number`."""
    environment = os.environ if environment is None else environment
    try:
        pager = shlex.split(environment.get("PAGER", ""))
    except ValueError:
        pager = []
    if not pager:
        pager = [next((name for name in ("lnav", "less", "more") if shutil.which(name)), "less")]
    program = Path(pager[0]).name
    if program == "lnav":
        return (*pager, "-c", f":goto {max(0, number - 1)}", str(path))
    if program in ("less", "more", "most", "vim", "vi", "nvim", "view", "nano", "emacs"):
        return (*pager, f"+{number}", str(path))
    return (*pager, str(path))


def shown_elsewhere(opened: Opened) -> str:
    """Run it until the user leaves it, and remove what was made for it; what went wrong in one line, or ""."""
    try:
        with _interrupts_for_others():
            subprocess.run(opened.argv, check=False)
    except OSError as error:
        return f"{opened.argv[0]}: {error.strerror} (set PAGER)"
    finally:
        opened.discard()
    return ""


@contextmanager
def _interrupts_for_others() -> Iterator[None]:
    """Ctrl+C goes to the other program: in a pager it ends a search, and must not end the monitor behind it.

    A handler that does nothing is not inherited, as being ignored would be.
    """
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# --- Exits without a key: signals, terminal hangups, exceptions ---

_LEAVE_S = 3.0


def terminal_is_gone() -> bool:
    """Return true if the terminal has hung up."""
    stream = sys.__stderr__
    try:
        return stream is None or not os.isatty(stream.fileno())
    except (OSError, ValueError):
        return True


class Leaving(App[int]):
    """An app that gives the terminal back, whatever ends it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.fault: Exception | None = None
        """Exception that caused the exit, if any."""

    def exit_on_signals(self) -> None:
        """Exit on signals from now on."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
            with suppress(ValueError, RuntimeError, NotImplementedError):  # not in the main thread: tests
                loop.add_signal_handler(name, self._leave, 128 + name)

    def _leave(self, code: int) -> None:
        """A signal ends it, at the latest after a while: Textual waits for ever to write to a terminal that is gone."""
        self.exit(code)
        late = threading.Timer(_LEAVE_S, self._end, (code,))
        late.daemon = True
        late.start()

    def terminal_gone(self) -> None:
        """Exit: the terminal hung up without a signal."""
        self._leave(128 + signal.SIGHUP)

    def stop_work(self) -> None:
        """Stop what runs apart from the screen, before the process ends."""

    def _end(self, code: int) -> None:
        self.stop_work()
        os._exit(code)

    def _handle_exception(self, error: Exception) -> None:
        """A fault of perfmon ends it; the caller reports it in a line, once the terminal is as it was."""
        self.fault = self.fault or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        """Instead of Textual's pages of local variables, among them lines of logs."""
        self._close_messages_no_wait()
