"""A terminal that goes away without a word takes the monitor with it; one that sends what is no text does not."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time

import pytest

pytestmark = pytest.mark.system
PATIENCE_S = 30.0


def test_nobody_is_left_behind_when_the_terminal_hangs_up() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as under nohup, or a shell that keeps its jobs
        command = "import signal, sys\nfrom perfmon.cli import main\nsys.argv = ['perfmon', 'demo', '--speed', '50']\n"
        # perfmon listens to SIGHUP again; here nobody tells it, for the session leader is gone first
        os.execv(sys.executable, [sys.executable, "-c", f"{command}signal.signal = lambda *_: None\nmain()"])  # noqa: S606
    try:
        assert shown(terminal, b"TIMELINE")
        os.close(terminal)
        end = time.monotonic() + PATIENCE_S
        gone = 0
        while not gone and time.monotonic() < end:
            gone, _ = os.waitpid(pid, os.WNOHANG)
            time.sleep(0.1)
        assert gone == pid
    finally:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass


def test_a_byte_that_is_no_text_is_no_key_and_no_end() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-m", "perfmon", "demo"])  # noqa: S606
    try:
        assert shown(terminal, b"command")  # the footer: keys are taken
        os.write(terminal, b"\xff\xfe\xc3?")
        assert shown(terminal, b"every key")
        assert os.waitpid(pid, os.WNOHANG) == (0, 0)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)


def shown(terminal: int, words: bytes) -> bool:
    """Whether that comes to the terminal."""
    seen = b""
    end = time.monotonic() + PATIENCE_S
    while words not in seen and time.monotonic() < end:
        if select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 1 << 16)
    return words in seen
