"""Weight updates: the legs of each trace put together, over blocks and logs.

A leg may be missing, doubled, late or out of order; what no line tells stays unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from .axis import Clock, placed, seen
from .model import ALL_LEGS, LEGS, Fields, Ref, Stamp, Update
from .sourcestate import SourceState
from .store import Store

NUMBER = {leg: number for number, leg in enumerate(LEGS)}
_SEND, _DONE = 1 << NUMBER["client.send"], 1 << NUMBER["client.done"]
_RECV, _RPC_START, _RPC_DONE = 1 << NUMBER["server.recv"], 1 << NUMBER["rpc.start"], 1 << NUMBER["rpc.done"]
_CLIENT_LEGS = _SEND | _DONE
_SERVER_LEGS = ALL_LEGS & ~_CLIENT_LEGS
_OPERATIONS = ("update_weights", "reload_weights")
_FORGOTTEN = 30_000
"""So many updates that the store let go of are known again when more of them comes."""
_COARSE_S = 2.0


class Leg(NamedTuple):
    """A leg of a weight update, as a line tells it."""

    trace: str
    number: int
    fields: Fields
    stamp: Stamp | None
    mono: float | None
    own: bool
    """The stamp is not that of another line before it."""
    ref: Ref
    text: str


class Updates:
    """The weight updates of a run, and those that may still get legs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.forgot = self._forget
        self._updates: dict[str, Update] = {}
        self._reused: dict[str, list[Update]] = {}
        self._before: float | None = None
        self._forgotten: dict[int, float | None] = {}
        """By the hash of the trace, when they were sent."""

    def begin(self, clock: Clock) -> None:
        """Another block of a log begins: legs in it that no line of it dates have the time of the last line before."""
        self._before = None if clock.kind is None else clock.last

    def add(self, state: SourceState, clock: Clock, leg: Leg) -> None:
        """Adds a leg; of one that is told twice the first one counts."""
        if self._forgotten and leg.trace not in self._updates and self._is_forgotten(leg):
            return
        bit = 1 << leg.number
        update = self._use_of(leg, bit, state)
        if update.legs & bit:
            return
        if bit & _SERVER_LEGS:
            if update.server is None:
                update.server = state.index
        elif update.client is None:
            update.client = update.source = state.index
            if update.server is not None and update.server != state.index:
                update.start = update.end = None
        before = update.legs
        update.legs |= bit
        self._durations(update, leg, bit)
        self._place(update, state, clock, leg, bit, before)
        update.refs.append((leg.ref, leg.text))
        if update.legs & _DONE and not self._notable(update):
            update.refs = [(leg.ref, "")]

    def _use_of(self, leg: Leg, bit: int, state: SourceState) -> Update:
        """The update that legs belong to; other values of a leg that it has already mean that its id is used again."""
        update = self._updates.get(leg.trace)
        if update is None:
            return self._new_update(leg.trace, state)
        if not update.legs & bit:
            return update
        if bit & _SERVER_LEGS:
            uses = self._reused.get(leg.trace, [update])
            return next((use for use in uses if not use.legs & bit), update)
        told = leg.fields.get("wall_ms"), leg.fields.get("queue_ms")
        again = leg.mono != update.send_t if bit == _SEND else told != (update.wall_ms, update.queue_ms)
        if again:
            self._reused.setdefault(leg.trace, [update])
            update = self._new_update(leg.trace, state)
            self._reused[leg.trace].append(update)
        return update

    def _new_update(self, trace: str, state: SourceState) -> Update:
        update = Update(kind="weight-update", key=trace, seq=self._store.next_seq(), source=state.index)
        self._hold(trace, update)
        return update

    def _hold(self, trace: str, update: Update) -> None:
        """Keeps an update for the legs that may still come."""
        self._updates[trace] = update
        self._store.update(update)

    def _forget(self, gone: Sequence[Update]) -> None:
        """Lets go of updates that the store let go of; of those all that is left is that they were there."""
        known = self._updates
        for update in gone:
            trace = update.key
            if known.get(trace) is update:
                del known[trace]
                self._reused.pop(trace, None)
                self._forgotten[hash(trace)] = update.send_t
        for old in list(islice(self._forgotten, max(0, len(self._forgotten) - _FORGOTTEN))):
            del self._forgotten[old]

    def _is_forgotten(self, leg: Leg) -> bool:
        """Whether this is a leg of an update that the store let go of, not of another one with the same id."""
        known = hash(leg.trace)
        if known not in self._forgotten:
            return False
        return leg.number != NUMBER["client.send"] or leg.mono == self._forgotten[known]

    def _durations(self, update: Update, leg: Leg, bit: int) -> None:
        """Takes over what a leg says; what the client says of itself goes before what the server says."""
        fields, mono = leg.fields, leg.mono
        if bit == _SEND:
            update.send_t = mono
        elif bit == _RECV:
            update.recv_t = mono
        elif bit == _RPC_START:
            update.rpc_start_t = mono
        elif bit == _RPC_DONE:
            update.rpc_done_t = mono
        else:
            update.done_t = mono
            update.wall_ms, update.queue_ms = _number(fields, "wall_ms"), _number(fields, "queue_ms")
        if "rpc_ms" in fields and (bit == _DONE or (bit != _SEND and update.rpc_ms is None)):
            update.rpc_ms = float(fields["rpc_ms"])
        if bit == _SEND or _operation(update.fields.get("path")) is None:
            update.op = _operation(fields.get("path")) or _operation(fields.get("op")) or update.op
        if "url" in fields:
            update.fields["url"] = fields["url"]
        if bit == _SEND and "path" in fields:
            update.fields["path"] = fields["path"]
        self._derive(update)

    @staticmethod
    def _derive(update: Update) -> None:
        """Works out durations that no line told from those that lines told."""
        if update.rpc_ms is None and update.rpc_done_t is not None and update.rpc_start_t is not None:
            update.rpc_ms = max(0.0, (update.rpc_done_t - update.rpc_start_t) * 1000.0)
        if update.queue_ms is None and update.wall_ms is not None and update.rpc_ms is not None:
            update.queue_ms = max(0.0, update.wall_ms - update.rpc_ms)

    def _place(self, update: Update, state: SourceState, clock: Clock, leg: Leg, bit: int, before: int) -> None:
        """Puts an update that had the legs `before` on its client's axis, on the server's while it is alone there."""
        time = self._placed(state, clock, leg.stamp, leg.mono)
        if bit & _CLIENT_LEGS:
            update.inherits |= 0 if leg.own else bit
            update.start, update.end = self._extent(update, state, clock, leg, bit, before, time)
        elif update.client is None:
            update.start = time if update.start is None else min(update.start, time)
            update.end = time if update.end is None else max(update.end, time)
        if update.start is not None and update.end is not None:
            update.duration_s = update.end - update.start
            if state.clockless:
                state.pseudo = max(state.pseudo, update.end)

    def _extent(
        self, update: Update, state: SourceState, clock: Clock, leg: Leg, bit: int, before: int, time: float
    ) -> tuple[float | None, float | None]:
        """Begin and end of an update of which its client has told the leg `bit`, at `time`."""
        sent, done = (time, None) if bit == _SEND else (None, time)
        if bit == _SEND and before & _DONE:
            done = update.start if state.clockless else update.end
            sent = update.start if state.clockless else sent  # without clocks it is where it was met first
        elif before & _SEND:
            sent = update.start
        wall_s = None if update.wall_ms is None else update.wall_ms / 1000.0
        if wall_s is None and (sent is None or state.clockless):
            wall_s = _least_s(leg.fields) if bit == _DONE else update.duration_s if before & _DONE else None
        if wall_s is not None and done is not None and update.inherits & _CLIENT_LEGS == _SEND:
            sent = None  # what the line that ends it tells is better than the time of some line before the first
        return _between(sent, done, wall_s, state.clockless, clock.kind is not None)

    def _placed(self, state: SourceState, clock: Clock, stamp: Stamp | None, mono: float | None) -> float:
        """Seconds on the log's axis; by now lines that stand behind this one may have been heard of."""
        if stamp is None and self._before is not None:
            return seen(self._store, state, self._before)
        return placed(self._store, state, clock, stamp, mono)

    def _notable(self, update: Update) -> bool:
        remarkable = self._store.remarkable
        suffix = "" if update.op == "update_weights" else f".{update.op}"
        return (
            update.queue_ms is None
            or update.rpc_ms is None
            or remarkable("queue_ms", update.queue_ms)
            or remarkable(f"rpc_ms{suffix}", update.rpc_ms)
        )


def _number(fields: Fields, name: str) -> float | None:
    value = fields.get(name)
    return None if value is None else float(value)


def _least_s(fields: Fields) -> float | None:
    """What an update lasted at least, by the parts that its last line tells; None where it tells of none."""
    parts = [float(fields[name]) for name in ("queue_ms", "rpc_ms") if name in fields]
    return sum(parts) / 1000.0 if parts else None


def _between(
    sent: float | None, done: float | None, wall_s: float | None, clockless: bool, dated: bool
) -> tuple[float | None, float | None]:
    """Begin and end of an update, by its client's lines: what it lasted goes before when the lines were printed.

    The line that ends an update is printed when it ends, whatever the first one says.
    """
    if wall_s is None:
        return (done if sent is None else sent), done
    if done is not None and not clockless and (sent is None or (dated and done < sent + wall_s - _COARSE_S)):
        sent = done - wall_s
    sent = done if sent is None else sent
    return sent, None if sent is None else sent + wall_s


@lru_cache(maxsize=1024)
def _operation(name: float | str | None) -> str | None:
    """What an update does, where the name of an operation, or a path that ends with one, tells it."""
    told = str(name).rpartition("/")[2]
    return told if told in _OPERATIONS else None
