"""Spans and weight updates without an end: still running, hung, or overtaken by later ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from perfmon.core import ALL_LEGS, Span, Update

from .finished import finished_at
from .interruptions import bar_limit
from .silence import announced_shutdown, ended_sources, has_ended
from .tracks import CALLED, DONE, RECEIVED, SENT, SPAN_METRICS, UPDATE, Item

if TYPE_CHECKING:
    from .run_view import RunView

LONGEST_S = 1800.0
"""After that the end of something open was lost."""
Route = tuple[int, object]
"""From which log to which server."""


def route(update: Update) -> Route:
    """The route of an update: of several servers one may hang while the others answer."""
    return (update.source, update.fields.get("url", ""))


def newest_done(view: RunView) -> Mapping[Route, float]:
    """The start of the newest update of each route that has ended: an older one without an end has lost it."""
    newest: dict[Route, float] = {}
    for update in view.store.updates:
        if update.end is not None and update.start is not None:
            taken = route(update)
            newest[taken] = max(newest.get(taken, update.start), update.start)
    return newest


# --- How far the clocks of a server are ahead of its client's, by the updates that have ended ---
#
# Each bounds it from both sides: nothing is received before it is sent, and the client has its answer when the RPC is
# done at the earliest. Clocks that may agree are taken to agree.

_SAME_S = 2.0
"""Clocks that are closer cannot be distinguished by lines that are stamped to the second."""


class ClockLead(NamedTuple):
    """Seconds to subtract from a server's clocks."""

    monotonic_s: float
    wall_s: float
    """Of the dates of its lines."""


NO_LEAD = ClockLead(0.0, 0.0)


def clock_lead(updates: Iterable[Update], view: RunView) -> ClockLead:
    """The lead by updates between the log of one client and that of one server; none where they may agree."""
    low, high, last = -inf, inf, None
    for update in updates:
        if update.send_t is None or update.recv_t is None or update.rpc_done_t is None or update.wall_ms is None:
            continue
        low = max(low, update.rpc_done_t - update.send_t - update.wall_ms / 1000.0)
        high = min(high, update.recv_t - update.send_t)
        last = update
    if last is None or low - _SAME_S <= 0.0 <= high + _SAME_S:
        return NO_LEAD
    monotonic_s = max(low, high)
    return ClockLead(monotonic_s, _of_dates(monotonic_s, last, view))


def _of_dates(monotonic_s: float, update: Update, view: RunView) -> float:
    """0 where one of the logs has no dates, and is located on the axis by its monotonic clock."""
    if update.server is None or update.client is None:
        return 0.0
    server, client = view.store.sources[update.server], view.store.sources[update.client]
    if server.mono_to_wall is None or client.mono_to_wall is None:
        return 0.0
    apart = server.mono_to_wall + view.shift(server.index)
    apart -= client.mono_to_wall + view.shift(client.index)
    wall_s = monotonic_s + apart
    return wall_s if abs(wall_s) > _SAME_S else 0.0


# --- Weight updates that have not ended: the certain part of their wait ---
#
# In a run that is monitored a hung update must be noticed before it ends. The lines of the server since the update was
# sent are proof: up to its last line the update was not received, or its RPC not done. A log that lags behind proves
# nothing beyond its last line.

_ABANDONED_S = 3600.0
_CRITICAL = 2
"""The level of a value beyond its critical limit."""


def in_flight(spans: Iterable[Span], view: RunView) -> list[Item]:
    """Updates whose wait, or RPC, is critical already; none in a run that is not monitored."""
    if view.present is None:
        return []
    updates = [span for span in spans if isinstance(span, Update)]
    servers: dict[Route, int] = {}
    ended: dict[Route, list[Update]] = {}
    for update in updates:
        if update.server is not None and update.client is not None and update.legs & RECEIVED:
            servers[route(update)] = update.server
        if update.legs == ALL_LEGS:
            ended.setdefault(route(update), []).append(update)
    leads = {taken: clock_lead(mine, view) for taken, mine in ended.items()}
    gone = view.fact(ended_sources)  # what was open when a run ended is answered by no other
    current = (update for update in updates if update.source not in gone)
    return [item for update in current if (item := _item(update, servers, leads, view)) is not None]


