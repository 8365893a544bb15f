"""Real processes of perfmon, and all that they show and write."""

from __future__ import annotations

import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from terminals import PERFMON, Server, Window

from perfmon.core import Block, InputError
from perfmon.recording import open_recording

from . import hostile

LIMIT_S = 90.0
"""A command that takes longer hangs: the longest takes a few seconds where the machine has nothing else to do."""
_CODES = (0, 1, 2, 3, 130)
PROGRAM = (sys.executable, "-m", "perfmon")


@dataclass(slots=True)
class Trouble:
    """What went wrong, in words."""

    crashes: list[str] = field(default_factory=list)
    hangs: list[str] = field(default_factory=list)
    escapes: list[str] = field(default_factory=list)
    secrets: list[str] = field(default_factory=list)
    shell: list[str] = field(default_factory=list)
    texts: int = 0
    """Pages, screens and files that were searched."""
    hostile: int = 0
    """Those of them that show text of hostile lines."""

    def search(self, where: str, text: str, *, shown: bool = True) -> None:
        """Searches a text that perfmon made; `shown`: as it is, in a terminal."""
        self.texts += 1
        self.hostile += hostile.CANARY in text or "***" in text
        self.secrets += [f"{where}: {secret}" for secret in hostile.secrets_in(text)]
        if shown:
            self.escapes += [f"{where}: {escape}" for escape in hostile.escapes_in(text)[:3]]

    def page(self, where: str, text: str) -> None:
        """Searches a Markdown page."""
        self.search(where, text)
        self.escapes += [f"{where}: {tag}" for tag in hostile.tags_in(text)]

    def document(self, where: str, text: str) -> None:
        """Searches a JSON document."""
        self.search(where, text)
        try:
            json.loads(text, parse_constant=_refused)
        except ValueError as error:
            self.crashes.append(f"{where}: no JSON: {error}")


def _refused(word: str) -> None:
    raise ValueError(f"{word} is no number of JSON")


