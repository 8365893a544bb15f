"""The screen without a terminal: a picture of a run, as the app shows it, as an SVG image."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from textual.pilot import Pilot

from perfmon.core import Config, PerfmonError
from perfmon.logbuffer import LogBuffer
from perfmon.monitor import Feed, Monitor
from perfmon.viewmodel import MonitorState

from .app import PerfmonApp
from .plain_app import AppOptions
from .render.lanes import Geometry
from .render.svg import captured, strips
from .theme import ThemeStyles, depth_of

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
    before: list[str] = []
    for _ in range(_LOOKS):
        await pilot.pause(_LOOK_S)
        now = [strip.text for strip in strips(app)]
        if app.picture.number == picture.number and now == before and not app.log_pane.view.waiting:
            return
        before = now
    raise PerfmonError("the screen keeps changing: no screenshot")
