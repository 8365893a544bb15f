"""The live monitor: panes, keys, and what happens between them and the monitor's thread."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from dataclasses import replace
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.events import Resize
from textual.filter import LineFilter
from textual.geometry import Size
from textual.widget import Widget

from perfmon.diagnosis import Diagnosis
from perfmon.monitor import Monitor
from perfmon.viewmodel import MonitorState

from .actions import Action, by_key, chosen
from .app_base import Journey, OwnCost
from .handlers.open import ActionHandlers
from .handlers.view import PANES
from .layout import Layout, Room, layout_for, shares
from .panes.alerts import AlertPane
from .panes.logs import LogPane
from .panes.sources import SourcesPane
from .panes.status import AnswerPane, FooterPane, HeaderPane
from .panes.timeline import BoardPane
from .render.header_footer import Place
from .terminal.driver import SturdyDriver, TypedAhead, filters_for
from .terminal.suspend import Leaving, terminal_is_gone
from .theme import ThemeStyles, depth_of
from .widgets.pane import Pane

if TYPE_CHECKING:
    from .messages import AppOptions


_SAID_S = 6.0
_STUCK_S = 5.0
"""After so long without an answer to the monitor it is asked whether there is a terminal at all."""
_AHEAD_S = 0.03
"""What the first frame takes to get to the terminal, once it is drawn: who reads must not be in its way."""
_SLOWLY_S = 0.9
"""Ages and rates are told this far apart."""
_TICK_S = 2.0
_UNSEEN_S = 1.5
"""Pictures show the header, too: only where none came for so long is it shown for its own sake."""


class PerfmonApp(ActionHandlers, Leaving, TypedAhead, inherit_bindings=False):
    """The screen of a monitor, which it starts and stops.

    Keys are those of `tui.actions` alone: Textual's own ctrl+q, which elsewhere lets a stopped terminal go on, would
    quit.
    """

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; overflow: hidden; background: $background; }
    Prompt { background: transparent; }
    #lower { width: 1fr; }
    """

    def __init__(self, monitor: Monitor, opening: AppOptions) -> None:
        super().__init__(driver_class=SturdyDriver)
        self.monitor, self.opening = monitor, opening
        self.picture: MonitorState = monitor.picture
        """What is shown; the newest one unless the view is frozen."""
        self.journey = Journey(monitor.window_s, monitor.window_s)
        self.preset = opening.layout
        self.hidden: set[str] = set()
        self.zoomed: str | None = None
        self.theme_name = opening.theme
        self._layout: Layout | None = None
        self._room = Room()
        self._listed_at = 0.0
        self._shown: tuple[object, ...] = (None,)
        self._keys = by_key(opening.keys)
        self._cost = OwnCost()
        self._woken, self._woken_at = False, 0.0
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._own_context: Context | None = None
        """The loop of the screen, and what Textual looks up its app in."""
        self._said, self._said_at = "", 0.0
        self._told: tuple[str, ...] = ()
        self._placed: Place | None = None
        """The place that header and footer told last."""
        self._judged: Diagnosis | None = None
        depth = depth_of(self.console.color_system, self.no_color)
        self.skin = ThemeStyles(opening.themes[opening.theme], depth, opening.glyphs)
        for theme in opening.themes.values():
            self.register_theme(ThemeStyles(theme, depth, opening.glyphs).textual_theme())
        self.theme = opening.theme
        for key in self._keys:
            self._bindings.bind(key, f"key({key!r})", show=False)
        self._bindings.bind("ctrl+c", "do('quit')", show=False, priority=True)

    # --- life -------------------------------------------------------------------------------------------------
    def compose(self) -> ComposeResult:
        """Header, answers, board, alerts and sources, log, footer."""
        place = self._place()
        self.header = HeaderPane(self.skin, self.picture, place)
        self.answer = AnswerPane(self.skin, self.picture)
        self.board = BoardPane(self.skin, self.picture)
        self.alerts = AlertPane(self.skin)
        self.sources = SourcesPane(self.skin)
        self.log_pane = LogPane(self.skin, self.monitor.logbook, id="log")
        self.log_pane.events = self.critical_moments
        self.footer = FooterPane(self.skin, place, self.opening.keys)
        yield self.header
        yield self.answer
        yield self.board
        with Horizontal(id="lower"):
            yield self.alerts
            yield self.sources
        yield self.log_pane
        yield self.footer

    def on_mount(self) -> None:
        """Nothing is read before the first frame is on the screen."""
        self.arrange()
        self.board.focus()
        self.call_after_refresh(self.set_timer, _AHEAD_S, self._begin)
        self.set_interval(_TICK_S, self._tick)
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # the shell had the screen
        self.heed_signals()

    def _begin(self) -> None:
        self._own_loop, self._own_context = asyncio.get_running_loop(), copy_context()
        self._ask_for_view()
        self.monitor.start(self._wake)

    def on_unmount(self) -> None:
        """The recording is closed before the screen is gone."""
        self.monitor.stop()

    def on_resize(self, event: Resize) -> None:
        """Another size, perhaps another layout."""
        if event.size == self.size and self._layout is not None:
            self.refresh(layout=True)  # it had other sizes meanwhile: what was on it may be gone
        self.arrange(event.size)  # `self.size` is still the old one

    # --- what comes from the monitor ------------------------------------------------------------------------------
    def _wake(self) -> None:
        """Called in the monitor's thread: one call is on its way at most."""
        if not self._woken and self._own_loop is not None:
            self._woken, self._woken_at = True, time.monotonic()
            # Not by a message: what comes several times a second would take three turns of the loop instead of two.
            with suppress(RuntimeError):  # the screen has just been closed
                self._own_loop.call_soon_threadsafe(self._heed, context=self._own_context)
        elif time.monotonic() - self._woken_at > _STUCK_S and terminal_is_gone():
            # Whoever writes to a terminal that hung up waits for ever, and nobody is left to press a key.
            self.monitor.abandon()
            os._exit(128 + signal.SIGHUP)

    def _heed(self) -> None:
        """What Textual does where something goes wrong with a message."""
        try:
            self.on_woken()
        except Exception as error:
            self._handle_exception(error)

    def on_woken(self) -> None:
        """Shows what is new."""
        self._woken = False
        if self._exit or self._closing or not self.screen_stack:
            return
        if self.monitor.failed is not None:
            self.exit(1)
            return
        newest = self.monitor.picture
        if newest.number != self.picture.number:
            self.show(newest)
        self.log_pane.stir()

    def show(self, newest: MonitorState) -> None:
        """Shows a picture; of a frozen view only the board follows, for it was asked for."""
        self.picture = replace(self.picture, board=newest.board) if self.journey.paused else newest
        self._hear(newest)
        self._point_out(newest.snapshot)
        if self._room.is_wanted_anew(newest, len(self.picture.alerts), strip=self.strip):
            self.arrange()
        self.board.span_s = self.journey.span_s
        self.board.show(self.picture)
        more = self._tells_more(newest)
        if more:
            self.answer.show(self.picture)
            if self.alerts.display:
                self.alerts.show(self.picture)
            if self.sources.display:
                self.sources.show(newest)
        show = getattr(self.screen, "show", None)
        if show is not None:  # what is open is given pictures, too
            show(newest)
        if more or self._place() != self._placed:
            self._show_place()

    def _tells_more(self, newest: MonitorState) -> bool:
        """Whether a picture has more to say than that time went on; that, too, is said once a second."""
        now, states = time.monotonic(), tuple((alert.key, alert.state) for alert in self.picture.alerts)
        told = (self.picture.snapshot, self.picture.state, newest.recording is None, states)
        same = told[0] is self._shown[0] and told[1:] == self._shown[1:]
        if same and now - self._listed_at < _SLOWLY_S:
            return False
        self._listed_at, self._shown = now, told
        return True

    def _hear(self, newest: MonitorState) -> None:
        """Notices are said once, for a while."""
        if newest.notices != self._told:
            known = newest.notices[: len(self._told)] == self._told
            fresh = newest.notices[len(self._told) :] if known else newest.notices[-1:]
            self._told = newest.notices
            self.say(" · ".join(fresh))

    def _point_out(self, snapshot: Diagnosis | None) -> None:
        """The log shows which of its lines findings rest on."""
        if snapshot is not self._judged and snapshot is not None:
            self._judged = snapshot
            firing = [finding for finding in snapshot.findings if finding.state == "firing"]
            self.log_pane.evidence(line for finding in firing for line in finding.evidence)

    def say(self, text: str) -> None:
        """Says something for a few seconds: in the header, or on top of what is open."""
        self._said, self._said_at = text, time.monotonic()
        self._show_place()

    def _tick(self) -> None:
        """Now and then: the cost, and what is said goes again."""
        self._cost.look()
        if time.monotonic() - self._shown_at > _UNSEEN_S:
            self._show_place()

    def _show_place(self) -> None:
        if self.is_running and self._layout is not None:
            self._shown_at = time.monotonic()
            place = self._placed = self._place()
            self.header.show(self.monitor.picture, place)
            self.footer.show(place, self._named(self.screen_stack[0].focused))  # also while something is open over it
            covering = self.focused if self.covered else None
            if isinstance(covering, Pane):
                covering.tell(place.said)
            self.answer.tell("" if self.header.display else place.said)

    def _place(self) -> Place:
        journey = self.journey
        said = self._said if time.monotonic() - self._said_at < _SAID_S else ""
        unseen = max(0, self.monitor.picture.lines - journey.lines_then) if journey.paused else 0
        layout = "strip" if self._layout is not None and self._layout.bare else self.preset
        layout = "maximised" if self.zoomed else layout
        return Place(
            self.opening.title,
            journey.span_s,
            journey.stands_at(self.picture),
            unseen,
            self._cost.cpu_percent,
            self._cost.rss_bytes,
            said,
            "overview" if layout == "auto" else layout,
        )

    # --- layout -----------------------------------------------------------------------------------------------
    def arrange(self, size: Size | None = None) -> None:
        """Gives every pane its rows, on a terminal of that size or of the one that is known."""
        if not self.is_running:
            return
        width, height = size or self.size
        room, machines = self._room, bool(self.picture.seen or self.picture.links)
        layout = layout_for(
            width, height, self.preset, self.hidden, self.zoomed, room.listed, machines=machines, lanes=room.lanes
        )
        self.sources.whole = self.zoomed == "sources"
        if layout == self._layout:
            self._show_place()
            return
        before, self._layout = self._layout, layout
        rows: dict[Pane | LogPane, int] = {
            self.header: layout.header, self.answer: layout.answer, self.board: layout.board,
            self.log_pane: layout.log, self.footer: layout.footer, self.alerts: layout.alerts,
            self.sources: layout.sources,
        }  # fmt: skip
        come = [pane for pane in (self.alerts, self.sources) if rows[pane] and not pane.display]
        for pane, count in rows.items():
            pane.display = count > 0
            pane.styles.height = max(1, count)
        for shown in come:  # it was not told of anything meanwhile
            shown.show(self.picture)
        lower = self.query_one("#lower")
        both = (layout.alerts, layout.sources)
        lower.display = any(both)
        lower.styles.height = max(both)
        self.alerts.styles.width, self.sources.styles.width = shares(width, machines)
        self.board.bare = layout.bare
        if before is None or before.bare != layout.bare:
            below = self.screen_stack[0]  # something may be open over it
            # In a strip the answers come first: there the header only says how the run goes.
            if layout.bare:
                below.move_child(self.header, after=self.board)
            else:
                below.move_child(self.header, before=self.answer)
        if self.focused is None or not self.focused.display:
            self.focus_first()
        self._show_place()

    def focus_first(self) -> None:
        """Gives the keys to the first pane that is shown."""
        for pane in (self.board, self.log_pane, self.alerts, self.sources):
            if pane.display:
                pane.focus()
                return

    def asked_view(self, about: object) -> None:
        """The board has another size."""
        del about
        self._ask_for_view()

    def _ask_for_view(self) -> None:
        """What the board needs for its size."""
        journey = self.journey
        if self.board.size.width:
            self.monitor.look(journey.end, journey.span_s, self.board.columns)

    @property
    def pane_name(self) -> str:
        """The pane that has the keys."""
        return self._named(self.focused)

    @staticmethod
    def _named(focused: Widget | None) -> str:
        name = focused.id if focused is not None else None
        return name if name in PANES else "board"

    @property
    def covered(self) -> bool:
        """Something is open over the panes."""
        return len(self.screen_stack) > 1

    @property
    def strip(self) -> bool:
        """There is room for the timeline only."""
        return self._layout is not None and self._layout.bare

    def shown_panes(self) -> set[str]:
        """The panes that have rows."""
        layout = self._layout
        return set() if layout is None else {name for name in PANES if getattr(layout, name)}

    def on_descendant_focus(self) -> None:
        """The footer tells the keys of the pane that has them now."""
        self._show_place()

    # --- keys -------------------------------------------------------------------------------------------------
    def action_focus_next(self) -> None:
        """Textual's own meaning of tab: the table of actions has another one where something is open."""
        self.action_key("tab")

    def action_focus_previous(self) -> None:
        """Likewise."""
        self.action_key("shift+tab")

    def action_key(self, key: str) -> None:
        """Does what a key means where the keys are."""
        self.monitor.give_way()
        action = chosen(self._keys.get(key, ()), self.pane_name)
        if action is not None:
            self.do(action)

    def action_do(self, name: str) -> None:
        """Does an action of the app by its id, whatever has the keys."""
        getattr(self, f"do_{name}")()

    def do(self, action: Action) -> None:
        """The pane that has the keys goes first; under what is open nothing is done that nobody would see."""
        method = getattr(self.focused, f"do_{action.id}", None)
        if method is None and (not self.covered or (action.everywhere and not self.screen.is_modal)):
            method = getattr(self, f"do_{action.id}", None)
        if method is not None:
            method()

    def dress(self, name: str) -> None:
        """Puts on another theme."""
        self.theme_name = name
        self.skin = ThemeStyles(self.opening.themes[name], self.skin.depth, self.opening.glyphs)
        self.theme = name
        for pane in (self.header, self.answer, self.board, self.alerts, self.sources, self.log_pane, self.footer):
            pane.dress(self.skin)
        worn = getattr(self.screen, "dress", None)
        if worn is not None:
            worn(self.skin)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Colours and characters that a terminal does not have are left out everywhere."""
        return filters_for(self.skin, super().get_line_filters())
