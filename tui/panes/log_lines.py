"""Log lines and their title: all logs merged by time, following or at a position."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partialmethod

from textual.timer import Timer

from perfmon.core import InputError, evidence_text, plain, short_duration
from perfmon.diagnosis import EvidenceLine
from perfmon.logbuffer import Filter, Line, LogBuffer, Place, Query, Tally

from ..log_view import FOLDED, LogView, piece_of
from ..render.logs import UNMARKED, Columns, Marked, gaps_of, histogram_row, log_row, short_names
from ..render.rows import Row, cells
from ..theme import ThemeStyles
from ..widgets.pane import Pane

# --- Title of the log pane: the visible part of the logs ---


@dataclass(frozen=True, slots=True)
class Search:
    """The last search."""

    noun: str
    wanted: Filter
    query: Query | None = None
    """The text, which stays highlighted."""


_KEYS = ("/ find", "e error", "& only", "f log", "v level", "A access", "r update", "m mark", "O pager")
_TAKEN = 18
"""Cells of a title that have other uses in any case."""


def keys_within(room: int) -> str:
    """As many of the pane's keys as a title of `room` cells can name."""
    texts = ("  ".join(_KEYS[:count]) for count in range(len(_KEYS), 0, -1))
    return next((text for text in texts if len(text) + _TAKEN <= room), "")


def title_text(view: LogView, search: Search | None, note: str, *, piece: bool) -> str:
    """The hits first, and `note`; `piece` when it shows lines that were read back from a file."""
    wanted = view.wanted
    parts = [] if search is None else [_tally_text(search, view.tally(search.wanted))]
    parts += [plain(note, 120)] if note else []
    if piece:
        parts.append("read from the file: End returns")
    elif not view.follow:
        parts.append(f"+{_grouped(view.unseen)} line{'s' * (view.unseen != 1)}" if view.unseen else "not following")
        parts[-1] += ", end follows"
    if wanted.sources:
        names = short_names(view.book.names)
        parts.append("only " + ", ".join(names.get(source, "?") for source in sorted(wanted.sources)))
    if wanted.level:
        parts.append(f"{wanted.level.name.lower()} and worse")
    if wanted.trace:
        parts.append(f"update {plain(wanted.trace, 30)}")
    parts += [f"with {plain(text, 40)}" for text in wanted.texts]
    if view.searching or view.waiting:
        parts.append("searching …")
    lost = 0 if view.follow else view.book.totals().lost_lines
    if lost:
        parts.append(f"{_grouped(lost)} older lines dropped")
    return " · ".join(parts)


def _tally_text(search: Search, tally: Tally) -> str:
    """`hit 12 of 214 for queue`, `3 error lines`, `no hits for x`."""
    more = "" if tally.complete else "+"
    of = f" for {plain(search.query.query, 40)}" if search.query is not None else ""
    if not tally.total and tally.complete:
        return f"no {search.noun}s{of} in the lines that are kept"
    if tally.at:
        return f"{search.noun} {_grouped(tally.at)} of {_grouped(tally.total)}{more}{of}"
    return f"{_grouped(tally.total)}{more} {search.noun}{'s' * (tally.total != 1)}{of}"


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", "\u202f")


# --- The pane of log lines: all logs merged by time, following, searched, filtered ---

_PACE_S = 0.1
_SHARE = 0.15
"""Of a core, for lines that come: those of a thousand logs take long to put in order."""
_EARLY_S = 0.03
"""So much sooner is as good: what comes in rounds is shown in the same round."""
_RESUME_S = 0.015
_COUNT_S = 1.0
_LEVELS_SHARE = 0.002
"""Of a core, for counting the lines over time: the past changes little."""
_SLID_SHARE = 0.02
"""An axis that moves by less of its length is still the same one."""
_WITH_LEVELS = 9
"""Rows from which on one shows the lines over time."""
_SIDEWAYS = 20
_KEPT_ROWS = 512


def _slid(before: tuple[float, float], after: tuple[float, float]) -> bool:
    """Return true if an axis only went on with the time, by little of its length."""
    length, by = after[1] - after[0], after[1] - before[1]
    return 0.0 <= by <= _SLID_SHARE * length and abs(before[1] - before[0] - length) <= _SLID_SHARE * length


