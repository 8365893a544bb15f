"""The status line in a real tmux: coloured as asked, and nothing of a log's text is obeyed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pictures
import pytest
import snapshots

from perfmon.alerting.notifications import Notifier
from perfmon.core.config import NotifyConfig
from perfmon.status.state_file import StateFile

pytestmark = [pytest.mark.system, pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")]
HOSTILE = "x#(touch owned)#{pane_pid}%H##[fg=blue]"


class Tmux:
    """A tmux server of its own."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._command = ["tmux", "-S", str(folder / name), "-f", "/dev/null"]
        self._env = {name: value for name, value in os.environ.items() if name != "TMUX"}
        self._env |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8", "PYTHONPATH": os.pathsep.join(sys.path)}

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._command, *arguments], cwd=self._folder, env=self._env, capture_output=True, text=True, check=False
        )
        return done.stdout

    def attach(self) -> str:
        """The command that shows this server in a terminal."""
        return f"env -u TMUX {' '.join(self._command)} attach"

    def title(self, words: str) -> bool:
        """Whether the pane comes to have this title."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            if self("display-message", "-p", "#{pane_title}").strip() == words:
                return True
            time.sleep(0.05)
        return False

    def shows(self, words: str, *options: str) -> str:
        """The screen, as soon as it shows `words`, or after a while."""
        deadline = time.monotonic() + 30
        while words not in (screen := self("capture-pane", "-p", *options)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return screen


@pytest.fixture
def inner(tmp_path: Path) -> Iterator[Tmux]:
    """A server with one pane in which nothing happens."""
    tmux = Tmux(tmp_path, "inner")
    tmux("new-session", "-d", "-x", "120", "-y", "5", "cat")
    yield tmux
    tmux("kill-server")


@pytest.fixture
def outer(tmp_path: Path, inner: Tmux) -> Iterator[Tmux]:
    """A server in whose pane the other one is shown, its status line included."""
    inner("set", "-g", "status-interval", "1", ";", "set", "-g", "status-right-length", "100")
    inner("set", "-g", "status-left", "")
    tmux = Tmux(tmp_path, "outer")
    tmux("new-session", "-d", "-x", "120", "-y", "6", inner.attach())
    yield tmux
    tmux("kill-server")


def test_the_status_line_shows_the_verdict_and_obeys_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inner: Tmux, outer: Tmux
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    base = snapshots.snapshot()
    assert base.verdict is not None
    bad = replace(base, verdict=replace(base.verdict, signature=HOSTILE))
    StateFile(["logs"]).write(pictures.picture(snapshot=bad))
    command = f"XDG_RUNTIME_DIR={tmp_path} {sys.executable} -m perfmon status --max-age 1h --format tmux"
    inner("set", "-g", "status-right", f"#({command})")
    screen = outer.shows("lost", "-e")
    assert "31% lost" in screen
    assert "\x1b[31m" in screen
    assert "logs: X(TOUCH OWNED){PANE_PID}%H[FG=BLUE] 31% lost" in screen
    assert not (tmp_path / "owned").exists()


def test_the_title_of_a_pane_is_text_and_goes_back(inner: Tmux) -> None:
    base = snapshots.snapshot()
    assert base.verdict is not None
    bad = replace(base, verdict=replace(base.verdict, title=HOSTILE))
    inner("select-pane", "-T", "mine")
    with Path(inner("display-message", "-p", "#{pane_tty}").strip()).open("w", buffering=1) as pane:
        notifier = Notifier(NotifyConfig(title=True), lambda text: print(text, end="", file=pane, flush=True))
        notifier.update(pictures.picture(snapshot=bad))
        assert inner.title("✗ CRIT x (touch owned) {pane_pid}%H [fg=blue]")
        notifier.close()
        assert inner.title("mine")
