"""Combines observations: starts with their ends, phases of weight updates, samples on the time axis.

Lines may be missing, doubled, out of order or late; what is missing stays unknown. Nothing here depends on the
boundaries of blocks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from perfmon.core import (
    BEGINS_WITH,
    BETWEEN_RUNS_S,
    CLOSE,
    COUNTED,
    DETAIL,
    FAILURE,
    LEG,
    MARK,
    MEANS,
    OPEN,
    PROGRESS,
    ROW,
    RUN,
    SAME,
    SAMPLE,
    SPAN,
    STEP,
    TABLE,
    UNDER_WAY,
    UPTIME,
    Fields,
    Observation,
    Record,
    Ref,
    Span,
    adds_nothing,
)
from perfmon.sources import SourceClock

from .across_lines import ClocklessTime, ExpandTable, RunningMeans, TableResult, Tables
from .counters import Paces, StepSources, Totals, of_total
from .failures import Failure, own_time
from .progress import RunMark
from .source_state import SourceState
from .store import Store
from .weight_updates import Updates

_OPEN_LIMIT = 10_000
_ONE_BY_ONE = ("epoch",)
"""Kinds of which one runs at a time: without clocks their durations add up, as those of bars do."""
_OF_FAILURES = (FAILURE, DETAIL)
_KEPT_TEXT = 1000
"""Characters of the line of a failure."""
WAITS = frozenset(("batch-wait", "policy-wait", "data-wait", "checkpoint-wait"))
"""Spans whose start is no progress; their end is."""
_TRAINER, _BAR = "trainer", -1
"""Component whose steps a bar without a name may show; pseudo pattern of such steps."""
_UNNAMED = re.compile(r"[\d.:, ]*(?:, ip=[\w.:-]*)?")
"""The key of a bar without a name: empty, or the rank that draws it."""
_BARE = "items"
"""Kind of the progress that a bar without a name shows; its key is "", or the rank that draws it."""


class Assembler:
    """Feeds a store with the records of all logs of a run."""

    def __init__(self, store: Store, expand_table: ExpandTable) -> None:
        """`expand_table` returns the observations of a table over many lines."""
        self.store = store
        self._tables = Tables(expand_table)
        self._updates = Updates(store)
        self._open: dict[tuple[int, str, str], Span] = {}
        self._steps: dict[tuple[int, str], float] = {}
        """The last step of each component, by log."""
        self._paces, self._step_sources, self._totals = Paces(), StepSources(), Totals()
        self._running = RunningMeans()
        self._pattern = 0
        """The pattern of the current line."""
        self._bars: dict[int, Observation] = {}
        """The last frame of a bar without a name, by log."""
        self._trainers: dict[int, float | None] = {}
        """The total of that of a trainer, by log."""
        self._worked_out: Counter[tuple[str, int]] = Counter()
        """Number of samples that were derived from counters, by metric and log."""
        self._clockless = ClocklessTime()
        self._by_bars: dict[int, tuple[object, float]] = {}
        """By log the time of the last line with one, and the time since that line by bars and epochs."""
        self._undated = False
        """The current line has the clock of the one before it, or none."""
        store.opened = self._open.values
        self._handlers: dict[int, Callable[[SourceState, float, Ref, Observation, str], None]] = {
            SPAN: self._span,
            OPEN: self._opened,
            CLOSE: self._closed,
            STEP: self._step,
            MARK: self._mark,
            TABLE: self._tables.begin,
            ROW: self._row,
            PROGRESS: self._progress,
            FAILURE: self._failure,
            DETAIL: self._detail,
            RUN: self._run,
            COUNTED: self._counted,
            MEANS: self._means,
        }

    def ingest(self, state: SourceState, clock: SourceClock, records: Sequence[Record], line_base: int = 0) -> None:
        """Adds the records of one block, which follow those of the blocks before it; `line_base` is added to lines."""
        source = state.index
        updates = self._updates
        updates.begin(clock)
        for pattern, line, offset, stamp, mono, observations, text in records:
            if observations and observations[0][0] == LEG:
                _, trace, joined = observations[0]
                updates.add(state, clock, trace, joined, line_base)
                continue
            if pattern >= 0 and self._tables.is_open(source) and (not observations or observations[0][0] != ROW):
                self._end_table(self._tables.end(source))  # before time advances
            if stamp is not None and stamp[0] == UPTIME:
                mono, stamp = stamp[1], None  # noqa: PLW2901 - a clock without a time of day
            time = clock.resolve(stamp, mono)
            if clock.rebased is not None:
                self._paces.move(source, clock.rebased)
                self.store.shift_source(state, clock)
            if time is None:
                time, state.undated = state.pseudo, True
            else:
                # A line without a clock has that of the line before it; behind a bar it was printed later.
                clocked = time, mono  # a block begins without the timestamp of the one before it
                held = self._by_bars.get(source)
                self._undated = held is not None and held[0] == clocked
                if held is None or not self._undated:
                    held = self._by_bars[source] = clocked, 0.0
                if state.last is None and state.undated:  # its first clock also dates the bars before it
                    self._paces.move(source, time + held[1] - state.pseudo)
                time = self.store.extend(state, time + held[1], early=pattern >= 0)
            line += line_base  # noqa: PLW2901 - numbers of a range count from its first line
            if stamp is not None:
                state.second, state.kind = (stamp[0], int(stamp[1])), clock.kind
            if pattern < 0:
                ticked = mono if stamp is None else None
                state.record_gap(clock, pattern, time, ticked, (line, text), observations, line_base)
                continue
            self._pattern = pattern
            self._line(state, time, mono, Ref(source, line, offset), observations, text)
        state.kind, state.monotonic = clock.kind, clock.monotonic
        state.mono_to_wall, state.stepped_back = clock.mono_to_wall, clock.stepped_back
        self.store.version += 1
        self.store.settle()
        if len(self._open) > _OPEN_LIMIT:
            for slot in list(self._open)[: -_OPEN_LIMIT // 2]:
                del self._open[slot]

    def _line(
        self,
        state: SourceState,
        time: float,
        mono: float | None,
        ref: Ref,
        observations: Sequence[Observation],
        text: str,
    ) -> None:
        """Take in a line, and those that repeat it."""
        more = ahead = 0
        if observations and observations[-1][0] == SAME:
            _, more, ahead = observations[-1]
            observations = observations[:-1]
        if not adds_nothing(observations):
            state.run_of_lines = None
        elif state.repeats(mono, observations):
            state.same(time, 1 + more, ref.line + ahead, text, bool(observations))
            return
        progress = self.store.progress
        before = progress.advanced
        if state.clockless and len(observations) > 1 and any(map(_has_elapsed, observations)):
            for observation in filter(_has_elapsed, observations):  # they define the time of the line
                self._progress(state, time, ref, observation, text)
            observations, time = [one for one in observations if not _has_elapsed(one)], max(time, state.pseudo)
        elif state.clockless:
            time += self._clockless.steps_took(state.index, observations)
            state.pseudo = max(state.pseudo, time)
        if self.store.failures.is_quoting and (not observations or observations[0][0] not in _OF_FAILURES):
            self.store.failures.end_quotes(state.index)
        self._observe(state, time, ref, observations, text)
        if progress.advanced == before:
            state.live(time, ref.line, text)
        else:
            state.active(time, ref.line, text)
        if more:
            state.same(time, more, ref.line + ahead, text, bool(observations))

    def _span(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        _, kind, duration, lead, key, fields = observation
        if "each" in fields:
            number = float(fields.pop("each"))
            covered = self._clockless.covered(state.index, kind, number)
            if covered > 1:
                duration, lead, key = duration * covered, lead * covered, f"{number - covered + 1:g}-{number:g}"
        start = self._clockless.start_of(state, time, ref, kind, duration) if state.clockless else time - lead
        behind = fields.pop("behind", None) is not None or kind in _ONE_BY_ONE
        if behind and self._undated and not state.clockless:
            start, held = time, self._by_bars[state.index]
            state.bar_at, state.bar_line = self.store.extend(state, time + duration), ref.line
            self._by_bars[state.index] = (held[0], held[1] + state.bar_at - time)
        self._add(
            Span(
                kind, key, self.store.next_seq(), state.index, start, start + duration, duration, fields, [(ref, text)]
            )
        )
        if state.clockless:
            self._clockless.pass_to(state, kind, start + duration)
        self.store.progress.advance(state.index, kind, start + duration, ref.line, state.live_lines)

    def _add(self, span: Span) -> None:
        if not self.store.remarkable(f"span:{span.kind}", span.duration_s or 0.0):
            span.refs = [(ref, "") for ref, _ in span.refs]
        self.store.span(span)

    def _opened(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        _, kind, key, fields = observation
        slot = (state.index, kind, key)
        if kind not in WAITS:
            self.store.progress.advance(state.index, kind, time, ref.line, state.live_lines)
        begun = self._open.get(slot)  # where steps ended since then, its end was lost
        if begun is None or self.store.progress.has_stepped_since(state.index, begun.refs[0][0].line):
            self._open[slot] = Span(
                kind, key, self.store.next_seq(), state.index, time, None, None, fields, [(ref, text)]
            )

    def _closed(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        _, kind, key, fields = observation
        span = self._open.pop((state.index, kind, key), None) or self._open.pop((state.index, kind, ""), None)
        if span is None and not key:
            slot = next((slot for slot in self._open if slot[0] == state.index and slot[1] == kind), None)
            span = self._open.pop(slot) if slot is not None else None
        duration = fields.pop("duration_s", None)
        metric = fields.pop("metric", None)
        time -= float(fields.pop("before_s", 0.0))
        if span is None:
            if duration is None:
                return
            took = float(duration or 0.0)
            adds = state.clockless and not self.store.progress.has_shown(state.index, time, ref.line, took)
            start = time if adds else time - took
            span = Span(kind, key, self.store.next_seq(), state.index, start, None, None, {}, [])
        if duration is None:
            duration = max(0.0, time - (span.start or 0.0))
            if metric is not None:
                scale = 1000.0 if str(metric).endswith("_ms") else 1.0
                self.store.sample(str(metric), "", time, float(duration) * scale, ref, text)
        self._close(span, state, time, float(duration), key, fields)
        self.store.progress.advance(state.index, kind, time, ref.line, state.live_lines)
        span.refs.append((ref, text))
        self._add(span)

    def _close(self, span: Span, state: SourceState, time: float, duration: float, key: str, fields: Fields) -> None:
        """End a span; the duration in its last line is the best: a header clock has seconds only."""
        if state.clockless:
            span.end = (span.start or 0.0) + duration
            self._clockless.pass_to(state, span.kind, span.end)
        else:
            span.start, span.end = time - duration, time
        span.duration_s = duration
        span.key = span.key or key
        span.fields = {**span.fields, **fields}

    def _step(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        if observation[2] is not None:
            self._count_step(state, time, ref, text, observation[1], observation[2], self._pattern)
        elif (step := self._step_of_bar(state, time, ref, text)) is not None:
            self._count_step(state, time, ref, text, observation[1], step, _BAR)

    def _count_step(
        self, state: SourceState, time: float, ref: Ref, text: str, component: str, step: float, pattern: int
    ) -> None:
        slot = (state.index, component)
        if not self._step_sources.is_new(slot, pattern, step):
            return
        self.store.step(component, time, step, ref)
        self.store.progress.step(state.index, component, step, time, ref.line, state.live_lines)
        if step <= BEGINS_WITH and self._steps.get(slot, 0) >= UNDER_WAY:
            self._abandon(state)
        self._steps[slot] = step
        if component:
            state.components.add(component)

    def _step_of_bar(self, state: SourceState, time: float, ref: Ref, text: str) -> float | None:
        """The step in a trainer's bar without a name; none for one that has ended before."""
        bar = self._bars.get(state.index)
        if bar is None:
            return None
        _, _, amount, total, elapsed_s, remaining_s, key, _ = bar
        if total is None or (amount >= total and self._trainers.get(state.index) != total):
            return None
        self._trainers[state.index] = total
        self._progress(state, time, ref, (PROGRESS, "step", amount, total, elapsed_s, remaining_s, key, "step_s"), text)
        return float(amount)

    def _abandon(self, state: SourceState) -> None:
        """Drop the open spans of the earlier run in a log, after a long gap."""
        pause = next((gap for gap in reversed(state.gaps) if gap.end - gap.start >= BETWEEN_RUNS_S), None)
        if pause is None:
            return
        for slot, span in list(self._open.items()):
            if slot[0] == state.index and span.refs and span.refs[0][0].line <= pause.line:
                self.store.abandoned.append(self._open.pop(slot))

    def _progress(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        _, kind, amount, total, elapsed_s, remaining_s, key, metric = observation
        log = self.store.progress
        unnamed = kind in (_BARE, "step") and _UNNAMED.fullmatch(key) is not None
        if kind == _BARE and unnamed:
            self._bars[state.index] = observation
            if total is not None and self._trainers.get(state.index) == total:
                kind, metric = "step", "step_s"
                self._count_step(state, time, ref, text, _TRAINER, amount, _BAR)
        if amount is None:
            log.advance(state.index, kind, time, ref.line, state.live_lines)
            return
        if elapsed_s is not None:
            slot = (state.index, kind, key + of_total(total) if unnamed and total is not None else key)
            if state.clockless:
                time, pace = self._paces.shown(slot, amount, elapsed_s, state.pseudo, total, remaining_s)
                state.pseudo = time
            else:  # its frames have no clock: they are of the time of the last line that has one, or later
                then, pace = self._paces.along(slot, amount, elapsed_s, time, total, remaining_s)
                stamp, ahead = self._by_bars[state.index]
                self._by_bars[state.index] = (stamp, ahead + then - time)
                time = state.bar_at = self.store.extend(state, then)
                state.bar_line = ref.line
            if pace is not None and metric and not self._is_logged(metric, state.index):
                self.store.sample(metric, "", time, pace, ref, text)
        log.count(
            state.index,
            kind,
            key,
            time,
            ref.line,
            state.live_lines,
            amount,
            total,
            elapsed_s,
            remaining_s,
            text,
            unnamed,
        )

    def _is_logged(self, metric: str, source: int) -> bool:
        """Return True if lines of a log contain a metric themselves: then no more samples of it are derived there."""
        series = self.store.series.get((metric, ""))
        known = 0 if series is None or source not in series.peaks else series.peaks[source][0]
        if known > self._worked_out[metric, source]:
            return True
        self._worked_out[metric, source] += 1
        return False

    def _failure(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        _, cause, role, fatal, fields = observation
        if state.active_at is not None and time < state.active_at and state.kind is None:
            time = state.active_at  # after a bar that has the time; the line itself has no clock
        own = own_time(state.kind, time, fields)
        if own > time and state.last is not None:
            state.ended_at = state.recorded = state.last = max(state.last, own)  # the log goes on until then
        time = own
        failure = Failure(cause, role, fatal, time, state.index, ref.line, ref.offset, text[:_KEPT_TEXT], fields)
        self.store.failures.add(failure, self.store.progress.advanced)

    def _detail(self, state: SourceState, _time: float, ref: Ref, observation: Observation, _text: str) -> None:
        _, cause, fields = observation
        self.store.failures.detail(state.index, cause, ref.line, fields)

    def _run(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        _, kind, fields = observation
        self.store.progress.mark(RunMark(kind, time, state.index, ref.line, ref.offset, text[:_KEPT_TEXT], fields))

    def _mark(self, _state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        self.store.mark(observation[1], observation[3], time, observation[2], ref, text)

    def _counted(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        _, metric, total, group, key = observation
        rate = None if state.clockless else self._totals.rate((state.index, metric, group, key), time, total)
        if rate is not None:
            self.store.sample(metric, group, time, rate, ref, text)

    def _means(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        _, metric, group, count, part, whole, recent = observation
        for name, share in zip(
            (metric, recent), self._running.shares((state.index, metric, group), count, part, whole), strict=True
        ):
            if name and share is not None:
                self.store.sample(name, group, time, share, ref, text)

    def _row(self, _state: SourceState, _time: float, ref: Ref, observation: Observation, text: str) -> None:
        self._tables.row(ref, observation[1], text)

    def end_tables(self) -> None:
        """Close all tables: nothing follows for now."""
        for ended in self._tables.end_all():
            self._observe(*ended)

    def _end_table(self, ended: TableResult | None) -> None:
        if ended is not None:
            self._observe(*ended)

    def _observe(
        self, state: SourceState, time: float, ref: Ref, observations: Sequence[Observation], text: str
    ) -> None:
        for observation in observations:
            if observation[0] == SAMPLE:
                self.store.sample(observation[1], observation[3], time, observation[2], ref, text)
            else:
                self._handlers[observation[0]](state, time, ref, observation, text)


def _has_elapsed(observation: Observation) -> bool:
    """True for a counter with its elapsed time: in a log without a clock it is the clock."""
    return observation[0] == PROGRESS and observation[4] is not None
