"""Slices of time of a running job, and what those of the last seconds show together.

All sums are those that the analysis of complete logs uses, so both come to the same result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import mul
from statistics import median, median_low

from .links import FEWEST_OPS, groups_of, ratios_of
from .model import LinkRatio, RankWait, Seat
from .operations import PARTS
from .schema import P2P
from .waits import PAUSED, common_waits, waits_of

_RECENT = 3
"""Slices with waiting that show how much is usual: a fault that begins is judged in the second one."""
_SAMPLES = 512
"""Values of one slice that are kept for a median; of more they are thinned evenly."""


class LiveComm:
    """A communicator and the processes of its ranks."""

    __slots__ = ("dropped", "id", "kind", "n_ranks", "name", "nnodes", "pairs", "records", "seats", "seen_at", "since")

    def __init__(self, id: str, name: str, kind: str, n_ranks: int, nnodes: int) -> None:
        self.id, self.name, self.kind, self.n_ranks, self.nnodes = id, name, kind, n_ranks, nnodes
        self.seats: dict[int, tuple[str, int | None]] = {}
        """Host and process of each rank."""
        self.dropped: dict[int, int] = {}
        """Records that the plugin of each rank dropped."""
        self.pairs: set[tuple[int, int]] = set()
        """Ranks that exchange data."""
        self.records = 0
        self.since = self.seen_at = 0
        """Slices of its first and its newest record."""

    @property
    def label(self) -> str:
        """The communicator in words."""
        name = f" {self.name}" if self.name and self.name != "unknown" else ""
        return f"{self.kind} communicator {self.id}{name}"


class Samples:
    """Values for a median, in bounded memory."""

    __slots__ = ("_every", "_seen", "values")

    def __init__(self) -> None:
        self.values: list[float] = []
        self._every, self._seen = 1, 0

    def add(self, value: float) -> None:
        """Add a value, or leave it out where there are many."""
        self._seen += 1
        if self._seen % self._every:
            return
        self.values.append(value)
        if len(self.values) >= _SAMPLES:
            del self.values[::2]
            self._every *= 2


class ClassSums:
    """Operations of one communicator, collective and size in one slice; all times in microseconds."""

    __slots__ = ("exec_us", "ops", "ranks", "transfer_us", "transfers")

    def __init__(self) -> None:
        self.ops = 0
        """Complete operations, which the times are of."""
        self.transfer_us = self.exec_us = 0.0
        self.transfers = Samples()
        self.ranks: dict[int, list[float]] = {}
        """Records and kernel time of each rank, also of incomplete operations."""


class KindSums:
    """Operations of one type, collective and size in one slice."""

    __slots__ = ("busbw", "caused_us", "complete_us", "exec_us", "ops", "transfers")

    def __init__(self) -> None:
        self.ops = 0
        self.exec_us = self.caused_us = self.complete_us = 0.0
        self.busbw, self.transfers = Samples(), Samples()


@dataclass(slots=True)
class Slice:
    """Some seconds of a job."""

    classes: dict[tuple[LiveComm, str, int], ClassSums] = field(default_factory=dict)
    kinds: dict[tuple[str, str, int], KindSums] = field(default_factory=dict)
    late: dict[tuple[LiveComm, int], list[float]] = field(default_factory=dict)
    """Operations in which a rank came last, the wait that this caused, its lateness, and the squares of it."""
    ops: int = 0
    complete_ops: int = 0
    exec_us: float = 0.0
    """Kernel time of all ranks in complete operations."""

    @property
    def wait_us(self) -> float:
        """Mean wait that an operation caused; the first slice of a job has fewer of them."""
        ops = sum(sums[0] for sums in self.late.values())
        return sum(sums[1] for sums in self.late.values()) / ops if ops else 0.0

    def of_class(self, key: tuple[LiveComm, str, int]) -> ClassSums:
        """The sums of a class."""
        return self.classes.get(key) or self.classes.setdefault(key, ClassSums())

    def of_kind(self, key: tuple[str, str, int]) -> KindSums:
        """The sums of a kind."""
        return self.kinds.get(key) or self.kinds.setdefault(key, KindSums())


@dataclass(frozen=True, slots=True)
class WindowResult:
    """The result of a window."""

    waits: tuple[RankWait, ...]
    links: tuple[LinkRatio, ...]


def analyze(slices: Sequence[Slice | None], seats: dict[tuple[LiveComm, int], Seat]) -> WindowResult:
    """Waits and links of PARTS slices, oldest first; each is one part, as a tenth of complete logs is."""
    assert len(slices) == PARTS  # noqa: S101
    waited = [0.0 if piece is None else piece.wait_us for piece in slices]
    recent = [wait for wait in waited if wait][-_RECENT:]
    usual = median_low(recent) if recent else 0.0  # of two slices, one may have a pause
    kept = [float(not wait or wait < PAUSED * usual) for wait in waited]
    caused = [
        (
            seat.rank,
            seat.host,
            seat.pid,
            seat.slot,
            comm.id,
            part,
            *sums[:3],
            sums[2] * kept[part],
            sums[3] * kept[part],
        )
        for part, piece in enumerate(slices)
        if piece is not None
        for (comm, rank), sums in piece.late.items()
        if (seat := seats.get((comm, rank))) is not None
    ]
    kernel_us = [0.0 if piece is None else piece.exec_us for piece in slices]
    comms = {comm for piece in slices if piece is not None for comm, _, _ in piece.classes}
    known, uncertain = _suffered(slices, seats)
    suffered = [(*row, parts, list(map(mul, kept, parts))) for *row, parts in known]
    exchanged = _exchanged(slices, seats)
    common = _common(slices, seats, comms, exchanged, uncertain) if exchanged or uncertain else None
    usual_us = list(map(mul, kept, kernel_us))
    waits = waits_of(caused, suffered, (exchanged, uncertain), (kernel_us, usual_us), common)
    links = ratios_of(
        _transfers(slices),
        sum(kernel_us),
        {comm.id: comm.name for comm in comms},
        {comm.id: tuple(sorted({host for host, _ in comm.seats.values() if host})) for comm in comms},
        groups_of(
            (comm.id, place, (comm.kind, comm.n_ranks, comm.nnodes)) for comm in comms for place in comm.seats.values()
        ),
    )
    return WindowResult(waits, links)


def _suffered(
    slices: Sequence[Slice | None], seats: dict[tuple[LiveComm, int], Seat]
) -> tuple[list[tuple[int, str, int | None, int, str, list[float]]], dict[Seat, float]]:
    """(own waiting of each rank by communicator, in each slice; possible waiting where no operation is complete).

    It is kernel time beyond the mean transfer time of the same operations, or of those in others of the same kind.
    """
    sums: dict[tuple[LiveComm, str, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for piece in slices:
        for key, of_class in piece.classes.items() if piece is not None else ():
            if key[0].n_ranks > 1 and key[1] not in P2P:
                total = sums[key]
                total[0] += of_class.ops
                total[1] += of_class.transfer_us
    usual = {key: transfer_us / ops for key, (ops, transfer_us) in sums.items() if ops}
    elsewhere: dict[tuple[int, int, str, int], float] = {}
    for (comm, collective, size), transfer_us in usual.items():
        kind = comm.n_ranks, comm.nnodes, collective, size
        elsewhere[kind] = min(transfer_us, elsewhere.get(kind, transfer_us))
    waited: dict[tuple[LiveComm, int], list[float]] = defaultdict(lambda: [0.0] * PARTS)
    whole: dict[tuple[LiveComm, str, int, int], float] = defaultdict(float)
    for part, piece in enumerate(slices):
        for key, of_class in piece.classes.items() if piece is not None else ():
            comm, collective, size = key
            transfer_us = usual.get(key, elsewhere.get((comm.n_ranks, comm.nnodes, collective, size), 0.0))
            for rank, (records, exec_us) in of_class.ranks.items() if key in sums else ():
                waited_us = exec_us - records * transfer_us
                whole[*key, rank] += waited_us
                if key in usual:
                    waited[comm, rank][part] += max(0.0, waited_us)
    known: dict[tuple[LiveComm, int], float] = defaultdict(float)
    possible: dict[Seat, float] = defaultdict(float)
    for (comm, collective, size, rank), waited_us in whole.items():
        if (comm, collective, size) in usual:
            known[comm, rank] += max(0.0, waited_us)
        elif (seat := seats.get((comm, rank))) is not None:
            possible[seat] += max(0.0, waited_us)
    suffered = []
    for (comm, rank), parts in waited.items():
        if (seat := seats.get((comm, rank))) is not None:
            scale = known[comm, rank] / (sum(parts) or 1.0)
            held = [part * scale for part in parts]
            suffered.append((seat.rank, seat.host, seat.pid, seat.slot, comm.id, held))
    return suffered, possible


def _exchanged(slices: Iterable[Slice | None], seats: dict[tuple[LiveComm, int], Seat]) -> dict[Seat, float]:
    """Waiting of each rank in sends and receives: its kernel time beyond the fastest of their size."""
    pieces = [piece for piece in slices if piece is not None]
    fastest: dict[tuple[str, int], float] = {}
    for piece in pieces:
        for (kind, collective, size), of_kind in piece.kinds.items():
            if collective in P2P and of_kind.transfers.values:
                least = min(of_kind.transfers.values)
                fastest[kind, size] = min(least, fastest.get((kind, size), least))
    waited: dict[Seat, float] = defaultdict(float)
    for piece in pieces:
        for (comm, collective, size), sums in piece.classes.items():
            for rank, (records, exec_us) in sums.ranks.items() if collective in P2P else ():
                if (seat := seats.get((comm, rank))) is not None:
                    waited[seat] += max(0.0, exec_us - records * fastest.get((comm.kind, size), 0.0))
    return waited


def _common(
    slices: Iterable[Slice | None],
    seats: dict[tuple[LiveComm, int], Seat],
    comms: Iterable[LiveComm],
    exchanged: Mapping[Seat, float],
    uncertain: Mapping[Seat, float],
) -> dict[str, float]:
    """Waiting for ranks that are not known that is no reason for lateness, by communicator."""
    complete = {
        comm for piece in slices if piece is not None for (comm, _, _), sums in piece.classes.items() if sums.ops
    }
    members: dict[str, list[Seat]] = defaultdict(list)
    for (comm, _), seat in seats.items():
        if comm in complete:
            members[comm.id].append(seat)
    pairs = [
        (first, second)
        for comm in comms
        for one, other in comm.pairs
        if (first := seats.get((comm, one))) is not None and (second := seats.get((comm, other))) is not None
    ]
    return common_waits(members, pairs, exchanged, uncertain)


def _transfers(
    slices: Iterable[Slice | None],
) -> Iterator[tuple[str, str, int, int, str, int, int | None, int, float, float]]:
    """Transfer times by class, in each part and in all of them."""
    whole: dict[tuple[LiveComm, str, int], list[tuple[int, ClassSums]]] = defaultdict(list)
    for part, piece in enumerate(slices):
        for key, sums in piece.classes.items() if piece is not None else ():
            if sums.ops and sums.transfers.values:
                whole[key].append((part, sums))
    for (comm, collective, size), parts in whole.items():
        of = (comm.id, comm.kind, comm.n_ranks, comm.nnodes, collective, size)
        ops = sum(sums.ops for _, sums in parts)
        if ops >= FEWEST_OPS:
            values = [value for _, sums in parts for value in sums.transfers.values]
            yield *of, None, ops, median(values), sum(sums.exec_us for _, sums in parts)
        for part, sums in parts:
            yield *of, part, sums.ops, median(sums.transfers.values), sums.exec_us


def seats_of(comms: Iterable[LiveComm]) -> dict[tuple[LiveComm, int], Seat]:
    """The process of each rank of each communicator, with its rank in the largest one of that process."""
    places: dict[tuple[str, int | None], dict[LiveComm, list[int]]] = defaultdict(dict)
    for comm in comms:
        for rank, place in sorted(comm.seats.items()):
            places[place].setdefault(comm, []).append(rank)
    found: dict[tuple[LiveComm, int], Seat] = {}
    for (host, pid), held in places.items():
        # Which GPU of a process with several it is shows only where all of them are in the communicator.
        most = max(map(len, held.values()))
        whole = {comm: ranks for comm, ranks in held.items() if len(ranks) == most}
        largest = min(whole, key=lambda comm: (-comm.n_ranks, -comm.records / comm.n_ranks, comm.id))
        for comm, ranks in whole.items():
            for slot, rank in enumerate(ranks):
                found[comm, rank] = Seat(whole[largest][slot], host, pid, slot + 1)
    return found
