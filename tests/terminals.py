"""Real terminals for tests: windows of a tmux server of their own."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 20.0
PERFMON = f"{shlex.quote(sys.executable)} -m perfmon"


def wait(true: Callable[[], object], what: object = "") -> None:
    """Until that is so."""
    limit = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < limit, f"it never came to that: {what}"
        time.sleep(0.03)


class Server:
    """A tmux server; nothing of the user's settings counts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._command = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(("TMUX", "PERFMON"))}
        self._env |= {
            "TERM": "xterm-256color",
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": os.pathsep.join(sys.path),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_RUNTIME_DIR": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }
        self._count = 0

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], env=self._env, capture_output=True, text=True, check=False)
        return done.stdout

    def open(self, folder: Path, command: str, size: tuple[int, int] = (120, 30), **environment: str) -> Window:
        """A window in which a command runs, in a folder; after it a shell, that the screen stays."""
        self._count += 1
        name = f"w{self._count}"
        words = " ".join(f"{key}={shlex.quote(value)}" for key, value in environment.items())
        self("new-session", "-d", "-s", name, "-x", str(size[0]), "-y", str(size[1]), "bash --norc --noprofile -i")
        window = Window(self, name, folder)
        window.raw = self.folder / f"{name}.raw"
        self("pipe-pane", "-t", name, f"cat > {shlex.quote(str(window.raw))}")
        window.type(f' cd {shlex.quote(str(folder))}; clear; env {words} {command}; printf "\\nleft: %s\\n" "$?"')
        return window


class Window:
    """One of its windows."""

    raw: Path
    """All that was written to it."""

    def __init__(self, server: Server, name: str, folder: Path) -> None:
        self._server, self.name, self.folder = server, name, folder

    def type(self, line: str) -> None:
        """Types a line."""
        self._server("send-keys", "-t", self.name, "-l", line)
        self.press("Enter")

    def press(self, *keys: str) -> None:
        """Presses keys, as tmux calls them."""
        self._server("send-keys", "-t", self.name, *keys)

    def resize(self, width: int, height: int) -> None:
        """Gives it another size."""
        self._server("resize-window", "-t", self.name, "-x", str(width), "-y", str(height))

    @property
    def lines(self) -> list[str]:
        """What it shows."""
        return self._server("capture-pane", "-p", "-t", self.name).splitlines()

    @property
    def text(self) -> str:
        """What it shows."""
        return "\n".join(self.lines)

    def state(self, what: str) -> str:
        """A variable of tmux."""
        return self._server("display-message", "-p", "-t", self.name, f"#{{{what}}}").strip()

    def shows(self, words: str) -> None:
        """Waits until it shows these words."""
        limit = time.monotonic() + PATIENCE_S
        while words not in (text := self.text):
            assert time.monotonic() < limit, f"{words!r} never came:\n{text}"
            time.sleep(0.03)

    def hides(self, words: str) -> None:
        """Waits until it does not show these words any more."""
        wait(lambda: words not in self.text, words)

    @property
    def shell(self) -> int:
        """The process of the shell in it."""
        return int(self.state("pane_pid"))

    @property
    def processes(self) -> list[int]:
        """The processes that the shell has begun."""
        return children(self.shell)

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to what runs in it."""
        for process in self.processes:
            os.kill(process, number)

    @property
    def sane(self) -> bool:
        """The shell has its screen, its cursor and no mouse."""
        return self.state("alternate_on") + self.state("cursor_flag") + self.state("mouse_any_flag") == "010"


def children(process: int) -> list[int]:
    """Processes that another one has begun and that still run."""
    try:
        return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []
