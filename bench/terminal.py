"""Runs a program on a terminal of its own and measures it from outside: what it uses, and what it writes."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """Between two moments."""

    seconds: float
    cpu_percent: float
    """Of one core, all threads."""
    rss_mb: float
    """At the end, resident."""
    written_kib_s: float
    """To the terminal."""


class Terminal:
    """A pseudo terminal with a program on it; everything that the program writes is read."""

    def __init__(
        self, command: Sequence[str], columns: int, rows: int, environment: dict[str, str] | None = None
    ) -> None:
        self.written = 0
        self.began = time.monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update({"TERM": "xterm-256color", "COLORTERM": "truecolor", **(environment or {})})
            os.execvp(command[0], list(command))  # noqa: S606
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.set_blocking(self.fd, False)

    def read(self, seconds: float, until: Callable[[bytes], bool] | None = None) -> bytes:
        """What is written within `seconds`, or until it is enough."""
        end = time.monotonic() + seconds
        seen = bytearray()
        while (left := end - time.monotonic()) > 0:
            ready, _, _ = select.select([self.fd], [], [], left)
            if not ready:
                break
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                break
            if not data:
                break
            self.written += len(data)
            seen += data
            if until is not None and until(bytes(seen)):
                break
        return bytes(seen)

    def type(self, keys: str) -> None:
        """Presses keys."""
        os.write(self.fd, keys.encode())

    def cpu_s(self) -> float:
        """Processor seconds of the threads that run, by the scheduler's own clock.

        `/proc/PID/stat` counts timer ticks: a program that wakes by timers, too, is counted by chance.
        """
        total = 0
        for task in Path(f"/proc/{self.pid}/task").iterdir():
            with suppress(OSError):
                total += int((task / "schedstat").read_text().split()[0])
        return total / 1e9

    def rss_mb(self) -> float:
        """Resident memory, in MB (10^6)."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def measure(self, seconds: float) -> Usage:
        """Watches for a while."""
        began, cpu, written = time.monotonic(), self.cpu_s(), self.written
        self.read(seconds)
        took = time.monotonic() - began
        return Usage(took, 100 * (self.cpu_s() - cpu) / took, self.rss_mb(), (self.written - written) / 1024 / took)

    def close(self) -> None:
        """Ends the program."""
        try:
            os.kill(self.pid, signal.SIGTERM)
            self.read(2.0)
            os.kill(self.pid, signal.SIGKILL)
        except OSError:
            pass
        with suppress(ChildProcessError):
            os.waitpid(self.pid, 0)
        os.close(self.fd)


PERFMON = (sys.executable, "-m", "perfmon")
EMPTY_APP = (sys.executable, "-c", "from textual.app import App; App().run()")
