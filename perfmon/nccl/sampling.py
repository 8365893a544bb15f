"""Points for plots: bandwidth by sequence number, a sample of them where there are more than a picture can show."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .schema import P2P, SINGLE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy import float64
    from numpy.typing import NDArray

    from .model import CollectiveStats

Key = tuple[str, str, int]
"""Type of communicator, collective, message size."""
_LEAST_SHARE = 0.01


def important_sizes(by: Sequence[CollectiveStats], most: int) -> list[CollectiveStats]:
    """Sizes that take at least a hundredth of the kernel time of communicators with several ranks, at most `most`."""
    drawn = [stats for stats in by if stats.comm_type != SINGLE and stats.collective not in P2P]
    total = sum(stats.total_us for stats in drawn)
    return [stats for stats in drawn if stats.total_us >= _LEAST_SHARE * total][:most]


def points(connection: DuckDBPyConnection, keys: Sequence[Key], most: int) -> dict[Key, list[tuple[int, float]]]:
    """(sequence number, mean bus bandwidth) of operations, about `most` of each key.

    By a hash of the operation: every so many-th one could be always of the same communicator.
    """
    if not keys:
        return {}
    rows = connection.execute(
        """
        WITH wanted AS (SELECT unnest($types::VARCHAR[]) AS comm_type, unnest($colls::VARCHAR[]) AS coll,
            unnest($sizes::UBIGINT[]) AS bytes)
        SELECT comm_type, coll, bytes, sn, busbw
        FROM ops JOIN (
            SELECT comm_type, coll, bytes, greatest(1, count(*) // $most) AS every
            FROM ops JOIN wanted USING (comm_type, coll, bytes) WHERE busbw IS NOT NULL GROUP BY ALL
        ) USING (comm_type, coll, bytes)
        WHERE busbw IS NOT NULL AND hash(id, sn) % every = 0
        ORDER BY 1, 2, 3, 4, 5
        """,
        {
            "types": [key[0] for key in keys],
            "colls": [key[1] for key in keys],
            "sizes": [key[2] for key in keys],
            "most": most,
        },
    ).fetchall()
    found: dict[Key, list[tuple[int, float]]] = {}
    for comm_type, coll, size, sn, busbw in rows:
        found.setdefault((comm_type, coll, size), []).append((sn, busbw))
    return found


def values(connection: DuckDBPyConnection, key: Key) -> NDArray[float64]:
    """Mean bus bandwidths of the operations of one key in ascending order, for their distribution. Needs numpy."""
    found: NDArray[float64] = connection.execute(
        """
        SELECT busbw FROM ops WHERE comm_type = ? AND coll = ? AND bytes = ? AND busbw IS NOT NULL ORDER BY busbw
        """,
        list(key),
    ).fetchnumpy()["busbw"]
    return found
