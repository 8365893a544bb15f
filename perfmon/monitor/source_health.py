"""The health of each source: rates, age, unrecognised lines; findings of pollers after a run."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.alerting import alert_key, of_pollers
from perfmon.core import SAME, Block, evidence_text, percentile
from perfmon.diagnosis import Diagnosis, Finding, Moment, verdict_of
from perfmon.rules import Rhythm, Signature, usual_gap
from perfmon.sources.scan import ScanResult
from perfmon.store import SourceState, Store
from perfmon.viewmodel import Freshness

if TYPE_CHECKING:
    from perfmon.store import ProgressTrack

# --- Rates, age and freshness of each log ---

_RATE_S = 5.0
_LAGGING_S, _STALE_S = 3.0, 10.0
_IDLE_S = 3600.0
"""A server without requests prints nothing; after so long its log does not show that it still runs."""
_USUAL = 5.0
"""Times its usual gap that a log may be silent."""
_ARRIVALS = 64
_ENOUGH = 8
_NO_RHYTHM_S = 300.0
"""Of a log whose rhythm is not known."""
_PAUSES = 2.0
"""Times the second-longest of its earlier gaps that a log may be silent: such a pause may come with each step."""
_EVENTS = 256
"""The last progress of each kind that shows how often a log reports any."""
_BACK_S = 60.0


class SourceHealth:
    """Rates and age of one log."""

    def __init__(self) -> None:
        self.read_at: float | None = None
        """Time at which something was last read of it, by the clock of arrival."""
        self.grows = False
        """It was written to while it was followed."""
        self.undated_s: float | None = None
        """Patience in seconds where lines have no clocks, so that their gaps are unknown; None for others."""
        self._longest = (0.0, 0.0)
        """Its longest pauses while it was followed, in seconds."""
        self._gaps: deque[float] = deque(maxlen=_ARRIVALS)
        self._counts: deque[tuple[float, int, int]] = deque()

    def arrived(self, clock: float, live: bool) -> None:
        """Note that something was read; `live`: it was written just before, so the rhythm counts."""
        if live and self.read_at is not None:
            self._gaps.append(clock - self.read_at)
            second, first = sorted((*self._longest, clock - self.read_at))[1:]
            self._longest = (second, first)
        self.read_at, self.grows = clock, self.grows or live

    def count(self, clock: float, lines: int, size: int) -> None:
        """Remembers the counters of this moment."""
        self._counts.append((clock, lines, size))
        while len(self._counts) > 2 and clock - self._counts[1][0] >= _RATE_S:
            self._counts.popleft()

    def rates(self) -> tuple[float, float]:
        """Lines and bytes a second over the last seconds."""
        if len(self._counts) < 2:
            return (0.0, 0.0)
        (begin, lines, size), (end, more_lines, more_size) = self._counts[0], self._counts[-1]
        span = max(end - begin, 1e-3)
        return ((more_lines - lines) / span, (more_size - size) / span)

    def freshness(self, clock: float, state: SourceState, *, alone: bool = True) -> Freshness:
        """Freshness of the log at `clock`; `alone`: no other log shows that the run continues."""
        if state.ended:
            return Freshness.ENDED
        if self.read_at is None:
            return Freshness.WAITING
        age, patience = clock - self.read_at, self.patience_s(state)
        if age <= _LAGGING_S:
            return Freshness.FRESH
        if state.idle_silence and not state.busy:
            if alone and age > max(_IDLE_S, patience):
                return Freshness.STALE
            return Freshness.IDLE if age > patience else Freshness.FRESH
        if age > patience:
            return Freshness.STALE
        return Freshness.LAGGING if age > max(_LAGGING_S, patience / 2) else Freshness.FRESH

    def patience_s(self, state: SourceState) -> float:
        """Seconds of silence from which on the log is stale: its own rhythm decides."""
        longest = sorted(gap.end - gap.start for gap in state.gaps)[-2:]
        recurring = max(self._longest[0], longest[0] if len(longest) > 1 else 0.0)
        least = max(_STALE_S, _PAUSES * recurring)
        if len(self._gaps) >= _ENOUGH:
            return max(least, _USUAL * percentile(sorted(self._gaps), 0.95))
        usual = _NO_RHYTHM_S if state.lines < _ENOUGH else _USUAL * usual_gap(state)
        return max(least, usual if self.undated_s is None else self.undated_s)


def undated_patience_s(tracks: Iterable[ProgressTrack]) -> float:
    """Seconds for which a log without clocks may be silent, by how often it reports progress."""
    printed: dict[int, float] = {}
    for track in tracks:
        for line, time in zip(track.lines[-_EVENTS:], track.times[-_EVENTS:], strict=True):
            printed[line] = max(time, printed.get(line, time))  # a line may report a batch that ended before its step
    times = sorted(set(printed.values()))
    rhythm = Rhythm.of(after - before for before, after in pairwise(times))
    return _NO_RHYTHM_S if rhythm is None else max(_USUAL * rhythm.usual_s, rhythm.limit_s)


def all_servers_gone(sources: Iterable[tuple[SourceHealth, SourceState]], clock: float) -> bool:
    """Return True if each log is silent when idle, and all are for so long that they may be those of dead servers."""
    return all(
        one.idle_silence and not one.busy and health.freshness(clock, one) is Freshness.STALE for health, one in sources
    )


def stale_sources(sources: Iterable[tuple[SourceHealth, SourceState]], clock: float) -> tuple[list[SourceHealth], bool]:
    """Return the stale sources, and whether another one has recent output.

    A log that is silent when idle proves nothing: the others decide, where there are any.
    """
    logs = list(sources)
    decisive = [(health, state) for health, state in logs if state.busy or not state.idle_silence] or logs
    states = [(health, health.freshness(clock, state)) for health, state in decisive]
    stale = [health for health, freshness in states if freshness is Freshness.STALE]
    return stale, any(freshness not in (Freshness.STALE, Freshness.ENDED) for _, freshness in states)


def stands_at(state: SourceState, *, grows: bool) -> float | None:
    """Time of the last line of a log, on its own axis.

    That is earlier than its latest time if its clock was set back, or one line had a wrong time. Bars behind its last
    dated line are later than that, unless it `grows`: then lines are dated by their arrival.
    """
    last = state.last
    if state.passed is not None and state.tail is not None and state.passed > state.tail:
        return state.passed
    if last is None or state.tail is None or state.tail >= last - _BACK_S or last == state.ended_at:
        return last
    if last == state.bar_at and state.bar_line > state.last_line[0] and not grows:
        return last
    return state.tail


# --- A few unrecognised lines: the doctor shows them, so that a missing format can be added ---

_KEPT = 5
_EVERY_S = 2.0
_LOOKED_AT = 8
"""Lines of a block: some are chatter, some are recognised."""


class UnparsedSamples:
    """Samples of one log; looks at a few lines now and then, never at all."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=_KEPT)
        self._next = float("-inf")

    @property
    def lines(self) -> tuple[str, ...]:
        """The newest ones, made safe to show."""
        return tuple(self._lines)

    def look(self, block: Block, scanned: ScanResult, clock: float) -> None:
        """Looks at the first lines of a block, when it is time again."""
        if clock < self._next:
            return
        self._next = clock + _EVERY_S
        read = _lines_read(scanned)
        for line, raw in enumerate(block.data[: 1 << 14].split(b"\n")[:_LOOKED_AT], max(block.line, 1)):
            if raw.strip() and not any(first <= line <= last for first, last in read):
                text = evidence_text(raw.decode("utf-8", "replace"))
                if text not in self._lines:
                    self._lines.append(text)
                return


