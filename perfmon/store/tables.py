"""Tables over many lines of a log: a heading, then one row per line, of which the extremes count.

A block may end within one, so they are combined here, where the records of a log are in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perfmon.core import Observation, Ref

from .source_state import SourceState

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
