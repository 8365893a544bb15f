"""What perfmon says of a case: of its files, as `perfmon analyze` reads them, and live, as they are written."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

from perfmon.core.config import Config
from perfmon.core.model import Block, Notice, Severity
from perfmon.diagnosis.result import Assessment, Diagnosis, Finding
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.worker import Watch
from perfmon.pipeline.offline import Options, examine
from perfmon.pipeline.session import Session
from perfmon.reports.layout import goal_text
from perfmon.sources.blocks import UNFINISHED_S, LineSplitter
from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import TimeRange

from .building import HARMLESS, Case, CaseLog

WINDOW_S = 600.0
_TICKS = 120
_LEAST_TICK_S = 5.0
_SIZES = (1, 7, 61, 211, 997, 4093, 13, 65521)
_DEATHS = ("run-failed", "out-of-memory", "collective-timeout", "loss-diverged")
_WITHOUT = {one: one.value for one in (Assessment.LEARNING, Assessment.WATCH, Assessment.UNREADABLE)}
"""What stands where there is no verdict, but for `none`."""
_PLACES = ("rank", "host", "component")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What perfmon says at one moment."""

    state: str
    verdict: str
    """A signature, or none, learning, watch, unreadable."""
    cause: str
    """Of a death; "" where none is named."""
    place: dict[str, str]
    """Rank, host and component of what failed, as far as they are named."""
    findings: frozenset[str]
    """Signatures that are held against the run: no notes, nothing that waits for proof, no echo of another finding."""
    lost_s: float
    """What the verdict costs."""
    sentence: str
    goal: str = ""
    """The progress, without the time that is left."""
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Watched:
    """What somebody sees who looks on."""

    last: Outcome
    named_s: float | None
    """Seconds from the onset until a right verdict stood for the first time; None: never, or no onset."""
    alarms: dict[str, float]
    """Everything that was the verdict or a bad state at some moment, and when first, in seconds since the begin."""
    withdrawn: int = 0
    """How often a right verdict was followed by none at all."""


def outcome(snapshot: Diagnosis) -> Outcome:
    """The answers of a snapshot in the words of a case."""
    verdict = snapshot.verdict
    held = [finding for finding in snapshot.findings if _is_held(finding)]
    named = "" if verdict is None else verdict.signature
    first = sorted(held, key=lambda finding: finding.signature != named)  # the verdict's own finding tells the place
    death = next((finding for finding in first if finding.signature in _DEATHS), None)
    result = first[0] if first and (first[0].signature == named or death is None) else death
    identity = {} if result is None else result.identity
    return Outcome(
        state=snapshot.run.state.value,
        verdict=named or _WITHOUT.get(snapshot.assessment, "none"),
        cause="" if death is None else str(death.identity.get("cause", death.signature)),
        place={name: str(identity[name]) for name in _PLACES if name in identity},
        findings=frozenset(finding.signature for finding in held),
        lost_s=0.0 if verdict is None else verdict.lost_s,
        sentence=snapshot.summary,
        goal="" if snapshot.run.goal is None else goal_text(snapshot.run.goal).partition(", about")[0],
        runs=snapshot.run.runs,
    )


def _is_held(finding: Finding) -> bool:
    return finding.state != "pending" and finding.severity is not Severity.INFO and finding.explained_by is None


def offline(case: Case, folder: Path) -> Outcome:
    """Of the complete files."""
    for log in case.logs:
        path = folder / log.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(log.data)
        written = case.begins.timestamp() + (log.pieces[-1][0] if log.pieces else 0.0)
        os.utime(path, (written, written))
    snapshot = examine(Options(tuple(str(folder / log.name) for log in case.logs), jobs=1))[0]
    return outcome(snapshot)