class LogLines(Pane, can_focus=True):
    """The lines of a log buffer: painted when lines arrive, and at most five times a second."""

    def __init__(self, skin: ThemeStyles, book: LogBuffer) -> None:
        super().__init__(skin, id="log")
        self.book = book
        self._search: Search | None = None
        self.view = LogView(book)
        self.note = ""
        """Message of the last key, until the next one."""
        self._live = self.view
        """The view of the running logs; another one is shown while a piece of a file is."""
        self._evidence: frozenset[tuple[str, int]] = frozenset()
        self._marks: set[Place] = set()
        self._begin = 0
        self._cause: Place | None = None
        self._version = -1
        self._painted = self._cost_s = 0.0
        self._timer: Timer | None = None
        self._columns: Columns | None = None
        self._basis: tuple[object, ...] = ()
        """Input of the column layout."""
        self._made: dict[Place, tuple[Line, Marked, Row]] = {}
        self._names: dict[int, str] = {}
        self._short: dict[int, str] = {}
        self._top_row = 0
        self.span = (0.0, 0.0)
        """The part of the axis of the timeline, over which lines are counted."""
        self._counts: list[list[float]] = []
        self._counted: tuple[int, float, float, int] = (0, 0.0, 0.0, -1)
        """Columns, axis, and version of the book of what was counted."""
        self._levels_row: Row = ()
        self._next_count = 0.0
        self._count_timer: Timer | None = None

    # --- what comes in ------------------------------------------------------------------------------------------
    def update(self) -> None:
        """Something may have been appended: paints it at once after a quiet moment, else when it is time."""
        if not self.display or not self.is_mounted or self._version == self.book.version or self._timer is not None:
            return
        pace = max(_PACE_S, self._cost_s / _SHARE) if self.view.follow else _COUNT_S
        left = self._painted + pace - time.monotonic()
        if left <= _EARLY_S:
            self.redraw()
        else:
            self._timer = self.set_timer(left, self._due)

    def _due(self) -> None:
        self._timer = None
        self.view.go_on()
        self.redraw()

    def look(self, begin: float, end: float) -> None:
        """Count lines over that part of the axis: at once if another time is shown, soon if only the present moves."""
        if self.span == (begin, end):
            return
        moved = not _slid(self.span, (begin, end))
        self.span = (begin, end)
        if self._top_row > 1 and self.display:
            if moved:
                self.redraw()
            else:
                self._recount_later()

    def on_show(self) -> None:
        """Lines that arrived while it was hidden."""
        self.redraw()

    def evidence(self, lines: Iterable[EvidenceLine]) -> None:
        """Lines that findings rest on: they have a sign."""
        fresh = frozenset((line.source, line.line) for line in lines)
        if fresh != self._evidence:
            self._evidence = fresh
            self.redraw()

    # --- drawing ------------------------------------------------------------------------------------------------
    def redraw(self) -> None:
        """Repaint what has changed."""
        self._painted, began = time.monotonic(), time.thread_time()
        super().redraw()
        self._cost_s = time.thread_time() - began
        if (self.view.waiting or self.view.searching) and self._timer is None and self.is_mounted:
            self._timer = self.set_timer(_RESUME_S, self._due)

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The title, and the lines in sight."""
        self._version = self.book.version
        view = self.view
        levels = self._levels(width) if height >= _WITH_LEVELS else None
        self._top_row = int(height > 1) + (levels is not None)
        view.height = max(1, height - self._top_row)
        view.fill()
        if view.problem:
            self.note, view.problem, self._search = view.problem, "", None
        columns = self._laid_out(width)
        if columns is not self._columns:
            self._columns = columns
            self._made.clear()
        gaps = gaps_of(view.lines) if columns.gaps else {}
        rows = [self._row(line, gaps.get(at), columns) for at, line in enumerate(view.lines)]
        if not rows and view.wanted != FOLDED and not (view.waiting or view.searching):
            rows = [((" no buffered line matches: x clears the filters", self.skin.style("muted")),)]
        head = [self._title(width)] if self._top_row else []
        return [*head, *([levels] if levels is not None else []), *rows]

    def _levels(self, width: int) -> Row | None:
        """The lines over time; where counting takes long they are counted rarely, as the past changes little."""
        begin, end = self.span
        right = f"{short_duration(end - begin)} "
        columns = width - cells(right) - 2
        if end <= begin or columns < 1:
            return None
        wanted, now, counted = (columns, begin, end, self.book.version), time.monotonic(), self._counted
        moved = counted[0] != columns or not _slid(counted[1:3], self.span)
        if moved or (wanted != counted and now >= self._next_count):
            began = time.thread_time()
            self._counts = self.book.histogram(begin, (end - begin) / columns, columns)
            self._levels_row = histogram_row(self._counts, right, self.skin)
            self._counted = wanted
            rest_s = max(_COUNT_S, (time.thread_time() - began) / _LEVELS_SHARE)
            self._next_count = now if moved else now + rest_s  # another size may come with another axis, right after
        elif wanted != counted:
            self._recount_later()
        return self._levels_row

    def _recount_later(self) -> None:
        if self._count_timer is None:
            self._count_timer = self.set_timer(max(0.0, self._next_count - time.monotonic()), self._recount)

    def _recount(self) -> None:
        self._count_timer = None
        if time.monotonic() >= self._next_count:  # else a line that came in between had it counted
            self.redraw()

    def _laid_out(self, width: int) -> Columns:
        wanted, book = self.view.wanted, self.view.book
        queries = tuple(Query(text) for text in wanted.texts if text) if wanted.texts else ()
        if self._columns is not None and queries:
            old = {query.query: query for query in self._columns.queries}
            queries = tuple(old.get(query.query, query) for query in queries)
        if self._search is not None and self._search.query is not None:
            queries = (*queries, self._search.query)
        names = book.names
        if names != self._names:
            self._names, self._short = names, short_names(names)
        basis = (width, self._short, bool(wanted.trace), book.dated, self._begin, queries)
        if self._columns is None or basis != self._basis:
            self._basis = basis
            return Columns.of(
                width, self._short, gaps=basis[2], wall=basis[3], begin=self._begin, queries=queries
            )  # fmt: skip
        return self._columns

    def _row(self, line: Line, gap: float | None, columns: Columns) -> Row:
        view, place = self.view, line.place
        marked = UNMARKED
        selected = not view.follow and place == view.cursor
        evidence = bool(self._evidence) and (self._names.get(line.source, ""), line.number) in self._evidence
        remembered = bool(self._marks) and view is self._live and place in self._marks
        folded = view.folded(line) if "HTTP/" in line.text or line.text.startswith("[GIN]") else 0
        if selected or evidence or remembered or gap is not None or folded:
            marked = Marked(selected, evidence, remembered, gap, folded)
        held = self._made.get(place)
        if held is not None and held[0] is line and held[1] == marked:
            return held[2]
        if len(self._made) >= _KEPT_ROWS:
            self._made.clear()
        row = log_row(line, columns, self.skin, marked)
        self._made[place] = line, marked, row
        return row

    def _title(self, width: int) -> Row:
        left = title_text(self.view, self._search, self.note, piece=self.view is not self._live)
        keys = keys_within(width - cells(left)) if self.has_focus else ""  # elsewhere they are of another pane
        return self.title_row(4, "LOG", left, keys, width)

    def apply_theme(self, skin: ThemeStyles) -> None:
        """Put on another skin."""
        self._made.clear()
        self._counted = (0, 0.0, 0.0, -1)
        super().apply_theme(skin)

    def _moved(self, note: str = "") -> None:
        self.note = note
        self.redraw()

    # --- moving -------------------------------------------------------------------------------------------------
    def follow(self) -> None:
        """Show the newest lines as they come."""
        self.view = self._live
        self.view.release()
        self._moved()

    def move(self, method: str, *arguments: int) -> None:
        """Call a method of the view, and show what it did."""
        getattr(self.view, method)(*arguments)
        self._moved()

    do_up = partialmethod(move, "move", -1)
    do_down = partialmethod(move, "move", 1)
    do_page_up = partialmethod(move, "page", -1)
    do_page_down = partialmethod(move, "page", 1)
    do_top = partialmethod(move, "top")
    do_bottom = follow

    def do_scroll_left(self) -> None:
        """To the beginning of long lines."""
        self._begin = max(0, self._begin - _SIDEWAYS)
        self._moved()

    def do_scroll_right(self) -> None:
        """On in long lines."""
        longest = max((len(line.text) for line in self.view.lines), default=0)
        self._begin = min(self._begin + _SIDEWAYS, max(0, longest - _SIDEWAYS))
        self._moved()

    def jump_time(self, when: float) -> None:
        """To the first line at or after a moment on the run's axis."""
        self.view = self._live
        self.view.at(when)
        self._moved()

    def jump(self, source: str, line: int, text: str = "") -> None:
        """To a line of a log, as evidence names it; one that is no longer buffered is read back from its file."""
        self.view = self._live
        if self.view.find(source, line, text):
            self._moved()
            return
        index = next((at for at, name in self.book.names.items() if name == source), None)
        path = None if index is None else self.book.path(index)
        if path is None or index is None:
            self._moved(f"{plain(source, 60)}:{line} is no longer buffered")
            return
        self._moved(f"loading {plain(source, 60)}:{line} …")
        self.run_worker(lambda: self._read_back(index, source, line), thread=True, exclusive=True, group="read-back")

    def show_cause(self, line: EvidenceLine | None) -> None:
        """Bring the line that a run has failed by into view, once, from the end of the logs; None: follow that."""
        if line is None:
            if self._cause is not None and self.view.cursor == self._cause:
                self.follow()
            self._cause = None
        elif self._cause is None and self.view is self._live and self.view.follow:
            self.view.fill()
            names = self.book.names
            if any(names.get(one.source) == line.source and one.number == line.line for one in self.view.lines):
                return
            if self.view.find(line.source, line.line, evidence_text(line.text)):
                self._cause = self.view.cursor
                self._moved("the run failed here")

    def _read_back(self, index: int, source: str, line: int) -> None:
        """Read a piece of a file (in a worker)."""
        try:
            piece = piece_of(self.book, index, line)
        except InputError as error:
            self.app.call_from_thread(self._moved, str(error))
            return
        self.app.call_from_thread(self._show_piece, piece, source, line)

    def _show_piece(self, book: LogBuffer, source: str, line: int) -> None:
        self.view = LogView(book)
        self.view.height = self._live.height
        self.view.find(source, line)
        self._moved()