def _lines_read(scanned: ScanResult) -> list[tuple[int, int]]:
    """First and last lines of what was recognised; some equal lines are one."""
    read = []
    for pattern, line, _, _, _, observations, _ in scanned.records:
        if pattern >= 0:
            ahead = observations[-1][2] if observations and observations[-1][0] == SAME else 0
            read.append((line, line + ahead))
    return read


# --- Logs that are silent for long when the monitor is opened: more of them is due, or they are of the past ---

_DUE_S = 3600.0
"""Seconds without output within which a run that has not done its work may still be there."""
_HELD_S = 24 * _DUE_S
"""The same where a process has the log open: it may be a shell that had started the run."""
_MOST_DONE = 0.9
"""Share of its total from which on a counter shows no work that is left: the last lines may be missing."""
_MADE = 10
"""Items that a counter made at least: one that only began may have been given up."""
_PROCESSES = Path("/proc")


def is_awaited(
    path: Path, state: SourceState, store: Store, age_s: float, open_files: Callable[[], Container[str]]
) -> bool:
    """Return True if more lines of a log are due: a process of this machine has it open to write, or a counter
    shows that its work was not done `age_s` seconds ago.
    """
    if state.ended or age_s >= _HELD_S:
        return False
    is_undone = any(
        one.amount < _MOST_DONE * (one.total or 0.0)
        for one in store.progress.counters.values()
        if one.source == state.index and one.amount - one.first_amount >= _MADE
    )
    return (is_undone and age_s < _DUE_S) or (path.is_absolute() and os.path.realpath(path) in open_files())


