"""Occurrences of an alert: weight updates as bars that all begin at 0, anything else as a list of moments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from perfmon.drawing import axis, compact_seconds, fit, gantt, ticks
from perfmon.picture import Alert, Bar, Leg, Level, Picture
from perfmon.snapshot import Moment, TimelineRow

from ..skin import Skin
from .moments import moment_text
from .prose import Words

_UPDATE = "weight-update"
_LABEL, _FIGURES, _MARK = 17, 29, 3
_MOST = 12
_OF_SPANS = (1, 2)
"""Numbers in the id of a moment that is a span: the span's own, and which of several of its moments."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A weight update, its legs in seconds since it began."""

    key: str
    step: str
    legs: tuple[Leg, ...]
    end_s: float
    level: Level
    open: bool
    values: Mapping[str, float]


def traces_of(alert: Alert, picture: Picture) -> list[Trace]:
    """The weight updates among its occurrences, newest first; those that the picture still knows."""
    bars = {bar.seq: bar for lane in picture.board.spans if lane.kind == _UPDATE for bar in lane.bars}
    slowest = {row.key: row for row in (picture.snapshot.slowest if picture.snapshot else ())}
    return [trace for moment in reversed(alert.finding.moments) for trace in _trace(moment, bars, slowest)]


def _trace(moment: Moment, bars: Mapping[int, Bar], slowest: Mapping[str, TimelineRow]) -> Iterator[Trace]:
    bar = bars.get(moment.id[0]) if len(moment.id) in _OF_SPANS else None
    if bar is not None:
        legs = tuple(Leg(leg.kind, leg.start - bar.start, leg.end - bar.start) for leg in bar.legs)
        if legs and not bar.open:
            legs = (*legs, Leg("done", legs[-1].end, legs[-1].end))
        yield Trace(bar.key, _step(bar.values), legs, bar.end - bar.start, bar.level, bar.open, bar.values)
    elif moment.key and moment.key in slowest:
        yield _told(slowest[moment.key])


def _told(row: TimelineRow) -> Trace:
    """A weight update whose bar is not on the board: its legs follow from its figures."""
    values = {name: value for name, value in row.fields.items() if isinstance(value, float)}
    queue_s, rpc_s = values.get("queue_ms", 0.0) / 1000, values.get("rpc_ms", 0.0) / 1000
    end_s = max(row.end_s - row.start_s, queue_s + rpc_s)
    legs = (Leg("queue", 0.0, queue_s), Leg("rpc", queue_s, queue_s + rpc_s), Leg("done", end_s, end_s))
    return Trace(row.key, _step(row.fields), legs, end_s, Level.NONE, False, values)


def _step(values: Mapping[str, float | str]) -> str:
    step = values.get("step")
    return "" if step is None else f" s{step:.0f}" if isinstance(step, float) else f" s{step}"


def waterfall(alert: Alert, picture: Picture, skin: Skin, width: int) -> list[Words]:
    """An axis and a bar each, newest first; where there are no weight updates, when it occurred and how long."""
    traces = traces_of(alert, picture)
    if not traces:
        return _moments(alert, picture)
    label = _LABEL if width >= 72 else 10
    figures = _FIGURES if width >= 72 else 0
    room = max(8, width - label - figures - _MARK)
    end = max(1e-3, *(trace.end_s for trace in traces))
    scale = axis(ticks(0.0, end, room, origin=0.0, zero="0 s", plus=""), room)
    rows: list[Words] = [((" " * label, "faint"), (scale, "faint"))]
    rows += [_bar(trace, end, room, label, figures, skin) for trace in traces[:_MOST]]
    rest = alert.finding.count - min(len(traces), _MOST)
    return [*rows, *([((f" {rest} more in this window", "faint"),)] if rest > 0 else [])]


def _bar(trace: Trace, end: float, room: int, label: int, figures: int, skin: Skin) -> Words:
    cells = gantt(trace.legs, 0.0, end, room, still_open=trace.open, glyphs=skin.glyphs)
    words: list[tuple[str, str]] = [(fit(f" {trace.key}{trace.step}", label, glyphs=skin.glyphs), "text")]
    words += [(character, kind if kind in ("send", "queue", "rpc", "done") else "unknown") for character, kind in cells]
    words.append((f" {skin.mark(trace.level) if trace.level else ' '} ", _LEVELS[trace.level]))
    if figures:
        told = [f"{name} {_ms(trace.values, f'{name}_ms'):>8}" for name in ("queue", "rpc")]
        words.append((fit("  ".join(told), figures), "muted"))
    return tuple(words)


_LEVELS = {Level.NONE: "faint", Level.GOOD: "good", Level.WARNING: "warning", Level.CRITICAL: "critical"}


def _ms(values: Mapping[str, float], name: str) -> str:
    value = values.get(name) if name in values else next((v for n, v in values.items() if n.startswith(name)), None)
    return "?" if value is None else compact_seconds(value / 1000, 8)


def _moments(alert: Alert, picture: Picture) -> list[Words]:
    begin = picture.snapshot.run.start if picture.snapshot else picture.now
    rows: list[Words] = []
    for moment in reversed(alert.finding.moments[-_MOST:]):
        long = moment.end_s - moment.start_s
        when = moment_text(begin + moment.start_s, picture.time_base)
        end = begin + moment.end_s
        now = picture.now if end <= picture.now else picture.asked  # pollers go on while the run is silent
        ago = f"{compact_seconds(max(0.0, now - end), 8)} ago"
        lasted = f"took {compact_seconds(long, 8)}" if long > 0 else ""
        words: Words = ((f" {when:<12}", "text"), (f"{ago:>14}  {lasted:<16}", "muted"), (moment.key, "text"))
        rows.append(words)
    rest = alert.finding.count - len(rows)
    return [*rows, *([((f" {rest} more in this window", "faint"),)] if rest > 0 else [])]
