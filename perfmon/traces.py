"""Puts observations together: the legs of weight updates, beginnings with their ends, samples on the time axis.

Lines may be missing, duplicated, out of order or late: a leg is told once, the first line wins; what is missing stays
unknown. Nothing here depends on how the input was cut into blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Protocol

from .model import (
    CLOSE,
    HEAD,
    J_DONE_STAMP,
    J_LEGS,
    J_LINES,
    J_QUEUE,
    J_SEND_STAMP,
    J_SERVER_LAST_STAMP,
    J_SERVER_STAMP,
    J_TIMES,
    J_WALL,
    LEG,
    LEGS,
    MARK,
    OPEN,
    SAMPLE,
    SILENCE,
    SPAN,
    STEP,
    Fields,
    Joined,
    Observation,
    Record,
    Ref,
    Span,
    Stamp,
    Update,
)
from .store import SourceState, Store

_SEND, _DONE = 1 << LEGS.index("client.send"), 1 << LEGS.index("client.done")
_ALL = 0b11111
_CLIENT_LEGS = _SEND | _DONE
_SERVER_LEGS = _ALL & ~_CLIENT_LEGS
_OPERATIONS = ("update_weights", "reload_weights")
_OPEN_LIMIT = 10_000
_TRACE_LIMIT = 100_000
QUIET_FROM_S = 10.0
_COARSE_S = 2.0


class Clock(Protocol):
    """What the assembler needs of a log's clock: see `perfmon.sources.timeline.SourceClock`."""

    kind: int | None
    rebased: float | None
    stepped_back: int
    refused: int
    jumped: tuple[float, float] | None

    mono_to_wall: float | None

    @property
    def monotonic(self) -> bool:
        """The axis is a monotonic clock."""

    def resolve(self, stamp: Stamp | None, mono: float | None) -> float | None:
        """Seconds on the log's axis, None before any clock was seen."""

    def at(self, stamp: Stamp | None, mono: float | None) -> float | None:
        """The same for a line that stands before the last one."""


