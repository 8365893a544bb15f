"""Spans as bars: weight updates with the legs that are known, growing while they are open."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from perfmon.model import LEGS, Span, Update
from perfmon.picture import Bar, Leg, Level
from perfmon.rules.bands import Bands
from perfmon.rules.items import SPAN_METRICS, update_values

_DONE = 1 << LEGS.index("client.done")
_RPC_DONE = 1 << LEGS.index("rpc.done")
_STEP = re.compile(r"step[_-]?(\d{1,12})")
_LEVELS = (Level.GOOD, Level.WARNING, Level.CRITICAL)


def band_level(bands: Bands, metric: str, value: float) -> Level:
    """The level of a value; NONE for a metric without a band."""
    level = bands.level(metric, value)
    return Level.NONE if level is None else _LEVELS[level]


@lru_cache(256)
def _step_of(path: str) -> float | None:
    """The step whose weights a path names."""
    step = _STEP.search(path)
    return None if step is None else float(step[1])


def span_bar(span: Span, shift: float, now: float, bands: Bands) -> Bar | None:
    """A span other than a weight update; None where no clock says when it began."""
    if span.start is None:
        return None
    start = span.start + shift
    open_ = span.end is None
    end = max(start, now) if span.end is None else span.end + shift
    metric, scale = SPAN_METRICS.get(span.kind, ("duration_s", 1.0))
    value = (end - start if span.duration_s is None else span.duration_s) * scale
    level = band_level(bands, metric, value)
    return Bar(span.kind, span.key, start, end, open_, level, (), {metric: value}, (), span.seq)


def update_bar(
    update: Update, shift: float, now: float, bands: Bands, offset_s: float | None, in_flight: bool
) -> Bar | None:
    """A weight update; None where no clock says when it began.

    `offset_s` is the server's monotonic clock less the client's, None where no server is heard. `in_flight` says that
    nothing suggests that its end was missed.
    """
    if update.start is None:
        return None
    start = update.start + shift
    open_ = in_flight and not update.legs & _DONE
    end = max(start, now) if open_ else start + _wall_s(update)
    legs = _legs(update, start, end, offset_s)
    values = update_values(update)
    if open_ and "queue_ms" not in values and legs and legs[0].kind in ("queue", "unknown"):
        values["queue_ms"] = 1000.0 * (legs[0].end - legs[0].start)
    level = max((band_level(bands, metric, value) for metric, value in values.items()), default=Level.NONE)
    step = _step_of(str(update.fields.get("path", "")))
    if step is not None:
        values["step"] = step
    values.setdefault("wall_ms", 1000.0 * (end - start))
    missing = () if open_ else tuple(name for at, name in enumerate(LEGS) if not update.legs & (1 << at))
    return Bar(update.kind, update.key, start, end, open_, level, legs, values, missing, update.seq)


def _wall_s(update: Update) -> float:
    if update.wall_ms is not None:
        return update.wall_ms / 1000.0
    if update.duration_s is not None:
        return update.duration_s
    return sum(value for value in (update.queue_ms, update.rpc_ms) if value is not None) / 1000.0


def _legs(update: Update, start: float, end: float, offset_s: float | None) -> tuple[Leg, ...]:
    """Wait and RPC, then what is left; a wait that no server saw may be the network's."""
    wait = "queue" if update.server is not None or (update.client is None) else "unknown"
    if update.queue_ms is not None:
        begun = min(end, start + update.queue_ms / 1000.0)
    elif update.recv_t is not None and update.send_t is not None:
        begun = min(end, start + max(0.0, update.recv_t - update.send_t - (offset_s or 0.0)))
    elif update.legs & _DONE:
        return (Leg("unknown", start, end),)
    else:
        return (Leg("queue" if offset_s is not None else "unknown", start, end),)
    done = end
    if update.rpc_ms is not None and (update.legs & (_DONE | _RPC_DONE)):
        done = min(end, begun + update.rpc_ms / 1000.0)
    legs = [Leg(wait, start, begun), Leg("rpc", begun, done), Leg("done", done, end)]
    return tuple(leg for leg in legs if leg.end > leg.start)


def worst_bars(bars: list[Bar], columns: int, column_of: Mapping[int, int]) -> list[Bar]:
    """Of too many bars the worst one of each column, by level and length; open ones always."""
    worst: dict[int, Bar] = {}
    kept: list[Bar] = []
    for bar in bars:
        column = column_of[bar.seq]
        held = worst.get(column)
        if bar.open:
            kept.append(bar)
        elif held is None or (bar.level, bar.end - bar.start) > (held.level, held.end - held.start):
            worst[column] = bar
    return sorted([*kept, *worst.values()], key=lambda bar: (bar.start, bar.seq))[-(columns + len(kept)) :]