def files_open_to_write() -> frozenset[str]:
    """The files that processes of this machine have open to write, as far as theirs can be seen."""
    found: set[str] = set()
    for opened in _PROCESSES.glob("[0-9]*/fd/*"):
        with suppress(OSError):  # another user's, or closed meanwhile
            name = os.readlink(opened)
            if name.startswith("/") and name not in found and _writes(opened.parent.parent / "fdinfo" / opened.name):
                found.add(name)
    return frozenset(found)


def _writes(info: Path) -> bool:
    flags = next((line.split()[1] for line in info.read_text("ascii").splitlines() if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


# --- Findings of pollers at present, combined with those of the end of a silent run ---

_OVER, _HOLDS = "resolved", ("firing", "resolving")
_FAULT = "fault"


def with_present(of_run: Diagnosis, of_now: Diagnosis, signatures: Iterable[Signature]) -> Diagnosis:
    """Add to the diagnosis of a run's end what pollers alone prove now, at no cost to the run.

    Their findings at the run's end are over if they prove them no more. A fault is the verdict if the run has none.
    """
    later = of_now.run.start - of_run.run.start
    proved = [finding for finding in of_now.findings if of_pollers(finding)]
    known = {finding.signature for finding in proved}
    present = {alert_key(finding): _moved(finding, later, known) for finding in proved}
    ended = [
        replace(finding, state=_OVER) if of_pollers(finding) else finding
        for finding in of_run.findings
        if alert_key(finding) not in present
    ]
    findings = (*present.values(), *ended)
    made = replace(of_run, findings=tuple(sorted(findings, key=lambda f: (-f.severity.rank, -f.lost_s, f.signature))))
    ranks = {signature.id: signature.rank for signature in signatures if signature.kind == _FAULT}
    faults = [one for one in present.values() if one.signature in ranks and one.state in _HOLDS]
    if of_run.verdict is None and faults:
        verdict = verdict_of(min(faults, key=lambda one: ranks[one.signature]))
        return replace(made, verdict=verdict, summary=verdict.sentence)
    return made


def _moved(finding: Finding, seconds: float, known: set[str]) -> Finding:
    """As seen from the window of the run."""
    moments = [Moment(one.id, one.start_s + seconds, one.end_s + seconds, one.key) for one in finding.moments]
    return replace(
        finding,
        first_s=finding.first_s + seconds,
        last_s=finding.last_s + seconds,
        since_s=finding.since_s + seconds,
        lost_s=0.0,
        lost_share=0.0,
        lost=(),
        moments=tuple(moments),
        explained_by=finding.explained_by if finding.explained_by in known else None,
    )


# --- Since when that lasts which holds now: windows that reach further and further back ---

_WORK_S, _FURTHER, _APART_S = 0.5, 3.0, 600.0
"""Seconds of work, the factor by which windows grow, and the seconds within which occurrences are of one time."""


def since_when(
    judged: Diagnosis, of_last: Callable[[float], Diagnosis], most_s: float, clock: Callable[[], float]
) -> Diagnosis:
    """Return the findings of `judged` as a longer window shows them, in which they began: at most `most_s` seconds.

    `of_last` judges so many seconds; a history that takes too much work is not looked at as a whole.
    """
    current, back_s = {alert_key(finding) for finding in judged.findings}, judged.run.end - judged.run.start
    until, found = clock() + _WORK_S, judged
    while back_s < most_s and any(finding.since_s < _APART_S for finding in found.findings) and clock() < until:
        back_s *= _FURTHER
        found = of_last(back_s)
        found = replace(found, findings=tuple(one for one in found.findings if alert_key(one) in current))
    return found
