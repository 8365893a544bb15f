"""What a value must be for a condition to hold, told by one look at all values: most never are, and need no judging."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import ge, gt

from .conditions.aggregate import Aggregate
from .conditions.alternatives import AnyOf
from .conditions.base import Condition
from .conditions.baseline import Baseline
from .conditions.ratio import Ratio
from .conditions.threshold import Threshold
from .conditions.together import AllOf
from .schema import Signature
from .view import View

LENGTH = ""
"""Stands for the seconds that an item lasts where a metric is expected."""
_FROM_GOOD_ON = ("critical", "reached", "at-limit")
"""What limits want of a band that begins, in a weaker form, at its good limit."""


@dataclass(frozen=True, slots=True)
class Bar:
    """What a value of a metric must be above, or reach."""

    metric: str
    limit: float
    reached: bool = False

    def pick(self, values: Sequence[float]) -> list[bool]:
        """Which values are."""
        return list(map(ge if self.reached else gt, values, repeat(self.limit)))


def bars_of(signature: Signature, view: View) -> list[Bar]:
    """At least one of these, each of another metric, is passed by every item that a signature finds anything in; none
    when that cannot be told quickly."""
    first = signature.conditions[0]
    if not first.required:
        return []
    # Classes are compared: to ask an abstract one for its kind is slow, and nobody derives from these.
    if type(first) is Threshold:
        bar = _bar(first, view)
        return [] if bar is None else [bar]
    return _of_any(first, view) if type(first) is AnyOf else []


def _of_any(condition: AnyOf, view: View) -> list[Bar]:
    parts = condition.of if condition.optional else [part for part in condition.of if not _never(part, view)]
    bars = [_of_part(part, view) for part in parts]
    told = [bar for bar in bars if bar is not None]
    return told if len({bar.metric for bar in told}) == len(bars) else []


def _of_part(part: Condition, view: View) -> Bar | None:
    if type(part) is AllOf:  # each of them has to hold
        return next((bar for one in part.of if (bar := _of_part(one, view)) is not None), None)
    return _bar(part, view) if getattr(part, "within_s", 0.0) <= 0 else None


def _bar(condition: Condition, view: View) -> Bar | None:
    if type(condition) is Baseline:
        usual = condition.usual(view)
        return None if usual is None else Bar(LENGTH, condition.factor * usual)
    if type(condition) is not Threshold:
        return None
    limits = condition.limits
    if limits.above is not None and not limits.band:
        return Bar(condition.metric, limits.above if limits.clear is None else limits.clear)
    band = view.bands.get(condition.metric)
    if limits.band in _FROM_GOOD_ON and band is not None and band.higher_is_worse:
        return Bar(condition.metric, band.good, reached=True)
    return None


def _never(condition: Condition, view: View) -> bool:
    """Whether it cannot hold, for the run does not tell of what it looks at."""
    if type(condition) is AllOf:
        return any(_never(part, view) for part in condition.of)
    if type(condition) is AnyOf:
        return all(_never(part, view) for part in condition.of)
    if type(condition) is Ratio:
        return not len(view.track(condition.metric)) or not len(view.track(condition.over))
    if type(condition) is not Aggregate:
        return False
    if condition.of == "metric":
        return not len(view.track(condition.metric))
    limits = condition.limits  # a mark that never came counts as none
    if limits.above is None or limits.above < 0 or (limits.clear is not None and limits.clear < 0):
        return False
    return condition.metric not in view.marks
