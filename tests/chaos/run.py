"""The run: what happens is drawn by chance from a seed, everything that may happen happens at least once."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from crafted import CRAFTED, SOUND
from sshd import Sshd
from terminals import Server, wait

from perfmon.core import InputError

from . import hostile
from .logs import REMOTE_WAYS, WAYS, Counted, Log, OneTimeLog, elsewhere
from .watchers import Command, Commands, Exporter, Process, Screen, Trouble, recorded
from .writer import SHAPES

_MANY_FILES = 2000
_BURST = 40_000
_RATE = 25.0
"""Lines a second of a writer."""
_PAUSE_S = 0.12
"""Between two things that happen, on average."""
_AGAIN = 10
"""So many times a kind of hostile lines is drawn, where they are short."""
_QUIET_S = 6.0
_PATIENCE_S = 150.0
"""Seconds for what is still to be read at the end."""
_SMALL = 200_000
"""Bytes of the disk that is full."""


@dataclass(slots=True)
class Outcome:
    """What a run has shown."""

    seed: int
    minutes: float
    burst: int = _BURST
    many: int = _MANY_FILES
    written: int = 0
    lost: Counter[str] = field(default_factory=Counter)
    """Lines that were not recorded, by what is done to their log."""
    excused: Counter[str] = field(default_factory=Counter)
    """Those that are excluded by name."""
    doubled: Counter[str] = field(default_factory=Counter)
    miscounted: dict[str, int] = field(default_factory=dict)
    """Logs of which the exporter counts other lines than there were: the difference."""
    missed: Counter[str] = field(default_factory=Counter)
    """Lines that the exporter has not read before they were gone, by what is done to their log."""
    done: Counter[str] = field(default_factory=Counter)
    """How often each thing was done."""
    inputs: Counter[str] = field(default_factory=Counter)
    """Hostile lines, by kind."""
    commands: int = 0
    trouble: Trouble = field(default_factory=Trouble)
    peak_mb: dict[str, int] = field(default_factory=dict)
    slowest: list[tuple[float, str]] = field(default_factory=list)


class Chaos:
    """One run, in a folder of its own."""

    def __init__(self, folder: Path, seed: int, minutes: float) -> None:
        self._folder = folder
        self._logs, self._many, self._there = (folder / name for name in ("logs", "many", "there"))
        self._hidden = folder / "hidden"
        for path in (self._logs / "hostile", self._many, self._there, self._hidden, folder / "mine", folder / "full"):
            path.mkdir(parents=True)
        (folder / "mine" / "mine.toml").write_text(hostile.PATTERN)
        self._chance = random.Random(seed)
        self.outcome = Outcome(seed, minutes)
        self._trouble = self.outcome.trouble
        self._writers = list(self._written())
        self._files: list[OneTimeLog] = []
        self._commands = Commands(folder, self._trouble)
        self._ssh = Sshd(folder / "sshd")
        self._away_until = 0.0
        self._outages: list[tuple[float, float]] = []
        """Begin and end of each."""
        self._ends: dict[Path, int] = {}
        self._number = 0

    def _written(self) -> Iterator[Log]:
        shapes = [*SHAPES] * 2
        self._chance.shuffle(shapes)
        for number, way in enumerate((*WAYS, "mixed", "copied", "never")):
            path = self._logs / f"rank{number}.log"
            yield Log(f"w{number}", path, shapes.pop(), way, _RATE, self._hidden)
        for number, way in enumerate((*REMOTE_WAYS, "never"), 50):
            path = self._there / f"far{number}.log"
            yield Log(f"w{number}", path, shapes.pop(), way, _RATE, self._hidden, remote=True)

    def run(self) -> Outcome:
        """All of it."""
        for log in self._writers:
            if log.way in ("renamed", "zipped", "copied"):  # parts that are there from the start
                for _ in range(2):
                    time.sleep(0.1)
                    log.turn(self._chance)
        self._ssh.start()
        server = Server(self._folder)
        try:
            with _small_disk(self._folder / "full") as full:
                self._watched(server, full)
        finally:
            for log in self._writers:
                log.abandon()
            shutil.rmtree(elsewhere(self._hidden))
            self._commands.stop()
            self._ssh.stop()
            server("kill-server")
        return self.outcome

    def _watched(self, server: Server, full: bool) -> None:
        logs, many, formats = self._logs, self._many, ("--formats", self._folder / "mine")
        remote = ("--ssh-config", self._ssh.config, "-o", "run.pmrec")
        self._first = {log.name: log.lines[0] for log in self._writers if log.way != "synced"}
        self._recorder = Process(self._folder, "record", "record", logs, many, f"ssh://box{self._there}", *remote)
        self._exporter = Exporter(
            self._folder, "export", "export", "prometheus", logs, "--port", "0", "--no-polls", *formats
        )
        self._screens = [Screen(server, self._folder, logs, many, *formats)]
        running = [self._recorder, self._exporter]
        try:
            wait(self._begun, "it records what is on the host")
            self._go_on(server, full)
            for log in self._writers:
                log.end()
            self._settle()
            for screen in self._screens:
                self.outcome.peak_mb["watch"] = max(self.outcome.peak_mb.get("watch", 0), screen.end(self._trouble))
            self.outcome.peak_mb |= {process.name: process.peak_mb for process in running}
            counted = self._exporter.page(self._trouble).get("perfmon_source_lines_total", {})
            for process in running:
                process.end(self._trouble)
            self._count(counted)
        finally:
            for process in running:
                process.kill()

    def _begun(self) -> bool:
        """All that was there has been read, on the host, too."""
        path = self._folder / "run.pmrec"
        if not path.exists() or not path.stat().st_size:
            return False
        marks = Counted(recorded(path)[0].values())
        return all(marks.holds(log, number) for log in self._writers for number in range(self._first.get(log.name, 0)))

    # --- what happens ---

    def _go_on(self, server: Server, full: bool) -> None:
        begun, length_s = time.monotonic(), 60.0 * self.outcome.minutes
        once = self._once(server, full)
        times = sorted(self._chance.uniform(0.05, 0.8) for _ in once)
        deck: list[Callable[[], None]] = []
        while (now_s := time.monotonic() - begun) < length_s:
            if not deck:
                deck = [action for action, count in self._often().items() for _ in range(count)]
                self._chance.shuffle(deck)
            if times and now_s >= times[0] * length_s:
                times.pop(0)
                self._do(once.pop())
            self._do(deck.pop())
            self._commands.step()
            if self._away_until and time.monotonic() > self._away_until:
                self._return_of_the_server()
            time.sleep(self._chance.expovariate(1.0 / _PAUSE_S))
        for action in once:
            self._do(action)
        if self._away_until:
            self._return_of_the_server()

    def _do(self, action: Callable[[], None]) -> None:
        self.outcome.done[action.__name__.strip("_")] += 1
        action()

    def _often(self) -> dict[Callable[[], None], int]:
        return {
            self._rotate: 16, self._kill_a_writer: 5, self._cut_the_connection: 2, self._stop_the_server: 1,
            self._hostile_lines: 24, self._key: 6, self._scrape: 4, self._command: 5, self._set_a_clock: 2,
            self._damaged_recording: 3, self._hostile_name: 3,
        }  # fmt: skip

    def _once(self, server: Server, full: bool) -> list[Callable[[], None]]:
        def full_state() -> None:
            """A monitor, a recording and a page on a disk that is full."""
            place, logs = self._folder / "full", self._logs
            if full:
                with suppress(OSError):
                    (place / "filling").write_bytes(b"x" * 2 * _SMALL)
            for limit in (None, _SMALL) if full else (_SMALL,):
                made = (self._folder if limit else place) / "full.pmrec"
                self._commands.add(
                    Command(("record", logs, "-o", made, "--for", "60s"), codes=(2,), made=made, size=limit)
                )
            made = place / "page.md"
            self._commands.add(Command(("snapshot", logs, "-o", made), codes=(2,), state=place, size=1000))
            self._screens.append(Screen(server, self._folder, logs / "hostile", state=place))

        def crafted_recordings() -> None:
            """Each of those that are known to be bad."""
            for number, data in enumerate((*CRAFTED.values(), SOUND)):
                self._recording(data, f"crafted{number}")

        return [
            full_state, crafted_recordings, self._many_files, self._flood, self._flood, self._kill_a_recorder,
            self._kill_a_recorder,
        ]  # fmt: skip

    def _rotate(self) -> None:
        now = time.monotonic()
        log = self._chance.choice([log for log in self._writers if log.way != "never" and log.rested(now)])
        log.turn(self._chance)
        self.outcome.done[f"way: {log.kind}"] += 1

    def _kill_a_writer(self) -> None:
        self._chance.choice(self._writers).restart()

    def _cut_the_connection(self) -> None:
        if not self._away_until:
            self._outages.append((time.monotonic(), time.monotonic()))
            self._ssh.cut()

    def _stop_the_server(self) -> None:
        if not self._away_until:
            self._ssh.stop()
            self._away_until = time.monotonic() + self._chance.uniform(0.5, 4.0)
            self._outages.append((time.monotonic(), self._away_until))

    def _return_of_the_server(self) -> None:
        self._ssh.start()
        self._away_until = 0.0
        self._outages[-1] = (self._outages[-1][0], time.monotonic())

    def _set_a_clock(self) -> None:
        step_s = self._chance.choice((-86_400, -3600, -5, 5, 3600, 86_400 * 400))
        self._chance.choice(self._writers).order(f"step {step_s}")

    def _flood(self) -> None:
        log = self._chance.choice(self._writers)
        log.order(f"burst {_BURST}")

    def _many_files(self) -> None:
        folder = self._many
        for number in range(_MANY_FILES):
            name = f"w{1000 + number}"
            lines = [f"2026-03-02 10:00:0{at} step {at} loss 2.5 uid {name}-{at:07d}\n" for at in range(3)]
            (folder / f"worker-{number}.log").write_text("".join(lines))
            self._files.append(OneTimeLog(name, (3, 3)))

    def _hostile_lines(self) -> None:
        kind = self._chance.choice([*hostile.KINDS])
        path = self._logs / "hostile" / f"{self._chance.choice((kind.split()[0], 'all'))}.log"
        self._append(path, kind)

    def _hostile_name(self) -> None:
        self._append(self._logs / "hostile" / self._chance.choice(hostile.NAMES), "secrets")

    def _append(self, path: Path, kind: str) -> None:
        again = 1 if kind in hostile.LARGE else _AGAIN
        data = b"".join(line + b"\n" for _ in range(again) for line in hostile.KINDS[kind](self._chance))
        cut = self._chance.randrange(len(data)) if self._chance.random() < 0.4 else 0
        with path.open("ab", buffering=0) as file:
            file.write(data[:cut])
            if cut:
                time.sleep(self._chance.uniform(0.01, 0.3))
            file.write(data[cut:])
        self.outcome.inputs[kind] += data.count(b"\n")
        if self._chance.random() < 0.02:
            path.rename(f"{path}.1")

    def _key(self) -> None:
        self._chance.choice(self._screens).act(self._chance, self._trouble)

    def _scrape(self) -> None:
        self._exporter.page(self._trouble)

    def _command(self) -> None:
        if len(self._commands) > 2:
            return
        logs, folder = self._logs, self._folder
        self._number += 1
        report = folder / f"report{self._number}"
        page, trace = report.with_suffix(".md"), report.with_suffix(".json")
        formats = ("--formats", folder / "mine")
        self._commands.add(
            self._chance.choice((
                Command(("analyze", logs, self._many)),
                Command(("analyze", logs, "--json", *formats), "document"),
                Command(("analyze", logs, "--explain-formats")),
                Command(("analyze", logs / "hostile", "-o", report), made=report),
                Command(("analyze", "run.pmrec", "--json"), "document"),
                Command(("snapshot", logs, self._many, "--for", "1s", "-o", page, *formats), made=page),
                Command(("snapshot", logs / "hostile", "--redact", "-o", "-"), "page"),
                Command(("snapshot", logs, "--json"), "document"),
                Command(("status", logs, self._many)),
                Command(("status", logs, "--format", "json"), "document"),
                Command(("status", logs / "hostile", "--format", "tmux")),
                Command(("export", "trace", logs, "-o", trace), made=trace),
                Command(("compare", logs / "hostile", logs)),
                    Command(("compare", logs, logs / "hostile", "-o", page), made=page),
                Command(("calibrate", logs, "-o", "-")),
                Command(("formats", "learn", logs / "hostile" / "all.log", "-o", folder / "learnt.toml")),
            ))
        )  # fmt: skip

    def _damaged_recording(self) -> None:
        """Bytes of a sound one, changed."""
        data = bytearray(self._chance.choice((SOUND, *CRAFTED.values())))
        for _ in range(self._chance.randrange(1, 5)):
            at = self._chance.randrange(min(len(data), 400))
            data[at] = self._chance.randrange(256)
        del data[self._chance.randrange(len(data)) :]
        if len(self._commands) <= 2:
            self._recording(bytes(data), "damaged")

    def _recording(self, data: bytes, name: str) -> None:
        self._number += 1
        path = self._folder / f"{name}-{self._number}.pmrec"
        path.write_bytes(data)
        self.outcome.inputs["recordings"] += 1
        self._commands.add(Command(("analyze", path)))

    def _kill_a_recorder(self) -> None:
        """Another recording begins, is killed, and what it holds is right."""
        self._number += 1
        path = self._folder / f"killed{self._number}.pmrec"
        process = Process(self._folder, path.stem, "record", self._logs, "-o", path)
        time.sleep(self._chance.uniform(3.0, 6.0))
        process.kill()
        self._sound(path)

    def _sound(self, path: Path) -> Counted:
        try:
            texts, _ = recorded(path)
        except (InputError, FileNotFoundError) as error:
            self._trouble.crashes.append(f"{path.name}: {error}")
            return Counted([])
        for name, text in texts.items():
            self._trouble.search(f"{path.name}: {name}", text.decode("utf-8", "replace"), shown=False)
        return Counted(texts.values())

    # --- what came of it ---

    def _settle(self) -> None:
        """Until nothing more is read."""
        limit = time.monotonic() + _PATIENCE_S
        recording = self._folder / "run.pmrec"
        last: object = None
        since = time.monotonic()
        while time.monotonic() < limit and (time.monotonic() - since < _QUIET_S or len(self._commands)):
            now = recording.stat().st_size, self._exporter.page(self._trouble).get("perfmon_run_lines_total")
            if now != last:
                last, since = now, time.monotonic()
            self._commands.step()
            time.sleep(0.25)

    def _count(self, counted: dict[str, float]) -> None:
        outcome = self.outcome
        marks = self._sound(self._folder / "run.pmrec")
        all_logs: list[Log | OneTimeLog] = [*self._writers, *self._files]
        for log in all_logs:
            outcome.written += log.lines[0]
            missing = marks.missing(log)
            excused = sum(log.excused(number, self._outages) for number in missing)
            outcome.excused[log.kind] += excused
            outcome.lost[log.kind] += len(missing) - excused
            outcome.doubled[log.kind] += len(marks.doubled(log))
        for path in (*self._folder.rglob("perfmon_*.md"), *self._folder.glob("state/**/*")):
            if path.is_file():
                self._trouble.search(path.name, path.read_text("utf-8", "replace"), shown=False)
        self._trouble.shell += hostile.owned(self._folder, Path.cwd())
        outcome.commands = self._commands.count
        outcome.slowest = sorted(self._commands.took, reverse=True)[:5]
        for log in self._writers:
            if not log.remote:
                parts = (lines for name, lines in counted.items() if Path(name).name.startswith(log.path.name))
                surplus = int(sum(parts)) - log.lines[1]
                # A writer that is killed leaves half a line.
                if surplus > log.kills or (surplus < 0 and log.way != "wiped"):
                    outcome.miscounted[log.kind] = surplus
                elif surplus < 0:
                    outcome.missed[log.kind] -= surplus


@contextmanager
def _small_disk(folder: Path) -> Iterator[bool]:
    """A disk that is soon full; False where that takes rights that are not given."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "none", str(folder)]
    made = os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield made
    finally:
        if made:
            subprocess.run(["umount", "--lazy", str(folder)], check=False)


def played(seed: int, minutes: float, keep: Path | None = None) -> Outcome:
    """The outcome of a run; its files stay in the folder `keep`."""
    if keep is not None:
        keep.mkdir(parents=True)
        return Chaos(keep, seed, minutes).run()
    with tempfile.TemporaryDirectory(prefix="perfmon-chaos-") as folder:
        return Chaos(Path(folder), seed, minutes).run()
