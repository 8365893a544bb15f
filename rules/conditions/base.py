"""What every kind of condition is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Self

from perfmon.datafile import Table

if TYPE_CHECKING:
    from ..view import Item, View


class Level(IntEnum):
    """How far a condition holds."""

    UNKNOWN = -1
    NO = 0
    WARNING = 1
    CRITICAL = 2


class Condition(ABC):
    """One condition of a signature; `required` ones must hold, the others only raise the confidence."""

    type: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ()
    """The keys of its TOML table beside type, required, optional and says."""
    required: bool = True
    optional: bool = False
    """When the data for it are missing the item still counts, with less confidence."""

    @classmethod
    @abstractmethod
    def read(cls, table: Table) -> Self:
        """From its TOML table; raises DataFileError."""

    @abstractmethod
    def judge(self, item: Item, view: View) -> Level:
        """How far it holds for `item`; UNKNOWN when the run does not tell."""

    @abstractmethod
    def describe(self, item: Item, view: View) -> str:
        """The values that were met, in words."""

    @abstractmethod
    def explain(self) -> str:
        """In words, without values."""


_BAND_WORDS = {
    "critical": "beyond its band",
    "good": "good",
    "not-critical": "not critical",
    "reached": "at or beyond its good limit",
}


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a value: explicit ones, or those of a metric's band."""

    band: str = ""
    """`critical`: beyond the critical limit (beyond the good one is a warning); `not-critical`, `good`: within;
    `reached`: at the good limit or beyond."""
    above: float | None = None
    below: float | None = None

    KEYS: ClassVar[tuple[str, ...]] = ("band", "above", "below")

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
        return cls(band, above, below)

    def level(self, metric: str, value: float, view: View) -> Level:
        """How far `value` is where the limits want it."""
        if self.above is not None and not value > self.above:
            return Level.NO
        if self.below is not None and not value < self.below:
            return Level.NO
        if not self.band:
            return Level.CRITICAL
        band = view.bands.get(metric)
        if band is None:
            return Level.UNKNOWN
        held = band.level(value)
        if self.band == "critical":
            return Level(held)
        if self.band == "reached":
            return Level.CRITICAL if held > 0 or value == band.good else Level.NO
        if self.band == "good":
            return Level.CRITICAL if held == 0 else Level.NO
        return Level.CRITICAL if held < 2 else Level.NO

    def words(self, metric: str) -> str:
        """`> 1000`, `below its critical band`."""
        said = []
        if self.above is not None:
            said.append(f"> {self.above:g}")
        if self.below is not None:
            said.append(f"< {self.below:g}")
        if self.band:
            said.append(_BAND_WORDS[self.band])
        return f"{metric} {' and '.join(said)}"