def environment(folder: Path, state: Path | None = None) -> dict[str, str]:
    """Without any settings of the user's."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PERFMON", "TMUX"))}
    return env | {
        "PYTHONPATH": os.pathsep.join(sys.path),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_STATE_HOME": str(state or folder / "state"),
        "XDG_RUNTIME_DIR": str(state or folder),
        "COLUMNS": "120",
        "PERFMON_DEBUG": "1",
    }


class Command(NamedTuple):
    """A command that ends by itself."""

    words: Sequence[str | Path]
    kind: str = "text"
    """Of its output: text, page (Markdown), document (JSON)."""
    codes: Sequence[int] = _CODES
    made: Path | None = None
    """A file or folder that it writes."""
    state: Path | None = None
    size: int | None = None
    """Bytes that a file may have."""


class Commands:
    """Runs commands, one at a time, next to everything else."""

    def __init__(self, folder: Path, trouble: Trouble) -> None:
        self.count = 0
        self._folder, self._trouble = folder, trouble
        self._queue: list[Command] = []
        self._now: tuple[Command, subprocess.Popen[bytes], float] | None = None
        self.took: list[tuple[float, str]] = []

    def add(self, command: Command) -> None:
        """Puts one into the queue."""
        self._queue.append(command)

    def __len__(self) -> int:
        return len(self._queue) + (self._now is not None)

    def step(self) -> None:
        """Looks after the one that runs, and starts the next one."""
        if self._now is not None:
            command, process, begun = self._now
            if process.poll() is None and time.monotonic() - begun > LIMIT_S:
                self._trouble.hangs.append(f"{self._name(command)}: {_stacks(process.pid)}")
                process.kill()
                process.wait()
                self._now = None
            elif process.poll() is not None:
                self._now = None
                self.took.append((time.monotonic() - begun, self._name(command)))
                self._examine(command, process.returncode)
        if self._now is None and self._queue:
            command = self._queue.pop(0)
            with self._file("out").open("wb") as out, self._file("err").open("wb") as err:
                process = subprocess.Popen(
                    [*PROGRAM, *map(str, command.words)],
                    cwd=self._folder,
                    env=environment(self._folder, command.state),
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    preexec_fn=_limited(command.size),  # noqa: PLW1509 - before any thread is started
                )
            self.count += 1
            self._now = command, process, time.monotonic()

    def stop(self) -> None:
        """Ends the one that runs."""
        self._queue.clear()
        if self._now is not None:
            self._now[1].kill()
            self._now[1].wait()

    def _file(self, name: str) -> Path:
        return self._folder / f"command.{name}"

    @staticmethod
    def _name(command: Command) -> str:
        return " ".join(map(str, command.words))[:200]

    def _examine(self, command: Command, code: int) -> None:
        name = self._name(command)
        out, err = (self._file(end).read_text("utf-8", "surrogateescape") for end in ("out", "err"))
        if code not in command.codes or "Traceback (most" in err:
            self._trouble.crashes.append(f"{name}: exit code {code}: {err[-1500:]}")
        self._trouble.search(f"{name} (messages)", err)
        if code in (0, 1) and out:
            look = {"page": self._trouble.page, "document": self._trouble.document}
            look.get(command.kind, self._trouble.search)(name, out)
        made = [] if command.made is None else [command.made, *command.made.rglob("*")]
        for path in made:
            if path.suffix == ".pmrec" and path.exists():
                try:
                    recorded(path)
                except InputError as error:
                    self._trouble.crashes.append(f"{name}: {error}")
            if path.is_file() and path.suffix in (".md", ".json", ".txt", ".html", ".csv", ".svg"):
                text = path.read_text("utf-8", "surrogateescape")
                look = {".md": self._trouble.page, ".json": self._trouble.document}
                look.get(path.suffix, self._trouble.search)(f"{name}: {path.name}", text)


def _stacks(pid: int) -> str:
    """What the threads of a process do, where py-spy can tell."""
    spy = Path(sys.executable).with_name("py-spy")
    done = subprocess.run([spy, "dump", "--pid", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout[-3000:]


def _limited(size: int | None) -> Callable[[], None] | None:
    if size is None:
        return None

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


class Process:
    """A process of perfmon that runs all the time."""

    def __init__(self, folder: Path, name: str, *words: str | Path) -> None:
        self.name, self._folder = name, folder
        self.stderr_path = folder / f"{name}.err"
        self.begun = time.monotonic()
        with self.stderr_path.open("ab") as err:
            self.process = subprocess.Popen(
                [*PROGRAM, *map(str, words)],
                cwd=folder,
                env=environment(folder),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=err,
            )

    def end(self, trouble: Trouble, codes: Sequence[int] = (0,)) -> None:
        """Ends it as a user would, and looks at what it has told."""
        self.process.terminate()
        try:
            code = self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            trouble.hangs.append(f"{self.name} does not end")
            self.process.kill()
            code = codes[0]
            self.process.wait()
        text = self.stderr_path.read_text("utf-8", "surrogateescape")
        trouble.search(f"{self.name} (messages)", text)
        if code not in codes or "Traceback (most" in text:
            trouble.crashes.append(f"{self.name}: exit code {code}: {text[-1500:]}")

    def kill(self) -> None:
        """Ends it at once."""
        self.process.kill()
        self.process.wait()

    @property
    def peak_mb(self) -> int:
        """The most memory that it has taken; 0 once it has ended."""
        return peak_mb(self.process.pid)


def peak_mb(pid: int) -> int:
    """The most memory that a process has taken."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return int(match[1]) >> 10 if (match := re.search(r"VmHWM:\s*(\d+)", status)) else 0


class Exporter(Process):
    """`perfmon export prometheus`, and a Prometheus that scrapes it."""

    scrapes = 0
    _url = ""

    def page(self, trouble: Trouble) -> dict[str, dict[str, float]]:
        """A scrape, searched: values by name and log; empty while it does not listen."""
        if not self._url:
            match = re.search(r"http://\S+/metrics", self.stderr_path.read_text("utf-8", "replace"))
            self._url = match[0] if match else ""
            return {}
        try:
            with urllib.request.urlopen(self._url, timeout=LIMIT_S) as answer:  # noqa: S310 - our own server
                text = answer.read().decode()
        except urllib.error.HTTPError as error:
            trouble.crashes.append(f"exporter: {error}")
            return {}
        except TimeoutError:
            trouble.hangs.append("exporter: no answer")
            return {}
        except OSError as error:
            trouble.crashes.append(f"exporter: {error}")
            return {}
        self.scrapes += 1
        trouble.search("exporter", text)
        found: dict[str, dict[str, float]] = {}
        try:
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    found.setdefault(sample.name, {})[sample.labels.get("log", "")] = sample.value
        except ValueError as error:
            trouble.crashes.append(f"exporter: the page cannot be read: {error}")
        return found


