"""Weight updates: the phases of each trace combined, over blocks and logs.

A phase may be missing, doubled, late or out of order; what no line contains stays unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

from perfmon.core import (
    J_DONE_STAMP,
    J_LEGS,
    J_LINES,
    J_QUEUE,
    J_RPC,
    J_SEND_STAMP,
    J_SERVER_LAST_STAMP,
    J_SERVER_STAMP,
    J_TIMES,
    J_WALL,
    LEGS,
    Joined,
    LegStamp,
    Ref,
    Update,
)
from perfmon.sources import SourceClock

from .source_state import SourceState
from .store import Store

_SEND, _DONE = 1 << LEGS.index("client.send"), 1 << LEGS.index("client.done")
_ALL = 0b11111
_CLIENT_LEGS = _SEND | _DONE
_SERVER_LEGS = _ALL & ~_CLIENT_LEGS
_OPERATIONS = ("update_weights", "reload_weights")
_FORGOTTEN = 30_000
"""Number of dropped updates that are recognised when more lines of them come."""
_COARSE_S = 2.0
_OF_LINE = 2
"""Length of a stamp that is not inherited."""


class Updates:
    """The weight updates of a run, and those that may still get phases."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.forgot = self._forget
        self._updates: dict[str, Update] = {}
        self._reused: dict[str, list[Update]] = {}
        self._before: float | None = None
        self._forgotten: dict[int, float | None] = {}
        """Times of sending by the hash of the trace."""

    def begin(self, clock: SourceClock) -> None:
        """Start a block of a log: phases that no line of it dates have the time of the last line before."""
        self._before = None if clock.kind is None else clock.last

    def add(self, state: SourceState, clock: SourceClock, trace: str, joined: Joined, line_base: int) -> None:
        """Add the phases of one trace in one block of a log; of a phase that is logged twice the first one counts."""
        if self._forgotten and trace not in self._updates and self._is_forgotten(trace, joined):
            return
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
        """The update of these phases; other values of a known phase mean that its id is used again."""
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
        update = Update(kind="weight-update", key=trace, seq=self._store.next_seq(), source=state.index)
        self._updates[trace] = update
        self._store.update(update)
        return update

    def _forget(self, gone: Sequence[Update]) -> None:
        """Drop updates that the store dropped; only their hashes are kept."""
        known = self._updates
        for update in gone:
            trace = update.key
            if known.get(trace) is update:
                del known[trace]
                self._reused.pop(trace, None)
                self._forgotten[hash(trace)] = update.send_t
        for old in list(islice(self._forgotten, max(0, len(self._forgotten) - _FORGOTTEN))):
            del self._forgotten[old]

    def _is_forgotten(self, trace: str, joined: Joined) -> bool:
        """Return True for phases of an update that the store dropped, not of another one with the same id."""
        known = hash(trace)
        if known not in self._forgotten:
            return False
        return not joined[J_LEGS] & _SEND or joined[J_TIMES] == self._forgotten[known]

    def _durations(self, update: Update, joined: Joined, fresh: int) -> None:
        """Take over the values of phases; those of the client take precedence over the server's."""
        _, send, recv, rpc_start, rpc_done, _, wall, rpc, queue, server_rpc, op, url, path, server_path = joined[:14]
        if fresh & _SEND:
            update.send_t = send
        if fresh & _SERVER_LEGS:
            update.recv_t = recv if recv is not None else update.recv_t
            update.rpc_start_t = rpc_start if rpc_start is not None else update.rpc_start_t
            update.rpc_done_t = rpc_done if rpc_done is not None else update.rpc_done_t
            if update.rpc_ms is None:
                update.rpc_ms = server_rpc
        if fresh & _DONE:
            update.wall_ms, update.queue_ms = wall, queue
            update.rpc_ms = rpc if rpc is not None else update.rpc_ms
        update.op = _operation((op, server_path, path)) or update.op
        if url is not None:
            update.fields["url"] = url
        if path is not None:
            update.fields["path"] = path
        self._derive(update)

    @staticmethod
    def _derive(update: Update) -> None:
        """Derive durations that no line contains from those that lines contain."""
        if update.rpc_ms is None and update.rpc_done_t is not None and update.rpc_start_t is not None:
            update.rpc_ms = max(0.0, (update.rpc_done_t - update.rpc_start_t) * 1000.0)
        if update.queue_ms is None and update.wall_ms is not None and update.rpc_ms is not None:
            update.queue_ms = max(0.0, update.wall_ms - update.rpc_ms)

    def _place(self, update: Update, state: SourceState, clock: SourceClock, joined: Joined, fresh: int) -> None:
        """Place an update on its client's axis, or on the server's while there is no client."""
        wall_s = None if update.wall_ms is None else update.wall_ms / 1000.0
        if fresh & _SERVER_LEGS:
            first = self._placed(state, clock, joined[J_SERVER_STAMP], _known(joined[2:5]))
            last = self._placed(state, clock, joined[J_SERVER_LAST_STAMP], _known(joined[4:1:-1]))
            if update.client is None:
                update.start = first if update.start is None else min(update.start, first)
                update.end = last if update.end is None else max(update.end, last)
        if fresh & _CLIENT_LEGS:
            before = update.legs & ~fresh
            known = before & _SEND or (
                before & _DONE and state.clockless
            )  # without clocks it is where it was met first
            stamps = ((_SEND, joined[J_SEND_STAMP]), (_DONE, joined[J_DONE_STAMP]))
            update.inherits |= sum(leg for leg, stamp in stamps if fresh & leg and not _is_own(stamp))
            sent = update.start if known else None
            done = (update.start if state.clockless else update.end) if before & _DONE else None
            if fresh & _SEND and not known:
                sent = self._placed(state, clock, joined[J_SEND_STAMP], joined[J_TIMES])
            if fresh & _DONE:
                done = self._placed(state, clock, joined[J_DONE_STAMP], joined[J_TIMES + 4])
            if wall_s is None and (sent is None or state.clockless):
                wall_s = _least_s(joined) if fresh & _DONE else update.duration_s if before & _DONE else None
            if wall_s is not None and done is not None and update.inherits & _CLIENT_LEGS == _SEND:
                sent = None  # its last line is better than the time of some line before the first
            update.start, update.end = _between(sent, done, wall_s, state.clockless, clock.kind is not None)
        if update.start is not None and update.end is not None:
            update.duration_s = update.end - update.start
            if state.clockless:
                state.pseudo = max(state.pseudo, update.end)

    def _placed(self, state: SourceState, clock: SourceClock, stamp: LegStamp | None, mono: float | None) -> float:
        """Seconds on the log's axis; later lines may have been read already."""
        if stamp is None and self._before is not None:
            return self._store.extend(state, self._before)
        time = clock.at(None if stamp is None else (stamp[0], stamp[1]), mono)
        if clock.rebased is not None:
            self._store.shift_source(state, clock)
        if time is None:
            state.undated = True
            return state.pseudo
        return self._store.extend(state, time)

    def _notable(self, update: Update) -> bool:
        remarkable = self._store.remarkable
        suffix = "" if update.op == "update_weights" else f".{update.op}"
        return (
            update.queue_ms is None
            or update.rpc_ms is None
            or remarkable("queue_ms", update.queue_ms)
            or remarkable(f"rpc_ms{suffix}", update.rpc_ms)
        )


