"""The interface of conditions, and the limits that they share."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import IntEnum
from math import inf, nextafter
from typing import Any, ClassVar, Literal, Self, TypeVar, cast

from perfmon.core import Table, format_seconds

from ..run_facts import Column, Item, RunView, Track, View


class Level(IntEnum):
    """The level at which a condition holds."""

    UNKNOWN = -1
    NO = 0
    CLEARING = 1
    """Back within the limit, not yet beyond the clear limit: what fires goes on firing, nothing new begins."""
    WARNING = 2
    CRITICAL = 3

    @property
    def holds(self) -> bool:
        """It is beyond its limit."""
        return self >= Level.WARNING


_SIGN = re.compile(r"[<>≥≤] |limit ")
_BAND_LEVELS = ("good", "warning", "critical")
_CRITICAL = 2
BAND_LEVELS = (Level.NO, Level.WARNING, Level.CRITICAL)
"""By the level of a band: good, warning, critical."""


_T = TypeVar("_T")
Role = Literal["required", "supporting", "gate"]
IfMissing = Literal["fail", "pass"]


@dataclass(frozen=True)
class Condition(ABC):
    """One condition of a signature."""

    role: Role = field(default="required", kw_only=True)
    """`required`: it must hold. `gate`: it must hold, too, but proves nothing, and is not counted among the conditions
    that do. `supporting`: it only raises the confidence."""
    if_missing: IfMissing = field(default="fail", kw_only=True)
    """With `pass` an item counts, with less confidence, where the data for a condition that must hold are missing."""

    costly: ClassVar[bool] = False
    """It looks at many samples: evaluated only where what looks at one holds."""
    slots: ClassVar[tuple[str, ...]] = ()
    """Slots of a sentence that `figures` may fill."""

    @property
    def trivial(self) -> bool:
        """It only requires that there is something."""
        return False

    @property
    def must_hold(self) -> bool:
        """An item counts only where it holds."""
        return self.role != "supporting"

    @abstractmethod
    def judge(self, item: Item, view: View) -> Level:
        """The level for `item`; UNKNOWN without data."""

    @abstractmethod
    def describe(self, item: Item, view: View) -> str:
        """The values that were met, in words."""

    @abstractmethod
    def explain(self) -> str:
        """In words, without values."""

    def bound(self, item: Item, view: View) -> str:  # most have none
        """The limit of the value that `describe` gives, as in `> 30 %`; "" without one."""
        return ""

    def words(self, item: Item, view: View) -> str:
        """The values that were met, with their limits, in words."""
        value, limit = self.describe(item, view), self.bound(item, view)
        return f"{value} ({limit})" if limit else value

    def barren(self, name: str, source: int, group: str, view: View) -> bool:
        """Certainly holds for no sample of the metric or mark `name` of a log and group: they need not be judged."""
        return False

    def unfinished(self, item: Item, view: View) -> bool:
        """It holds only if what goes on now goes on for longer: that is no proof yet."""
        return False

    def short(self, item: Item, view: View) -> float | None:  # most have no opinion
        """The share (0..1) of the item's time that is lost by this condition; None where it does not define it."""
        return None

    def since(self, item: Item, view: View) -> float | None:  # most are about the item's own time
        """Start of what it finds, if that is before the item: all of the time since is lost."""
        return None

    def deciding(self, item: Item, view: View) -> Condition:  # most have no alternatives
        """The condition without alternatives that do not hold."""
        return self

    def figures(self, item: Item, view: View) -> dict[str, str]:
        """Figures for the sentence, of those that `slots` names; "" for one that is not known."""
        return {}

    def metric_names(self) -> tuple[str, ...]:
        """Metrics that it looks at."""
        return ()

    def other_names(self) -> tuple[str, ...]:
        """Span kinds and marks that it looks at, or names of any kind."""
        return ()


