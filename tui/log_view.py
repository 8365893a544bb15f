"""The visible part of the logs: following, filtered, searched."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from perfmon.core import InputError, UsageError, plain
from perfmon.logbuffer import EVERYTHING, Filter, Line, LogBuffer, LogLevel, Page, Place, Tally, View, read_back
from perfmon.sources import SourceClock
from perfmon.sources.formats import HeaderReader

# --- Visible part of the log: following the newest lines, or at a position, with a filter ---

_BUDGET_S = 0.008
FOLDED = Filter(folds=True)
"""The filter at first: requests that were served are of interest once."""
_SEARCHES = 2
"""Searches that are kept: a text, and errors."""


class LogView:
    """A window of lines over a book.

    `fill` finds out what is in view; all that moves it takes effect there. Searches stop after a few milliseconds:
    then `waiting` is set, and `go_on` is to be called until it is not. A filter whose expression takes too long is
    dropped, and `problem` names it.
    """

    def __init__(self, book: LogBuffer) -> None:
        self.book = book
        self.wanted: Filter = FOLDED
        self.follow = True
        self.cursor: Place | None = None
        """The line that keys act on; None: the last one in sight."""
        self.lines: tuple[Line, ...] = ()
        self.height = 1
        self.waiting = False
        """A search is not finished."""
        self.problem = ""
        """Reason why a filter or a search was dropped; cleared when it is shown."""
        self.lines_then = 0
        """Lines that the book had been given when the view stopped following."""
        self._view: View = View(book, FOLDED)
        self._searches: dict[Filter, View] = {}
        self._top: Place | None = None
        self._fresh = True
        self._seek: Callable[[], bool] | None = None

    @property
    def unseen(self) -> int:
        """Lines that came since the view stopped following."""
        return 0 if self.follow else max(0, self.book.totals().lines - self.lines_then)

    @property
    def current(self) -> Line | None:
        """The line that keys act on."""
        at = self.position
        return None if at is None else self.lines[at]

    @property
    def position(self) -> int | None:
        """Visible row of the current line, from 0."""
        for at, line in enumerate(self.lines):
            if line.place == self.cursor:
                return at
        return len(self.lines) - 1 if self.lines else None

    @property
    def searching(self) -> bool:
        """A jump is under way."""
        return self._seek is not None

    def fill(self) -> None:
        """Find the lines in sight."""
        height, top = self.height, self._top
        if self.follow or top is None:
            page = self._page(lambda view: view.tail(height, _BUDGET_S))
            lines, complete = page.lines, page.complete
        else:
            page = self._page(lambda view: view.start(top, height, _BUDGET_S))
            lines, complete = page.lines, page.complete
            if complete and len(lines) < height:
                begin = lines[0].place if lines else top
                above = self._page(lambda view: view.before(begin, height - len(lines), _BUDGET_S))
                lines, complete = (*above.lines, *lines), above.complete
        self.waiting = not complete
        if complete or self._fresh:
            self.lines = lines
        self._fresh = self._fresh and not complete

    def _page(self, ask: Callable[[View], Page]) -> Page:
        """An answer of the view; without the texts of the filter where they take too long."""
        try:
            return ask(self._view)
        except UsageError as error:
            self.problem = str(error)
            self.filter(replace(self.wanted, texts=()))
            return ask(self._view)

    def go_on(self) -> None:
        """Continue what a call had no time for."""
        if self._seek is not None and self._seek():
            self._seek = None
        if self.waiting:
            self.fill()

    # --- standing still -----------------------------------------------------------------------------------------
    def hold(self) -> None:
        """Stop following: what is in view stays there."""
        if self.follow:
            self.follow = False
            self.lines_then = self.book.totals().lines
            self._top = self.lines[0].place if self.lines else None

    def release(self) -> None:
        """Follow the newest lines again."""
        self.follow, self.cursor, self._top, self._seek = True, None, None, None

    def show(self, place: Place, above: int | None = None) -> None:
        """Bring a line into sight, with `above` lines above it (a third of the height), and puts the cursor on it."""
        self.hold()
        self.cursor = place
        above = self.height // 3 if above is None else above
        before = self._page(lambda view: view.before(place, above, _BUDGET_S)).lines if above else ()
        self._top = before[0].place if before else place

    # --- moving -------------------------------------------------------------------------------------------------
    def move(self, by: int) -> None:
        """Move the cursor by so many lines; the view goes along. Beyond the last line it follows again."""
        at = self.position
        if at is None:
            return
        if self.follow and by > 0:
            return
        self.hold()
        to = at + by
        if 0 <= to < len(self.lines):
            self.cursor = self.lines[to].place
            return
        more = self._adjacent(-to if to < 0 else to - len(self.lines) + 1, onward=to >= 0)
        if not more and to >= 0:
            self.release()
        elif to < 0:
            self.cursor = self._top = more[0].place if more else self.lines[0].place
        else:
            self.cursor = more[-1].place
            self._scrolled_to_end(more)

    def scroll(self, by: int) -> None:
        """Move what is in view by so many lines; the cursor stays on its line while that is in sight."""
        if not self.lines or (self.follow and by > 0):
            return
        self.hold()
        more = self._adjacent(abs(by), onward=by > 0)
        if by < 0:
            self._top = more[0].place if more else self.lines[0].place
        elif more:
            self._scrolled_to_end(more)
        else:
            self.release()

    def _adjacent(self, count: int, *, onward: bool) -> tuple[Line, ...]:
        first, last = self.lines[0].place, self.lines[-1].place
        if onward:
            return self._page(lambda view: view.after(last, count, _BUDGET_S)).lines
        return self._page(lambda view: view.before(first, count, _BUDGET_S)).lines

    def _scrolled_to_end(self, more: tuple[Line, ...]) -> None:
        sight = (*self.lines, *more)[-self.height :]
        self._top = sight[0].place

    def page(self, sign: int) -> None:
        """A page up (-1) or down (1), a line of the old one kept."""
        at = self.position
        if at is None:
            return
        self.scroll(sign * max(1, self.height - 1))
        if not self.follow:
            self.fill()
            if self.lines:
                self.cursor = self.lines[min(at, len(self.lines) - 1)].place

    def top(self) -> None:
        """To the oldest line."""
        page = self._page(lambda view: view.head(1, _BUDGET_S))
        if page.lines:
            self.hold()
            self._top = self.cursor = page.lines[0].place

    def at(self, when: float) -> None:
        """To the first line at or after a moment, or to the last one."""
        page = self._page(lambda view: view.at(when, 1, _BUDGET_S))
        lines = page.lines or self._page(lambda view: view.tail(1, _BUDGET_S)).lines
        if lines:
            self.show(lines[0].place)

    def find(self, name: str, number: int, text: str = "") -> bool:
        """To the line of that number of a log; filters that hide it go. False when the ring does not hold it."""
        place = self._view.find(name, number, text)
        if place is None:
            return False
        self.reveal(place)
        return True

    def reveal(self, place: Place) -> None:
        """Show a line; a filter that hides it goes."""
        for less in (replace(self.wanted, folds=False), EVERYTHING):
            if place in [line.place for line in self._page(lambda view: view.start(place, 1, _BUDGET_S)).lines]:
                break
            self.filter(less)
        self.show(place)

    def folded(self, line: Line) -> int:
        """Lines of requests behind this one, in its log, that are not shown."""
        return self._view.folded(line.place) if self.wanted.folds and not self.wanted.looks_for_some else 0

    # --- searching ----------------------------------------------------------------------------------------------
    def seek(self, wanted: Filter, *, onward: bool, over: Callable[[str], None]) -> None:
        """To the nearest line from here that also fits `wanted`; from the newest lines backward, whatever the
        direction, and behind the last one to the first. `over` is called with `here`, `wrapped`, or "" for none.

        Raises UsageError for a wrong expression.
        """
        view, here = self._search(wanted), None if self.follow or self.current is None else self.current.place
        ends = (lambda: view.head(1, _BUDGET_S), lambda: view.tail(1, _BUDGET_S))
        pages: list[Callable[[], Page]] = [ends[not onward] if here else ends[1]]
        if here is not None:
            place = here
            nearest = view.after if onward else view.before
            pages.insert(0, lambda: nearest(place, 1, _BUDGET_S))

        def step() -> bool:
            while pages:
                try:
                    page = pages[0]()
                except UsageError as error:
                    self.problem = str(error)
                    return True
                if page.lines:
                    self.reveal(page.lines[0].place)
                    over("here" if here is None or len(pages) > 1 else "wrapped")
                    return True
                if not page.complete:
                    return False
                pages.pop(0)
            over("")
            return True

        self._seek = None if step() else step

    def tally(self, wanted: Filter) -> Tally:
        """Count the lines of the view that also fit `wanted`, and which of them the cursor is on."""
        return self._search(wanted).tally(None if self.follow else self.cursor, _BUDGET_S)

    def _search(self, wanted: Filter) -> View:
        own = self.wanted
        both = Filter(own.sources, max(own.level, wanted.level), own.trace, (*own.texts, *wanted.texts))
        view = self._searches.get(both)
        if view is None:
            while len(self._searches) >= _SEARCHES:
                del self._searches[next(iter(self._searches))]
            view = self._searches[both] = View(self.book, both)
        return view

    def filter(self, wanted: Filter) -> None:
        """Show only lines that fit, from where the view stands. Raises UsageError for a wrong expression."""
        view = View(self.book, wanted)
        if not self.follow and self.cursor is not None:
            self._top = self.cursor
        self.wanted, self._view, self._fresh, self._seek = wanted, view, True, None

    def next_source(self) -> None:
        """Only one log; then only the next one; then all again."""
        known = sorted(self.book.names)
        sources = self.wanted.sources
        at = known.index(min(sources)) + 1 if sources and min(sources) in known else 0
        self.filter(replace(self.wanted, sources=frozenset(known[at : at + 1]) or None))

    def next_level(self) -> None:
        """Only warnings and worse; then errors; then all again."""
        order = {LogLevel.UNKNOWN: LogLevel.WARNING, LogLevel.WARNING: LogLevel.ERROR}
        self.filter(replace(self.wanted, level=order.get(self.wanted.level, LogLevel.UNKNOWN)))


# --- Reads a piece of a log back from its file, into a book of its own ---

_HEAD_BYTES = 400


def piece_of(book: LogBuffer, source: int, line: int) -> LogBuffer:
    """The lines around that number of a log, read from its file (blocking).

    Raises InputError, one line, where there is no such file or line.
    """
    name, path = book.names[source], book.path(source)
    if path is None:
        raise InputError(f"{plain(name, 60)}:{line} is no longer buffered, and it has no file to read")
    block = read_back(path, line, name=name)
    piece, clock, headers = LogBuffer(packs=book.packs), SourceClock(), HeaderReader(book.packs)
    for raw in block.data.split(b"\n"):
        stamp = headers.read(raw[:_HEAD_BYTES].decode("utf-8", "replace"))
        if stamp is not None:
            clock.resolve(stamp, None)
    piece.append(source, name, block, clock, path)
    return piece
