"""Spans and weight updates without an end: still running, hung, or overtaken."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from perfmon.core import ALL_LEGS, LEGS, Ref, Span, Update

from .finished import finished_at
from .silence import announced_shutdown, bygone_of, is_over
from .tracks import UPDATE, Item

if TYPE_CHECKING:
    from .run_view import RunView


# --- How far a server's clocks are ahead of its client's, by the updates that have ended ---
#
# Each bounds it from both sides: nothing is received before it is sent, and the client has its answer when the RPC is
# done at the earliest. Clocks that may agree are taken to agree.

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
    apart = server.mono_to_wall + view.shift(server.index)
    apart -= client.mono_to_wall + view.shift(client.index)
    wall_s = monotonic_s + apart
    return wall_s if abs(wall_s) > _SAME_S else 0.0


# --- Weight updates that have not ended: what is certain already of how long they wait ---
#
# A run that is watched is not told that an update hangs until it is over, unless somebody looks at the clock. What the
# server's log has told since the update was sent is proof: as far as that log has come, the update was not received, or
# its RPC not done. A log that lags behind proves nothing beyond its last line.

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
        and low <= update.start + view.shift(update.source) <= high
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
    began = update.start + view.shift(update.source)
    heard = spoke + view.shift(server) - ahead.wall_s
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
        state.last + view.shift(state.index)
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


# --- What was told to begin and not to end: while it may still go on, nobody is accused of waiting for it ---
_UPDATE = "weight-update"
LONGEST_S = 1800.0
"""After that its end was lost."""


def begun(view: RunView) -> Mapping[str, Sequence[float]]:
    """When those began that have not ended, by kind of span, on the run's axis."""
    starts: dict[str, list[float]] = {}
    for span in view.store.opened():
        if span.start is not None:
            starts.setdefault(span.kind, []).append(span.start + view.shift(span.source))
    if view.store.updates:
        starts[_UPDATE] = _sent(view)
    return starts


def _sent(view: RunView) -> list[float]:
    """Updates that were sent and not done, and none to the same server after them was."""
    newest: dict[Way, float] = {}
    for update in view.store.updates:
        if update.end is not None and update.start is not None:
            newest[way(update)] = max(newest.get(way(update), update.start), update.start)
    return [
        update.start + view.shift(update.source)
        for update in view.store.updates
        if update.start is not None
        and update.end is None
        and not update.legs & _DONE
        and update.start >= newest.get(way(update), update.start)
    ]


# --- What has begun and not ended: an evaluation that runs, and the wait that it causes ---
#
# A run that is watched is told how long something took when it is over. Until then a start that was told is worth as
# much, as long as it is plausible: a log that lost the end of one would have it go on for ever.

_KINDS = ("evaluation", "batch-wait")
_LONGEST_S = 1800.0
_LEAST_S = 300.0
_TIMES = 3.0
"""Times the longest that has ended."""


def still_open(view: RunView, ended: Mapping[str, Sequence[Item]]) -> dict[str, list[Item]]:
    """By kind; nothing where nobody watches. `ended` are those that have."""
    if view.present is None or view.recent is None:
        return {}
    found: dict[str, list[Item]] = {}
    for span in view.recent.opened():
        if span.kind not in _KINDS or span.start is None or is_over(view.store.sources[span.source]):
            continue
        start = span.start + view.shift(span.source)
        others = ended.get(span.kind, ())
        if start < view.present <= start + _most(others) and not _was_lost(start, span.source, others):
            item = Item(start, view.present, {}, span.fields, span.refs, "", span.key, span.source)
            found.setdefault(span.kind, []).append(item)
    return found


def _most(others: Sequence[Item]) -> float:
    """Seconds that it may plausibly last."""
    if not others:
        return _LONGEST_S
    return max(_LEAST_S, _TIMES * max(item.end - item.start for item in others))


def _was_lost(start: float, source: int, others: Sequence[Item]) -> bool:
    """One of the same log began later and has ended: that this one did was not told."""
    return any(item.source == source and item.start > start for item in others)


# --- What was told to begin and never to end: a weight update that hangs, seen by whoever watches, and afterwards ---

OPEN_VALUES = ("duration_s", "idle_s")
"""What an item tells: since when it is open, and since when nothing has made progress."""
_PHASES = re.compile(r"paus|resum|broadcast|load|gather|sync", re.IGNORECASE)
_NAMES = {"paus": "pause", "resum": "resume"}
_LEG_RECEIVED, _LEG_CALLED, _LEG_DONE = (1 << LEGS.index(leg) for leg in ("server.recv", "rpc.start", "client.done"))


def open_items(kind: str, view: RunView) -> list[Item]:
    """Spans of a kind that began and are open at the end of what is observed, on the run's axis.

    One that was followed by another in the same log lost its end, and so did those of a run that is over.
    Of a run that has ended as it should nothing is open.
    """
    if finished_at(view) is not None:
        return []
    opened: list[Span] = list(_updates(view) if kind == UPDATE else _spans(kind, view))
    gone = view.fact(bygone_of)
    items = []
    for span in opened:
        if span.start is None or span.source in gone or announced_shutdown(view.store.sources[span.source]):
            continue
        start, end = span.start + view.shift(span.source), view.window[1]
        if start < end and not _followed(kind, span, opened, view):
            values = {"duration_s": end - start, "idle_s": end - max(start, _progress(view))}
            fields = span.fields | {"phase": _phase(span, span.refs)}
            items.append(Item(start, end, values, fields, tuple(span.refs), "", span.key, span.source, span))
    return sorted(items, key=lambda item: (item.start, item.key))


def _spans(kind: str, view: RunView) -> Iterator[Span]:
    return (span for span in view.store.opened() if span.kind == kind and not isinstance(span, Update))


def _updates(view: RunView) -> Iterator[Span]:
    return (update for update in view.store.updates if update.end is None and not update.legs & _LEG_DONE)


def _followed(kind: str, span: Span, opened: Sequence[Span], view: RunView) -> bool:
    """Another one of its log (of updates: to its server) began later."""
    start = span.start or 0.0
    if isinstance(span, Update):
        return any(way(other) == way(span) and (other.start or 0.0) > start for other in view.store.updates)
    others = [*opened, *view.store.spans.get(kind, ())]
    return any(other.source == span.source and (other.start or 0.0) > start for other in others)


def _progress(view: RunView) -> float:
    """When any log of the run last told of progress."""
    lasts = [
        max(track.times) + view.shift(source)
        for (source, _), track in view.store.progress.tracks.items()
        if len(track.times) and not view.store.sources[source].polled
    ]
    return max([*lasts, *(track.times[-1] for track in view.steps.values() if len(track))], default=float("-inf"))


def _phase(span: Span, refs: Sequence[tuple[Ref, str]]) -> str:
    """Which part of an update is under way, by its legs, or by what its line says."""
    if isinstance(span, Update):
        if not span.legs & (_LEG_RECEIVED | _LEG_CALLED):
            return "sent and not received"
        return "the call into the engine" if span.legs & _LEG_CALLED else "received and not started"
    found = next((match for _, text in refs if (match := _PHASES.search(text))), None)
    return "" if found is None else _NAMES.get(found[0].lower(), found[0].lower())