class Single(Condition):
    """A condition that holds no others: its fields are the keys of its TOML table, by their types."""

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The keys of its table other than type, role and if_missing."""
        names = [one.name for one in fields(cls) if not one.kw_only]
        return (*[name for name in names if name != "limits"], *(Limits.KEYS if "limits" in names else ()))

    @classmethod
    def read(cls, table: Table) -> Self:
        """From its table; raises DataFileError."""
        condition = read_fields(cls, table)
        condition.check(table)
        return condition

    def check(self, table: Table) -> None:  # most take any value of the right type
        """Raise DataFileError for a value that makes no sense."""

    def metric_names(self) -> tuple[str, ...]:
        return self._names("Metric", "Metrics")

    def other_names(self) -> tuple[str, ...]:
        return self._names("Name", "Names")

    def _names(self, one_name: str, several: str) -> tuple[str, ...]:
        """The contents of its fields of these two types."""
        held = [((getattr(self, one.name),) if one.type == one_name else getattr(self, one.name))
                for one in fields(self) if one.type in (one_name, several)]  # fmt: skip
        return tuple(name for names in held for name in names if name)


class Explained(Single):
    """A condition whose level and values come from one evaluation."""

    @abstractmethod
    def _met(self, item: Item, view: View) -> tuple[Level, str]:
        """The level, and the values in words."""

    def judge(self, item: Item, view: View) -> Level:
        return self._met(item, view)[0]

    def describe(self, item: Item, view: View) -> str:
        return self._met(item, view)[1]


_BAND_WORDS = {
    "critical": "beyond its critical threshold",
    "good": "good",
    "not-critical": "not critical",
    "reached": "at or beyond its good threshold",
    "at-limit": "between its good and critical thresholds",
}


Metric = str
Metrics = tuple[str, ...]
Name = str
"""A kind of spans, a mark, or a name of any kind."""
Names = tuple[str, ...]
Amount = float
"""A number that is not negative."""
ByKind = tuple[tuple[str, float], ...]
"""Numbers by kind of span."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a value: explicit ones, or those of a metric's band."""

    band: str = ""
    """`critical`: beyond the critical limit (beyond the good one is a warning); `not-critical`, `good`: within;
    `reached`: at the good limit or beyond; `at-limit`: there, but not critical."""
    above: float | None = None
    below: float | None = None
    clear: float | None = None
    """Limit at which it is over again: less strict than `above` or `below`, so that values near it do not flap."""

    KEYS: ClassVar[tuple[str, ...]] = ("band", "above", "below", "clear")

    @classmethod
    def read(cls, table: Table) -> Limits:
        """From the keys band, above and below; at least one of them."""
        band = table.text("band", "")
        if band not in ("", *_BAND_WORDS):
            raise table.wrong("band", f"expected one of {', '.join(_BAND_WORDS)}")
        above = table.number("above", 0.0) if "above" in table.data else None
        below = table.number("below", 0.0) if "below" in table.data else None
        if not band and above is None and below is None:
            raise table.wrong("above", "missing, expected one of band, above, below")
        return cls(band, above, below, cls._clear(table, above, below))

    @staticmethod
    def _clear(table: Table, above: float | None, below: float | None) -> float | None:
        if "clear" not in table.data:
            return None
        clear = table.number("clear", 0.0)
        if (above is None) == (below is None):
            raise table.wrong("clear", "expected with exactly one of above and below")
        if (above is not None and clear > above) or (below is not None and clear < below):
            raise table.wrong("clear", "expected a limit that is less strict than above or below")
        return clear

    @property
    def one_sided(self) -> bool:
        """A value is the more beyond the limits the larger, or the smaller, it is: bands may be either."""
        return not self.band and (self.above is None or self.below is None)

    def extreme(self, values: Sequence[float]) -> float:
        """Of some values that which is most beyond the limits, where they are one-sided."""
        return max(values) if self.above is not None else min(values)

    def floor(self, metric: str, view: View) -> float:
        """The largest value known to be within the limits; -inf where only `level` decides."""
        if self.above is not None and not self.band:
            return self.above if self.clear is None else self.clear
        band = view.bands.get(metric)
        if self.band in ("critical", "reached", "at-limit") and band is not None and band.higher_is_worse:
            return nextafter(band.good, -inf)
        return -inf

    def level(self, metric: str, value: float, view: View) -> Level:
        """The level of a value."""
        bounded = self._bounded(value)
        if bounded is Level.NO or not self.band:
            return bounded
        return min(bounded, self._banded(metric, value, view))

    def _bounded(self, value: float) -> Level:
        if self.above is not None and not value > self.above:
            return Level.CLEARING if self.clear is not None and value > self.clear else Level.NO
        if self.below is not None and not value < self.below:
            return Level.CLEARING if self.clear is not None and value < self.clear else Level.NO
        return Level.CRITICAL

    def _banded(self, metric: str, value: float, view: View) -> Level:
        band = view.bands.get(metric)
        if band is None:
            return Level.UNKNOWN
        held = BAND_LEVELS[band.level(value)]
        if self.band == "critical":
            return held
        reached = held is not Level.NO or value == band.good
        wanted = {
            "reached": reached,
            "at-limit": reached and held is not Level.CRITICAL,
            "good": held is Level.NO,
            "not-critical": held is not Level.CRITICAL,
        }
        return Level.CRITICAL if wanted[self.band] else Level.NO

    def of_value(self, metric: str, value: float, unit: str, view: View) -> str:
        """`> 10 s`, `critical > 5 s`, `good < 2 s`: the limit that makes a value what it is."""
        band = view.bands.get(metric) if self.band else None
        if band is not None:
            if self.band in ("reached", "at-limit"):
                return f"limit {_short(band.good, unit)}"
            level, (worse, better) = band.level(value), ("<", ">")[:: -1 if band.higher_is_worse else 1]
            edge = band.critical if level == _CRITICAL else band.good
            return f"{_BAND_LEVELS[level]} {worse if level else better} {_short(edge, unit)}"
        limits = [(">", self.above), ("<", self.below)]
        return " and ".join(_limit(sign, limit, unit) for sign, limit in limits if limit is not None)

    def number(self, metric: str, value: float, unit: str, view: View) -> str:
        """`10 s`: the same limit alone."""
        return _SIGN.split(self.of_value(metric, value, unit, view))[-1]

    def words(self, metric: str, unit: str) -> str:
        """`queue_ms > 10 s`, `rpc_ms beyond its critical threshold`: what is limited, in this unit, and how."""
        parts = []
        if self.above is not None:
            parts.append(_limit(">", self.above, unit))
        if self.below is not None:
            parts.append(_limit("<", self.below, unit))
        if self.clear is not None:
            parts[-1] += f" (clears at {_short(self.clear, unit)})"
        if self.band:
            parts.append(_BAND_WORDS[self.band])
        return f"{metric} {' and '.join(parts)}"


