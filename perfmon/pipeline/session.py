"""The whole path in one place: scanner, assembler, store, clocks and rules, from blocks of logs to a diagnosis.

Rules are imported when they are needed: by then processes that scan are at work.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from perfmon.core import (
    BUILTIN,
    FIGURES,
    MARKS,
    SHOWN_PROBLEMS,
    WATCHED,
    WHOLE,
    Block,
    Config,
    Detail,
    Notice,
    Observation,
    Progress,
    TimeBase,
    UsageError,
    moment,
)
from perfmon.rules import Bands, load_bands
from perfmon.sources import SourceClock
from perfmon.sources.formats import load_packs
from perfmon.sources.pollers import Area, PolledBlock, is_poll, polled_blocks
from perfmon.sources.scan import KEEP_ALL, EvidenceLimits, Heading, ReadingScanner, Scanner, ScanResult
from perfmon.store import Assembler, LatestReadings, Recent, Seen, SourceState, Store, logged_queues

if TYPE_CHECKING:
    from perfmon.clocks import Alignment
    from perfmon.diagnosis import Baseline, Diagnosis, Finding, Part, RuleSet, RunInfo
    from perfmon.rules import View

MEMORY_MB = 256
"""Default memory of the store for complete logs."""
_MB = 1 << 20
_QUIET_S = 600.0
"""Age of the last write that is stated for a run without a rhythm."""


def _limits_of_updates(bands: Bands) -> EvidenceLimits:
    """Limits below which a weight update is good in every value of its client: its lines are no evidence."""
    queue, rpc = bands.get("queue_ms"), bands.get("rpc_ms")
    return KEEP_ALL if queue is None or rpc is None else (queue.good, rpc.good)


class Session:
    """A run under observation: add blocks of logs, get diagnoses."""

    def __init__(self, config: Config, scanner: Scanner | None = None) -> None:
        self.config = config
        bands = load_bands(config.band_files)
        kept = bands
        if config.baseline != BUILTIN:
            from perfmon.diagnosis import tightest

            kept = tightest(bands)
        self.scanner = scanner or Scanner(load_packs(config.format_dirs), _limits_of_updates(kept))
        self.store = Store((config.memory_mb or MEMORY_MB) * _MB, kept.remarkable())
        self._bands = bands
        self._knowledge: RuleSet | None = None
        self._baseline: Baseline | None = None
        self._assembler = Assembler(self.store, self._of_table)
        self._clocks: dict[int, SourceClock] = {}
        self._headings: dict[int, Heading] = {}
        self.recent = Recent(self.store)
        self._packs = {pack.id: pack for pack in self.scanner.packs}
        self._readings = ReadingScanner(self.scanner.patterns)
        self.machines = LatestReadings()
        """Latest readings of pollers."""
        self.written: float | None = None
        """Time of the last write to the files that were read completely, in seconds since 1970; None if unknown."""
        self._seen: tuple[int, dict[int, float], tuple[Seen, ...]] = (0, {}, ())

    @property
    def knowledge(self) -> RuleSet:
        """Signatures and bands, read when they are first needed."""
        from perfmon.diagnosis import RuleSet
        from perfmon.rules import load_signatures

        if self._knowledge is None:
            level = self.config.async_level
            signatures = load_signatures(self.config.signature_dirs)
            self._knowledge = RuleSet(signatures, self._bands, None if level is None else float(level))
        return self._knowledge

    @property
    def baseline_note(self) -> str:
        """Result of learning thresholds from the run's own start; "" before the first attempt."""
        return "" if self._baseline is None else self._baseline.note

    def use_baseline(self, name: str) -> None:
        """Learn thresholds from the run's own start from now on (`auto`), or use those given again (`builtin`)."""
        self.config, self._baseline, self._knowledge = replace(self.config, baseline=name), None, None

    def _learn(self, alignment: Alignment) -> None:
        """Learn thresholds from the run's own start, if configured and due."""
        if self.config.baseline == BUILTIN:
            return
        from perfmon.diagnosis import Baseline

        if self._baseline is None:
            self._baseline = Baseline(self.knowledge)
        if self._baseline.look(self.store, alignment, self._observed_s(alignment)):
            self._knowledge = self._baseline.knowledge

    def _observed_s(self, alignment: Alignment) -> float:
        """Seconds from the first dated line to the last one."""
        from perfmon.rules import logs_of

        extents = [
            (state.first + alignment.shifts.get(state.index, 0.0), state.last + alignment.shifts.get(state.index, 0.0))
            for state in logs_of(self.store.sources)
            if state.first is not None and state.last is not None
        ]
        return max(last for _, last in extents) - min(first for first, _ in extents) if extents else 0.0

    def add_source(self, spec: str) -> SourceState:
        """A new log."""
        state = self.store.add_source(spec)
        state.polled = is_poll(spec)
        self._clocks[state.index] = SourceClock()
        self._headings[state.index] = Heading()
        return state

    def add(self, state: SourceState, item: Block | Notice) -> None:
        """Take in the next lines of a log, or a notice about it."""
        if isinstance(item, Notice):
            self.notice(state, item)
        else:
            self.feed(state, item)

    def feed(self, state: SourceState, block: Block) -> ScanResult | None:
        """Take in the next lines of a log; return the scan, or None for readings, which are objects."""
        if state.polled or isinstance(block, PolledBlock):
            for polled in polled_blocks(block):
                self._ingest(state, polled)
            return None
        scanned = self.scanner.scan(block.data, block.offset, max(block.line, 1), self._headings[state.index])
        again = block.line > 0 and block.line == state.next_line - 1  # one more frame of a bar, in the same line
        self.take(state, scanned)
        state.lines -= again
        state.next_line = block.line + scanned.lines
        return scanned

    def _ingest(self, state: SourceState, block: PolledBlock) -> None:
        """Take in readings: for the store, and those of pollers as latest readings."""
        self.take(state, self._readings.scan(block))
        state.next_line = block.line + len(block.readings)
        if state.polled:
            self.machines.ingest(block, state.index)

    def seen(self, alignment: Alignment) -> tuple[Seen, ...]:
        """Latest readings of all pollers, and of queues that logs report; times are on the run's axis."""
        version, shifts, seen = self._seen
        if (version, shifts) != (self.machines.version, alignment.shifts):
            seen = self.machines.seen(shifts=alignment.shifts)
            self._seen = (self.machines.version, alignment.shifts, seen)
        queues = logged_queues(self.store, seen[0].host if seen else "", alignment.shifts)
        return (*seen, *queues) if queues else seen

    def take(self, state: SourceState, scanned: ScanResult, line_base: int = 0) -> None:
        """Take in the scanned lines of a log; `line_base` is added to their line numbers."""
        state.bytes += scanned.size
        state.lines += scanned.lines
        state.patterns.update(scanned.recognised)
        implausible: dict[int, list[str]] = {}
        for line, problem in scanned.problems:
            implausible.setdefault(line, []).append(problem)
        for line, problems in implausible.items():
            state.skipped += 1
            if state.skipped <= SHOWN_PROBLEMS:
                values = ", ".join(dict.fromkeys(problems))
                state.note(f"line {line + line_base}: {values} is implausible: ignored")
        for line, slow in scanned.slow:
            state.note(f"line {line + line_base}: {slow}")
        self._assembler.ingest(state, self._clocks[state.index], scanned.records, line_base)

    def _of_table(self, pattern: int, values: Mapping[str, Any], low: float, high: float) -> list[Observation]:
        return self.scanner.patterns[pattern].of_table(dict(values), low, high)

    def notice(self, state: SourceState, notice: Notice) -> None:
        """Note that something was lost or unexpected in a log."""
        if notice.kind in MARKS:
            return
        state.note(notice.text)
        if notice.kind in ("lost", "capped"):
            state.errors += notice.count

    def snapshot(self, since: str | None = None, until: str | None = None, detail: Detail = WHOLE) -> Diagnosis:
        """Diagnose what is known now, within since..until."""
        return self.examined(since, until, detail)[0]

    def examined(
        self, since: str | None = None, until: str | None = None, detail: Detail = WHOLE
    ) -> tuple[Diagnosis, View]:
        """Diagnose as `snapshot`; also return the samples that were judged."""
        from perfmon.diagnosis import diagnose, judge, view_of

        self._characterise()
        self._assembler.end_tables()
        alignment = self.lay()
        self._learn(alignment)
        names = self.scanner.pattern_names
        clip: tuple[float | None, float | None] = (None, None)
        if since is not None or until is not None:
            if alignment.base is TimeBase.NONE:
                raise UsageError("--since and --until need timestamps, and these logs have none")
            whole = diagnose(self.store, self.knowledge, names, alignment=alignment, detail=FIGURES).run
            low, high = (None if text is None else moment(text, whole.start, whole.end) for text in (since, until))
            if (low is not None and high is not None and low >= high) or (low is not None and low > whole.end):
                raise UsageError("--since is after the last line or after --until")
            if high is not None and high <= whole.start:
                raise UsageError("--until is not after the first line")
            clip = (low, high)
        view = view_of(self.store, self.knowledge, alignment, clip)
        snapshot = judge(view, self.knowledge, alignment, names, detail)
        return self._completed(snapshot, alignment), view

    def lay(self) -> Alignment:
        """Align the logs, after removing the steps of clocks that were set; undated steps are spread over gaps."""
        from perfmon.clocks import align, find_clock_steps, remove_clock_step, spread_gaps

        spread_gaps(self.store)
        alignment = align(self.store)
        steps = find_clock_steps(self.store, alignment.shifts, self._clocks)
        for step in steps:
            remove_clock_step(self.store, self._clocks[step.source], step)
        return align(self.store) if steps else alignment

    def present(self, window: tuple[float, float], alignment: Alignment, now: float | None) -> Diagnosis:
        """Diagnose `window` (absolute seconds on the run's axis); the logs are followed until `now`, if given.

        Unlike `snapshot` its cost does not grow with the time before the window.
        """
        from perfmon.diagnosis import diagnose

        self._characterise()
        self._learn(alignment)
        names = self.scanner.pattern_names
        snapshot = diagnose(self.store, self.knowledge, names, window, alignment, WATCHED, now, self.recent)
        return self._completed(snapshot, alignment)

    def _completed(self, snapshot: Diagnosis, alignment: Alignment) -> Diagnosis:
        """A diagnosis with what pollers and the configuration add."""
        seen = self.seen(alignment)
        pid = _polled_pid(seen, [one.spec for one in self.store.sources if not one.polled])
        quiet = {one.id for one in self.knowledge.signatures if any(part.kind == "quiet" for part in one.subjects)}
        latest = {
            one.spec: max(one.last or 0.0, one.murmured or 0.0)
            + alignment.shifts.get(one.index, 0.0)
            - snapshot.run.start
            for one in self.store.sources
        }
        findings = tuple(
            _with_pid(one, pid, _going_on(one, latest) if one.signature in quiet else ()) for one in snapshot.findings
        )
        run = self._going(snapshot.run)
        return replace(snapshot, run=run, seen=seen, gpu_price=self.config.gpu_price, findings=findings)

    def _going(self, run: RunInfo) -> RunInfo:
        """The run; one whose files were last written to so long ago that it stands still has no time left."""
        if self.written is None or run.state not in (Progress.STARTING, Progress.RUNNING):
            return run
        quiet_s = time.time() - self.written
        if quiet_s <= (_QUIET_S if run.pace is None else run.pace.limit_s):
            return run
        goal = replace(run.goal, remaining_s=None) if run.goal is not None else None
        return replace(run, goal=goal, quiet_s=quiet_s)

    def parts(self, window: tuple[float | None, float | None], alignment: Alignment) -> tuple[Part, ...]:
        """Statistics of every metric by log and group, within `window` (absolute seconds on the run's axis)."""
        from perfmon.diagnosis import parts, view_of

        return parts(view_of(self.store, self.knowledge, alignment, window, recent=self.recent))

    def clock(self, state: SourceState) -> SourceClock:
        """The clock of a log."""
        return self._clocks[state.index]

    def _characterise(self) -> None:
        """Set the properties of each log that follow from the format packs of its lines."""
        for state in self.store.sources:
            packs = [self._packs[self.scanner.pattern_pack(at)] for at in state.patterns]
            state.idle_silence = any(pack.idle_silence for pack in packs)
            state.busy = any(self._last_of(state, pack.busy_metric) > 0 for pack in packs if pack.busy_metric)
            state.components |= {pack.component for pack in packs if pack.component}

    def _last_of(self, state: SourceState, metric: str) -> float:
        """The largest of the last values that a log reports of a metric for its groups; 0 without any."""
        values = [0.0]
        for (name, _), series in self.store.series.items():
            if name == metric and len(series):
                rows = zip(reversed(series.values), reversed(series.sources), strict=True)
                values += islice((value for value, source in rows if source == state.index), 1)
        return max(values)


