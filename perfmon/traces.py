"""Puts observations together: the legs of weight updates, beginnings with their ends, samples on the time axis.

Lines may be missing, duplicated, out of order or late: a leg is told once, the first line wins; what is missing stays
unknown. Nothing here depends on how the input was cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from .model import (
    CLOSE,
    LEG,
    LEGS,
    MARK,
    OPEN,
    SAMPLE,
    SPAN,
    STEP,
    Fields,
    Observation,
    Record,
    Ref,
    Span,
    Update,
)
from .store import SourceState, Store

_BIT = {leg: 1 << at for at, leg in enumerate(LEGS)}
_TIME_FIELD = {
    "client.send": "send_t",
    "server.recv": "recv_t",
    "rpc.start": "rpc_start_t",
    "rpc.done": "rpc_done_t",
    "client.done": "done_t",
}
_CLIENT_LEGS = _BIT["client.send"] | _BIT["client.done"]
_OPERATIONS = ("update_weights", "reload_weights")
_OPEN_LIMIT = 10_000
_TRACE_LIMIT = 100_000
QUIET_FROM_S = 10.0


class Clock(Protocol):
    """What the assembler needs of a log's clock: see `perfmon.sources.timeline.SourceClock`."""

    kind: int | None
    rebased: float | None
    stepped_back: int

    @property
    def mono_to_wall(self) -> float | None:
        """Seconds to add to a `t=` to get the log's axis."""

    @property
    def monotonic(self) -> bool:
        """The axis is a monotonic clock."""

    def resolve(self, stamp: tuple[int, float] | None, mono: float | None) -> float | None:
        """Seconds on the log's axis, None before any clock was seen."""


