"""The pane of log lines: search, filters, marks, and requests about one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partialmethod

from textual.events import Click, MouseScrollDown, MouseScrollUp

from perfmon.core import UsageError
from perfmon.diagnosis import EvidenceLine
from perfmon.logbuffer import Filter, LogLevel, Query, View

from ..log_view import FOLDED
from ..widgets.overlays import Prompt
from ..widgets.pane import Request
from .log_lines import LogLines, Search

_WHEEL = 3


class LogPane(LogLines):
    """The lines of a log buffer; errors in search and filters are shown in the title."""

    # --- searching ----------------------------------------------------------------------------------------------
    def do_search(self) -> None:
        """Prompt for what to find."""
        query = self._search.query if self._search is not None else None
        self._prompt("find (text, or /regex/)", "" if query is None else query.query, self.search)

    def _prompt(self, question: str, old: str, use: Callable[[str], None]) -> None:
        self.app.push_screen(Prompt(question, old), lambda text: None if text is None else use(text))

    def search(self, text: str) -> None:
        """Highlight a text, and go to the nearest line above that has it; "" ends the search."""
        try:
            query = Query(text) if text else None
        except UsageError as error:
            self._moved(str(error))
            return
        self._search = None if query is None else Search("hit", Filter(texts=(text,)), query)
        current = self.view.current
        if query is None or (not self.view.follow and current is not None and query.spans(current.text)):
            self._moved()
        else:
            self._seek(onward=False)

    def _seek_match(self, onward: bool) -> None:
        if self._search is None or self._search.query is None:
            self._moved("no search yet: / in this pane starts one")
        else:
            self._seek(onward)

    do_next_match = partialmethod(_seek_match, True)
    do_previous_match = partialmethod(_seek_match, False)

    def _seek_error(self, onward: bool) -> None:
        self._search = Search("error line", Filter(level=LogLevel.ERROR))
        self._seek(onward)

    do_next_error = partialmethod(_seek_error, True)
    do_previous_error = partialmethod(_seek_error, False)

    def _seek(self, onward: bool) -> None:
        """To the nearest line that is looked for; the title shows which one of how many it is."""
        if self._search is None:
            return

        def over(where: str) -> None:
            if where == "wrapped":
                self.note = "wrapped to the first" if onward else "wrapped to the last"

        self.note = ""
        try:
            self.view.seek(self._search.wanted, onward=onward, over=over)
        except UsageError as error:
            self.note, self._search = str(error), None
        self.redraw()

    # --- filtering ----------------------------------------------------------------------------------------------
    def filter(self, wanted: Filter) -> None:
        """Show only lines that match; a wrong expression is reported in the title."""
        try:
            self.view.filter(wanted)
        except UsageError as error:
            self._moved(str(error))
            return
        self._moved()

    def do_filter_text(self) -> None:
        """Prompt for a text that lines must have."""
        old = self.view.wanted.texts
        self._prompt("only lines with (text, or /regex/)", old[-1] if old else "", self._filter_text)

    def _filter_text(self, text: str) -> None:
        self.filter(replace(self.view.wanted, texts=(text,) if text else ()))

    do_filter_source = partialmethod(LogLines.move, "next_source")
    do_filter_level = partialmethod(LogLines.move, "next_level")

    def do_filter_trace(self) -> None:
        """Show only the weight update of the current line, with the gaps between its lines; again: all."""
        line, wanted = self.view.current, self.view.wanted
        if wanted.trace:
            self.filter(replace(wanted, trace=""))
        elif line is not None and line.trace:
            self.filter(replace(wanted, trace=line.trace))
        else:
            self._moved("this line belongs to no weight update")

    def do_clear_filters(self) -> None:
        """Show all lines again, but those of requests folded."""
        self._search = None
        self.filter(FOLDED)

    def do_fold(self) -> None:
        """Show every line of a request that was served, or only the first of those in a row."""
        folds = not self.view.wanted.folds
        self.filter(replace(self.view.wanted, folds=folds))
        self._moved("access lines are folded" if folds else "access lines are shown")

    # --- one line -----------------------------------------------------------------------------------------------
    def do_mark(self) -> None:
        """Mark the current line, or take its mark away."""
        line = self.view.current
        if line is not None and self.view is self._live:
            self._marks ^= {line.place}
            self._moved()

    def do_next_mark(self) -> None:
        """Go to the next marked line, after the last one to the first."""
        known = [line for place in self._marks if (line := View(self.book).line(place)) is not None]
        current = self.view.current
        if not known or current is None:
            self._moved("no marked lines: m marks one")
            return
        self.view = self._live
        known.sort(key=lambda line: (line.time or 0.0, line.place))
        here = (current.time or 0.0, current.place)
        self.view.show(next((line for line in known if (line.time or 0.0, line.place) > here), known[0]).place)
        self._moved()

    @property
    def current(self) -> EvidenceLine | None:
        """The current line, as evidence names it."""
        line = self.view.current
        return None if line is None else EvidenceLine(self.view.book.names.get(line.source, ""), line.number, line.text)

    def _request(self, action: str) -> None:
        if self.current is not None:
            self.post_message(Request(action, self.current))

    do_yank = partialmethod(_request, "copy")
    do_pager = partialmethod(_request, "pager")

    def do_open(self) -> None:
        """Show more of what the current line is about."""
        if self.view.current is not None:
            self.post_message(Request("line", self.view.current))

    # --- mouse --------------------------------------------------------------------------------------------------
    def on_click(self, event: Click) -> None:
        """Choose a line by a click; open it by a second one."""
        at = event.y - self._top_row
        lines = self.view.lines
        if event.y == 1 and self._top_row == 2 and 0 < event.x <= len(self._counts):
            event.stop()
            begin, end = self.span
            self.jump_time(begin + (event.x - 1) * (end - begin) / len(self._counts))
            return
        if not 0 <= at < len(lines):
            return
        event.stop()
        self.view.hold()
        self.view.cursor = lines[at].place
        self._moved()
        if event.chain == 2:
            self.do_open()

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        """Scroll up."""
        event.stop()
        self.move("scroll", -_WHEEL)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        """Scroll down; at the end it follows again."""
        event.stop()
        self.move("scroll", _WHEEL)