def left_open(view: RunView) -> tuple[list[Update], list[Update]]:
    """Updates within the window that were sent and never done, in logs that are not monitored.

    First those after the last one of their route that was done, then those that later ones followed: their client
    failed or was restarted, or a line was lost.
    """
    unanswered: list[Update] = []
    overtaken: list[Update] = []
    low, high = view.window
    for update in view.store.updates if view.present is None else ():
        if update.legs & (SENT | DONE) != SENT or update.start is None or update.client is None:
            continue
        if low <= update.start + view.shift(update.source) <= high:
            passed = update.start < view.fact(newest_done).get(route(update), -inf)
            (overtaken if passed else unanswered).append(update)
    return unanswered, overtaken


def _item(update: Update, servers: dict[Route, int], leads: dict[Route, ClockLead], view: RunView) -> Item | None:
    if update.start is None or update.end is not None or update.legs & DONE or view.present is None:
        return None
    if has_ended(view.store.sources[update.source]):
        return None
    taken = route(update)
    server = update.server if update.server is not None else servers.get(taken)
    if server is None or server == update.source or update.start < view.fact(newest_done).get(taken, -inf):
        return None
    last = view.store.sources[server].last
    if last is None:
        return None
    ahead = leads.get(taken, NO_LEAD)
    start = update.start + view.shift(update.source)
    known_until = last + view.shift(server) - ahead.wall_s
    if taken not in leads:  # the server's clock is unknown: the newest lines of other logs are proof
        others = (one for one in view.logs if one.index != server and one.last is not None)
        known_until = min(known_until, max((view.extent(one)[1] for one in others), default=-inf))
    if known_until <= start or view.present - start > _ABANDONED_S:
        return None
    values = _values(update, known_until - start, ahead.monotonic_s)
    if not any(view.bands.level(metric, value) == _CRITICAL for metric, value in values.items()):
        return None
    return Item(start, known_until, values, update.fields, update.refs, "", update.key, update.source, update)


def _values(update: Update, elapsed_s: float, ahead_s: float) -> dict[str, float]:
    """The least duration of its phases, in milliseconds."""
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


# --- Spans that have started and not ended ---

_KINDS = ("evaluation", "batch-wait")
_LEAST_S = 300.0
_TIMES = 3.0
"""Times the longest that has ended."""


def begun(view: RunView) -> Mapping[str, Sequence[float]]:
    """The starts of spans that have not ended, by kind, on the run's axis: while they may continue, nothing is blamed
    for the lack of them."""
    starts: dict[str, list[float]] = {}
    for span in view.store.opened():
        if span.start is not None:
            starts.setdefault(span.kind, []).append(span.start + view.shift(span.source))
    if view.store.updates:
        newest = view.fact(newest_done)
        starts[UPDATE] = [
            update.start + view.shift(update.source)
            for update in _open_updates(view)
            if update.start is not None and update.start >= newest.get(route(update), update.start)
        ]
    return starts


def _open_updates(view: RunView) -> Iterator[Update]:
    return (update for update in view.store.updates if update.end is None and not update.legs & DONE)


def still_open(view: RunView, ended: Mapping[str, Sequence[Item]]) -> dict[str, list[Item]]:
    """Open evaluations and waits up to the present, by kind; none in a run that is not monitored.

    They count as long as their length is plausible, compared to the `ended` ones: a log may have lost their ends.
    """
    if view.present is None or view.recent is None:
        return {}
    found: dict[str, list[Item]] = {}
    for span in view.store.opened():
        if span.kind not in _KINDS or span.start is None or has_ended(view.store.sources[span.source]):
            continue
        start = span.start + view.shift(span.source)
        others = ended.get(span.kind, ())
        longest = max((item.end - item.start for item in others), default=None)
        most = LONGEST_S if longest is None else max(_LEAST_S, _TIMES * longest)
        lost = any(item.source == span.source and item.start > start for item in others)
        if start < view.present <= start + most and not lost:
            own = bar_limit(span, others, view)  # what comes after it stood still may be something else
            moved = view.present if own is None else own[0].time + view.shift(span.source)
            end = moved if own is not None and view.present - moved > own[1] else view.present
            item = Item(start, end, {}, span.fields, span.refs, "", span.key, span.source)
            found.setdefault(span.kind, []).append(item)
    return found


