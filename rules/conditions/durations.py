"""The item lasts far longer than is usual: by its log, by the run's steps or rhythm, or by others of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import ClassVar

from perfmon.core import format_seconds, median

from .base import Amount, ByKind, Explained, Item, Level, Name, Single, View

_EDGE_S = 1e-3
"""The lines before and after a silence are no part of it; times of day have no more digits than this."""


@dataclass(frozen=True)
class LongerThanUsual(Explained):
    """Longer than `factor` times what is usual for the log (or for the spans that are absent), and than `least_s`."""

    factor: float = 3.0
    least_s: float = 0.0

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        usual, length = item.values.get("usual_s", 0.0), item.end - item.start
        level = Level.CRITICAL if length > max(self.factor * usual, self.least_s) else Level.NO
        return level, f"nothing for {format_seconds(length)}, usual {format_seconds(usual)}"

    def explain(self) -> str:
        return f"longer than {self.factor:g}x what is usual and than {self.least_s:g} s"


@dataclass(frozen=True)
class LongerThanRhythm(Explained):
    """Longer than `least_s` and than any pause that goes with the run's rhythm so far; not met without a rhythm."""

    least_s: float = 0.0

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        proven = item.values.get("proven_s", inf)
        level = Level.CRITICAL if item.end - item.start > max(proven, self.least_s) else Level.NO
        if proven == inf:
            return level, "no rhythm is known that it breaks"
        usual = item.values.get("usual_s", 0.0)
        pace = f"progress usually every {format_seconds(usual)}" if usual > 0 else "no progress in a start"
        return level, f"{pace} (limit: {format_seconds(proven)})"

    def explain(self) -> str:
        return f"longer than {self.least_s:g} s and than the run's usual pace allows"


@dataclass(frozen=True)
class LongerThanSteps(Explained):
    """No step during it, and longer than `factor` median steps; unknown in a run without steps."""

    factor: float = 3.0

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        intervals: list[float] = []
        for track in view.steps.values():
            first, stop = track.between(item.start + _EDGE_S, item.end - _EDGE_S)
            if stop > first:
                return Level.NO, "steps continue"
            intervals += [b - a for a, b in pairwise(sorted(set(track.times)))]
        if len(intervals) < 2:
            return Level.UNKNOWN, "no steps logged"
        usual, length = median(intervals), item.end - item.start
        level = Level.CRITICAL if length > self.factor * usual else Level.NO
        return level, f"no step for {format_seconds(length)}, the usual step takes {format_seconds(usual)}"

    def explain(self) -> str:
        return f"no step for more than {self.factor:g} median steps"


@dataclass(frozen=True)
class LongerThanEarlier(Explained):
    """Longer than `factor` times the median of those of its kind that ended before it, and than `least_s`.

    Where fewer than `known` have ended: longer than `built_in` of its kind, in seconds; without an entry it is unknown.
    With `own` only those of the item's own log count.
    """

    slots: ClassVar[tuple[str, ...]] = ("usual",)
    factor: float = 3.0
    least_s: Amount = 0.0
    known: int = 3
    own: bool = False
    built_in: ByKind = ()

    def _usual(self, item: Item, view: View) -> tuple[float, float] | None:
        """(what is usual, what is too long), in seconds."""
        kind = item.span.kind if item.span is not None else ""
        ended = [
            other.end - other.start
            for other in view.spans(kind)
            if other.end <= item.start and other is not item and (other.source == item.source or not self.own)
        ]
        if len(ended) >= self.known:
            usual = median(ended)
            return usual, max(self.factor * usual, self.least_s)
        bound = dict(self.built_in).get(kind)
        return None if bound is None else (bound, bound)

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        usual, length = self._usual(item, view), item.end - item.start
        if usual is None:
            return Level.UNKNOWN, f"lasted {format_seconds(length)}, usual is not known"
        level = Level.CRITICAL if length > usual[1] else Level.NO
        return level, f"lasted {format_seconds(length)}, usual {format_seconds(usual[0])}"

    def short(self, item: Item, view: View) -> float | None:
        usual, length = self._usual(item, view), item.end - item.start
        return None if usual is None or length <= 0 else max(0.0, 1.0 - usual[0] / length)

    def figures(self, item: Item, view: View) -> dict[str, str]:
        usual = self._usual(item, view)
        return {} if usual is None else {"usual": format_seconds(usual[0])}

    def explain(self) -> str:
        bounds = ", ".join(f"{kind} {format_seconds(seconds)}" for kind, seconds in self.built_in)
        least = f" and than {format_seconds(self.least_s)}" if self.least_s else ""
        text = f"longer than {self.factor:g}x the median of those before it{least}"
        return f"{text}; where fewer than {self.known} came before it, than {bounds}" if bounds else text

    def other_names(self) -> tuple[str, ...]:
        return tuple(kind for kind, _ in self.built_in)


@dataclass(frozen=True)
class LongerThanUndisturbed(Single):
    """Longer than `factor` times the median of the `span`s that overlap no `apart_from`."""

    span: Name
    apart_from: Name = ""
    factor: float = 3.0

    def median(self, view: View) -> float | None:
        """The median of the undisturbed ones in seconds; None where there are none."""

        def undisturbed() -> float | None:
            spans = view.alone(self.span, self.apart_from) if self.apart_from else view.spans(self.span)
            return median([item.end - item.start for item in spans]) if spans else None

        return view.once((type(self), self.span, self.apart_from), undisturbed)

    def _usual(self, view: View) -> float | None:
        usual = self.median(view)
        return None if usual is None or usual <= 0 else usual

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without undisturbed peers."""
        usual = self._usual(view)
        if usual is None:
            return Level.UNKNOWN
        return Level.CRITICAL if item.end - item.start > self.factor * usual else Level.NO

    def describe(self, item: Item, view: View) -> str:
        usual = self._usual(view)
        if usual is None:
            return f"no undisturbed {self.span} to compare with"
        length = item.end - item.start
        return f"{format_seconds(length)}, {length / usual:.1f}x the undisturbed median"

    def explain(self) -> str:
        apart = f" without a {self.apart_from}" if self.apart_from else ""
        return f"longer than {self.factor:g}x the median {self.span}{apart}"


THAN: Mapping[str, type[Single]] = {
    "usual": LongerThanUsual,
    "rhythm": LongerThanRhythm,
    "steps": LongerThanSteps,
    "earlier": LongerThanEarlier,
    "undisturbed": LongerThanUndisturbed,
}
"""By what it is longer `than`."""
