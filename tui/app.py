"""The live monitor: its keys and commands, and what happens between the screen and the monitor's thread."""

from __future__ import annotations

import os
import signal
import time

from textual.events import Callback

from perfmon.monitor import Monitor
from perfmon.viewmodel import SourceStatus

from .actions import by_key, chosen
from .commands import run_command
from .handlers.open import OpenActions
from .plain_app import AppOptions
from .terminal.suspend import terminal_is_gone
from .widgets.overlays import PageScreen

_STUCK_S = 5.0
"""If the screen has not taken a picture for this long, it may have lost its terminal."""
_AHEAD_S = 0.03
"""Seconds that the first frame takes to get to the terminal, once it is drawn: reading must not be in its way."""


class PerfmonApp(OpenActions):
    """The screen of a monitor, which it starts and stops."""

    def __init__(self, monitor: Monitor, opening: AppOptions) -> None:
        super().__init__(monitor, opening)
        self._keys = by_key(opening.keys)
        self._woken, self._woken_at = False, 0.0
        for key in self._keys:
            self._bindings.bind(key, f"key({key!r})", show=False)
        self._bindings.bind("ctrl+c", "do('quit')", show=False, priority=True)

    # --- the monitor's thread -----------------------------------------------------------------------------------------
    def on_mount(self) -> None:
        """Read nothing before the first frame is on the screen."""
        self.call_after_refresh(self.set_timer, _AHEAD_S, self._start)

    def _start(self) -> None:
        self.request_view()
        self.monitor.start(self._wake)

    def on_unmount(self) -> None:
        """Close the recording before the screen is gone."""
        self.monitor.stop()

    def _wake(self) -> None:
        """Schedule an update, from the monitor's thread: one is on its way at most."""
        if not self._woken:
            self._woken, self._woken_at = True, time.monotonic()
            self.post_message(Callback(self.on_woken))  # `call_later` looks at its parameters each time
        elif time.monotonic() - self._woken_at > _STUCK_S and terminal_is_gone():
            # Writing to a terminal that hung up blocks for ever, and there is no one left to press a key.
            self.monitor.abandon()
            os._exit(128 + signal.SIGHUP)

    def on_woken(self) -> None:
        """Show the newest picture."""
        self._woken = False
        if self._exit or self._closing or not self.screen_stack:
            return
        if self.monitor.failed is not None:
            self.exit(1)
            return
        newest = self.monitor.picture
        if newest.number != self.picture.number:
            self.show(newest)
        self.log_pane.update()

    # --- keys ---------------------------------------------------------------------------------------------------------
    def action_focus_next(self) -> None:
        """Do what tab means in the table of actions, also where something is open."""
        self.action_key("tab")

    def action_focus_previous(self) -> None:
        """Do what shift+tab means in the table of actions."""
        self.action_key("shift+tab")

    def action_key(self, key: str) -> None:
        """Do what a key means in the focused pane."""
        self.monitor.give_way()
        action = chosen(self._keys.get(key, ()), self.pane_name)
        if action is not None:
            self.do(action)

    def action_do(self, name: str) -> None:
        """Do an action of the app by its id, whatever is focused."""
        getattr(self, f"do_{name}")()

    # --- help, commands and logs --------------------------------------------------------------------------------------
    def do_help(self) -> None:
        """Open the help."""
        from .screens.pages import HelpPage

        metrics = [lane.name for lane in self.picture.board.metrics]
        self.push_screen(PageScreen(HelpPage(self.skin, self.pane_name, self.opening.keys, metrics)))

    def do_palette(self) -> None:
        """Open the palette, and run what is chosen there."""
        from .widgets.palette import Palette

        def run(command: str | None) -> None:
            if command:
                self.show_message("")  # the message of the command before is over
                problem = run_command(self, command)
                if problem:
                    self.show_message(problem)

        self.push_screen(Palette(self.skin, self.picture, self.opening.themes, self.opening.keys), run)

    def request_doctor(self, about: SourceStatus | None = None) -> None:
        """Open the parse coverage of the logs, at that one."""
        from .screens.pages import DoctorPage

        self.push_screen(PageScreen(DoctorPage(self.skin, self.monitor.picture, about)))

    do_doctor = request_doctor
