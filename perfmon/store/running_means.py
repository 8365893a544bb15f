"""Shares by means since an epoch began.

A row of a training loop stands for all steps since the row before it, of which its own values are those of one. The
means that it prints next to them know all steps: mean times count is a sum, and the difference of two sums is what
passed between two rows. A mean is rounded, though: late in an epoch only rows far apart give a difference.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

_ROUNDING_S = 0.0005
"""Of means with three decimals."""
_RECENT, _LASTING = 0.02, 0.05
"""Of the mean: so far off a difference may be."""
_MOST_ROWS = 512


class _Row(NamedTuple):
    """The sums at a row."""

    steps: float
    part: float
    whole: float


class RunningMeans:
    """The rows of the latest epoch of each log and metric: every one, or of very many every second, fourth, ..."""

    def __init__(self) -> None:
        self._rows: dict[Hashable, list[_Row]] = {}

    def shares(self, of: Hashable, steps: float, part: float, whole: float) -> tuple[float | None, float | None]:
        """(least share, recent share), in %, by the means of `part` and of `whole` over so many `steps`.

        The least of the second half of the epoch so far and of the half before that: one long wait is in one of them
        only, and the first row, with the start of workers and compilation, in neither. The recent one is that since
        the last row from which it can be told. None where nothing tells it.
        """
        row = _Row(steps, part * steps, whole * steps)
        rows = self._rows.setdefault(of, [])
        if rows and (steps <= rows[-1].steps or row.whole < rows[-1].whole - _rounding(rows[-1], row)):
            rows.clear()
        recent = next((share for one in reversed(rows) if (share := _share(one, row, _RECENT)) is not None), None)
        half = _latest(rows, steps / 2)
        quarter = _latest(rows, half.steps / 2) if half else None
        least = None
        if half and quarter:
            later, earlier = _share(half, row, _LASTING), _share(quarter, half, _LASTING)
            least = None if later is None or earlier is None else min(later, earlier)
        rows.append(row)
        if len(rows) > _MOST_ROWS:
            del rows[1::2]
        return least, recent


def _rounding(since: _Row, row: _Row) -> float:
    """Seconds by which the difference of the sums of two rows may be wrong."""
    return _ROUNDING_S * (since.steps + row.steps)


def _latest(rows: Sequence[_Row], steps: float) -> _Row | None:
    return next((one for one in reversed(rows) if one.steps <= steps), None)


def _share(since: _Row, row: _Row, off: float) -> float | None:
    """The share of the part in the whole between two rows; None where rounding may change it by more than `off`."""
    whole = row.whole - since.whole
    if whole <= 0 or _rounding(since, row) > off * whole:
        return None
    return max(0.0, min(100.0, 100.0 * (row.part - since.part) / whole))
