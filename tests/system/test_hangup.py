"""A terminal that goes away without a word takes the monitor with it."""

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
        seen = b""
        end = time.monotonic() + PATIENCE_S
        while b"TIMELINE" not in seen and time.monotonic() < end:
            if select.select([terminal], [], [], 1.0)[0]:
                seen += os.read(terminal, 1 << 16)
        assert b"TIMELINE" in seen
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
