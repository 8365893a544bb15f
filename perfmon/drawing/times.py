"""Time from left to right: the legs of a span, and the axis below them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from math import ceil, floor, inf, isfinite
from typing import Protocol

from perfmon.glyphs import UNICODE, Glyphs

Cell = tuple[str, str]
"""(character, kind of the leg): what a pane styles and a page joins; (" ", "") where there is nothing."""
EMPTY: Cell = (" ", "")
_GLYPHS: Mapping[str, str] = {"send": "send", "queue": "queue", "rpc": "rpc", "done": "done", "unknown": "unknown-leg"}
_WAITS = ("send", "queue", "unknown")
_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_TOLD_APART = 1e15
"""So many columns away from its origin an axis has no two moments that a float tells apart."""
_STEPS = (
    *(number * unit for unit in (0.001, 0.01, 0.1) for number in (1, 2, 5)),
    *(1, 2, 5, 10, 15, 30),
    *(number * _MINUTE for number in (1, 2, 5, 10, 15, 30)),
    *(number * _HOUR for number in (1, 2, 3, 6, 12)),
    *(number * _DAY for number in (1, 2, 7, 14, 28, 91, 364, 1820, 18200)),
)


class Leg(Protocol):
    """A part of a span."""

    @property
    def kind(self) -> str:
        """`send`, `queue`, `rpc`, `done`, `unknown`, or another kind, which is drawn as a full bar."""
        ...

    @property
    def start(self) -> float:
        """Seconds on the axis."""
        ...

    @property
    def end(self) -> float:
        """Seconds on the axis."""
        ...


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
    """Marks the end; an RPC that only the last cell could tell of has that cell."""
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
    gap: int = 2,
) -> list[Tick]:
    """Moments with round names, as close as their labels (and `gap` cells between them) allow.

    With an `origin` they are offsets from it, `zero` naming the origin itself: `-10m`, `-5m`, `now`, `+5m`. Without,
    they are times of day (UTC, as everywhere on the wall-clock axis): `14:06`, `14:06:30`, `21 Aug`.
    """
    column_s = (end - start) / width if width > 0 else 0.0
    if not (0.0 < column_s < inf and isfinite(start) and (origin is None or isfinite(origin))):
        return []
    begin = 0.0 if origin is None else origin
    if not abs(start - begin) / column_s < _TOLD_APART:
        return []

    def label(offset: float) -> str:
        return _clock(offset, step) if origin is None else _offset(offset, zero, plus)

    for step in _STEPS:
        room = step / column_s
        if room < gap + 2:
            continue
        found = _multiples(start - begin, end - begin, column_s, step, width, label)
        if all(len(tick.label) + gap <= room for tick in found):
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
