"""What perfmon says of a recorded run: moment by moment as one who watches is told, and of all of it at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Severity
from perfmon.diagnosis.result import Diagnosis
from perfmon.monitor.scheduling import RunClock
from perfmon.monitor.source_health import stands_at
from perfmon.pipeline.session import Session
from perfmon.sources.blocks import LineSplitter
from perfmon.store.source_state import SourceState

from .recorded import Recorded

WINDOW_S = 600.0
TICK_S = 1.0
ASYNC_LEVEL = 2
"""What the lab's user would tell perfmon: a batch may come from the policy two steps before."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a run was judged."""

    verdict: str | None
    """Of the whole run, at its end."""
    verdict_at: Mapping[str, float]
    """When a signature was the verdict for the first time, in seconds since the start of the run."""
    found_at: Mapping[str, float]
    """When it was found for the first time, verdict or not; what only waits for proof is not found yet."""
    found: frozenset[str]
    """What is found in the whole run, at its end."""
    lost: Mapping[str, float]
    """Seconds by signature, at the end."""
    observed_s: float
    offsets: Mapping[str, float]
    """Of each log whose clock is not the client's, by how much."""
    sentence: str

    def first_verdict(self, since_s: float) -> str | None:
        """The first that there was after a moment."""
        later = [(at, name) for name, at in self.verdict_at.items() if at >= since_s]
        return min(later)[1] if later else None


def judge(recorded: Recorded, tick_s: float = TICK_S) -> Judgement:
    """Reads a run as it came, and asks every `tick_s` seconds."""
    verdict_at: dict[str, float] = {}
    found_at: dict[str, float] = {}
    live = _Live(recorded)
    for at_s, snapshot in live.watch(tick_s):
        if snapshot.verdict is not None:
            verdict_at.setdefault(snapshot.verdict.signature, at_s)
        for name in alarms(snapshot):
            found_at.setdefault(name, at_s)
    whole = live.session.snapshot()
    return Judgement(
        verdict=whole.verdict.signature if whole.verdict is not None else None,
        verdict_at=verdict_at,
        found_at=found_at,
        found=frozenset(finding.signature for finding in whole.findings),
        lost={entry.cause: entry.lost_s for entry in whole.ledger},
        observed_s=whole.run.wall_s,
        offsets={offset.source: offset.offset_s for offset in whole.clock_offsets},
        sentence=whole.summary,
    )


def alarms(snapshot: Diagnosis) -> set[str]:
    """Signatures of what is found: pending ones may yet come to nothing, notes of no weight are no alarm."""
    return {
        finding.signature
        for finding in snapshot.findings
        if finding.state != "pending" and finding.severity is not Severity.INFO
    }


class _Live:
    """A session that is fed as the run was printed."""

    def __init__(self, recorded: Recorded) -> None:
        self.session = Session(Config(async_level=ASYNC_LEVEL))
        self._recorded = recorded
        self._states: dict[str, SourceState] = {}
        self._cutters: dict[str, LineSplitter] = {}
        self._present = RunClock(WINDOW_S)

    def watch(self, tick_s: float) -> Iterator[tuple[float, Diagnosis]]:
        """What is told, and when."""
        read: dict[str, int] = {}
        arrivals, at = self._recorded.arrivals, 0
        end = arrivals[-1].at_s if arrivals else 0.0
        clock = tick_s
        while clock <= end + tick_s:
            fresh = False
            while at < len(arrivals) and arrivals[at].at_s <= clock:
                name, size = arrivals[at].log, arrivals[at].size
                self._take(name, self._recorded.logs[name][read.get(name, 0) : size])
                read[name], fresh, at = size, True, at + 1
            snapshot = self._look(clock, fresh)
            if snapshot is not None:
                yield clock, snapshot
            clock += tick_s

    def _take(self, name: str, data: bytes) -> None:
        if name not in self._states:
            self._states[name] = self.session.add_source(name)
            self._cutters[name] = LineSplitter()
        for item in self._cutters[name].feed(data):
            self.session.add(self._states[name], item)

    def _look(self, clock: float, fresh: bool) -> Diagnosis | None:
        alignment = align(self.session.store)
        newest = [
            last + alignment.shifts.get(state.index, 0.0)
            for state in self._states.values()
            if (last := stands_at(state, grows=False)) is not None
        ]
        if fresh and newest:
            self._present.arrived(max(newest), clock)
        now = self._present.now(clock)
        if now is None:
            return None
        return self.session.present((now - WINDOW_S, now), alignment, self._present.awaited(clock))