class Assembler:
    """Feeds a store with the records of all logs of a run."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._updates: dict[str, Update] = {}
        self._reused: dict[str, list[Update]] = {}
        self._open: dict[tuple[int, str, str], Span] = {}
        self._seq = 0
        self._handlers: dict[int, Callable[[SourceState, float, Ref, float | None, Observation, str], None]] = {
            LEG: self._leg,
            SPAN: self._span,
            OPEN: self._opened,
            CLOSE: self._closed,
            STEP: self._step,
            MARK: self._mark,
        }

    def ingest(self, state: SourceState, clock: Clock, records: Sequence[Record], line_base: int = 0) -> None:
        """Adds the records of one block, which follow those of the blocks before it; `line_base` is added to lines."""
        sample, handlers, patterns, source = self.store.sample, self._handlers, state.patterns, state.index
        before = state.last_line
        for pattern, line, offset, stamp, mono, observations, text in records:
            line += line_base  # noqa: PLW2901 - numbers of a range count from its first line
            time = clock.resolve(stamp, mono)
            if clock.rebased is not None:
                self._rebase(state, clock)
            if time is None:
                time = state.pseudo
            elif state.last is None:
                state.first = state.last = time
            elif time > state.last:
                if time - state.last >= QUIET_FROM_S:
                    state.last_line = before
                    state.quiet(state.last, time)
                state.last = time
            before = line, text
            if pattern < 0:
                continue
            patterns[pattern] += 1
            for observation in observations:
                if observation[0] == SAMPLE:
                    sample(observation[1], observation[3], time, observation[2], source, line, offset, text)
                else:
                    handlers[observation[0]](state, time, Ref(source, line, offset), mono, observation, text)
        state.last_line = before
        state.kind, state.monotonic = clock.kind, clock.monotonic
        state.mono_to_wall, state.stepped_back = clock.mono_to_wall, clock.stepped_back
        self.store.version += 1
        self.store.settle()
        if len(self._open) > _OPEN_LIMIT:
            self._open = dict(list(self._open.items())[-_OPEN_LIMIT // 2 :])

    def _rebase(self, state: SourceState, clock: Clock) -> None:
        seconds = clock.rebased or 0.0
        clock.rebased = None
        self.store.shift(state.index, seconds)
        state.first = None if state.first is None else state.first + seconds
        state.last = None if state.last is None else state.last + seconds
        state.gaps = [replace(gap, start=gap.start + seconds, end=gap.end + seconds) for gap in state.gaps]

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    # --- weight updates ---------------------------------------------------------------------------------------
    def _leg(self, state: SourceState, time: float, ref: Ref, mono: float | None, told: Observation, text: str) -> None:
        _, trace, leg, fields = told
        bit = _BIT[leg]
        update = self._updates.get(trace)
        if update is None:
            update = self._new_update(trace, state)
        elif trace in self._reused and not bit & _CLIENT_LEGS:
            update = next((use for use in self._reused[trace] if not use.legs & bit), update)
        if update.legs & bit:
            if not self._again(update, leg, mono, fields):
                return
            self._reused.setdefault(trace, [update])
            update = self._new_update(trace, state)
            self._reused[trace].append(update)
        update.legs |= bit
        setattr(update, _TIME_FIELD[leg], mono)
        if bit & _CLIENT_LEGS:
            if update.client is None:
                update.client = update.source = state.index
                if update.server is not None and update.server != state.index:
                    update.start = update.end = None
        elif update.server is None:
            update.server = state.index
        self._place(update, state, leg, time, fields)
        if not (update.legs & _BIT["client.done"]) or self._notable(update):
            update.refs.append((ref, text))
        elif leg == "client.done":
            update.refs = [(ref, "")]

    def _new_update(self, trace: str, state: SourceState) -> Update:
        update = Update(kind="weight-update", key=trace, seq=self._next(), source=state.index)
        self._updates[trace] = update
        self.store.update(update)
        if len(self._updates) > _TRACE_LIMIT:
            for old in list(self._updates)[: _TRACE_LIMIT // 2]:
                del self._updates[old]
                self._reused.pop(old, None)
        return update

    @staticmethod
    def _again(update: Update, leg: str, mono: float | None, fields: Fields) -> bool:
        """A leg that was seen already belongs to a second use of the trace id, not to a line printed twice."""
        if leg == "client.send":
            return mono != update.send_t
        if leg == "client.done":
            return fields.get("wall_ms") != update.wall_ms or fields.get("queue_ms") != update.queue_ms
        return False

    def _place(self, update: Update, state: SourceState, leg: str, time: float, fields: Fields) -> None:
        """Takes over what a leg says and puts the update on its client's axis (on the server's while it is alone)."""
        for name in ("wall_ms", "rpc_ms", "queue_ms"):
            value = fields.get(name)
            if isinstance(value, float) and (leg == "client.done" or getattr(update, name) is None):
                setattr(update, name, value)
        operation = fields.get("op") or str(fields.get("path", "")).rpartition("/")[2]
        if operation in _OPERATIONS:
            update.op = str(operation)
        if "url" in fields:
            update.fields["url"] = fields["url"]
        if leg == "client.send" and "path" in fields:
            update.fields["path"] = fields["path"]
        if update.rpc_ms is None and update.rpc_done_t is not None and update.rpc_start_t is not None:
            update.rpc_ms = max(0.0, (update.rpc_done_t - update.rpc_start_t) * 1000.0)
        if update.queue_ms is None and update.wall_ms is not None and update.rpc_ms is not None:
            update.queue_ms = max(0.0, update.wall_ms - update.rpc_ms)
        wall_s = None if update.wall_ms is None else update.wall_ms / 1000.0
        if leg == "client.send":
            update.start = time
            update.end = None if wall_s is None else time + wall_s
        elif leg == "client.done":
            if update.start is None or not update.legs & _BIT["client.send"]:
                update.start = time if wall_s is None else time - (0.0 if state.clockless else wall_s)
            update.end = time if wall_s is None else update.start + wall_s
        elif update.client is None:
            update.start = time if update.start is None else min(update.start, time)
            update.end = time if update.end is None else max(update.end, time)
        if update.start is not None and update.end is not None:
            update.duration_s = update.end - update.start
            if state.clockless:
                state.pseudo = max(state.pseudo, update.end)

    def _notable(self, update: Update) -> bool:
        remarkable = self.store.remarkable
        suffix = "" if update.op == "update_weights" else f".{update.op}"
        return (
            update.queue_ms is None
            or update.rpc_ms is None
            or remarkable("queue_ms", update.queue_ms)
            or remarkable(f"rpc_ms{suffix}", update.rpc_ms)
        )

    # --- other spans ------------------------------------------------------------------------------------------
    def _span(self, state: SourceState, time: float, ref: Ref, _mono: float | None, told: Observation, text: str) -> None:
        _, kind, duration, lead, key, fields = told
        start = time if state.clockless else time - lead
        self._add(Span(kind, key, self._next(), state.index, start, start + duration, duration, fields, [(ref, text)]))
        if state.clockless:
            state.pseudo = max(state.pseudo, start + duration)

    def _add(self, span: Span) -> None:
        if not self.store.remarkable(f"span:{span.kind}", span.duration_s or 0.0):
            span.refs = [(ref, "") for ref, _ in span.refs]
        self.store.span(span)

    def _opened(self, state: SourceState, time: float, ref: Ref, _mono: float | None, told: Observation, text: str) -> None:
        _, kind, key, fields = told
        slot = (state.index, kind, key)
        if slot not in self._open:
            self._open[slot] = Span(kind, key, self._next(), state.index, time, None, None, fields, [(ref, text)])

    def _closed(self, state: SourceState, time: float, ref: Ref, _mono: float | None, told: Observation, text: str) -> None:
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
            span = Span(kind, key, self._next(), state.index, start, None, None, {}, [])
        if duration is None:
            duration = max(0.0, time - (span.start or 0.0))
            if metric is not None:
                scale = 1000.0 if str(metric).endswith("_ms") else 1.0
                self.store.sample(str(metric), "", time, float(duration) * scale, ref.source, ref.line, ref.offset, text)
        self._close(span, state, time, float(duration), key, fields)
        span.refs.append((ref, text))
        self._add(span)

    @staticmethod
    def _close(span: Span, state: SourceState, time: float, duration: float, key: str, fields: Fields) -> None:
        """The line that ends a span says best how long it was; a header clock has seconds only."""
        if state.clockless:
            span.end = (span.start or 0.0) + duration
            state.pseudo = max(state.pseudo, span.end)
        else:
            span.start, span.end = time - duration, time
        span.duration_s = duration
        span.key = span.key or key
        span.fields = {**span.fields, **fields}

    def _step(self, state: SourceState, time: float, ref: Ref, _mono: float | None, told: Observation, text: str) -> None:
        self.store.step(told[1], time, told[2], ref.source, ref.line, ref.offset, text)
        if told[1]:
            state.components.add(told[1])

    def _mark(self, _state: SourceState, time: float, ref: Ref, _mono: float | None, told: Observation, text: str) -> None:
        self.store.mark(told[1], told[3], time, told[2], ref.source, ref.line, ref.offset, text)

    def open_spans(self) -> list[Span]:
        """What has begun and has not ended: the caller decides whether it still goes on."""
        return list(self._open.values())
