"""Puts observations together: beginnings with their ends, legs of weight updates, samples on the time axis.

Lines may be missing, doubled, out of order or late; what is missing stays unknown. Nothing here depends on how the
input was cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from .axis import Clock, heard, rebase, seen
from .model import (
    BEGINS_WITH,
    BETWEEN_RUNS_S,
    CLOSE,
    LEG,
    MARK,
    OPEN,
    ROW,
    SAMPLE,
    SPAN,
    STEP,
    TABLE,
    UNDER_WAY,
    Fields,
    Observation,
    Record,
    Ref,
    Span,
)
from .sourcestate import SourceState
from .store import Store
from .tables import Tables, Tell, Told
from .updates import Updates

_OPEN_LIMIT = 10_000
_STEPS = ("train-step", "orchestrator-step")
_WITHIN_STEPS = ("batch-wait", "policy-wait", "data-wait", "weight-sync")
"""What a step that is told later has waited for within."""


class Assembler:
    """Feeds a store with the records of all logs of a run."""

    def __init__(self, store: Store, tell: Tell) -> None:
        """`tell` says what a table over many lines means."""
        self.store = store
        self._tables = Tables(tell)
        self._updates = Updates(store)
        self._open: dict[tuple[int, str, str], Span] = {}
        self._steps: dict[tuple[int, str], float] = {}
        """The last step of each component, by log."""
        self._waited: dict[int, float] = {}
        """Seconds of waits since the last step, by log, where only what took time tells how it passed."""
        self._begun: dict[int, tuple[int, float]] = {}
        """Where no line has a clock: the line of the last step, and when that began."""
        store.opened = lambda: self.open_spans
        self._handlers: dict[int, Callable[[SourceState, float, Ref, Observation, str], None]] = {
            SPAN: self._span,
            OPEN: self._opened,
            CLOSE: self._closed,
            STEP: self._step,
            MARK: self._mark,
            TABLE: self._table,
            ROW: self._row,
        }

    def ingest(self, state: SourceState, clock: Clock, records: Sequence[Record], line_base: int = 0) -> None:
        """Adds the records of one block, which follow those of the blocks before it; `line_base` is added to lines."""
        sample, handlers, source = self.store.sample, self._handlers, state.index
        updates = self._updates
        updates.begin(clock)
        for pattern, line, offset, stamp, mono, observations, text in records:
            if observations and observations[0][0] == LEG:
                _, trace, joined = observations[0]
                updates.add(state, clock, trace, joined, line_base)
                continue
            time = clock.resolve(stamp, mono)
            if clock.rebased is not None:
                rebase(self.store, state, clock)
            if time is None:
                time, state.undated = state.pseudo, True
            else:
                time = seen(self.store, state, time, early=pattern >= 0)
            line += line_base  # noqa: PLW2901 - numbers of a range count from its first line
            if pattern < 0:
                ticked = mono if stamp is None else None
                heard(state, clock, pattern, time, ticked, (line, text), observations, line_base)
                continue
            for observation in observations:
                if observation[0] == SAMPLE:
                    sample(observation[1], observation[3], time, observation[2], source, line, offset, text)
                else:
                    handlers[observation[0]](state, time, Ref(source, line, offset), observation, text)
        state.kind, state.monotonic = clock.kind, clock.monotonic
        state.mono_to_wall, state.stepped_back = clock.mono_to_wall, clock.stepped_back
        self.store.version += 1
        self.store.settle()
        if len(self._open) > _OPEN_LIMIT:
            self._open = dict(list(self._open.items())[-_OPEN_LIMIT // 2 :])

    @property
    def open_spans(self) -> Collection[Span]:
        """What has begun and not ended, weight updates apart."""
        return self._open.values()

    def _span(self, state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        _, kind, duration, lead, key, fields = told
        start = self._passed(state, time, ref, kind, duration) if state.clockless else time - lead
        self._add(
            Span(
                kind, key, self.store.next_seq(), state.index, start, start + duration, duration, fields, [(ref, text)]
            )
        )
        if state.clockless:
            self._pass(state, kind, start + duration)

    def _passed(self, state: SourceState, time: float, ref: Ref, kind: str, duration: float) -> float:
        """When something began in a log without clocks: a step holds the waits that were told since the last one."""
        if kind in _STEPS:
            self._begun[state.index] = (ref.line, time - min(duration, self._waited.pop(state.index, 0.0)))
        line, begun = self._begun.get(state.index, (0, time))
        return begun if line == ref.line else time

    def _pass(self, state: SourceState, kind: str, end: float) -> None:
        """Lets the time of a log without clocks go on to where something ended."""
        if kind in _WITHIN_STEPS:
            self._waited[state.index] = self._waited.get(state.index, 0.0) + max(0.0, end - state.pseudo)
        state.pseudo = max(state.pseudo, end)

    def _add(self, span: Span) -> None:
        if not self.store.remarkable(f"span:{span.kind}", span.duration_s or 0.0):
            span.refs = [(ref, "") for ref, _ in span.refs]
        self.store.span(span)

    def _opened(self, state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        _, kind, key, fields = told
        slot = (state.index, kind, key)
        if slot not in self._open:
            self._open[slot] = Span(
                kind, key, self.store.next_seq(), state.index, time, None, None, fields, [(ref, text)]
            )

    def _closed(self, state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        _, kind, key, fields = told
        span = self._open.pop((state.index, kind, key), None) or self._open.pop((state.index, kind, ""), None)
        if span is None and not key:
            slot = next((slot for slot in self._open if slot[0] == state.index and slot[1] == kind), None)
            span = self._open.pop(slot) if slot is not None else None
        duration = fields.pop("duration_s", None)
        metric = fields.pop("metric", None)
        if span is None and duration is None:
            return
        if span is None:
            start = time if state.clockless else time - float(duration or 0.0)
            span = Span(kind, key, self.store.next_seq(), state.index, start, None, None, {}, [])
        if duration is None:
            duration = max(0.0, time - (span.start or 0.0))
            if metric is not None:
                scale = 1000.0 if str(metric).endswith("_ms") else 1.0
                self.store.sample(
                    str(metric), "", time, float(duration) * scale, ref.source, ref.line, ref.offset, text
                )
        self._close(span, state, time, float(duration), key, fields)
        span.refs.append((ref, text))
        self._add(span)

    def _close(self, span: Span, state: SourceState, time: float, duration: float, key: str, fields: Fields) -> None:
        """The line that ends a span says best how long it was; a header clock has seconds only."""
        if state.clockless:
            span.end = (span.start or 0.0) + duration
            self._pass(state, span.kind, span.end)
        else:
            span.start, span.end = time - duration, time
        span.duration_s = duration
        span.key = span.key or key
        span.fields = {**span.fields, **fields}

    def _step(self, state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        self.store.step(told[1], time, told[2], ref.source, ref.line, ref.offset, text)
        slot = (state.index, told[1])
        if told[2] <= BEGINS_WITH and self._steps.get(slot, 0) >= UNDER_WAY:
            self._abandon(state)
        self._steps[slot] = told[2]
        if told[1]:
            state.components.add(told[1])

    def _abandon(self, state: SourceState) -> None:
        """Another run began in a log, behind a long silence: what the one before had begun it never ends."""
        silence = next((gap for gap in reversed(state.gaps) if gap.end - gap.start >= BETWEEN_RUNS_S), None)
        if silence is None:
            return
        for slot, span in list(self._open.items()):
            if slot[0] == state.index and span.refs and span.refs[0][0].line <= silence.line:
                self.store.abandoned.append(self._open.pop(slot))

    def _mark(self, _state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        self.store.mark(told[1], told[3], time, told[2], ref.source, ref.line, ref.offset, text)

    def _table(self, state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        self._tell(self._tables.begin(state, time, ref, told, text))

    def _row(self, _state: SourceState, _time: float, ref: Ref, told: Observation, text: str) -> None:
        self._tables.row(ref, told[1], text)

    def end_tables(self) -> None:
        """What was read is all there is for now: tables at its end have ended."""
        for told in self._tables.end_all():
            self._tell(told)

    def _tell(self, ended: Told | None) -> None:
        if ended is None:
            return
        state, time, ref, observations, text = ended
        for told in observations:
            if told[0] == SAMPLE:
                self.store.sample(told[1], told[3], time, told[2], ref.source, ref.line, ref.offset, text)
            else:
                self._handlers[told[0]](state, time, ref, told, text)
