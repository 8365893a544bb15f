"""Weight updates that have not ended: what is certain already of how long they wait.

A run that is watched is not told that an update hangs until it is over, unless somebody looks at the clock. What the
server's log has told since the update was sent is proof: as far as that log has come, the update was not received, or
its RPC not done. A log that lags behind proves nothing beyond its last line.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from perfmon.model import ALL_LEGS, LEGS, Span, Update

from .items import Item
from .leads import TOGETHER, Lead, lead
from .silence import is_over
from .successors import bygone_of

if TYPE_CHECKING:
    from .run_view import RunView

_SENT = 1 << LEGS.index("client.send")
_DONE = 1 << LEGS.index("client.done")
_CLIENT = _SENT | _DONE
_RECEIVED = 1 << LEGS.index("server.recv")
_ABANDONED_S = 3600.0
Way = tuple[int, object]
"""From which log to which server."""


def way(update: Update) -> Way:
    """What an update takes: of several servers one may hang while the others answer."""
    return (update.source, update.fields.get("url", ""))


def in_flight(spans: Iterable[Span], view: RunView) -> list[Item]:
    """Updates whose wait, or RPC, is critical already; none where nobody watches."""
    if view.present is None:
        return []
    updates = [span for span in spans if isinstance(span, Update)]
    newest: dict[Way, float] = {}
    servers: dict[Way, int] = {}
    for update in updates:
        if update.end is not None and update.start is not None:
            newest[way(update)] = max(newest.get(way(update), update.start), update.start)
        if update.server is not None and update.client is not None and update.legs & _RECEIVED:
            servers[way(update)] = update.server
    ended: dict[Way, list[Update]] = {}
    for update in updates:
        if update.legs == ALL_LEGS:
            ended.setdefault(way(update), []).append(update)
    leads = {taken: lead(mine, view) for taken, mine in ended.items()}
    gone = view.fact(bygone_of)  # what was open when a run ended is answered by no other
    current = (update for update in updates if update.source not in gone)
    return [item for update in current if (item := _item(update, newest, servers, leads, view)) is not None]


def unanswered(view: RunView) -> list[Update]:
    """Updates that were sent and never done, after the last one that was, in a log that nobody watches any more."""
    return _left_open(view)[0]


def overtaken(view: RunView) -> list[Update]:
    """Likewise those that later ones followed: their client failed or was started anew, or a line was lost."""
    return _left_open(view)[1]


def _left_open(view: RunView) -> tuple[list[Update], list[Update]]:
    if view.present is not None:
        return [], []
    low, high = view.window
    open_ones = [
        update
        for update in view.store.updates
        if update.legs & _CLIENT == _SENT
        and update.start is not None
        and update.client is not None
        and low <= update.start + view.shifts.get(update.source, 0.0) <= high
    ]
    newest: dict[Way, float] = {}
    for update in view.store.updates if open_ones else ():
        if update.legs & _DONE and update.start is not None:
            newest[way(update)] = max(newest.get(way(update), update.start), update.start)
    sides: tuple[list[Update], list[Update]] = ([], [])
    for update in open_ones:
        sides[(update.start or 0.0) < newest.get(way(update), float("-inf"))].append(update)
    return sides


def _item(
    update: Update, newest: dict[Way, float], servers: dict[Way, int], leads: dict[Way, Lead], view: RunView
) -> Item | None:
    if update.start is None or update.end is not None or update.legs & _DONE or view.present is None:
        return None
    if is_over(view.store.sources[update.source]):
        return None
    server = update.server if update.server is not None else servers.get(way(update))
    # One that began before another that is done already lost its end: its line was never seen.
    if server is None or server == update.source or update.start < newest.get(way(update), float("-inf")):
        return None
    spoke = view.store.sources[server].last
    if spoke is None:
        return None
    ahead = leads.get(way(update), TOGETHER)
    began = update.start + view.shifts.get(update.source, 0.0)
    heard = spoke + view.shifts.get(server, 0.0) - ahead.wall_s
    if way(update) not in leads:  # nothing tells how the server's clock lies: what others have come to is proof
        heard = min(heard, _others(server, view))
    if heard <= began or view.present - began > _ABANDONED_S:
        return None
    values = _values(update, heard - began, ahead.monotonic_s)
    if not any(view.bands.level(metric, value) == 2 for metric, value in values.items()):
        return None
    return Item(began, heard, values, update.fields, update.refs, "", update.key, update.source, update)


def _others(server: int, view: RunView) -> float:
    """The newest line of all logs but the server's."""
    lasts = [
        state.last + view.shifts.get(state.index, 0.0)
        for state in view.store.sources
        if state.index != server and state.last is not None and not state.polled
    ]
    return max(lasts, default=float("-inf"))


def _values(update: Update, elapsed_s: float, ahead_s: float) -> dict[str, float]:
    """The least that its legs last, in milliseconds."""
    elapsed_ms = 1000.0 * elapsed_s
    if update.server is None:
        return {"queue_ms": elapsed_ms}
    received = update.recv_t if update.recv_t is not None else update.rpc_start_t
    if received is None or update.rpc_done_t is not None or update.send_t is None:
        return {}
    queue_ms = 1000.0 * (received - update.send_t - ahead_s)
    if not 0.0 <= queue_ms <= elapsed_ms:
        return {}  # clocks of two hosts: how long it waited is known when it is done
    metric = "rpc_ms" if update.op == "update_weights" else f"rpc_ms.{update.op}"
    return {"queue_ms": queue_ms, metric: elapsed_ms - queue_ms}
