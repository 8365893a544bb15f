"""Waiting that ranks cause: in each operation the last rank to arrive has the shortest kernel time.

The kernel of a rank runs from its own arrival until the data are there, so it contains the wait for ranks that arrive
later. Only durations are compared, never timestamps of two hosts, so clocks that differ do not matter.

A rank may come last because it had itself waited for another one, in another communicator: the ranks of a host leave a
collective together when the slow one of them has come, and are then late for the next one. So each rank keeps only the
part of its lateness that it did not spend waiting (its own lateness), and passes the rest on to those it waited for.

Stages of a pipeline wait for each other in sends and receives, and who came last is not known of these. Where members
of a communicator exchange data with each other, along any number of stages, all of this waiting may explain why one is
late. Elsewhere all members are in the same place of pipelines, as the ranks of a tensor-parallel group are: then only
what a rank waited longer than the other members does.
The same holds for operations that lack records of a rank, as its log is missing: they show that others waited, but not
for whom.

A slow rank is late repeatedly by similar times, one that pauses is so a few times and for long, which may cause more
waiting than all other operations together. What lasts is judged without the pieces of a job, hundredths if there are
operations enough, in which much more was waited than usual; live these are slices of some seconds, of which all may
have a pause: so it also counts in how many operations most of the lateness was: few may be chance.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_high
from typing import TYPE_CHECKING, Any

from .model import RankWait, Seat
from .operations import PARTS, PIECES
from .schema import P2P, RANK_BITS, ROOTED

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROUNDS = 6
"""Wait is passed on along so many collectives: the share of a slow rank hardly changes after three."""

_PIECES = f"""
    SELECT piece, sum(caused_us) FROM ops WHERE is_complete AND coll NOT IN {ROOTED} GROUP BY piece
"""

_CAUSED = f"""
    SELECT s.job_rank, s.host, s.pid, s.slot, o.id, o.part, count(*), sum(o.caused_us),
        round(fsum(o.caused_us / (o.n_ranks - 1)), 3),
        coalesce(round(fsum(o.caused_us / (o.n_ranks - 1)) FILTER (list_contains($1, o.piece)), 3), 0),
        coalesce(round(fsum((o.caused_us / (o.n_ranks - 1)) ** 2) FILTER (list_contains($1, o.piece)), 3), 0)
    FROM ops AS o JOIN seats AS s ON s.id = o.id AND s."rank" = o.last_rank
    WHERE o.is_complete AND o.coll NOT IN {ROOTED} GROUP BY ALL ORDER BY ALL
"""

_USUAL = """
    WITH usual AS (
        SELECT id, coll, bytes, avg(transfer_us) AS transfer_us FROM ops WHERE is_complete GROUP BY ALL)
"""

_SUFFERED = f"""
    {_USUAL}
    SELECT s.job_rank, s.host, s.pid, s.slot, m.id, round(fsum(greatest(0, m.exec_us - m.records * u.transfer_us)), 3)
    FROM members AS m JOIN usual AS u ON u.id = m.id AND u.coll = m.coll AND u.bytes = m.bytes
        JOIN seats AS s ON s.id = m.id AND s."rank" = m."rank"
    GROUP BY ALL ORDER BY ALL
"""
"""Waiting of each rank itself: its kernel time beyond the transfer times of the same operations."""

_EXCHANGED = f"""
    WITH usual AS (
        SELECT n_ranks, nnodes, bytes, min(shortest) >> {RANK_BITS} AS transfer_us FROM members WHERE coll IN {P2P}
        GROUP BY ALL)
    SELECT s.job_rank, s.host, s.pid, s.slot, sum(m.exec_us - m.records * u.transfer_us)
    FROM members AS m JOIN usual AS u USING (n_ranks, nnodes, bytes)
        JOIN seats AS s ON s.id = m.id AND s."rank" = m."rank"
    WHERE m.coll IN {P2P} GROUP BY ALL
"""
"""The same for sends and receives, beyond the fastest of their size: stages of a pipeline wait for each other."""

_CHAINED = f"""
    SELECT DISTINCT a.job_rank, a.host, a.pid, a.slot, b.job_rank, b.host, b.pid, b.slot
    FROM members AS m JOIN seats AS a ON a.id = m.id AND a."rank" = m."rank"
        JOIN seats AS b ON b.id = m.id AND b."rank" = m.peer
    WHERE m.coll IN {P2P}