# --- Commands to copy, for the process that is meant where it is known ---

_PID = re.compile(r"\bPID\b")
_STILL_S = 10.0
"""By so much may the last lines of processes that stop together lie apart."""
_PID_OF_LINE = re.compile(r"(?i)\bpid[ =:]{1,2}(\d{2,7})\b")


def _polled_pid(seen: Sequence[Seen], logs: Sequence[str]) -> str:
    """The process of the trainer, else the one that uses a GPU, of those that work where the logs are.

    "" without any, or where they are of several machines or kinds: which of them is meant is unknown then. That a
    process is a trainer proves nothing: it may be another job's.
    """
    polled = [one for one in seen if one.reading.area is Area.PROCESS]
    if len({one.host for one in polled}) != 1:
        return ""
    folders = [os.path.dirname(os.path.abspath(log.rpartition(":")[2])) for log in logs]
    own = [
        one.reading
        for one in polled
        if any(_is_near(one.reading.words.get("folder", ""), folder) for folder in folders)
    ]
    trains = [one.name for one in own if one.words.get("role") == "trainer"]
    on_gpu = {one.reading.name for one in polled if one.reading.words.get("gpu")}
    users = [one for one in own if one.name in on_gpu]
    alike = len({one.words.get("role") for one in users}) == 1
    return next(iter(trains), users[0].name if alike else "")


