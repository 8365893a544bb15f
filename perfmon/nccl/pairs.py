"""Sends and receives of pairs of ranks compared with those of other pairs: over a slow link even the fastest are slow.

The later side of a transfer does not wait for the other one, so the shortest kernel time of both sides over the whole
job is a transfer without waiting, although the records of both sides have no common number. Pairs are compared by
message size with pairs of the same kind: ranks and domains of the communicator, and places within the hosts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from statistics import median, median_low
from typing import TYPE_CHECKING, NamedTuple

from perfmon.core import counted

from .links import SHORTEST_US, spread
from .model import LinkType, PairRatio, Seat
from .schema import P2P, RANK_BITS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FEWEST_RECORDS = 10
"""Transfers of which not one was fast, on either side, before a pair is judged."""
_FEWEST_PEERS = 4
"""Other pairs of the same kind and size: of fewer, the usual time and its spread are unknown."""
_NOTABLE = 1.2
"""Pairs from this ratio on must have a place in common; the signature requires more of it."""
_MOST_SLOW = 1 / 3
"""Share of slow pairs: if more are, the network is built so, as with a boundary between pods, and no link is slow."""

_TRANSFERS = f"""
    WITH sides AS (
        SELECT id, n_ranks, nnodes, bytes, coll, CASE coll WHEN 'Send' THEN "rank" ELSE peer END AS source,
            CASE coll WHEN 'Send' THEN peer ELSE "rank" END AS target, sum(records) AS records,
            min(shortest) >> {RANK_BITS} AS us, max(last_us) - min(first_us) AS span_us
        FROM members WHERE coll IN {P2P} AND peer BETWEEN 0 AND n_ranks - 1 AND peer <> "rank" GROUP BY ALL)
    SELECT id, n_ranks, nnodes, bytes, source, target, least(sent.records, received.records)::BIGINT,
        least(sent.us, received.us)
    FROM (FROM sides WHERE coll = 'Send') AS sent JOIN (FROM sides WHERE coll = 'Recv') AS received
        USING (id, n_ranks, nnodes, bytes, source, target)
    WHERE least(sent.records, received.records) >= {_FEWEST_RECORDS}
        AND 2 * least(sent.span_us, received.span_us) >= (SELECT max(span_us) FROM sides)
    ORDER BY ALL