"""
"""Pairs of ranks that exchange data."""

_UNCERTAIN = f"""
    WITH usual AS (
        SELECT id, comm_type, n_ranks, nnodes, coll, bytes, avg(transfer_us) AS transfer_us FROM ops WHERE is_complete
        GROUP BY ALL),
    elsewhere AS (
        SELECT comm_type, n_ranks, nnodes, coll, bytes, min(transfer_us) AS transfer_us FROM usual GROUP BY ALL)
    SELECT s.job_rank, s.host, s.pid, s.slot, sum(greatest(0, m.exec_us - m.records * coalesce(e.transfer_us, 0)))
    FROM members AS m ANTI JOIN usual USING (id, coll, bytes)
        LEFT JOIN elsewhere AS e USING (comm_type, n_ranks, nnodes, coll, bytes)
        JOIN seats AS s ON s.id = m.id AND s."rank" = m."rank"
    WHERE m.n_ranks > 1 AND m.coll NOT IN {P2P} GROUP BY ALL
"""
"""Possible waiting in operations that are nowhere complete in a communicator: beyond the transfer time in others of its
kind, or all of the kernel time where that is not known either."""

_UNPLACED = f"""
    {_USUAL}
    SELECT o.id, o.part, fsum(greatest(0, o.exec_us / o.records - u.transfer_us)),
        coalesce(fsum(greatest(0, o.exec_us / o.records - u.transfer_us)) FILTER (list_contains(?, o.piece)), 0)
    FROM ops AS o JOIN usual AS u USING (id, coll, bytes) WHERE NOT o.is_complete GROUP BY ALL
"""
"""Mean waiting by communicator and part in operations that lack records, where others of their kind are complete."""

_MEMBERS = """
    SELECT DISTINCT s.id, s.job_rank, s.host, s.pid, s.slot FROM seats AS s
        JOIN ops AS o ON o.id = s.id WHERE o.is_complete
