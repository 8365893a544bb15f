"""Collectives of a running job: records are combined as they are written, in bounded memory, without DuckDB.

An operation is closed when all ranks of its communicator logged it, after a while without them, or when too many are
open. Closed operations are summed up in slices of time; each finished slice gives the lines of one part of a job, so
the rules need the same proof as in complete logs. The time is that of the dumps. A host whose clock is far from that
of this machine is shifted; an operation belongs to the slice of its last dump, and never to one that is finished.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from datetime import datetime
from math import isfinite, nan
from statistics import median

from perfmon.viewmodel import CollectiveNow, CollectivesState, LinkNow, MissingRanks, RankNow

from .live_window import LiveComm, Samples, Slice, WindowResult, analyze, seats_of
from .model import Seat
from .operations import PARTS
from .records import Context, Drops, LineParser, ReadCounts, Record, type_of
from .schema import P2P, ROOTED
from .signals import part_lines

SLICE_S = 3.0
"""Five slices of six have to show a fault: it is told in less than 30 seconds."""
MOST_OPEN = 50_000
"""Open operations: with more, the oldest are closed as they are."""
_SLICE_US = int(SLICE_S * 1e6)
_GRACE_US = 1_500_000
"""Time by which files are read at different moments."""
_QUIET_S = 2 * SLICE_S
"""Without records for so long a job is over, or between two dumps."""
_AGE_US = 30_000_000
_FAR_US = 120_000_000
"""A clock that is further away than a slow file system explains is wrong."""
_PAST = 40
"""Slices of the past that are evaluated at the start."""
_TREND = 40
_ROWS = 40
_NAMED = 4
_MOST_PAIRS = 1 << 16
"""Pairs of ranks of one communicator that exchange data: those of pipelines are few."""


class _Op:
    __slots__ = ("at", "busbw", "count", "exec_us", "last", "shortest")

    def __init__(self) -> None:
        self.at = self.count = self.last = 0
        self.exec_us = self.busbw = 0.0
        self.shortest = 1 << 62


class _File:
    __slots__ = ("newest", "offset", "parser", "read_to")

    def __init__(self, counts: ReadCounts) -> None:
        self.parser = LineParser(counts)
        self.newest = self.read_to = 0
        """Time of its newest record, by the clock of this machine and by its own."""
        self.offset: int | None = None


_Key = tuple[LiveComm, str, int, int]


class LiveJob:
    """The operations of a job whose logs are still being written."""

    def __init__(self) -> None:
        self.counts = ReadCounts()
        self._files: dict[Hashable, _File] = {}
        self._comms: dict[tuple[str, int, int], LiveComm] = {}
        self._members: dict[Context, LiveComm] = {}
        self._writers: dict[tuple[LiveComm, int], _File] = {}
        """File of each rank: the first one, as long as it grows."""
        self._copied: set[tuple[LiveComm, int]] = set()
        """Ranks that are in several files."""
        self._open: dict[_Key, _Op] = {}
        self._slices: dict[int, Slice] = {}
        self._finished = -1
        """The last slice whose lines were given."""
        self._unfinished = self._evicted = self._repeated = 0
        self._newest = 0
        self._result = WindowResult((), ())
        self._trends: dict[tuple[str, str, int], deque[float]] = {}
        self._rate: tuple[float, int, float] = (0.0, 0, 0.0)
        self._read_at: float | None = None
        """Time at which the last new record arrived; None while all are of the past."""
        self._since: float | None = None
        """Time since which the past is read."""
        self._seats: dict[tuple[LiveComm, int], Seat] = {}
        self._seats_stale = True

    # --- records ------------------------------------------------------------------------------------------------------
    def restart(self, file: Hashable) -> None:
        """A file holds another text."""
        if (held := self._files.get(file)) is not None:
            held.parser.restart()

    def feed(self, file: Hashable, data: bytes, clock: float | None = None) -> None:
        """Take in whole lines of a file, which arrived at `clock` (seconds since 1970; None: they are of the past)."""
        held = self._files.get(file)
        if held is None:
            held = self._files[file] = _File(self.counts)
        items = held.parser.parse(data)
        if not items:
            return
        if clock is not None:
            self._read_at = clock
        if held.offset is None and clock is not None:
            lag = int(clock * 1e6) - items[-1].at_us
            held.offset = lag if abs(lag) > _FAR_US else 0
        offset = held.offset or 0
        for item in items:
            if isinstance(item, Record):
                self._add(item, item.at_us + offset, held)
            else:
                self._drop(item, held)
        held.read_to = items[-1].at_us
        held.newest = max(held.newest, held.read_to + offset)
        self._newest = max(self._newest, held.newest)
        if len(self._open) > MOST_OPEN:
            self._evict()

    def _add(self, record: Record, at: int, file: _File) -> None:
        context, _, collective, sn, size, exec_us, busbw, peer = record
        slot = at // _SLICE_US
        comm = self._members.get(context) or self._join(context, slot, file)
        if self._copied and self._is_copy(comm, record, file):
            return
        comm.records += 1
        if slot > comm.seen_at:  # noqa: PLR1730 - a call for each record costs more
            comm.seen_at = slot
        piece = self._slice(slot)
        sums = piece.of_class((comm, collective, size)).ranks
        mine = sums.get(context.rank)
        if mine is None:
            sums[context.rank] = [1, exec_us]
        else:
            mine[0] += 1
            mine[1] += exec_us
        if sn is None:
            if peer is not None and len(comm.pairs) < _MOST_PAIRS:
                comm.pairs.add((context.rank, peer))
            kind = piece.of_kind((comm.kind, collective, size))
            kind.ops += 1
            kind.exec_us += exec_us
            kind.busbw.add(busbw or 0.0)
            kind.transfers.add(exec_us)
            return
        key = (comm, collective, sn, size)
        op = self._open.get(key)
        if op is None:
            op = self._open[key] = _Op()
        op.count += 1
        op.exec_us += exec_us
        op.busbw += busbw or 0.0
        if exec_us < op.shortest or (exec_us == op.shortest and context.rank < op.last):
            op.shortest, op.last = exec_us, context.rank
        op.at = max(op.at, at)
        if op.count >= comm.n_ranks:
            del self._open[key]
            self._close(key, op)

    def _is_copy(self, comm: LiveComm, record: Record, file: _File) -> bool:
        """Return true for a record that another file of that rank has, too, or will have."""
        key = (comm, record.context.rank)
        if key not in self._copied or (writer := self._writers[key]) is file:
            return False
        if record.at_us <= writer.read_to + _AGE_US:
            self._repeated += 1
            return True
        self._writers[key] = file
        return False

    def _join(self, context: Context, slot: int, file: _File) -> LiveComm:
        key = (context.comm, context.n_ranks, context.nnodes)
        comm = self._comms.get(key)
        if comm is None:
            kind = type_of(context.n_ranks, context.nnodes)
            comm = self._comms[key] = LiveComm(context.comm, context.name, kind, context.n_ranks, context.nnodes)
            comm.since = comm.seen_at = slot
        comm.name = comm.name or context.name
        comm.seats.setdefault(context.rank, (context.host, context.pid))
        first = self._writers.setdefault((comm, context.rank), file)
        if first is not file and comm.seats[context.rank] == (context.host, context.pid):
            self._copied.add((comm, context.rank))
        self._seats_stale = True
        self._members[context] = comm
        return comm

    def _drop(self, drops: Drops, file: _File) -> None:
        comm = self._members.get(drops.context) or self._join(drops.context, self._newest // _SLICE_US, file)
        comm.dropped[drops.context.rank] = max(drops.dropped, comm.dropped.get(drops.context.rank, 0))

    def _slice(self, at: int) -> Slice:
        at = max(at, self._finished + 1)
        piece = self._slices.get(at)
        if piece is None:
            piece = self._slices[at] = Slice()
        return piece

    # --- operations ---------------------------------------------------------------------------------------------------
    def _close(self, key: _Key, op: _Op) -> None:
        comm, collective, _, size = key
        at = max(op.at // _SLICE_US, self._finished + 1)
        piece = self._slice(at)
        kind = piece.of_kind((comm.kind, collective, size))
        kind.ops += 1
        kind.exec_us += op.exec_us
        kind.busbw.add(op.busbw / op.count)
        kind.transfers.add(op.shortest)
        if comm.n_ranks == 1:
            return
        piece.ops += 1
        if op.count != comm.n_ranks:
            self._unfinished += 1
            return
        caused = op.exec_us - op.count * op.shortest
        piece.complete_ops += 1
        piece.exec_us += op.exec_us
        kind.caused_us += caused
        kind.complete_us += op.exec_us
        sums = piece.of_class((comm, collective, size))
        sums.ops += 1
        sums.transfer_us += op.shortest
        sums.exec_us += op.exec_us
        sums.transfers.add(op.shortest)
        if collective in ROOTED:
            return
        lateness = caused / (comm.n_ranks - 1)
        late = piece.late.setdefault((comm, op.last), [0, 0.0, 0.0, 0.0])
        late[0] += 1
        late[1] += caused
        late[2] += lateness
        late[3] += lateness * lateness

    def _evict(self) -> None:
        """Close the oldest sixteenth of the open operations."""
        for key in list(self._open)[: MOST_OPEN // 16]:
            self._close(key, self._open.pop(key))
            self._evicted += 1

    def _close_old(self, horizon: int) -> None:
        old = []
        for key, op in self._open.items():
            if op.at > horizon:
                break
            old.append(key)
        for key in old:
            self._close(key, self._open.pop(key))

    # --- time ---------------------------------------------------------------------------------------------------------
    def advance(self, *, caught_up: bool, clock: float | None = None) -> list[str]:
        """Finish the slices that are over; return their lines for the rule engine, in order of time.

        While the past is read (`caught_up` False) files are at different times, and no slice is finished. When no
        record has come for some seconds by the `clock` (seconds since 1970), the last slices are over, too.
        """
        if not self._newest:
            return []
        if not caught_up:
            self._close_old(min(file.newest for file in self._files.values()) - _AGE_US)
            return []
        self._close_old(self._newest - _AGE_US)
        last = (self._newest - _GRACE_US) // _SLICE_US - 1
        self._since = clock if self._since is None else self._since
        quiet_since = self._since if self._read_at is None else self._read_at
        if clock is not None and quiet_since is not None and clock - quiet_since > _QUIET_S:
            last = self._newest // _SLICE_US
        lines = []
        for at in range(max(self._finished + 1, last - _PAST), last + 1):
            if any(first <= at for first in self._slices):
                lines += self._finish(at)
            self._finished = at
        for at in [at for at in self._slices if at <= last - PARTS]:
            del self._slices[at]
        self._forget(last)
        return lines

    def _finish(self, at: int) -> list[str]:
        """Evaluate the window that ends with this slice."""
        if self._seats_stale:
            self._seats, self._seats_stale = seats_of(self._comms.values()), False
        self._result = analyze(self._window(at), self._seats)
        piece = self._slices.get(at)
        for key in {*self._trends, *(piece.kinds if piece is not None else ())}:
            kind = None if piece is None else piece.kinds.get(key)
            trend = self._trends.setdefault(key, deque(maxlen=_TREND))
            trend.append(median(kind.busbw.values) if kind is not None and kind.busbw.values else nan)
        if piece is None or not piece.exec_us:
            return []
        stamp = f"{datetime.fromtimestamp((at + 1) * SLICE_S):%Y-%m-%d %H:%M:%S.%f}"[:-3]
        return [f"{stamp} {line}" for line in part_lines(self._result.waits, self._result.links, PARTS - 1)]

    def _window(self, last: int) -> list[Slice | None]:
        return [self._slices.get(at) for at in range(last - PARTS + 1, last + 1)]

    def _forget(self, last: int) -> None:
        """Let go of communicators and processes that are gone: a job that restarts makes new ones."""
        gone = {comm for comm in self._comms.values() if comm.seen_at < last - 20 * PARTS}
        if gone and last % PARTS == 0:
            self._comms = {key: comm for key, comm in self._comms.items() if comm not in gone}
            self._members = {context: comm for context, comm in self._members.items() if comm not in gone}
            self._writers = {key: file for key, file in self._writers.items() if key[0] not in gone}
            self._copied = {key for key in self._copied if key[0] not in gone}
            self._trends = {key: trend for key, trend in self._trends.items() if any(map(isfinite, trend))}
            self._seats_stale = True

    # --- what there is to see -----------------------------------------------------------------------------------------
    @property
    def newest(self) -> float | None:
        """Time of the newest record, in seconds since 1970 by the clock of its host; None without a record."""
        return self._newest / 1e6 if self._newest else None

    def state(self, clock: float, written: float | None = None) -> CollectivesState:
        """The state of the window at `clock`; logs of the past were `written` then (both in seconds since 1970)."""
        pieces = [piece for piece in self._window(max(self._finished, 0)) if piece is not None]
        began, lines, rate = self._rate
        if clock - began >= 1.0:
            rate = (self.counts.lines - lines) / (clock - began) if began else 0.0
            self._rate = (clock, self.counts.lines, rate)
        comms = {comm for piece in pieces for comm, _, _ in piece.classes}
        recent = (comm for comm in self._comms.values() if comm.seen_at > self._finished - PARTS)
        processes = {place for comm in recent for place in comm.seats.values()}
        waits, links = self._result.waits, self._result.links
        last = written if self._read_at is None else self._read_at
        return CollectivesState(
            window_s=PARTS * SLICE_S,
            by=self._by(pieces),
            ranks=tuple(
                RankNow(wait.seat.label, wait.seat.host, wait.share, wait.comm_share, wait.own_lateness)
                for wait in waits[:_ROWS]
            ),
            links=tuple(LinkNow(link.label, link.ratio, link.lost_share, link.hosts) for link in links[:_ROWS]),
            missing=self._missing(pieces, comms),
            processes=len(processes),
            hosts=len({host for host, _ in processes if host}),
            comms=len(comms),
            lines=self.counts.lines,
            lines_per_s=rate,
            ops=sum(piece.ops for piece in pieces),
            complete_ops=sum(piece.complete_ops for piece in pieces),
            open_ops=len(self._open),
            unfinished=self._unfinished,
            evicted=self._evicted,
            dropped=sum(sum(comm.dropped.values()) for comm in self._comms.values()),
            skipped=self.counts.skipped,
            repeated=self._repeated,
            at=self.newest,
            age_s=None if last is None else max(0.0, clock - last),
        )

    def _by(self, pieces: list[Slice]) -> tuple[CollectiveNow, ...]:
        total = sum(kind.exec_us for piece in pieces for kind in piece.kinds.values()) or 1.0
        found = []
        for key in {key for piece in pieces for key in piece.kinds}:
            kinds = [piece.kinds[key] for piece in pieces if key in piece.kinds]
            complete = sum(kind.complete_us for kind in kinds)
            caused = sum(kind.caused_us for kind in kinds)
            found.append(
                CollectiveNow(
                    *key,
                    busbw_gbs=_middle(kind.busbw for kind in kinds),
                    transfer_us=_middle(kind.transfers for kind in kinds),
                    wait_share=caused / complete if complete and key[1] not in P2P else None,
                    ops_per_s=sum(kind.ops for kind in kinds) / (PARTS * SLICE_S),
                    time_share=sum(kind.exec_us for kind in kinds) / total,
                    trend=tuple(self._trends.get(key, ())),
                )
            )
        return tuple(sorted(found, key=lambda one: (-one.time_share, one.comm_type, one.collective, one.size))[:_ROWS])

    def _missing(self, pieces: list[Slice], comms: set[LiveComm]) -> tuple[MissingRanks, ...]:
        present: dict[LiveComm, set[int]] = {comm: set() for comm in comms}
        for piece in pieces:
            for (comm, _, _), sums in piece.classes.items():
                present[comm] |= sums.ranks.keys()
        found = []
        for comm, ranks in present.items():
            # Ranks dump at different moments: in the first seconds of a communicator some have not come to it yet.
            if (count := comm.n_ranks - len(ranks)) and self._finished - comm.since >= PARTS // 2:
                absent = (rank for rank in range(comm.n_ranks) if rank not in ranks)
                first = tuple(rank for rank, _ in zip(absent, range(_NAMED), strict=False))
                found.append(MissingRanks(comm.label, first, count, comm.n_ranks))
        return tuple(sorted(found, key=lambda one: (-one.count, one.label))[:_ROWS])


def _middle(samples: object) -> float:
    values = [value for one in samples if isinstance(one, Samples) for value in one.values]  # type: ignore[attr-defined]
    return median(values) if values else 0.0
