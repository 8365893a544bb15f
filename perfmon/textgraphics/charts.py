"""Charts as text: sparklines, bars, Gantt bars, time axes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import ceil, floor, inf, isfinite, isnan, log, nan

from .cells import UNICODE, Glyphs

# --- Amounts: sparklines, bars, and columns shared out ---

_BELOW = 4
"""Levels of a sparkline that lie below a critical limit which is exceeded; the others are for beyond it."""
_LEAST = 1e-290
"""With smaller limits the ratio of a value to its limit means nothing."""
_FLAT = 0.02
"""Share of a value by which a series may vary and still be called flat."""


def bucket(
    samples: Iterable[tuple[float, float]], start: float, end: float, columns: int,
    worst: Callable[[float, float], float] = max,
) -> list[float]:  # fmt: skip
    """The worst value of each of `columns` equal intervals from `start` to `end` (excluded).

    `samples` are (time, value), in any order. An interval without samples is NaN.
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

    For a series that hardly varies low and high are the same: its height shows only that there is something.
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
        " " if isnan(value)
        else first if value <= low
        else last if value >= high
        else rising[int(count * ((value - low) / span))]
        for value in values
    ])  # fmt: skip


def _bent(low: float, high: float, critical: float) -> Callable[[float], int]:
    """Return the function from a value that is not NaN to its level, 0 to 7."""
    # Logarithms are subtracted: a quotient of numbers that are far apart is infinite.
    below, edge, above = critical - low, log(critical), 8 - _BELOW
    reach = log(min(high, 1e300)) - edge
    flat = _flat(low, critical)

    def height(value: float) -> int:
        if value > critical:
            return min(7, _BELOW + int(above * (log(min(value, high, 1e300)) - edge) / reach)) if reach > 0 else 7
        return 0 if flat or value <= low else min(_BELOW - 1, int(_BELOW * ((value - low) / below)))

    return height


_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
"""Bits of a braille character, of its left and its right column, from the bottom."""
_BLANK = 0x2800


