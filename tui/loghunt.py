"""Search and filters of the log pane."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from perfmon.errors import UsageError
from perfmon.logbook import EVERYTHING, Filter, LogLevel, Query
from perfmon.text import plain

from .logview import LogView
from .pane import Pane
from .skin import Skin


class Hunting(Pane):
    """The half of `LogPane` that searches and filters; what is wrong is told in the title."""

    view: LogView
    note: str

    def __init__(self, skin: Skin, *, id: str | None = None) -> None:
        super().__init__(skin, id=id)
        self.events: Callable[[], Iterable[float]] = tuple
        """Moments of critical events, on the run's axis: where `e` and `E` go, besides lines that are errors."""
        self._query: Query | None = None

    def _moved(self, note: str = "") -> None:
        raise NotImplementedError

    def jump_time(self, when: float) -> None:
        """To the first line at or after a moment on the run's axis."""
        raise NotImplementedError

    # --- searching ----------------------------------------------------------------------------------------------
    def do_search(self) -> None:
        """Asks what to find."""
        old = self._query.query if self._query is not None else ""
        from .screens.prompt import Prompt

        self.app.push_screen(Prompt("find (text, or /regex/)", old), self._asked_search)

    def _asked_search(self, text: str | None) -> None:
        if text is not None:
            self.search(text)

    def search(self, text: str) -> None:
        """Highlights a text, and goes to the last line in or above sight that has it; "" ends the search."""
        try:
            self._query = Query(text) if text else None
        except UsageError as error:
            self._moved(str(error))
            return
        lines = self.view.lines
        if self._query is not None and not any(self._query.spans(line.text) for line in lines):
            self.do_previous_match()
        else:
            self._moved()

    def do_next_match(self) -> None:
        """To the next line that has what is searched."""
        self._seek_match(onward=True)

    def do_previous_match(self) -> None:
        """To the one before."""
        self._seek_match(onward=False)

    def _seek_match(self, *, onward: bool) -> None:
        if self._query is None:
            self._moved("no search yet: / starts one")
            return
        what = f"with {plain(self._query.query, 40)}"
        self._seek(Filter(texts=(self._query.query,)), onward, lambda: self._missed(what, "nN", onward))

    def _seek(self, wanted: Filter, onward: bool, missed: Callable[[], None]) -> None:
        self.note = ""
        try:
            self.view.seek(wanted, onward=onward, missed=missed)
        except UsageError as error:
            self.note = str(error)
        self.redraw()

    def _missed(self, what: str, keys: str, onward: bool) -> None:
        other = f"{keys[1]} searches backward" if onward else f"{keys[0]} searches forward"
        self.note = f"no {'later' if onward else 'earlier'} line {what} ({other})"

    def do_next_error(self) -> None:
        """To the next error, or critical event."""
        self._seek_error(onward=True)

    def do_previous_error(self) -> None:
        """To the one before."""
        self._seek_error(onward=False)

    def _seek_error(self, *, onward: bool) -> None:
        current = self.view.current
        here = current.time if current is not None else None
        times = [when for when in self.events() if here is not None and (when > here if onward else when < here)]
        event = (min(times) if onward else max(times)) if times else None

        def missed() -> None:
            if event is None:
                self._missed("that is an error", "eE", onward)
            else:
                self.view.at(event)

        self._seek(Filter(level=LogLevel.ERROR), onward, missed)
        found = self.view.current
        if event is not None and found is not None and found.time is not None:
            sooner = event < found.time if onward else event > found.time
            if sooner and not self.view.searching and found is not current:
                self.jump_time(event)

    # --- filtering ----------------------------------------------------------------------------------------------
    def filter(self, wanted: Filter) -> None:
        """Shows only lines that fit; a wrong expression is told in the title."""
        try:
            self.view.filter(wanted)
        except UsageError as error:
            self._moved(str(error))
            return
        self._moved()

    def do_filter_text(self) -> None:
        """Asks for a text that lines have to have."""
        old = self.view.wanted.texts
        from .screens.prompt import Prompt

        self.app.push_screen(Prompt("only lines with (text, or /regex/)", old[-1] if old else ""), self._asked_filter)

    def _asked_filter(self, text: str | None) -> None:
        if text is not None:
            self.filter(replace(self.view.wanted, texts=(text,) if text else ()))

    def do_filter_source(self) -> None:
        """Only one log, then the next one, then all."""
        self.view.next_source()
        self._moved()

    def do_filter_level(self) -> None:
        """Only warnings and worse, then errors, then all."""
        self.view.next_level()
        self._moved()

    def do_filter_trace(self) -> None:
        """Only the trace of the current line, with the gaps between its lines; again: all."""
        line, wanted = self.view.current, self.view.wanted
        if wanted.trace:
            self.filter(replace(wanted, trace=""))
        elif line is not None and line.trace:
            self.filter(replace(wanted, trace=line.trace))
        else:
            self._moved("this line belongs to no weight update")

    def do_clear_filters(self) -> None:
        """All lines again."""
        self._query = None
        self.filter(EVERYTHING)