def _least_s(joined: Joined) -> float | None:
    """Least duration of an update by the phases in its last line; None if it has none."""
    parts = [ms for ms in (joined[J_QUEUE], joined[J_RPC]) if ms is not None]
    return sum(parts) / 1000.0 if parts else None


def _between(
    sent: float | None, done: float | None, wall_s: float | None, clockless: bool, dated: bool
) -> tuple[float | None, float | None]:
    """Start and end of an update, by its client's lines: its duration takes precedence over the times of the lines.

    The last line of an update is printed at its end, whatever the first one states.
    """
    if wall_s is None:
        return (done if sent is None else sent), done
    if done is not None and not clockless and (sent is None or (dated and done < sent + wall_s - _COARSE_S)):
        sent = done - wall_s
    sent = done if sent is None else sent
    return sent, None if sent is None else sent + wall_s


def _known(times: Sequence[float | None]) -> float | None:
    return next((time for time in times if time is not None), None)


def _is_own(stamp: LegStamp | None) -> bool:
    """True for a stamp of the line itself."""
    return stamp is not None and len(stamp) == _OF_LINE


@lru_cache(maxsize=1024)
def _operation(names: tuple[str | None, ...]) -> str | None:
    """The operation of an update, by the last of these names that is one."""
    ends = (name.rpartition("/")[2] for name in names if name is not None)
    return next((operation for operation in reversed([*ends]) if operation in _OPERATIONS), None)