OPEN_VALUES = ("duration_s", "idle_s")
"""Values of an open item: seconds since its start, and since the last progress."""
_PHASES = re.compile(r"paus|resum|broadcast|load|gather|sync", re.IGNORECASE)
_NAMES = {"paus": "pause", "resum": "resume"}


def open_items(kind: str, view: RunView) -> list[Item]:
    """Spans of a kind that are open at the end of what is observed, on the run's axis.

    One that was followed by another in the same log lost its end, and so did those of a run that is over.
    Of a run that has ended as it should nothing is open.
    """
    if view.fact(finished_at) is not None:
        return []
    opened: list[Span] = list(_open_updates(view)) if kind == UPDATE else [
        span for span in view.store.opened() if span.kind == kind and not isinstance(span, Update)
    ]  # fmt: skip
    gone = view.fact(ended_sources)
    items = []
    newest, progressed = _newest(kind, opened, view), _last_progress(view)
    for span in opened:
        if span.start is None or span.source in gone or announced_shutdown(view.store.sources[span.source]):
            continue
        start, end = span.start + view.shift(span.source), view.window[1]
        if start < end and newest.get(_way(span), -inf) <= span.start:
            values = {"duration_s": end - start, "idle_s": end - max(start, progressed)}
            fields = span.fields | {"phase": _phase(span)}
            items.append(Item(start, end, values, fields, tuple(span.refs), "", span.key, span.source, span))
    return sorted(items, key=lambda item: (item.start, item.key))


_FEW_ENDED = 3
"""So many have to have ended before one that is open is longer than is usual."""


class Overlong(NamedTuple):
    """An operation that is open for longer than any before, at a critical value."""

    kind: str
    elapsed_s: float
    longest_s: float
    """Of those that have ended."""


def overlong(view: RunView) -> Overlong | None:
    """The longest of a run that is monitored; an evaluation explains why others wait."""
    if view.present is None or open_items("evaluation", view):
        return None
    found: list[Overlong] = []
    opened = {span.kind for span in view.store.opened()}
    for kind, (metric, scale) in SPAN_METRICS.items():
        if kind not in opened or metric not in view.bands.table:
            continue
        ended = [item.end - item.start for item in view.spans(kind) if item.span is None or item.span.end is not None]
        lengths = [item.end - item.start for item in open_items(kind, view)] if len(ended) >= _FEW_ENDED else []
        elapsed = max(lengths, default=0.0)
        if lengths and elapsed > max(ended) and view.bands.level(metric, elapsed * scale) == _CRITICAL:
            found.append(Overlong(kind, elapsed, max(ended)))
    return max(found, key=lambda one: one.elapsed_s / max(one.longest_s, 1e-3), default=None)


def _newest(kind: str, opened: Sequence[Span], view: RunView) -> Mapping[Route | int, float]:
    """The latest start in each log, of updates on each route: what started before it there was followed."""
    others: Iterable[Span] = view.store.updates if kind == UPDATE else (*opened, *view.store.spans.get(kind, ()))
    newest: dict[Route | int, float] = {}
    for other in others:
        way = _way(other)
        newest[way] = max(newest.get(way, -inf), other.start or 0.0)
    return newest


def _way(span: Span) -> Route | int:
    return route(span) if isinstance(span, Update) else span.source


def _last_progress(view: RunView) -> float:
    lasts = [
        max(track.times) + view.shift(source)
        for (source, _), track in view.store.progress.tracks.items()
        if len(track.times) and not view.store.sources[source].polled
    ]
    return max([*lasts, *(track.times[-1] for track in view.steps.values() if len(track))], default=-inf)


def _phase(span: Span) -> str:
    """The part of an update that is under way, by its legs, or by the text of its line."""
    if isinstance(span, Update):
        if not span.legs & (RECEIVED | CALLED):
            return "sent and not received"
        return "the call into the engine" if span.legs & CALLED else "received and not started"
    found = next((match for _, text in span.refs if (match := _PHASES.search(text))), None)
    return "" if found is None else _NAMES.get(found[0].lower(), found[0].lower())
