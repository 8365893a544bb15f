"""Tables over many lines of a log: a line that heads one, then a line a row, of which the extremes count.

A block may end within one, so they are put together where the records of a log come in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from perfmon.core import Observation, Ref

from .source_state import SourceState

Tell = Callable[[int, Mapping[str, Any], float, float], list[Observation]]
"""(index of the pattern that heads a table, its fields, least and greatest row) → what the table says."""
Told = tuple[SourceState, float, Ref, list[Observation], str]
"""The log, the time, the line and its text, and what it says."""


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

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._open: dict[int, _Table] = {}

    def begin(self, state: SourceState, time: float, ref: Ref, told: Observation, text: str) -> None:
        """A line that heads a table; the one before has ended."""
        _, pattern, values = told
        self._open[state.index] = _Table(state, time, pattern, values, text.strip(), ref.line, ref, text)

    def is_open(self, source: int) -> bool:
        """Return True while a log is in a table."""
        return source in self._open

    def row(self, ref: Ref, value: float, text: str) -> None:
        """A row; one that does not follow the last line of a table is none of it."""
        table = self._open.get(ref.source)
        if table is None or ref.line != table.line + 1:
            return
        table.line = ref.line
        if table.low is None or value > table.high:
            table.high, table.ref, table.text = value, ref, f"{table.head} {text.strip()}"
        table.low = value if table.low is None else min(table.low, value)

    def end(self, source: int) -> Told | None:
        """Close the last table of a log and return its observations."""
        table = self._open.pop(source, None)
        if table is None or table.low is None:
            return None
        told = self._tell(table.pattern, table.values, table.low, table.high)
        return table.state, table.time, table.ref, told, table.text

    def end_all(self) -> list[Told]:
        """Close the last tables of all logs and return their observations."""
        return [told for source in list(self._open) if (told := self.end(source)) is not None]
