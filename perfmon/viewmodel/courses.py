"""The course of a metric for a chart: least, largest and mean value of each place, smoothed, and of a baseline run."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isnan, nan
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis

    from .state import Viewport

_HELD = 1.5
"""Times its usual distance between samples for which a value holds."""


@dataclass(frozen=True, slots=True)
class Course:
    """Values in equal parts of a viewport; NaN where nothing was measured."""

    lows: Sequence[float]
    highs: Sequence[float]
    means: Sequence[float]


@dataclass(frozen=True, slots=True)
class BaselineRun:
    """The metrics of a recorded run, to be drawn behind those of another."""

    name: str
    times: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Seconds since its first line, ascending, by metric."""
    values: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def course(self, metric: str, port: Viewport, begin: float, count: int) -> Sequence[float]:
        """Its values at the same age as the run that began at `begin`, in `count` parts of the viewport."""
        times, values = self.times.get(metric, ()), self.values.get(metric, ())
        if not times:
            return (nan,) * count
        reach, width = _HELD * _usual_distance(times), (port.end - port.start) / count
        shown = array("d")
        for at in range(count):
            low = port.start - begin + at * width
            first, last = bisect_left(times, low), bisect_left(times, low + width)
            if first < last:
                shown.append(sum(values[first:last]) / (last - first))
            else:
                shown.append(values[first - 1] if first and low - times[first - 1] <= reach else nan)
        return shown


def baseline_run(name: str, snapshot: Diagnosis) -> BaselineRun:
    """The run of a diagnosis, as far as its metrics are one series each."""
    series = {metric: sorted(stats.series) for metric, stats in snapshot.metrics.items() if stats.series}
    times = {metric: array("d", [time for time, _ in points]) for metric, points in series.items()}
    return BaselineRun(name, times, {metric: array("d", [v for _, v in points]) for metric, points in series.items()})


def _usual_distance(times: Sequence[float]) -> float:
    """Median of the distances between neighbours, of which half at most are less."""
    apart = sorted(after - before for before, after in pairwise(times))
    return apart[len(apart) // 2] if apart else 0.0


def _held_places(values: Sequence[float]) -> list[int]:
    """Index of the value that each place shows, -1 for none.

    What only lies between two samples of the usual distance keeps the value before it.
    """
    measured = [at for at, value in enumerate(values) if value == value]  # noqa: PLR0124 - all but NaN
    if len(measured) < 2 or len(measured) == len(values):
        return [at if value == value else -1 for at, value in enumerate(values)]  # noqa: PLR0124
    reach = round(_HELD * _usual_distance(measured) + 0.5)
    places = [-1] * measured[0]
    for at, after in zip(measured, [*measured[1:], len(values)], strict=True):
        held = min(after - at, reach)
        places += [at] * held
        places += [-1] * (after - at - held)
    return places


def _lasting_places(values: Sequence[float], width: float) -> list[int]:
    """Index of the value that each place shows, -1 for none; the values are durations, in units of which a place has
    `width`.

    A duration is known at its end: it also has the empty places before, as far back as it began.
    """
    places = [-1] * len(values)
    for at, value in enumerate(values):
        if value == value:  # noqa: PLR0124 - all but NaN
            begin = at
            reach = max(0, at + 1 - round(min(abs(value) / width, len(values)))) if width > 0 else at
            while begin > reach and places[begin - 1] < 0:
                begin -= 1
            places[begin : at + 1] = [at] * (at + 1 - begin)
    return places


def is_level(unit: str) -> bool:
    """A value that holds until the next one is measured; a duration was over with its sample."""
    return unit not in ("ms", "s")


def held(values: Sequence[float], levels: bytes, unit: str, column_s: float) -> tuple[Sequence[float], bytes]:
    """The values and levels with those columns filled that only lie between two samples of the usual distance; of
    durations with those that they lasted."""
    width = column_s * (1000.0 if unit == "ms" else 1.0)
    places = _held_places(values) if is_level(unit) else _lasting_places(values, width)
    shown = bytes([0 if place < 0 else levels[place] for place in places])
    return [nan if place < 0 else values[place] for place in places], shown


def held_values(values: Sequence[float]) -> Sequence[float]:
    """The values with those places filled that `_held_places` fills."""
    return [nan if place < 0 else values[place] for place in _held_places(values)]


def smoothed(values: Sequence[float], window: int) -> Sequence[float]:
    """The mean of the values up to half a window before and behind each place; NaN where nothing was measured."""
    places = [at for at, value in enumerate(values) if not isnan(value)]
    sums = [0.0]
    for at in places:
        sums.append(sums[-1] + values[at])
    shown = array("d", [nan] * len(values))
    for at in places:
        first, last = bisect_left(places, at - window // 2), bisect_right(places, at + window // 2)
        shown[at] = (sums[last] - sums[first]) / (last - first)
    return shown
