"""Lines about machines, kept for as long as nothing that they tell is another thing: polls come every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from perfmon.picture import Freshness, Picture, SourceNow

from ..rows import Row
from .look import Look
from .plan import Line, LogRow, View, lines_of


class KeptLines:
    """The last plan, and how its lines were drawn. Lines about logs are always those of the newest picture."""

    def __init__(self) -> None:
        self._basis: tuple[object, ...] = ()
        self._limits: dict[str, tuple[float | None, float | None]] = {}
        self._planned: tuple[tuple[object, ...], list[Line]] | None = None
        self._drawn: dict[tuple[int, str], Row] = {}

    def look(self, look: Look, picture: Picture) -> None:
        """Set the view."""
        basis: tuple[object, ...] = (picture.seen, look.skin, picture.state)
        # Of metrics only the limits are told, which hardly ever change; their figures do with every snapshot.
        limits = {name: (stats.good, stats.critical) for name, stats in look.metrics.items()}
        old = any(look.around.stale(seen) for seen in picture.seen)
        same = len(self._basis) == len(basis) and all(a is b for a, b in zip(self._basis, basis, strict=True))
        if old or picture.links or not same or limits != self._limits:  # ages go on with every picture
            self.forget()
        self._basis, self._limits = () if old or picture.links else basis, limits

    def forget(self) -> None:
        """Everything is to be drawn anew."""
        self._planned = None
        self._drawn.clear()

    def lines(self, look: Look, view: View, sources: Sequence[SourceNow], log_row: LogRow) -> list[Line]:
        """As `lines_of` gives them."""
        if not self._basis or view.opened:
            self.forget()
            return lines_of(look, view, sources, log_row)
        # Which logs are told of depends on how they are.
        logs = tuple([(one.index, one.freshness is Freshness.STALE, bool(one.errors)) for one in sources])
        how = (view.name, view.width, view.room, view.processes, view.everything, logs)
        if self._planned is None or self._planned[0] != how:
            self.forget()
            self._planned = how, lines_of(look, view, sources, log_row)
        newest = {one.index: one for one in sources}
        return [line if line.source is None else _newer(line, newest, log_row) for line in self._planned[1]]

    def row(self, line: Line, ground: str, draw: Callable[[Line], Row]) -> Row:
        """A line as `draw` draws it on that ground."""
        if self._planned is None or line.source is not None:
            return draw(line)
        row = self._drawn.get((id(line), ground))
        if row is None:
            row = self._drawn[id(line), ground] = draw(line)
        return row


def _newer(line: Line, newest: dict[int, SourceNow], log_row: LogRow) -> Line:
    assert line.source is not None  # noqa: S101
    one = newest[line.source.index]
    return Line(partial(log_row, one), line.key, one, line.foreign)