def _is_near(folder: str, log_folder: str) -> bool:
    """One of two folders is within the other, which is more than the top of a file system."""
    above, below = sorted((folder.rstrip("/"), log_folder.rstrip("/")), key=len)
    return above.count("/") >= 2 and f"{below}/".startswith(f"{above}/")


def _going_on(finding: Finding, latest: Mapping[str, float]) -> list[str]:
    """The logs with lines after the last stop began: their processes answer, and are not those that hang.

    `latest` has the time of the last line of each, in seconds since the run's start.
    """
    begin = finding.moments[-1].start_s if finding.moments else finding.first_s
    return [spec for spec, last_s in latest.items() if last_s > begin + _STILL_S]


def _with_pid(finding: Finding, polled: str, going_on: Sequence[str]) -> Finding:
    """The finding with the process of its own lines in its commands and advice, else with the one that was polled;
    lines of logs that are `going_on` are not its own."""
    if not any(_PID.search(command) for command in finding.commands):
        return finding
    lines = (line.text for line in finding.evidence if line.source not in going_on)
    own = (found[1] for text in lines if (found := _PID_OF_LINE.search(text)))
    pid = finding.identity.get("pid") or next(own, polled)
    if not pid:
        return finding
    commands, advice = (tuple(_PID.sub(pid, one) for one in texts) for texts in (finding.commands, finding.advice))
    return replace(finding, commands=commands, advice=advice)