"""
"""Transfers that both sides recorded, through at least half of the time in which there were any."""


class _Kind(NamedTuple):
    """Pairs that can be compared."""

    type: LinkType
    n_ranks: int
    nnodes: int
    places: tuple[int, int] | bool
    """Positions within the hosts, as distances within a host differ; through adapters: if the position is the same."""


class _Pair(NamedTuple):
    kind: _Kind
    seats: tuple[Seat, Seat]


class _Transfer(NamedTuple):
    pair: _Pair
    source: Seat
    size: int
    records: int
    us: int


def pair_ratios(connection: DuckDBPyConnection) -> tuple[tuple[PairRatio, ...], tuple[PairRatio, ...], list[str]]:
    """(every pair that has peers, the slowest first; slow links with the place that explains them; notes)."""
    transfers = list(_transfers(connection))
    row = connection.execute(
        f"""SELECT count(*) FILTER (coll IN {P2P}), coalesce(sum(exec_us), 0) FROM members WHERE coll IS NOT NULL"""
    ).fetchone()
    assert row is not None  # noqa: S101 - an aggregate has a row
    if not row[0]:
        return (), (), []
    ratios = _ratios(transfers, max(1.0, row[1]))
    if not ratios:
        return (), (), [
            f"sends and receives are not compared: that takes pairs of ranks with {_FEWEST_RECORDS} records of a size "
            f"on both sides, and {_FEWEST_PEERS} other pairs of the same kind for each"
        ]  # fmt: skip
    slow, notes = _explained(ratios)
    return tuple(sorted(ratios, key=lambda pair: (-pair.ratio, pair.label))), slow, notes


def _transfers(connection: DuckDBPyConnection) -> Iterator[_Transfer]:
    seats: dict[str, dict[int, Seat]] = defaultdict(dict)
    for comm, rank, *seat in connection.execute('SELECT id, "rank", job_rank, host, pid, slot FROM seats').fetchall():
        seats[comm][rank] = Seat(*seat)
    places = _places(seats)
    for comm, n_ranks, nnodes, size, source, target, records, us in connection.execute(_TRANSFERS).fetchall():
        held = seats[comm]
        if source not in held or target not in held:
            continue
        ends = held[source], held[target]
        link = _link_type(ends, held, n_ranks, nnodes)
        if link is None:
            continue
        first, second = sorted(ends, key=lambda seat: (places[seat], seat.rank, seat.host, str(seat.pid)))
        at = places[first], places[second]
        kind = _Kind(link, n_ranks, nnodes, at if link == "nvlink" else at[0] == at[1])
        yield _Transfer(_Pair(kind, (first, second)), ends[0], size, records, us)


def _places(seats: Mapping[str, Mapping[int, Seat]]) -> dict[Seat, int]:
    """Position of each seat on its host, by rank."""
    hosts: dict[str, set[Seat]] = defaultdict(set)
    for held in seats.values():
        for seat in held.values():
            hosts[seat.host].add(seat)
    return {
        seat: at
        for held in hosts.values()
        for at, seat in enumerate(sorted(held, key=lambda one: (one.rank, str(one.pid), one.slot)))
    }


def _link_type(ends: tuple[Seat, Seat], held: Mapping[int, Seat], n_ranks: int, nnodes: int) -> LinkType | None:
    """None if it cannot be known: a domain may have several hosts, and logs of some may be missing."""
    if nnodes == 1 or (ends[0].host and ends[0].host == ends[1].host):
        return "nvlink"
    is_split = len(held) == n_ranks and len({seat.host for seat in held.values()}) == nnodes
    return "hca" if n_ranks == nnodes or is_split else None


def _ratios(transfers: Sequence[_Transfer], kernel_us: float) -> list[PairRatio]:
    """Ratio of each pair with enough peers to the median of its kind and size, of the slower direction."""
    classes: dict[tuple[_Kind, int], list[_Transfer]] = defaultdict(list)
    for transfer in transfers:
        classes[transfer.pair.kind, transfer.size].append(transfer)
    measured: dict[_Pair, dict[Seat, list[tuple[_Transfer, int]]]] = defaultdict(lambda: defaultdict(list))
    peers: dict[_Pair, int] = defaultdict(int)
    for held in classes.values():
        count = len({transfer.pair for transfer in held}) - 1
        usual = median_low(transfer.us for transfer in held)
        if count < _FEWEST_PEERS or usual < SHORTEST_US:
            continue
        for transfer in held:
            measured[transfer.pair][transfer.source].append((transfer, usual))
            peers[transfer.pair] = max(count, peers[transfer.pair])
    ratios = {pair: max(map(_weighted, directions.values())) for pair, directions in measured.items()}
    kinds: dict[_Kind, list[float]] = defaultdict(list)
    for pair, ratio in ratios.items():
        kinds[pair.kind].append(ratio)
    spreads = {kind: spread(held) for kind, held in kinds.items()}
    found = []
    for pair, directions in measured.items():
        both = [one for one_way in directions.values() for one in one_way]
        excess = sum(2 * transfer.records * max(0, transfer.us - usual) for transfer, usual in both)
        found.append(
            PairRatio(
                link_type=pair.kind.type,
                seats=pair.seats,
                hosts=tuple(sorted({seat.host for seat in pair.seats})),
                peers=peers[pair],
                ops=sum(transfer.records for transfer, _ in both),
                ratio=ratios[pair],
                spread=spreads[pair.kind],
                lost_share=min(1.0, excess / kernel_us),
            )
        )
    return found


def _weighted(one_way: Sequence[tuple[_Transfer, int]]) -> float:
    """Ratio of shortest times to the usual ones of the sizes, weighted by the time that the transfers should take."""
    usual_us = sum(transfer.records * usual for transfer, usual in one_way)
    return sum(transfer.records * transfer.us for transfer, _ in one_way) / usual_us


def _explained(ratios: Sequence[PairRatio]) -> tuple[tuple[PairRatio, ...], list[str]]:
    """(a place for the slow pairs of each type, notes where there is none): faults are in one place, builds in many."""
    found, notes = [], []
    for link_type in ("nvlink", "hca"):
        judged = [pair for pair in ratios if pair.link_type == link_type]
        slow = [pair for pair in judged if pair.ratio >= _NOTABLE]
        if not slow:
            continue
        seats = tuple(seat for seat in slow[0].seats if all(seat in pair.seats for pair in slow))
        hosts = tuple(host for host in slow[0].hosts if all(host in pair.hosts for pair in slow))
        if not hosts or len(slow) > max(1.0, _MOST_SLOW * len(judged)):
            notes.append(
                f"sends and receives of {len(slow)} of {counted(len(judged), f'{link_type} pair')} are slower than "
                "others, but these are too many or have no host in common: the network may be built so"
            )
            continue
        found.append(
            PairRatio(
                link_type=link_type,
                seats=seats,
                hosts=hosts,
                peers=min(pair.peers for pair in slow),
                ops=sum(pair.ops for pair in slow),
                ratio=median(pair.ratio for pair in slow),
                spread=max(pair.spread for pair in slow),
                lost_share=min(1.0, sum(pair.lost_share for pair in slow)),
            )
        )
    return tuple(found), notes
