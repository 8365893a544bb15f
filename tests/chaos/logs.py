"""Logs of writers, and all that is done to logs: rotated in every way, emptied, replaced, moved; writers killed."""

from __future__ import annotations

import gzip
import mmap
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from .writer import STATE

MARK = re.compile(rb"\b(w\d+)-(\d{7})\b")
"""What each numbered line holds once."""
_PARTS = 4
"""So many rotated parts are kept."""
_AGE_S = 4.0
"""Seconds that a text exists before it is deleted, compressed or overwritten."""
_REST_S = 4.0
"""Seconds before a log is emptied in which nothing is written."""
_UNREAD_S = 4.0
"""Text of a log that is emptied is excluded by name where it was there for less."""
_RECONNECTED_S = 15.0
"""Seconds after an outage in which a host that is busy is reached again, and its logs are looked at."""


class Log:
    """A log with a writer, a process that can be killed and started again."""

    def __init__(
        self, name: str, path: Path, shape: str, way: str, rate: float, folder: Path, *, remote: bool = False
    ) -> None:
        """`way`: what is done to it; `folder` is for what nobody watches; `remote`: it is read over SSH."""
        self.remote = remote
        self.kind = f"{way} over SSH" if remote else way
        self.name, self.path, self.shape, self.way, self.rate = name, path, shape, way, rate
        self._folder = folder
        self._written = folder / f"{name}.log" if way == "synced" else path
        self._state = folder / f"{name}.state"
        self._state.write_bytes(STATE.pack(0, 0))
        self.kills = self.turns = 0
        self._turned: list[tuple[float, int, int]] = []
        """When something was done to it, and how many lines there were before and after it."""
        self._count = 0
        self._turned_at = 0.0
        self._start()

    def _start(self) -> None:
        command = [sys.executable, "-m", "chaos.writer", self._written, self.shape, self.name, self.rate, self._state]
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
        words = [str(word) for word in command]
        self._process = subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.order("go")

    def order(self, command: str) -> None:
        """Has the writer do something, and waits until it has."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()
        assert self._process.stdout.readline() == b"done\n", f"the writer of {self.path} has ended"

    @property
    def lines(self) -> tuple[int, int]:
        """How many numbered lines, and how many line ends, were written."""
        done, ends = STATE.unpack(self._state.read_bytes())
        return int(done), int(ends)

    def restart(self) -> None:
        """Kills the writer wherever it is, and starts it again after what it had written."""
        self._process.kill()
        self._process.wait()
        self._close()
        self.kills += 1
        done, ends = self.lines
        tail = self._written.read_bytes()[-100_000:] if self._written.exists() else b""
        if f"{self.name}-{done:07d}\n".encode() in tail.replace(b"\r\n", b"\n").replace(b'"}\n', b"\n"):
            # It was killed between the line and its count.
            with self._state.open("r+b") as file:
                state = mmap.mmap(file.fileno(), STATE.size)
                STATE.pack_into(state, 0, done + 1, ends + 1)
        self._start()

    def excused(self, number: int, outages: Iterable[tuple[float, float]]) -> bool:
        """That this line is lost is excluded by name: what could read it was not there while its text was."""
        at_s, before, after = next((turn for turn in self._turned if turn[2] > number), (0.0, 0, 0))
        if self.way == "wiped":
            return before - _UNREAD_S * self.rate <= number < after
        near = any(begin_s - _UNREAD_S < at_s < end_s + _RECONNECTED_S for begin_s, end_s in outages)
        return self.remote and self.way == "deleted" and near

    def rested(self, now: float) -> bool:
        """The text that it has now was there long enough to be read, or stays after the next turn."""
        return self.way in _STAYS or now - self._turned_at > _AGE_S

    def turn(self, chance: random.Random) -> None:
        """Does to it what is done to this log."""
        self.turns += 1
        self._turned_at = time.monotonic()
        before = self.lines[0]
        way = chance.choice(_ANY) if self.way == "mixed" else self.way
        _WAYS[way](self, chance)
        self._turned.append((self._turned_at, before, self.lines[0]))

    def end(self) -> None:
        """Ends the writer; what it wrote last is synced."""
        self.order("hold")
        if self.way == "synced":
            self._sync()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._close()

    def abandon(self) -> None:
        """Ends the writer, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._close()

    def _close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    # --- what is done to a log ---

    def _part(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")

    def _shift(self, ending: str = "") -> None:
        """Makes room for a part 1, as logrotate does: the oldest one goes."""
        for number in range(_PARTS, 0, -1):
            for end in ("", ".gz"):
                part = Path(f"{self._part(number)}{end}")
                if part.exists() and number == _PARTS:
                    part.unlink()
                elif part.exists():
                    part.rename(f"{self._part(number + 1)}{end}")

    def renamed(self, chance: random.Random) -> None:
        """Renamed under the writer, which opens the new file a moment later."""
        self._shift()
        self.path.rename(self._part(1))
        time.sleep(chance.uniform(0.0, 0.2))
        self.order("reopen")

    def zipped(self, chance: random.Random) -> None:
        """Renamed and compressed."""
        self.renamed(chance)
        part = self._part(1)
        Path(f"{part}.gz").write_bytes(gzip.compress(part.read_bytes()))
        part.unlink()

    def copied(self, chance: random.Random) -> None:
        """Copied and emptied: in the file of the last copy, or in a new one."""
        # The part that is overwritten was read long ago, unless a host could not be reached.
        if self.remote or self.turns <= _PARTS or chance.random() < 0.5:
            self._shift()
        self.order("hold")
        shutil.copyfile(self.path, self._part(1))
        os.truncate(self.path, 0)
        self.order("go")

    def emptied(self, chance: random.Random) -> None:
        """Emptied after a moment of rest."""
        self.order("hold")
        time.sleep(_REST_S)
        os.truncate(self.path, 0)
        self.order("go")

    def wiped(self, chance: random.Random) -> None:
        """Emptied while it is written."""
        os.truncate(self.path, 0)

    def deleted(self, chance: random.Random) -> None:
        """Deleted, and made again by the writer a moment later."""
        self.path.unlink()
        time.sleep(chance.uniform(0.0, 0.2))
        self.order("reopen")

    def moved(self, chance: random.Random) -> None:
        """Moved to another file system."""
        self.order("hold")
        shutil.move(self.path, elsewhere(self._folder) / f"{self.path.name}.{self.turns % _PARTS}")
        self.order("reopen")
        self.order("go")

    def edited(self, chance: random.Random) -> None:
        """Replaced by a copy of itself, as editors save."""
        self.order("hold")
        copy = self._folder / self.path.name
        shutil.copyfile(self.path, copy)
        copy.replace(self.path)
        self.order("reopen")
        self.order("go")

    def synced(self, chance: random.Random) -> None:
        """Brought up to date as rsync does: a hidden copy beside it takes its name."""
        self.order("hold")
        self._sync()
        self.order("go")

    def _sync(self) -> None:
        self._count += 1
        hidden = self.path.with_name(f".{self.path.name}.{self._count:06d}")
        shutil.copyfile(self._written, hidden)
        hidden.replace(self.path)


def elsewhere(folder: Path) -> Path:
    """A folder on another file system, where there is one, for those who have this one."""
    memory = Path("/dev/shm")
    there = memory / f"perfmon-{folder.parent.name}" if os.access(memory, os.W_OK) else folder / "moved"
    there.mkdir(exist_ok=True)
    return there


_WAYS: dict[str, Callable[[Log, random.Random], None]] = {
    "renamed": Log.renamed, "zipped": Log.zipped, "copied": Log.copied, "emptied": Log.emptied, "wiped": Log.wiped,
    "deleted": Log.deleted, "moved": Log.moved, "edited": Log.edited, "synced": Log.synced,
}  # fmt: skip
WAYS = (*_WAYS, "mixed")
_ANY = ("renamed", "zipped", "copied", "deleted", "moved", "edited")
_STAYS = ("renamed", "edited", "synced")
REMOTE_WAYS = ("renamed", "copied", "deleted")


@dataclass(frozen=True, slots=True)
class OneTimeLog:
    """A log that is written at once."""

    name: str
    lines: tuple[int, int]
    kind: str = "many files"

    def excused(self, number: int, outages: Iterable[tuple[float, float]]) -> bool:
        """Nothing is excluded."""
        return False


class Counted:
    """The marks of numbered lines in what was recorded."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.marks: Counter[tuple[bytes, int]] = Counter()
        for text in texts:
            self.marks.update((name, int(number)) for name, number in MARK.findall(text))

    def holds(self, log: Log | OneTimeLog, number: int) -> bool:
        """The line is there."""
        return self.marks[log.name.encode(), number] > 0

    def missing(self, log: Log | OneTimeLog) -> list[int]:
        """Numbers of lines that were written and are not there."""
        return [number for number in range(log.lines[0]) if not self.holds(log, number)]

    def doubled(self, log: Log | OneTimeLog) -> list[int]:
        """Numbers of lines that are there more than once."""
        return [number for number in range(log.lines[0]) if self.marks[log.name.encode(), number] > 1]