def in_pieces(case: Case) -> Outcome:
    """Of the same lines, fed in the order in which they were written, in pieces of odd sizes."""
    session = Session(Config())
    feeds = {log.name: _Feed(log) for log in case.logs}
    states = {log.name: session.add_source(log.name) for log in case.logs}
    sizes = cycle(_SIZES)
    for at_s in _ticks(case):
        for name, feed in feeds.items():
            for block in feed.until(at_s, sizes):
                session.feed(states[name], block)
    for name, feed in feeds.items():
        states[name].ended = True
        for block in feed.rest():
            session.feed(states[name], block)
    return outcome(session.snapshot())


class _Feed:
    """A log that is read bit by bit."""

    def __init__(self, log: CaseLog) -> None:
        self._left = deque(log.pieces)
        self._cutter = LineSplitter(frames=True)
        self.written_s: float | None = None

    def until(self, at_s: float, sizes: Iterator[int]) -> Iterator[Block]:
        """What was written up to a moment."""
        data = b""
        while self._left and self._left[0][0] <= at_s:
            self.written_s, piece = self._left.popleft()
            data += piece
        while data:
            size = next(sizes)
            yield from self._blocks(self._cutter.feed(data[:size]))
            data = data[size:]
        if self._cutter.unfinished and at_s - (self.written_s or 0.0) >= UNFINISHED_S:
            yield from self._blocks(self._cutter.release())

    def rest(self) -> Iterator[Block]:
        """What stands in the last line, which has no end."""
        yield from self._blocks(self._cutter.finish())

    @staticmethod
    def _blocks(items: Iterable[Block | Notice]) -> Iterator[Block]:
        return (item for item in items if not isinstance(item, Notice))


class _Clocked:
    """What a watch reads: files whose clock goes when it is told to."""

    player = None
    hosts = ()
    collectives = None
    specs: tuple[str, ...] = ()
    behind = 0
    of_past = False
    caught_up = True

    def __init__(self, case: Case) -> None:
        self._begins = case.begins.timestamp()
        self.now_s = 0.0

    def clock(self) -> float:
        return self._begins + self.now_s

    def changed_at(self, log: LogFile) -> float | None:
        return None


def live(case: Case) -> Watched:
    """Of the same lines as they are written, by somebody who looks on from the first line until after the last."""
    feed, feeds, sizes = _Clocked(case), {log.name: _Feed(log) for log in case.logs}, cycle(_SIZES)
    watch = Watch(feed, Config(), WINDOW_S, LogBuffer(), deque(), lambda: 0.0)  # type: ignore[arg-type]
    named_s: float | None = None
    alarms: dict[str, float] = {}
    last: Outcome | None = None
    withdrawn = 0
    right = set(case.truth.verdict) - set(HARMLESS)
    for number, at_s in enumerate(_ticks(case)):
        feed.now_s = at_s
        for name, log in feeds.items():
            for block in log.until(at_s, sizes):
                watch.take(LogFile(name, Path("/logs") / name), block)
        watch.judge_if_due(feed.clock())
        snapshot = watch.picture(TimeRange(), number).snapshot
        if snapshot is None:
            continue
        before, last = last, outcome(snapshot)
        withdrawn += before is not None and before.verdict in right and last.verdict in HARMLESS
        if snapshot.verdict is not None:
            alarms.setdefault(last.verdict, at_s)
        if last.state in ("failed", "stalled"):
            alarms.setdefault(last.state, at_s)
        onset = case.onset_s
        if onset is not None and named_s is None and at_s >= onset and last.verdict in right:
            named_s = at_s - onset
    return Watched(last or Outcome("", "none", "", {}, frozenset(), 0.0, ""), named_s, alarms, withdrawn)


def _ticks(case: Case) -> Iterator[float]:
    """When somebody looks: often after the onset of what is to be noticed, else as often as is cheap."""
    end = case.ends_s + case.watched_s
    coarse = max(end / _TICKS, _LEAST_TICK_S)
    within = case.truth.named_within_s or 0.0
    fine = max(1.0, within / 20)
    at_s = 0.0
    while at_s < end:
        yield at_s
        near = case.onset_s is not None and case.onset_s - coarse <= at_s <= case.onset_s + 2 * within
        at_s += fine if near else coarse
    yield end
    yield end + 1.0