"""

PAUSED = 2.0
"""Times the waiting of the usual piece from which on a piece of a job has a pause in it."""
_LEAST_OF_PIECE = 10
"""Operations of the most frequent kind in a piece."""


@dataclass(slots=True)
class _Waits:
    """Sums of one rank, in microseconds."""

    parts: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    caused: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By communicator."""
    suffered: dict[str, Sequence[float]] = field(default_factory=dict)
    """By communicator, in each part."""
    unexplained: float = 0.0
    """In operations that do not show for whom: sends, receives, and those that lack records of a rank."""
    ops: int = 0
    late: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """By communicator."""
    squares: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Of how late it was in each operation, by communicator."""
    late_parts: list[float] = field(default_factory=lambda: [0.0] * PARTS)
    excused: float = 0.0
    """Part of `unexplained` that may explain its lateness."""

    @property
    def lateness(self) -> float:
        """Sum of how late it was."""
        return sum(self.late.values())

    @property
    def late_ops(self) -> float:
        """Operations that most of its lateness is in: as many equal ones would have the same squares."""
        ops = sum(late**3 / self.squares[comm] for comm, late in self.late.items() if self.squares[comm])
        return ops / self.lateness if self.lateness else 0.0

    @property
    def own(self) -> float:
        """Share of its lateness that was not waiting."""
        lateness = self.lateness
        return max(0.0, 1.0 - (self.excused + sum(map(sum, self.suffered.values()))) / lateness) if lateness else 0.0

    @property
    def uncertain(self) -> float:
        """Share of its lateness that may be waiting for ranks that are not known."""
        return _share(self.excused, self.lateness)

    def own_in(self, part: int) -> float:
        """The same in a part of the job."""
        late = self.late_parts[part]
        suffered = sum(parts[part] for parts in self.suffered.values())
        return max(0.0, 1.0 - self.uncertain - suffered / late) if late else 0.0

    def excuse(self, common: Mapping[str, float]) -> None:
        """Set what explains its lateness; `common` is the waiting of all members, by communicator."""
        usual = sum(late * min(self.unexplained, common.get(comm, 0.0)) for comm, late in self.late.items())
        self.excused = self.unexplained - (usual / self.lateness if self.lateness else 0.0)


def rank_waits(connection: DuckDBPyConnection) -> tuple[RankWait, ...]:
    """Every rank that some other waited for, the origin of most waiting first."""
    pieces = _usual_pieces(connection)
    kernel_us, usual_us = [0.0] * PARTS, [0.0] * PARTS
    for part, total, usual in connection.execute(
        """
        SELECT part, sum(exec_us), coalesce(sum(exec_us) FILTER (list_contains(?, piece)), 0)
        FROM ops WHERE is_complete GROUP BY part
        """,
        [pieces],
    ).fetchall():
        kernel_us[part], usual_us[part] = total, usual
    caused, unplaced = (connection.execute(query, [pieces]).fetchall() for query in (_CAUSED, _UNPLACED))
    suffered = list(_in_parts(caused, connection.execute(_SUFFERED).fetchall(), unplaced))
    exchanged, uncertain = (
        {Seat(*seat): waited_us for *seat, waited_us in connection.execute(query).fetchall()}
        for query in (_EXCHANGED, _UNCERTAIN)
    )
    if not exchanged and not uncertain:
        return waits_of(caused, suffered, (), (kernel_us, usual_us))
    members: dict[str, list[Seat]] = defaultdict(list)
    for comm, *seat in connection.execute(_MEMBERS).fetchall():
        members[comm].append(Seat(*seat))
    pairs = [(Seat(*row[:4]), Seat(*row[4:])) for row in connection.execute(_CHAINED).fetchall()]
    common = common_waits(members, pairs, exchanged, uncertain)
    return waits_of(caused, suffered, (exchanged, uncertain), (kernel_us, usual_us), common)


def _usual_pieces(connection: DuckDBPyConnection) -> list[int]:
    """Numbers of the pieces (hundredths) of the job in which ranks waited as long as usual.

    They are judged in groups of one to ten: of few operations some have more waiting than others by chance.
    """
    row = connection.execute(
        "SELECT max(n) FROM (SELECT count(*) AS n FROM ops WHERE is_complete GROUP BY id, coll)"
    ).fetchone()
    longest = (row and row[0]) or 0
    width = next((one for one in (1, 2, 5) if longest * one >= _LEAST_OF_PIECE * PARTS * PIECES), PIECES)
    totals: dict[int, float] = defaultdict(float)
    for piece, caused_us in connection.execute(_PIECES).fetchall():
        totals[piece // width] += caused_us
    usual = usual_total(totals.values())
    kept = {group for group, total in totals.items() if not total or total < PAUSED * usual}
    return [piece for piece in range(PARTS * PIECES) if piece // width in kept]


def usual_total(totals: Iterable[float]) -> float:
    """The median of those that are not zero; 0 if all are."""
    return median_high([total for total in totals if total] or [0.0])


def _in_parts(
    caused: Iterable[tuple[Any, ...]], suffered: Iterable[tuple[Any, ...]], unplaced: Iterable[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Own waiting in each part, and without pauses: it is known of the whole job, and was where others came last, or
    who did is unknown."""
    of_comm: dict[str, list[float]] = defaultdict(lambda: [0.0] * 2 * PARTS)
    late: dict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0.0] * 2 * PARTS)
    unplaced = [(comm, part, 0, 0, *us, 0) for comm, part, *us in unplaced]
    for *place, part, _, _, late_us, usual_us, _ in (*caused, *unplaced):
        for total in (of_comm[place[-1]], late[tuple(place)]):
            total[part] += late_us
            total[PARTS + part] += usual_us
    for *place, suffered_us in suffered:
        own = late.get(tuple(place), [0.0] * 2 * PARTS)
        others = [max(0.0, total - late_us) for total, late_us in zip(of_comm[place[-1]], own, strict=True)]
        whole = sum(others[:PARTS])
        parts = [suffered_us * (one / whole if whole else 1.0 / PARTS) for one in others]
        yield *place, parts[:PARTS], parts[PARTS:]


def common_waits(
    members: Mapping[str, Sequence[Seat]],
    pairs: Iterable[tuple[Seat, Seat]],
    exchanged: Mapping[Seat, float],
    uncertain: Mapping[Seat, float],
) -> dict[str, float]:
    """Waiting for ranks that are not known that all members of a communicator have, so that it makes none of them late.

    That in sends and receives (`exchanged`, microseconds) counts where no member exchanges data with another one;
    `uncertain` is that in operations that lack records.
    """
    parents: dict[Seat, Seat] = {}

    def root(seat: Seat) -> Seat:
        while (parent := parents.get(seat, seat)) != seat:
            parents[seat] = parents.get(parent, parent)
            seat = parent
        return seat

    for first, second in pairs:
        parents[root(first)] = root(second)
    common = {}
    for comm, seats in members.items():
        is_apart = len({root(seat) for seat in seats}) == len(seats)
        common[comm] = min(uncertain.get(seat, 0.0) for seat in seats)
        common[comm] += max(0.0, min(exchanged.get(seat, 0.0) for seat in seats)) if is_apart else 0.0
    return common


