"""Figures that several lines of a log give together: tables, running means, and the time of a log without a clock."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from perfmon.core import SAMPLE, SPAN, STEP, Observation, Ref

from .source_state import SourceState

# --- Tables over many lines: a heading, then one row per line, of which the extremes count ---
#
# A block may end within one, so they are combined here, where the records of a log are in order.

ExpandTable = Callable[[int, Mapping[str, Any], float, float], list[Observation]]
"""(index of the pattern that heads a table, its fields, least and greatest row) → observations of the table."""
TableResult = tuple[SourceState, float, Ref, list[Observation], str]
"""The log, the time, the line, its observations and text."""


@dataclass(slots=True)
class _Table:
    state: SourceState
    time: float
    pattern: int
    values: Mapping[str, Any]
    head: str
    line: int
    """The last one that was read."""
    ref: Ref
    """That of the greatest row, whose text is the proof."""
    text: str
    low: float | None = None
    high: float = 0.0


class Tables:
    """The table that each log is in."""

    def __init__(self, expand: ExpandTable) -> None:
        self._expand = expand
        self._open: dict[int, _Table] = {}

    def begin(self, state: SourceState, time: float, ref: Ref, observation: Observation, text: str) -> None:
        """Start a table; the one before has ended."""
        _, pattern, values = observation
        self._open[state.index] = _Table(state, time, pattern, values, text.strip(), ref.line, ref, text)

    def is_open(self, source: int) -> bool:
        """Return True while a log is in a table."""
        return source in self._open

    def row(self, ref: Ref, value: float, text: str) -> None:
        """Add a row, if it follows the last line of a table."""
        table = self._open.get(ref.source)
        if table is None or ref.line != table.line + 1:
            return
        table.line = ref.line
        if table.low is None or value > table.high:
            table.high, table.ref, table.text = value, ref, f"{table.head} {text.strip()}"
        table.low = value if table.low is None else min(table.low, value)

    def end(self, source: int) -> TableResult | None:
        """Close the last table of a log and return its observations."""
        table = self._open.pop(source, None)
        if table is None or table.low is None:
            return None
        observations = self._expand(table.pattern, table.values, table.low, table.high)
        return table.state, table.time, table.ref, observations, table.text

    def end_all(self) -> list[TableResult]:
        """Close the last tables of all logs and return their observations."""
        return [ended for source in list(self._open) if (ended := self.end(source)) is not None]


# --- Shares by means since an epoch began ---
#
# A row of a training loop stands for all steps since the row before it, of which its own values are those of one. The
# means that it prints next to them know all steps: mean times count is a sum, and the difference of two sums is what
# passed between two rows. A mean is rounded, though: late in an epoch only rows far apart give a difference.

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


# --- The time of a log without a clock: the durations that its lines state, added up in order ---

_DAY_S = 86400.0
_MOST_EACH = 100_000
"""Lines of steps further apart are not neighbours."""
_STEPS = ("train-step", "orchestrator-step")
_WITHIN_STEPS = ("batch-wait", "policy-wait", "data-wait", "weight-sync")
"""Waits that the step of a later line contains."""


class ClocklessTime:
    """Advances `SourceState.pseudo` of each log without a clock."""

    def __init__(self) -> None:
        self._each: dict[tuple[int, str], float] = {}
        """The last number that the spans of a kind cover, by log."""
        self._waited: dict[int, float] = {}
        """Seconds of waits since the last step, by log."""
        self._begun: dict[int, tuple[int, float]] = {}
        """By log: the line and the start of the last step."""

    def steps_took(self, source: int, observations: Sequence[Observation]) -> float:
        """Seconds that passed until a line with a step and the time that one takes; 0 where spans state it."""
        numbers = [one[2] for one in observations if one[0] == STEP and one[2] is not None]
        times = [one[2] for one in observations if one[0] == SAMPLE and one[1] == "step_s" and not one[3]]
        if not numbers or len(times) != 1 or any(one[0] == SPAN for one in observations):
            return 0.0
        each = float(times[0])
        return each * self.covered(source, "step_s", float(numbers[0])) if 0.0 < each < _DAY_S else 0.0

    def covered(self, source: int, kind: str, number: float) -> float:
        """Count the items since the last such line; 1 if unknown."""
        before = self._each.get((source, kind))
        self._each[source, kind] = number
        grown = 1.0 if before is None else number - before
        return grown if 1.0 <= grown <= _MOST_EACH else 1.0

    def start_of(self, state: SourceState, time: float, ref: Ref, kind: str, duration: float) -> float:
        """Return the start of a span: a step contains the waits since the last one."""
        if kind in _STEPS:
            self._begun[state.index] = (ref.line, time - min(duration, self._waited.pop(state.index, 0.0)))
        line, begun = self._begun.get(state.index, (0, time))
        return begun if line == ref.line else time

    def pass_to(self, state: SourceState, kind: str, end: float) -> None:
        """Advance the time of a log to the end of a span."""
        if kind in _WITHIN_STEPS:
            self._waited[state.index] = self._waited.get(state.index, 0.0) + max(0.0, end - state.pseudo)
        state.pseudo = max(state.pseudo, end)
