"""The live monitor: its keys and commands, and what happens between the screen and the monitor's thread."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from textual.events import Callback

from perfmon.core import Config, PerfmonError
from perfmon.monitor import Monitor
from perfmon.viewmodel import MonitorState, SourceStatus

from .actions import by_key, chosen
from .commands import run_command
from .handlers.open import OpenActions
from .plain_app import AppOptions
from .render.lanes import Geometry
from .terminal.suspend import terminal_is_gone
from .theme import ThemeStyles, depth_of
from .widgets.overlays import PageScreen

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from perfmon.logbuffer import LogBuffer
    from perfmon.monitor import Feed

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
        self.bind_keys(self._keys)

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
    def action_key(self, key: str) -> None:
        """Do what a key means in the focused pane."""
        self.monitor.give_way()
        action = chosen(self._keys.get(key, ()), self.pane_name)
        if action is not None:
            self.do(action)

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


# --- The screen without a terminal: a picture of a run, as the app shows it, as an SVG image ---

_LOOK_S = 0.03
_LOOKS = 600


def board_columns(width: int) -> int:
    """Columns that a picture's board must have for a screen of `width` cells."""
    return Geometry.of(width).chart


class StaticMonitor(Monitor):
    """A monitor that shows one picture for ever."""

    def __init__(self, picture: MonitorState, logbook: LogBuffer) -> None:
        port = picture.board.viewport
        super().__init__(_nothing, Config(), window_s=port.end - port.start)
        self._shown, self.logbook = picture, logbook

    def start(self, wake: Callable[[], None] | None = None) -> None:
        """The picture is there at once."""
        self.picture = self._shown
        if wake is not None:
            wake()


def _nothing() -> Feed:
    raise AssertionError("a still picture has no feed")


class _Sitter(PerfmonApp):
    """The screen in all colours, without the cost of this process, which monitors nothing."""

    def __init__(self, monitor: Monitor, opening: AppOptions) -> None:
        super().__init__(monitor, opening)
        self.skin = ThemeStyles(opening.themes[opening.theme], depth_of("truecolor", self.no_color), opening.glyphs)
        self.register_theme(self.skin.textual_theme())

    def _tick(self) -> None:
        self._show_header()


async def shoot(
    picture: MonitorState,
    logbook: LogBuffer,
    opening: AppOptions,
    size: tuple[int, int],
    keys: Sequence[str] = (),
    without: Collection[str] = (),
) -> str:
    """An SVG image of the screen of `size` cells that shows the picture, after `keys` were pressed.

    The picture's board has to have `board_columns(size[0])` columns; `without` names panes that are left out. Raises
    PerfmonError when nothing comes.
    """
    from .render.svg import captured

    app = _Sitter(StaticMonitor(picture, logbook), opening)
    app.hidden = set(without)
    async with app.run_test(size=size) as pilot:
        await _settled(app, pilot, picture)
        for key in keys:
            await pilot.press(key)
            await _settled(app, pilot, picture)
        return captured(app, app.skin, opening.title)


async def _settled(app: PerfmonApp, pilot: Pilot[int], picture: MonitorState) -> None:
    """Wait until the screen shows the picture, and no longer changes."""
    from .render.svg import strips

    before: list[str] = []
    for _ in range(_LOOKS):
        await pilot.pause(_LOOK_S)
        now = [strip.text for strip in strips(app)]
        if app.picture.number == picture.number and now == before and not app.log_pane.view.waiting:
            return
        before = now
    raise PerfmonError("the screen keeps changing: no screenshot")
