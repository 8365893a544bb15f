"""How far a server's clocks are ahead of its client's, by the updates that have ended.

Each bounds it from both sides: nothing is received before it is sent, and the client has its answer when the RPC is
done at the earliest. Clocks that may agree are taken to agree.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from perfmon.model import Update

if TYPE_CHECKING:
    from .run_view import RunView

_SAME_S = 2.0
"""Lines that are stamped to the second do not tell clocks apart that are nearer."""


class Lead(NamedTuple):
    """Seconds to take from what the server's clocks say."""

    monotonic_s: float
    wall_s: float
    """Of the dates of its lines."""


TOGETHER = Lead(0.0, 0.0)


def lead(updates: Iterable[Update], view: RunView) -> Lead:
    """By updates between one client's log and one server's; none of them ended: the clocks are taken to agree."""
    low, high, last = float("-inf"), float("inf"), None
    for update in updates:
        if update.send_t is None or update.recv_t is None or update.rpc_done_t is None or update.wall_ms is None:
            continue
        low = max(low, update.rpc_done_t - update.send_t - update.wall_ms / 1000.0)
        high = min(high, update.recv_t - update.send_t)
        last = update
    if last is None or low - _SAME_S <= 0.0 <= high + _SAME_S:
        return TOGETHER
    monotonic_s = max(low, high)
    return Lead(monotonic_s, _of_dates(monotonic_s, last, view))


def _of_dates(monotonic_s: float, update: Update, view: RunView) -> float:
    """Nothing where one of the logs has no dates, and lies on the axis by its monotonic clock."""
    if update.server is None or update.client is None:
        return 0.0
    server, client = view.store.sources[update.server], view.store.sources[update.client]
    if server.mono_to_wall is None or client.mono_to_wall is None:
        return 0.0
    apart = server.mono_to_wall + view.shifts.get(server.index, 0.0)
    apart -= client.mono_to_wall + view.shifts.get(client.index, 0.0)
    wall_s = monotonic_s + apart
    return wall_s if abs(wall_s) > _SAME_S else 0.0
