"""The pane of log lines: search, filters, marks, and requests about one line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partialmethod

from textual.events import Click, MouseScrollDown, MouseScrollUp

from perfmon.core import UsageError, plain
from perfmon.diagnosis import EvidenceLine
from perfmon.logbuffer import EVERYTHING, Filter, LogLevel, Query

from ..widgets.overlays import Prompt
from ..widgets.pane import Request
from .log_lines import LogLines

_WHEEL = 3


class LogPane(LogLines):
    """The lines of a log buffer; errors in search and filters are shown in the title."""

    # --- searching ----------------------------------------------------------------------------------------------
    def do_search(self) -> None:
        """Prompt for what to find."""
        old = self._query.query if self._query is not None else ""
        self._prompt("find (text, or /regex/)", old, self.search)

    def _prompt(self, question: str, old: str, use: Callable[[str], None]) -> None:
        self.app.push_screen(Prompt(question, old), lambda text: None if text is None else use(text))

    def search(self, text: str) -> None:
        """Highlight a text, and go to the last line in or above view that has it; "" ends the search."""
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

    def _seek_match(self, onward: bool) -> None:
        if self._query is None:
            self._moved("no search yet: / starts one")
            return
        what = f"with {plain(self._query.query, 40)}"
        self._seek(Filter(texts=(self._query.query,)), onward, lambda: self._missed(what, "nN", onward))

    do_next_match = partialmethod(_seek_match, True)
    do_previous_match = partialmethod(_seek_match, False)

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

    def _seek_error(self, onward: bool) -> None:
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

    do_next_error = partialmethod(_seek_error, True)
    do_previous_error = partialmethod(_seek_error, False)

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
        """Show all lines again."""
        self._query = None
        self.filter(EVERYTHING)

    # --- one line -----------------------------------------------------------------------------------------------
    def do_mark(self) -> None:
        """Mark the current line, or take its mark away."""
        line = self.view.current
        if line is not None and self.view is self._live:
            self._marks ^= {line.place}
            self._moved()

    def do_next_mark(self) -> None:
        """Go to the next marked line, after the last one to the first."""
        known = [line for place in self._marks if (line := self.book.view().line(place)) is not None]
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
