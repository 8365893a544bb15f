"""Visibility and focus of panes."""

from __future__ import annotations

from perfmon.text import evidence_text

from ..layout import PRESETS
from ..panes.logs import LogPane
from ..render.machines.plan import VIEWS
from .base import Base

PANES = ("board", "alerts", "sources", "log")


class Arranging(Base):
    """Panes come, go, and are zoomed."""

    def do_next_pane(self) -> None:
        """The keys go on."""
        self._turn_focus(1)

    def do_previous_pane(self) -> None:
        """The keys go back."""
        self._turn_focus(-1)

    def _turn_focus(self, by: int) -> None:
        if self.zoomed:  # the next one has all the room then
            self.zoomed = PANES[(PANES.index(self.zoomed) + by) % len(PANES)]
            self.arrange()
            self.focus_first()
        elif by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()

    def _toggle(self, pane: str) -> None:
        """Of an arrangement with fewer panes this makes one's own; in a strip, panes are shown one at a time."""
        shown = self.shown_panes()
        if self.zoomed or self.strip:
            self.zoomed = None if self.zoomed == pane else pane
        elif shown == {pane}:
            self.say("the last pane cannot be closed")
        else:
            self.preset, self.hidden = "overview", (set(PANES) - shown) ^ {pane}
        self.arrange()
        if self.zoomed:
            self.focus_first()

    def do_pane_board(self) -> None:
        """The timeline comes or goes."""
        self._toggle("board")

    def do_pane_alerts(self) -> None:
        """The alerts come or go."""
        self._toggle("alerts")

    def do_pane_sources(self) -> None:
        """The sources come or go."""
        self._toggle("sources")

    def do_pane_log(self) -> None:
        """The log comes or goes."""
        self._toggle("log")

    def do_next_view(self) -> None:
        """Pane 3 shows the next kind of thing; it comes first where it was hidden."""
        at = VIEWS.index(self.sources.view) + self.sources.display
        self._look_at(VIEWS[at % len(VIEWS)])

    def do_machines(self) -> None:
        """Show the overview of GPUs, hosts and queues."""
        self._look_at("auto")

    def do_gpus(self) -> None:
        """Every GPU."""
        self._look_at("gpus")

    def do_hosts(self) -> None:
        """Every host."""
        self._look_at("hosts")

    def do_queues(self) -> None:
        """Every queue."""
        self._look_at("queues")

    def do_sources(self) -> None:
        """The logs, and who polls."""
        self._look_at("sources")

    def _look_at(self, view: str) -> None:
        """Shows pane 3, whatever was shown, with one kind of thing in it, and gives it the keys."""
        self.uncover()
        if view != self.sources.view:
            self.sources.look_at(view)
        if self.strip or self.zoomed:
            self.zoomed = "sources"
        elif "sources" not in self.shown_panes():
            self._toggle("sources")
        self.arrange()
        self.sources.show(self.monitor.picture)
        self.sources.focus()

    def do_processes(self) -> None:
        """The processes of each GPU."""
        self.sources.do_processes()

    def do_zoom(self) -> None:
        """The pane with the keys has all the room, or all have theirs again."""
        self.zoomed = None if self.zoomed else self.pane_name
        self.arrange()

    def do_preset(self) -> None:
        """The next arrangement."""
        at = PRESETS.index(self.preset) if self.preset in PRESETS else 0
        self.choose_preset(PRESETS[(at + 1) % len(PRESETS)])

    def choose_preset(self, name: str) -> None:
        """An arrangement by name."""
        self.preset, self.zoomed, self.hidden = name, None, set()
        self.arrange()

    def jump_to_line(self, source: str, line: int, text: str = "") -> None:
        """Shows a line of a log where it stands; `text` tells it from others that had its number before a rotation."""
        self.show_log()
        self.log_pane.jump(source, line, evidence_text(text))

    def show_log(self) -> None:
        """Shows the log, whatever was shown, and gives it the keys."""
        self.uncover()
        if self.strip or self.zoomed:
            self.zoomed = "log"
        elif "log" not in self.shown_panes():
            self._toggle("log")
        self.arrange()
        self.log_pane.focus()

    def _log_in_sight(self) -> LogPane:
        if not self.log_pane.display:
            self.show_log()
        return self.log_pane

    def do_next_match(self) -> None:
        """The next line that has what is searched."""
        self._log_in_sight().do_next_match()

    def do_previous_match(self) -> None:
        """The one before."""
        self._log_in_sight().do_previous_match()

    def do_next_error(self) -> None:
        """The next error."""
        self._log_in_sight().do_next_error()

    def do_previous_error(self) -> None:
        """The one before."""
        self._log_in_sight().do_previous_error()
