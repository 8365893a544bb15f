"""Amounts: sparklines, bars, and columns shared out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, inf, isfinite, isnan, log, nan
from typing import Protocol

from perfmon.glyphs import UNICODE, Glyphs

_BELOW = 4
"""Levels of a sparkline that lie below a critical limit which is exceeded; the others are for beyond it."""
_LEAST = 1e-290
"""Smaller limits are nothing that a value can be told from by how many times as large it is."""
_FLAT = 0.02
"""Share of a value by which a series may vary and still be called flat."""


class Worst(Protocol):
    """`max` or `min`."""

    def __call__(self, one: float, other: float, /) -> float:
        """The worse of two values."""
        ...


def bucket(
    samples: Iterable[tuple[float, float]], start: float, end: float, columns: int, worst: Worst = max
) -> list[float]:
    """The worst value of each of `columns` equal stretches of time from `start` to `end` (excluded).

    `samples` are (time, value), in any order. A stretch without samples is NaN.
    """
    values = [nan] * max(0, columns)
    per_column = (end - start) / columns if columns > 0 else 0.0
    if not 0.0 < per_column < inf:
        return values
    for time, value in samples:
        if start <= time < end and isfinite(value):
            column = min(columns - 1, int((time - start) / per_column))
            known = values[column]
            values[column] = value if isnan(known) else worst(known, value)
    return values


def limits(values: Iterable[float], unit: str = "") -> tuple[float, float]:
    """A scale for `spark`: 0 to 100 for percentages, else from 0 (or below) to the largest.

    For a series that hardly varies low and high are the same: its height says only whether there is anything.
    """
    if unit == "%":
        return 0.0, 100.0
    known = [value for value in values if isfinite(value)]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    if high - low <= _FLAT * max(abs(low), abs(high)):
        return low, low
    return min(0.0, low), high


def spark(
    values: Iterable[float], low: float, high: float, *, critical: float | None = None, glyphs: Glyphs = UNICODE
) -> str:
    """A character a value: its height between `low` and `high`; a space for NaN, which is never a zero.

    With a `critical` limit (more is worse), heights are linear up to it, and logarithmic beyond it when `high` lies
    there. Without room between low and high every value is in the middle, but for zeros, which are the lowest line.
    """
    levels = glyphs.spark
    if critical is None or not isfinite(critical) or not critical > max(low, _LEAST):
        return _straight(values, low, high, levels)
    if not high > critical:
        return _straight(values, low, critical, levels)
    height = _bent(low, high, critical)
    return "".join([" " if isnan(value) else levels[height(value)] for value in values])


def _straight(values: Iterable[float], low: float, high: float, levels: str) -> str:
    """Heights that are linear from `low` to `high`."""
    span = high - low
    if _flat(low, high):
        return "".join([" " if isnan(value) else levels[3] if value else levels[0] for value in values])
    first, last, count = levels[0], levels[-1], len(levels)
    rising = levels + last  # what is nearly `high` may be rounded up to it
    return "".join([
        " " if value != value  # noqa: PLR0124 - NaN alone is not itself, and a call for every value costs more
        else first if value <= low
        else last if value >= high
        else rising[int(count * ((value - low) / span))]
        for value in values
    ])  # fmt: skip


class _Height(Protocol):
    def __call__(self, value: float, /) -> int: ...


def _bent(low: float, high: float, critical: float) -> _Height:
    """What turns a value that is not NaN into a level, 0 to 7: linear up to `critical`, logarithmic beyond."""
    # Logarithms are subtracted: a quotient of numbers that are far apart is infinite.
    below, edge, above = _linear(low, critical, _BELOW), log(critical), 8 - _BELOW
    reach = log(min(high, 1e300)) - edge

    def height(value: float) -> int:
        if value <= critical:
            return below(value)
        return min(7, _BELOW + int(above * (log(min(value, high, 1e300)) - edge) / reach)) if reach > 0 else 7

    return height


def _linear(low: float, high: float, count: int) -> _Height:
    span = high - low
    if _flat(low, high):
        return lambda _: 0
    return lambda value: 0 if value <= low else count - 1 if value >= high else _level(value, low, span, count)


def _flat(low: float, high: float) -> bool:
    """There is no room between them."""
    span = high - low
    return not 0.0 < span < inf or span <= 1e-9 * max(abs(low), abs(high))


def _level(value: float, low: float, span: float, count: int) -> int:
    return min(count - 1, int(count * ((value - low) / span)))


def bar(share: float, width: int, glyphs: Glyphs = UNICODE) -> str:
    """`width` cells of which `share` (0 to 1) is filled, to an eighth of a cell."""
    if width <= 0:
        return ""
    eighths = round(8 * width * min(1.0, max(0.0, share))) if not isnan(share) else 0
    full, part = divmod(eighths, 8)
    return (glyphs["full"] * full + (glyphs.eighths[part - 1] if part else "")).ljust(width)


def stack(shares: Sequence[float], width: int) -> list[int]:
    """How many of `width` cells each share has of the sum of all: they sum to `width`.

    Largest remainders go first; a share of half a cell or more has at least one as long as there are enough. Shares
    that are not positive have none, and if none is positive, nobody has any.
    """
    known = [share if 0.0 < share < inf else 0.0 for share in shares]
    largest = max(known, default=0.0)
    if width <= 0 or largest <= 0.0:
        return [0] * len(known)
    total = sum(share / largest for share in known)
    quotas = [width * (share / largest) / total for share in known]
    cells = [max(floor(quota), 1 if quota >= 0.5 else 0) for quota in quotas]
    return _settled(cells, quotas, width)


def _settled(cells: list[int], quotas: Sequence[float], width: int) -> list[int]:
    """`cells` made to sum to `width`, moving those that are furthest from their quotas; a single cell goes last."""
    while (short := width - sum(cells)) > 0:
        order = sorted((i for i, q in enumerate(quotas) if q > 0), key=lambda i: cells[i] - quotas[i])
        for i in order[:short]:
            cells[i] += 1
    while (over := sum(cells) - width) > 0:
        order = sorted(
            (i for i, count in enumerate(cells) if count), key=lambda i: (cells[i] == 1, quotas[i] - cells[i], -i)
        )
        for i in order[: max(1, min(over, sum(count > 1 for count in cells)))]:
            cells[i] -= 1
    return cells