class Screen:
    """`perfmon watch` in a real terminal, whose keys a user presses."""

    _KEYS = (
        ("Tab",), ("Enter",), ("Escape",), ("z",), ("L",), ("?",), ("D",), ("w",), ("PageUp",), ("End",), ("Up", "Up"),
        ("/",), ("s",), ("T",), ("S-Left",), ("BTab",), ("Space",), (":",), ("Down",), ("e",),
    )  # fmt: skip
    _SIZES = ((120, 30), (200, 50), (80, 24), (60, 10), (40, 4))

    def __init__(self, server: Server, folder: Path, *words: str | Path, state: Path | None = None) -> None:
        self.server = server
        self._state = state
        self._command = f"{PERFMON} watch {' '.join(map(str, words))} --no-polls"
        self._folder = folder
        self._window = self._open()
        self.views = 0

    def _open(self) -> Window:
        command = f"env PERFMON_DEBUG=1 {self._command}"
        if self._state is None:
            return self.server.open(self._folder, command)
        place = str(self._state)
        return self.server.open(self._folder, command, XDG_STATE_HOME=place, XDG_RUNTIME_DIR=place)

    def act(self, chance: random.Random, trouble: Trouble) -> None:
        """Presses a key, or gives it another size; searches what is shown."""
        if chance.random() < 0.2:
            self._window.resize(*chance.choice(self._SIZES))
        else:
            self._window.press(*chance.choice(self._KEYS))
        self.look(trouble)

    def look(self, trouble: Trouble) -> None:
        """Searches what is shown."""
        self.views += 1
        trouble.search("screen", self._window.text)
        if "Traceback (most" in self._window.text.replace("│", "") and "left: " in self._window.text:
            trouble.crashes.append(f"screen: {self._window.text}")

    @property
    def running(self) -> bool:
        """It has not left."""
        return not re.search(r"^left: \d+", self._window.text, re.MULTILINE)

    def end(self, trouble: Trouble) -> int:
        """Requires that it still answers keys, and ends it; the most memory that it took, in MB."""
        peak = max((peak_mb(pid) for pid in self._window.processes), default=0)
        self._window.resize(120, 30)
        if not self.running:
            trouble.crashes.append(f"screen: it has left: {self._window.text}")
            return peak
        if not self._until(lambda: self._closed("every key"), "Escape", "?"):
            trouble.hangs.append(f"screen: no answer to a key: {self._window.text}")
        if not self._until(lambda: not self.running, "Escape", "Escape", "q"):
            trouble.hangs.append(f"screen: it does not end: {self._window.text}")
        left = re.search(r"^left: (\d+)", self._window.text, re.MULTILINE)
        if left is None or left[1] != "0" or not self._window.sane:
            trouble.crashes.append(f"screen: {self._window.text}")
        raw = self._window.raw.read_bytes()
        trouble.escapes += [f"screen: {escape}" for escape in hostile.escapes_sent(raw)]
        trouble.secrets += [f"screen: {secret}" for secret in hostile.secrets_in(raw.decode("utf-8", "replace"))]
        if hostile.CANARY in self._window.state("pane_title") + self.server("show-buffer"):
            trouble.escapes.append("screen: the title or the clipboard")
        return peak

    def _closed(self, words: str) -> bool:
        return words in self._window.text.lower()

    def _until(self, true: Callable[[], bool], *keys: str) -> bool:
        limit = time.monotonic() + LIMIT_S
        while time.monotonic() < limit:
            for key in keys:  # an escape and what follows it at once would be another key
                self._window.press(key)
                time.sleep(0.3)
            for _ in range(20):
                if true():
                    return True
                time.sleep(0.1)
        return False


def recorded(path: Path) -> tuple[dict[str, bytes], str | None]:
    """The text of each log of a recording, and what it tells of its end."""
    recording = open_recording(path)
    parts: dict[str, list[bytes]] = {}
    for frame in recording.frames():
        if isinstance(frame.item, Block):
            parts.setdefault(frame.log, []).append(frame.item.data)
    return {name: b"".join(blocks) for name, blocks in parts.items()}, recording.note
