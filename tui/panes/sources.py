"""The pane of what is observed: GPUs, hosts and queues as they are now, and the freshness of each log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perfmon.viewmodel import Freshness, MonitorState, SourceStatus

from ..render.hosts.layout import ORDERS, VIEWS, Line, View, lines_of
from ..render.hosts.sections import TITLES, Key, keys_of, summary_of
from ..render.hosts.table import RenderContext
from ..render.rows import Row, Words, fitted, styled
from ..render.sources import common_ending, common_folder, freshness_word, source_row
from ..theme import ThemeStyles
from ..widgets.pane import Listing, Request

_NAMED_ORDER = 50


class SourcesPane(Listing):
    """Hosts, GPUs, queues and logs, one per row: an overview, or one kind.

    Opening a log requests the doctor; opening another thing shows all that was polled of it.
    """

    def __init__(self, skin: ThemeStyles) -> None:
        super().__init__(skin, id="sources")
        self.cursor = 0
        self.view = VIEWS[0]
        """One of `plan.VIEWS`."""
        self.whole = False
        """It has all the room: everything is shown, with headings."""
        self.order = ORDERS[0]
        """Order of the rows."""
        self.processes = False
        """The processes of each GPU are shown below it."""
        self._opened: set[Key] = set()
        self._chosen: Key | None = None
        self._picture: MonitorState | None = None
        self._sources: tuple[SourceStatus, ...] = ()
        self._names: list[str] = []
        self._folder = self._ending = ""
        self._lines: list[Line] = []
        self._look: RenderContext | None = None

    def show(self, picture: MonitorState) -> None:
        """Repaint what differs from the picture before."""
        self._picture, self._sources = picture, picture.sources
        names = [source.name for source in picture.sources]
        if names != self._names:
            self._names, self._folder, self._ending = names, common_folder(names), common_ending(names)
        self._look = RenderContext.at(picture, self.skin)
        self.redraw()

    def apply_theme(self, skin: ThemeStyles) -> None:
        """Draw everything in another theme."""
        super().apply_theme(skin)
        if self._picture is not None:
            self.show(self._picture)

    @property
    def selected(self) -> SourceStatus | None:
        """The log under the cursor."""
        line = self._current
        return None if line is None else line.source

    @property
    def _current(self) -> Line | None:
        at = self.cursor or 0
        return self._lines[at] if at < len(self._lines) and self._lines[at].key is not None else None

    def show_view(self, view: str) -> None:
        """Show another kind of thing."""
        self.view, self.top, self.cursor, self._chosen = view, 0, 0, None
        self.redraw()

    # --- drawing ------------------------------------------------------------------------------------------------------
    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The title, and the lines in sight."""
        self._lines = self._plan(width, height - 1) if self._look is not None else []
        self._keep_cursor()
        return super().rows(width, height)

    def _plan(self, width: int, room: int) -> list[Line]:
        assert self._look is not None  # noqa: S101
        view = View(self.view, width, room, self._opened, self.processes, self.whole, self.order)
        return lines_of(self._look, view, self._sources, lambda source: self._log_row(source, width))

    def _log_row(self, source: SourceStatus, width: int) -> Words:
        return source_row(source, self.skin, width, self._folder, self._ending)

    def _keep_cursor(self) -> None:
        """It stays on its thing, wherever that stands now."""
        keys = [line.key for line in self._lines]
        if self._chosen is not None and self._chosen in keys:
            self.cursor = keys.index(self._chosen)
            return
        at = max(0, min(self.cursor or 0, len(keys) - 1))
        stops = [place for place, key in enumerate(keys) if key is not None]
        self.cursor = min(stops, key=lambda place: (abs(place - at), place), default=0)

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title."""
        place = self.place(height - 1) if width >= 44 else ""
        machines = self._look is not None and self._look.any
        title = TITLES[self.view if machines or self.view != "auto" else "sources"]
        title += f", {self.order}" if self.order and width >= _NAMED_ORDER else ""
        own = keys_of(machines or self.view != "auto", width) if self.has_focus else ""
        keys = "  ".join(part for part in (place, own) if part)
        return (self.title_row(3, title, self.summary(width), keys, width),)

    def summary(self, width: int = 1000) -> str:
        """`4 GPUs 96% · 2 hosts · 3 logs · 1 silent`: what is silent is named."""
        counts = Counter(source.freshness for source in self._sources)
        logs = [f"{len(self._sources)} {'log' if len(self._sources) == 1 else 'logs'}"]
        logs += [
            f"{counts[kind]} {freshness_word(kind)}"
            for kind in Freshness
            if kind is not Freshness.FRESH and counts[kind]
        ]
        return summary_of(self._look, self.view, logs, width)

    def count(self) -> int:
        """One line shows that there is nothing."""
        return max(1, len(self._lines))

    def line(self, at: int, width: int, ground: str) -> Row:
        """A log, or whatever else is observed."""
        if at >= len(self._lines):
            return ((f" {self.skin.glyph('waiting')} no logs yet", self.skin.style("muted")),)
        line = self._lines[at]
        row = styled(line.draw(), self.skin, ground)
        # Names that others gave may take other cells on a terminal: such a row is painted as a whole.
        return fitted(row, width, self.skin.style("text", ground)) if line.foreign else row

    def stops_at(self, at: int) -> bool:
        """Everything but headings can be chosen."""
        return at < len(self._lines) and self._lines[at].key is not None

    # --- acting -------------------------------------------------------------------------------------------------------
    def moved(self) -> None:
        """The cursor stays on what it was put on."""
        line = self._current
        self._chosen = None if line is None else line.key

    def do_open(self) -> None:
        """Open the parse coverage of a log, or show or hide all values of another item."""
        line = self._current
        if line is None:
            return
        if line.source is not None:
            self.post_message(Request("doctor", line.source))
        elif line.key is not None:
            self._opened ^= {line.key}
            self._chosen = line.key
            self.redraw()

    def do_sort(self) -> None:
        """Sort by host and name, by use, or by memory."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self.redraw()

    def do_processes(self) -> None:
        """The processes of each GPU come or go."""
        self.processes = not self.processes
        self.redraw()