def read_fields(cls: type[_T], table: Table) -> _T:
    """A dataclass from the keys of a table, each read by the type of its field as it is written."""
    held: tuple[Field[Any], ...] = fields(cls)  # type: ignore[arg-type]  # a dataclass
    return cls(**{one.name: _READERS[str(one.type)](table, one) for one in held if not one.kw_only})


def _text(table: Table, one: Field[Any]) -> str:
    return table.text(one.name, None if one.default is MISSING else one.default)


def _number(table: Table, one: Field[Any]) -> float:
    return table.required_number(one.name) if one.default is MISSING else table.number(one.name, one.default)


def _texts(table: Table, one: Field[Any]) -> tuple[str, ...]:
    return table.texts(one.name, required=one.default is MISSING)


_READERS: Mapping[str, Callable[[Table, Field[Any]], Any]] = {
    "str": _text,
    "Metric": _text,
    "Name": _text,
    "float": _number,
    "int": lambda table, one: int(_number(table, one)),
    "bool": lambda table, one: table.flag(one.name),
    "Amount": lambda table, one: table.amount(one.name, cast(float, one.default)),
    "tuple[str, ...]": _texts,
    "Metrics": _texts,
    "Names": _texts,
    "ByKind": lambda table, one: tuple(sorted(table.numbers(one.name).items())),
    "Limits": lambda table, _: Limits.read(table),
    "Limits | None": lambda table, _: Limits.read(table) if "metric" in table.data else None,
}
"""Functions that read a field, by its type as it is written."""


def _limit(sign: str, value: float, unit: str) -> str:
    """`> 49.999` is meant as `≥ 50`."""
    shown = _rounded(value)
    meant = {">": "≥" if shown > value else ">", "<": "≤" if shown < value else "<"}[sign]
    return f"{meant} {_short(value, unit)}"


def _short(value: float, unit: str) -> str:
    value = _rounded(value)
    if unit in ("ms", "s"):
        seconds = value / 1000 if unit == "ms" else value
        if unit == "ms" and value < 1000:
            return f"{value:g} ms"
        return f"{seconds:g} s" if seconds < 100 else format_seconds(seconds)
    return f"{value:g} {unit}".strip()


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


__all__ = ["Column", "Condition", "Item", "Level", "Limits", "RunView", "Single", "Track", "View", "read_fields"]