def waits_of(
    caused: Iterable[tuple[Any, ...]],
    suffered: Iterable[tuple[Any, ...]],
    unexplained: Iterable[Mapping[Seat, float]],
    kernel_us: tuple[Sequence[float], Sequence[float]],
    common: Mapping[str, float] | None = None,
) -> tuple[RankWait, ...]:
    """The waits from sums, wherever these were made.

    `caused` has (rank, host, pid, slot, communicator, part, operations, caused wait, lateness, usual part of it,
    squares of that in each operation), `suffered` (rank, host, pid, slot, communicator, own waiting in each part,
    usual part of it), `unexplained` the waiting for ranks that are not known, for several reasons, `kernel_us` the
    kernel time of all ranks in each part and the usual part of it, and `common` by communicator the unexplained
    waiting that is no reason for lateness within it; all in microseconds. The usual part is what remains without
    pauses.
    """
    caused, suffered, unexplained = list(caused), list(suffered), list(unexplained)
    ranks = _sums([(*row, 0.0) for *row, _, _ in caused], [row[:-1] for row in suffered], unexplained, common)
    lasting = _sums(
        [(*row, caused_us * _share(usual, late), usual, squares) for *row, caused_us, late, usual, squares in caused],
        [(*row, usual) for *row, _, usual in suffered],
        unexplained,
        common,
    )
    totals = _totals(lasting)
    origins, lasting_origins = _origins(ranks), _origins(lasting)
    whole, lasting_whole = sum(_totals(ranks)), sum(totals)
    found = [
        RankWait(
            seat=seat,
            ops=waits.ops,
            caused_us=sum(waits.parts),
            last_share=_share(sum(waits.parts), whole),
            share=_share(origins[seat], whole),
            lasting_share=_share(lasting_origins[seat], lasting_whole),
            lateness_us=waits.lateness,
            own_lateness=lasting[seat].own,
            uncertain=min(1.0, lasting[seat].uncertain),
            late_ops=lasting[seat].late_ops,
            comm_share=_share(sum(waits.parts), sum(kernel_us[0])),
            shares=tuple(map(_share, lasting[seat].parts, totals)),
            own_shares=tuple(
                _share(part, total) * lasting[seat].own_in(at)
                for at, (part, total) in enumerate(zip(lasting[seat].parts, totals, strict=True))
            ),
            comm_shares=tuple(map(_share, lasting[seat].parts, kernel_us[1])),
            comms=tuple(sorted(waits.suffered)),
        )
        for seat, waits in ranks.items()
        if waits.ops
    ]
    return tuple(sorted(found, key=lambda wait: (-wait.share, -wait.caused_us, wait.seat.rank, wait.seat.host)))


def _sums(
    caused: Iterable[tuple[Any, ...]],
    suffered: Iterable[tuple[Any, ...]],
    unexplained: Iterable[Mapping[Seat, float]],
    common: Mapping[str, float] | None,
) -> dict[Seat, _Waits]:
    ranks: dict[Seat, _Waits] = defaultdict(_Waits)
    for *seat, comm, part, count, caused_us, late, squares in caused:
        waits = ranks[Seat(*seat)]
        waits.parts[part] += caused_us
        waits.caused[comm] += caused_us
        waits.ops += count
        waits.late[comm] += late
        waits.squares[comm] += squares
        waits.late_parts[part] += late
    for *seat, comm, parts in suffered:
        ranks[Seat(*seat)].suffered[comm] = parts
    for waited in unexplained:
        for of_rank, waited_us in waited.items():
            ranks[of_rank].unexplained += waited_us
    for waits in ranks.values():
        waits.excuse(common or {})
    return ranks


def _totals(ranks: Mapping[Seat, _Waits]) -> list[float]:
    return [sum(column) for column in zip(*(waits.parts for waits in ranks.values()), strict=True)] or [0.0] * PARTS


def _origins(ranks: Mapping[Seat, _Waits]) -> dict[Seat, float]:
    """Caused wait by rank of origin: what is passed on goes to those who came last in the same communicators."""
    totals: dict[str, float] = defaultdict(float)
    for waits in ranks.values():
        for comm, caused in waits.caused.items():
            totals[comm] += caused
    kept = dict.fromkeys(ranks, 0.0)
    held = {seat: sum(waits.parts) for seat, waits in ranks.items()}
    own = {seat: waits.own for seat, waits in ranks.items()}
    for _ in range(_ROUNDS):
        passed: dict[str, float] = defaultdict(float)
        for seat, waits in ranks.items():
            kept[seat] += held[seat] * own[seat]
            known = {comm: sum(parts) for comm, parts in waits.suffered.items()}
            # What it waited for where records do not show who came last is no one's.
            suffered = waits.excused + sum(known.values())
            for comm, part in known.items():
                if suffered:
                    passed[comm] += held[seat] * (1.0 - own[seat]) * part / suffered
        held = {
            seat: sum(passed[comm] * caused / totals[comm] for comm, caused in waits.caused.items() if totals[comm])
            for seat, waits in ranks.items()
        }
    return {seat: kept[seat] + held[seat] for seat in ranks}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
