"""The item lasts far longer than is usual: by its log, by the run's steps or rhythm, or by others of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING, ClassVar

from perfmon.core import format_seconds, median

from .base import LENGTH, Amount, Bar, ByKind, Level, Single, once

if TYPE_CHECKING:
    from ..run_facts import View
    from ..tracks import Item

_EDGE_S = 1e-3
"""The lines before and after a silence are no part of it; times of day have no more digits than this."""


@dataclass(frozen=True)
class LongerThanUsual(Single):
    """Longer than `factor` times what is usual for the log (or for the spans that are absent), and than `least_s`."""

    factor: float = 3.0
    least_s: float = 0.0

    def judge(self, item: Item, view: View) -> Level:
        """By what the item says is usual."""
        limit_s = max(self.factor * item.values.get("usual_s", 0.0), self.least_s)
        return Level.CRITICAL if item.end - item.start > limit_s else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """Both lengths."""
        usual = item.values.get("usual_s", 0.0)
        return f"nothing for {format_seconds(item.end - item.start)}, usual {format_seconds(usual)}"

    def explain(self) -> str:
        """In words."""
        return f"longer than {self.factor:g}x what is usual and than {self.least_s:g} s"


@dataclass(frozen=True)
class LongerThanRhythm(Single):
    """Longer than `least_s` and than any pause that goes with the run's rhythm so far."""

    least_s: float = 0.0

    def judge(self, item: Item, view: View) -> Level:
        """Not without a rhythm that it breaks."""
        proven = item.values.get("proven_s", inf)
        return Level.CRITICAL if item.end - item.start > max(proven, self.least_s) else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """What the rhythm allows."""
        proven = item.values.get("proven_s", inf)
        if proven == inf:
            return "no rhythm is known that it breaks"
        return f"the run's rhythm allows {format_seconds(proven)}"

    def explain(self) -> str:
        """In words."""
        return f"longer than {self.least_s:g} s and than the run's own rhythm allows"


@dataclass(frozen=True)
class LongerThanSteps(Single):
    """No step meanwhile, and longer than `factor` median steps."""

    factor: float = 3.0

    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        intervals: list[float] = []
        for track in view.steps.values():
            first, stop = track.between(item.start + _EDGE_S, item.end - _EDGE_S)
            if stop > first:
                return Level.NO, "steps continue"
            times = sorted(set(track.times))
            intervals += [b - a for a, b in pairwise(times)]
        if len(intervals) < 2:
            return Level.UNKNOWN, "no steps logged"
        usual = median(intervals)
        length = item.end - item.start
        level = Level.CRITICAL if length > self.factor * usual else Level.NO
        return level, f"no step for {format_seconds(length)}, the usual step takes {format_seconds(usual)}"

    def judge(self, item: Item, view: View) -> Level:
        """Unknown in a run without steps."""
        return self._met(item, view)[0]

    def describe(self, item: Item, view: View) -> str:
        """Both lengths."""
        return self._met(item, view)[1]

    def explain(self) -> str:
        """In words."""
        return f"no step for more than {self.factor:g} median steps"


@dataclass(frozen=True)
class LongerThanEarlier(Single):
    """Longer than `factor` times the median of those of its kind that ended before it, and than `least_s`.

    Where fewer than `known` have ended: longer than what `built_in` says of its kind, in seconds; without an entry it
    is unknown. Where `own` only those of the item's own log are asked.
    """

    tells: ClassVar[tuple[str, ...]] = ("usual",)
    factor: float = 3.0
    least_s: Amount = 0.0
    known: int = 3
    own: bool = False
    built_in: ByKind = ()

    def limits(self) -> Mapping[str, float]:
        """Seconds by kind of span."""
        return dict(self.built_in)

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
        bound = self.limits().get(kind)
        return None if bound is None else (bound, bound)

    def judge(self, item: Item, view: View) -> Level:
        """Unknown where nothing tells how long it may be."""
        usual = self._usual(item, view)
        if usual is None:
            return Level.UNKNOWN
        return Level.CRITICAL if item.end - item.start > usual[1] else Level.NO

    def short(self, item: Item, view: View) -> float | None:
        """Share of its time beyond what is usual."""
        usual, length = self._usual(item, view), item.end - item.start
        return None if usual is None or length <= 0 else max(0.0, 1.0 - usual[0] / length)

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """What is usual."""
        usual = self._usual(item, view)
        return {} if usual is None else {"usual": format_seconds(usual[0])}

    def describe(self, item: Item, view: View) -> str:
        """Its length and the usual one."""
        usual, length = self._usual(item, view), format_seconds(item.end - item.start)
        return f"{length}, usual is not known" if usual is None else f"{length}, usual {format_seconds(usual[0])}"

    def explain(self) -> str:
        """In words."""
        bounds = ", ".join(f"{kind} {format_seconds(seconds)}" for kind, seconds in self.built_in)
        least = f" and than {format_seconds(self.least_s)}" if self.least_s else ""
        text = f"longer than {self.factor:g}x the median of those before it{least}"
        return f"{text}; where fewer than {self.known} came before it, than {bounds}" if bounds else text

    def other_names(self) -> tuple[str, ...]:
        """Those with a bound of their own."""
        return tuple(kind for kind, _ in self.built_in)


@dataclass(frozen=True)
class LongerThanUndisturbed(Single):
    """Longer than `factor` times the median of the `span`s that overlap no `apart_from`."""

    span: str
    apart_from: str = ""
    factor: float = 3.0

    def median(self, view: View) -> float | None:
        """The median of the undisturbed ones in seconds; None where there are none."""
        return once((type(self), self.span, self.apart_from), view, lambda: self._median(view))

    def _median(self, view: View) -> float | None:
        spans = view.alone(self.span, self.apart_from) if self.apart_from else view.spans(self.span)
        return median([item.end - item.start for item in spans]) if spans else None

    def _usual(self, view: View) -> float | None:
        usual = self.median(view)
        return None if usual is None or usual <= 0 else usual

    def bar(self, view: View, own: bool = False) -> Bar | None:
        """The length."""
        usual = self._usual(view)
        return None if usual is None else Bar(LENGTH, self.factor * usual)

    def judge(self, item: Item, view: View) -> Level:
        """Unknown without undisturbed peers."""
        usual = self._usual(view)
        if usual is None:
            return Level.UNKNOWN
        return Level.CRITICAL if item.end - item.start > self.factor * usual else Level.NO

    def describe(self, item: Item, view: View) -> str:
        """The length and how it compares."""
        usual = self._usual(view)
        if usual is None:
            return f"no undisturbed {self.span} to compare with"
        length = item.end - item.start
        return f"{format_seconds(length)}, {length / usual:.1f}x the undisturbed median"

    def explain(self) -> str:
        """In words."""
        apart = f" without a {self.apart_from}" if self.apart_from else ""
        return f"longer than {self.factor:g}x the median {self.span}{apart}"

    def other_names(self) -> tuple[str, ...]:
        """The kinds."""
        return (self.span, self.apart_from) if self.apart_from else (self.span,)


THAN: Mapping[str, type[Single]] = {
    "usual": LongerThanUsual,
    "rhythm": LongerThanRhythm,
    "steps": LongerThanSteps,
    "earlier": LongerThanEarlier,
    "undisturbed": LongerThanUndisturbed,
}
"""By what it is longer `than`."""