class Assembler:
    """Feeds a store with the records of all logs of a run."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._updates: dict[str, Update] = {}
        self._reused: dict[str, list[Update]] = {}
        self._open: dict[tuple[int, str, str], Span] = {}
        self._seq = 0
        self._handlers: dict[int, Callable[[SourceState, float, Ref, Observation, str], None]] = {
            SPAN: self._span,
            OPEN: self._opened,
            CLOSE: self._closed,
            STEP: self._step,
            MARK: self._mark,
        }

    def ingest(self, state: SourceState, clock: Clock, records: Sequence[Record], line_base: int = 0) -> None:
        """Adds the records of one block, which follow those of the blocks before it; `line_base` is added to lines."""
        sample, handlers, source = self.store.sample, self._handlers, state.index
        for pattern, line, offset, stamp, mono, observations, text in records:
            if observations and observations[0][0] == LEG:
                _, trace, joined = observations[0]
                if joined[J_LEGS] == _ALL and trace not in self._updates and state.clocked and _all_dated(joined):
                    self._whole(state, clock, trace, joined, line_base)
                else:
                    self._legs(state, clock, trace, joined, line_base)
                continue
            time = clock.resolve(stamp, mono)
            if clock.rebased is not None:
                self._rebase(state, clock)
            time = state.pseudo if time is None else self._seen(state, time)
            line += line_base  # noqa: PLW2901 - numbers of a range count from its first line
            if pattern < 0:
                self._heard(state, clock, pattern, time, (line, text), observations)
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

    def _seen(self, state: SourceState, time: float) -> float:
        """Widens what is observed of a log; its first clock also dates what was told before in order only."""
        if state.last is None:
            state.first = state.last = time
            state.clocked = True
            if state.pseudo:
                self.store.shift(state.index, time - state.pseudo)
                state.first = time - state.pseudo
        elif time > state.last:
            state.last = time
        elif state.first is not None and time < state.first:
            state.first = time
        return time

    @staticmethod
    def _heard(
        state: SourceState, clock: Clock, kind: int, time: float, line: tuple[int, str], told: Sequence[Observation]
    ) -> None:
        """A line that only says when it was printed: first or last dated one of a block, or the end of a silence."""
        if kind == SILENCE:
            before = clock.at(*told[0])
            if before is not None and time - before >= QUIET_FROM_S:
                state.quiet(before, time, line)
        elif kind == HEAD:
            if state.tail is not None and time - state.tail >= QUIET_FROM_S:
                state.quiet(state.tail, time, state.last_line)
        else:
            state.tail, state.last_line = time, line

    def _rebase(self, state: SourceState, clock: Clock) -> None:
        seconds = clock.rebased or 0.0
        clock.rebased = None
        if clock.jumped is not None:
            state.quiet(*clock.jumped, (0, ""))
            clock.jumped = None
        if clock.refused:
            state.note("dates more than a day away from those around them were not believed")
        if not seconds:
            return
        self.store.shift(state.index, seconds)
        state.first = None if state.first is None else state.first + seconds
        state.last = None if state.last is None else state.last + seconds
        state.gaps = [replace(gap, start=gap.start + seconds, end=gap.end + seconds) for gap in state.gaps]

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    # --- weight updates ---------------------------------------------------------------------------------------
    def _whole(self, state: SourceState, clock: Clock, trace: str, joined: Joined, line_base: int) -> None:
        """Adds an update of a new trace with all its legs and their stamps: nearly all are such, so at one go."""
        _, send, recv, rpc_start, rpc_done, done, wall, rpc, queue, server_rpc, op, url, path, server_path = joined[:14]
        leg_time, source = self._leg_time, state.index
        leg_time(state, clock, joined[J_SERVER_STAMP], _known((recv, rpc_start, rpc_done)))
        leg_time(state, clock, joined[J_SERVER_LAST_STAMP], _known((rpc_done, rpc_start, recv)))
        start = leg_time(state, clock, joined[J_SEND_STAMP], send)
        end = leg_time(state, clock, joined[J_DONE_STAMP], done)
        if wall is not None:
            if end < start + wall / 1000.0 - _COARSE_S:
                start = end - wall / 1000.0
            end = start + wall / 1000.0
        fields: Fields = {} if url is None else {"url": url}
        if path is not None:
            fields["path"] = path
        refs = [(Ref(source, line + line_base, offset), text) for line, offset, text in joined[J_LINES]]
        update = Update(
            "weight-update", trace, self._next(), source, start, end, end - start, fields, refs,
            _operation((op, server_path, path)) or "update_weights",
            send, recv, rpc_start, rpc_done, done,
            wall, server_rpc if rpc is None else rpc, queue, source, source, _ALL,
        )  # fmt: skip
        self._derive(update)
        if refs[-1][1] and not self._notable(update):
            update.refs = [(refs[-1][0], "")]
        self._hold(trace, update)

    def _legs(self, state: SourceState, clock: Clock, trace: str, joined: Joined, line_base: int) -> None:
        """Adds the legs of one trace that one block holds; of a leg that is told twice the first one counts."""
        update = self._use_of(trace, joined, state)
        fresh = joined[J_LEGS] & ~update.legs
        if not fresh:
            return
        if fresh & _CLIENT_LEGS and update.client is None:
            update.client = update.source = state.index
            if update.server is not None and update.server != state.index:
                update.start = update.end = None
        if fresh & _SERVER_LEGS and update.server is None:
            update.server = state.index
        update.legs |= fresh
        self._durations(update, joined, fresh)
        self._place(update, state, clock, joined, fresh)
        source = state.index
        update.refs += [(Ref(source, line + line_base, offset), text) for line, offset, text in joined[J_LINES]]
        if update.legs & _DONE and not self._notable(update):
            update.refs = [(update.refs[-1][0], "")]

    def _use_of(self, trace: str, joined: Joined, state: SourceState) -> Update:
        """The update that legs belong to; other values of a leg that it has already mean that its id is used again."""
        update = self._updates.get(trace)
        if update is None:
            return self._new_update(trace, state)
        common = joined[J_LEGS] & update.legs
        if not common:
            return update
        if not joined[J_LEGS] & _CLIENT_LEGS:
            uses = self._reused.get(trace, [update])
            return next((use for use in uses if not use.legs & joined[J_LEGS]), update)
        again = (common & _SEND and joined[J_TIMES] != update.send_t) or (
            common & _DONE and (joined[J_WALL], joined[J_QUEUE]) != (update.wall_ms, update.queue_ms)
        )
        if again:
            self._reused.setdefault(trace, [update])
            update = self._new_update(trace, state)
            self._reused[trace].append(update)
        return update

    def _new_update(self, trace: str, state: SourceState) -> Update:
        update = Update(kind="weight-update", key=trace, seq=self._next(), source=state.index)
        self._hold(trace, update)
        return update

    def _hold(self, trace: str, update: Update) -> None:
        """Keeps an update for the legs that may still come."""
        self._updates[trace] = update
        self.store.update(update)
        if len(self._updates) > _TRACE_LIMIT:
            for old in list(self._updates)[: _TRACE_LIMIT // 2]:
                del self._updates[old]
                self._reused.pop(old, None)

    def _durations(self, update: Update, joined: Joined, fresh: int) -> None:
        """Takes over what the legs say; what the client says of itself goes before what the server says."""
        _, send, recv, rpc_start, rpc_done, done, wall, rpc, queue, server_rpc, op, url, path, server_path = joined[:14]
        if fresh & _SEND:
            update.send_t = send
        if fresh & _SERVER_LEGS:
            update.recv_t = recv if recv is not None else update.recv_t
            update.rpc_start_t = rpc_start if rpc_start is not None else update.rpc_start_t
            update.rpc_done_t = rpc_done if rpc_done is not None else update.rpc_done_t
            if update.rpc_ms is None:
                update.rpc_ms = server_rpc
        if fresh & _DONE:
            update.done_t, update.wall_ms, update.queue_ms = done, wall, queue
            update.rpc_ms = rpc if rpc is not None else update.rpc_ms
        update.op = _operation((op, server_path, path)) or update.op
        if url is not None:
            update.fields["url"] = url
        if path is not None:
            update.fields["path"] = path
        self._derive(update)

    @staticmethod
    def _derive(update: Update) -> None:
        """Works out durations that no line told from those that lines told."""
        if update.rpc_ms is None and update.rpc_done_t is not None and update.rpc_start_t is not None:
            update.rpc_ms = max(0.0, (update.rpc_done_t - update.rpc_start_t) * 1000.0)
        if update.queue_ms is None and update.wall_ms is not None and update.rpc_ms is not None:
            update.queue_ms = max(0.0, update.wall_ms - update.rpc_ms)

    def _place(self, update: Update, state: SourceState, clock: Clock, joined: Joined, fresh: int) -> None:
        """Puts an update on its client's axis, on the server's while it is alone there."""
        wall_s = None if update.wall_ms is None else update.wall_ms / 1000.0
        if fresh & _SERVER_LEGS:
            first = self._leg_time(state, clock, joined[J_SERVER_STAMP], _known(joined[2:5]))
            last = self._leg_time(state, clock, joined[J_SERVER_LAST_STAMP], _known(joined[4:1:-1]))
            if update.client is None:
                update.start = first if update.start is None else min(update.start, first)
                update.end = last if update.end is None else max(update.end, last)
        if fresh & _SEND:
            update.start = self._leg_time(state, clock, joined[J_SEND_STAMP], joined[J_TIMES])
            update.end = None if wall_s is None else update.start + wall_s
        if fresh & _DONE:
            done = self._leg_time(state, clock, joined[J_DONE_STAMP], joined[J_TIMES + 4])
            if update.start is None or not update.legs & _SEND:
                update.start = done if wall_s is None or state.clockless else done - wall_s
            elif wall_s is not None and _dated(joined) and done < update.start + wall_s - _COARSE_S:
                # The line that ends an update is printed when it ends, whatever the first one says.
                update.start = done - wall_s
            update.end = done if wall_s is None else update.start + wall_s
        if update.start is not None and update.end is not None:
            update.duration_s = update.end - update.start
            if state.clockless:
                state.pseudo = max(state.pseudo, update.end)

    def _leg_time(self, state: SourceState, clock: Clock, stamp: Stamp | None, mono: float | None) -> float:
        time = clock.at(stamp, mono)
        if clock.rebased is not None:
            self._rebase(state, clock)
        return state.pseudo if time is None else self._seen(state, time)

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
    def _span(self, state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        _, kind, duration, lead, key, fields = told
        start = time if state.clockless else time - lead
        self._add(Span(kind, key, self._next(), state.index, start, start + duration, duration, fields, [(ref, text)]))
        if state.clockless:
            state.pseudo = max(state.pseudo, start + duration)

    def _add(self, span: Span) -> None:
        if not self.store.remarkable(f"span:{span.kind}", span.duration_s or 0.0):
            span.refs = [(ref, "") for ref, _ in span.refs]
        self.store.span(span)

    def _opened(self, state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        _, kind, key, fields = told
        slot = (state.index, kind, key)
        if slot not in self._open:
            self._open[slot] = Span(kind, key, self._next(), state.index, time, None, None, fields, [(ref, text)])

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
            span = Span(kind, key, self._next(), state.index, start, None, None, {}, [])
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

    def _step(self, state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        self.store.step(told[1], time, told[2], ref.source, ref.line, ref.offset, text)
        if told[1]:
            state.components.add(told[1])

    def _mark(self, _state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        self.store.mark(told[1], told[3], time, told[2], ref.source, ref.line, ref.offset, text)

    def open_spans(self) -> list[Span]:
        """What has begun and has not ended: the caller decides whether it still goes on."""
        return list(self._open.values())


def _known(times: Sequence[float | None]) -> float | None:
    return next((time for time in times if time is not None), None)


def _dated(joined: Joined) -> bool:
    """Both lines of the client have a stamp."""
    return joined[J_SEND_STAMP] is not None and joined[J_DONE_STAMP] is not None


def _all_dated(joined: Joined) -> bool:
    """Every leg has a stamp."""
    return None not in joined[J_SEND_STAMP : J_SERVER_LAST_STAMP + 1]


@lru_cache(maxsize=1024)
def _operation(names: tuple[str | None, ...]) -> str | None:
    """What an update does, by the last of these names that tells."""
    told = (name.rpartition("/")[2] for name in names if name is not None)
    return next((operation for operation in reversed([*told]) if operation in _OPERATIONS), None)