def trace(spans: Sequence[tuple[float, float]], low: float, high: float, rows: int) -> list[str]:
    """A line of braille dots in `rows` rows from `low` to `high`, the top row first; two spans a cell.

    Each span is the lowest and the highest value of its place, NaN where nothing was measured; neighbours are joined.
    """
    cells = [[_BLANK] * ((len(spans) + 1) // 2) for _ in range(max(0, rows))]
    steps = 4 * rows
    before: tuple[int, int] | None = None
    for at, (bottom, top) in enumerate(spans):
        if isnan(bottom) or isnan(top) or not cells:
            before = None
            continue
        first, last = _dot(bottom, low, high, steps), _dot(top, low, high, steps)
        span = first, last
        if before is not None:
            first, last = min(first, max(before[1] + 1, 0)), max(last, before[0] - 1)
        for dot in range(first, last + 1):
            cells[rows - 1 - dot // 4][at // 2] |= _DOTS[at % 2][dot % 4]
        before = span
    return ["".join(" " if cell == _BLANK else chr(cell) for cell in row) for row in cells]


def line(values: Iterable[float], low: float, high: float) -> str:
    """A line of braille dots in one row, a value a cell: `trace` for what is drawn often."""
    span = high - low
    scale = 0.0 if _flat(low, high) else 4.0 / span
    drawn: list[str] = []
    before = -1
    for value in values:
        if isnan(value):
            drawn.append(" ")
            before = -1
            continue
        dot = 2 if not scale else 3 if value >= high else 0 if value <= low else min(3, int(scale * (value - low)))
        drawn.append(_joined(before, dot))
        before = dot
    return "".join(drawn)


@lru_cache(32)
def _joined(before: int, dot: int) -> str:
    """A cell at that height, joined to the one before it (-1: there is none)."""
    first, last = (dot, dot) if before < 0 else (min(dot, before + 1), max(dot, before - 1))
    left = sum(_DOTS[0][at] for at in range(first, last + 1))
    return chr(_BLANK + left + _DOTS[1][dot])


def _dot(value: float, low: float, high: float, steps: int) -> int:
    """Height of a value in dots; in the middle where there is no room between low and high."""
    if _flat(low, high):
        return steps // 2
    return min(steps - 1, max(0, int(steps * (min(max(value, low), high) - low) / (high - low))))


def _flat(low: float, high: float) -> bool:
    """Return true if there is no room between them."""
    span = high - low
    return not 0.0 < span < inf or span <= 1e-9 * max(abs(low), abs(high))


def bar(share: float, width: int, glyphs: Glyphs = UNICODE) -> str:
    """`width` cells of which `share` (0 to 1) is filled, to an eighth of a cell."""
    if width <= 0:
        return ""
    eighths = round(8 * width * min(1.0, max(0.0, share))) if not isnan(share) else 0
    full, part = divmod(eighths, 8)
    return (glyphs["full"] * full + (glyphs.eighths[part - 1] if part else "")).ljust(width)


def stack(shares: Sequence[float], width: int) -> list[int]:
    """Number of cells of each share, of `width` in all.

    Largest remainders go first; a share of half a cell or more has at least one as long as there are enough. Shares
    that are not positive have none, and if none is positive, all have none.
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


# --- Time from left to right: the legs of a span, and the axis below them ---

Cell = tuple[str, str]
"""(character, kind of the leg): what a pane styles and a page joins; (" ", "") where there is nothing."""
EMPTY: Cell = (" ", "")
_GLYPHS: Mapping[str, str] = {"send": "send", "queue": "queue", "rpc": "rpc", "done": "done", "unknown": "unknown-leg"}
_WAITS = ("send", "queue", "unknown")
_GAP = 2
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_DISTINGUISHABLE = 1e15
"""So many columns away from its origin an axis has no two moments that differ as floats."""
_STEPS = (
    *(number * unit for unit in (0.001, 0.01, 0.1) for number in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30),
    *(number * _MINUTE for number in (1, 2, 5, 10, 15, 30)),
    *(number * _HOUR for number in (1, 2, 3, 6, 12)),
    *(number * _DAY for number in (1, 2, 7, 14, 28, 91, 364, 1820, 18200)),
)


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of a span: `send`, `queue`, `rpc`, `done`, `unknown` (queue or network), or the span's own kind.

    `start` and `end` are seconds on the axis.
    """

    kind: str
    start: float
    end: float


def gantt(
    legs: Sequence[Leg], start: float, end: float, width: int, *, still_open: bool = False, glyphs: Glyphs = UNICODE
) -> list[Cell]:
    """The legs of one span over the axis from `start` to `end`, in exactly `width` cells.

    Each cell shows the leg that has most of it. A span of three cells or more that begins with a wait begins with the
    mark of sending; one of two or more ends with that of its end, or, `still_open`, of going on. After a wait, an RPC
    has one of three cells at least; of two cells it would be half, however short it was.
    """
    cells = [EMPTY] * max(0, width)
    placed = _placed(legs, start, end, width)
    if not placed:
        return cells
    for column, kind in _filled(placed, width).items():
        cells[column] = (glyphs[_GLYPHS.get(kind, "full")], kind)
    first = floor(min(a for _, a, _ in placed))
    last = max(first, ceil(max(b for _, _, b in placed)) - 1)
    if last - first >= 2 and placed[0][0] in _WAITS:
        _mark(cells, first, (glyphs["send"], "send"))
    if last - first >= 1 and still_open:
        _mark(cells, last, (glyphs["open"], cells[last][1] if 0 <= last < width else ""))
    elif last - first >= 1:
        _close(cells, placed, (first, last), glyphs)
    return cells


def _close(
    cells: list[Cell], placed: Sequence[tuple[str, float, float]], ends: tuple[int, int], glyphs: Glyphs
) -> None:
    """Marks the end; an RPC that only the last cell could show has that cell."""
    first, last = ends
    kinds = [kind for kind, _, _ in placed]
    waited = kinds[0] in _WAITS and "rpc" in kinds
    room = last - first >= 2 or (0 <= last < len(cells) and cells[last][1] == "rpc")
    if waited and room and all(kind != "rpc" for _, kind in cells[max(0, first) : max(0, last)]):
        _mark(cells, last, (glyphs["rpc"], "rpc"))
    elif "done" in kinds:
        _mark(cells, last, (glyphs["done"], "done"))


def _mark(cells: list[Cell], column: int, cell: Cell) -> None:
    if 0 <= column < len(cells):
        cells[column] = cell


def _placed(legs: Iterable[Leg], start: float, end: float, width: int) -> list[tuple[str, float, float]]:
    """(kind, begin, end) in columns, of those legs that have times in order."""
    column_s = (end - start) / width if width > 0 else 0.0
    if not 0.0 < column_s < inf:
        return []
    placed = [(leg.kind, (leg.start - start) / column_s, (leg.end - start) / column_s) for leg in legs]
    return [(kind, a, b) for kind, a, b in placed if isfinite(a) and isfinite(b) and a <= b]


def _filled(placed: Iterable[tuple[str, float, float]], width: int) -> dict[int, str]:
    """The kind that has most of each column; what a mark will stand for counts last."""
    best: dict[int, tuple[bool, float, str]] = {}
    for kind, a, b in placed:
        if kind == "done" and a == b:
            continue
        for column in range(max(0, floor(a)), min(width, max(ceil(b), floor(a) + 1))):
            claim = (kind not in ("send", "done"), min(b, column + 1) - max(a, column), kind)
            if column not in best or claim[:2] > best[column][:2]:
                best[column] = claim
    return {column: kind for column, (_, _, kind) in best.items()}


# --- the axis ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Tick:
    """A moment that is named on an axis."""

    column: int
    label: str


def ticks(
    start: float,
    end: float,
    width: int,
    *,
    origin: float | None = None,
    zero: str = "now",
    plus: str = "+",
) -> list[Tick]:
    """Moments with round names, as close as their labels (and two cells between them) allow.

    With an `origin` they are offsets from it, `zero` naming the origin itself: `-10m`, `-5m`, `now`, `+5m`. Without,
    they are times of day (UTC, as everywhere on the wall-clock axis): `14:06`, `14:06:30`, `21 Aug`.
    """
    column_s = (end - start) / width if width > 0 else 0.0
    if not (0.0 < column_s < inf and isfinite(start) and (origin is None or isfinite(origin))):
        return []
    begin = 0.0 if origin is None else origin
    if not abs(start - begin) / column_s < _DISTINGUISHABLE:
        return []

    def label(offset: float) -> str:
        return _clock(offset, step) if origin is None else _offset(offset, zero, plus)

    for step in _STEPS:
        room = step / column_s
        if room < _GAP + 2:
            continue
        found = _multiples(start - begin, end - begin, column_s, step, width, label)
        if all(len(tick.label) + _GAP <= room for tick in found):
            return found
    return []


def _multiples(
    start: float, end: float, column_s: float, step: float, width: int, label: Callable[[float], str]
) -> list[Tick]:
    first, last = ceil(start / step - 1e-9), floor(end / step + 1e-9)
    offsets = (number * step for number in range(first, last + 1))
    return [Tick(min(width - 1, max(0, int((at - start) / column_s + 1e-6))), label(at)) for at in offsets]


@lru_cache(maxsize=512)
def _offset(seconds: float, zero: str, plus: str) -> str:
    if abs(seconds) < 1e-9:
        return zero
    return ("-" if seconds < 0 else plus) + _span(abs(seconds))


def _span(seconds: float) -> str:
    """`90ms`, `1.5s`, `30s`, `10m`, `1m30s`, `2h`, `1h30m`, `3d`."""
    if seconds < 1 and round(seconds * 1000) % 100:
        return f"{seconds * 1000:.0f}ms"
    if seconds < _MINUTE:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    parts, rest = [], round(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])


def _clock(time: float, step: float) -> str:
    try:
        when = datetime.fromtimestamp(round(time, 3), UTC)
    except (OverflowError, ValueError, OSError):
        return ""
    if step >= _DAY:
        return f"{when.day} {when:%b}"
    if step >= _MINUTE:
        return f"{when:%H:%M}"
    return f"{when:%H:%M:%S}" + (f".{when.microsecond // 1000:03d}" if step < 1 else "")


def axis(named: Sequence[Tick], width: int) -> str:
    """The labels in one line of exactly `width` cells, each beginning at its tick as far as there is room."""
    line = [" "] * max(0, width)
    for tick in reversed(named):  # the newest is what must not be missing
        begin = min(tick.column, width - len(tick.label))
        around = line[max(0, begin - 1) : begin + len(tick.label) + 1]
        if begin >= 0 and not "".join(around).strip():
            line[begin : begin + len(tick.label)] = tick.label
    return "".join(line)
