"""Screenshots: what is on the screen as an SVG image, and the screen without a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rich.style import Style
from textual._context import visible_screen_stack
from textual.app import App
from textual.pilot import Pilot

from perfmon.config import Config
from perfmon.errors import PerfmonError
from perfmon.logbook import LogBook
from perfmon.monitor import Feed, Monitor
from perfmon.picture import Picture

from .app import Opening, PerfmonApp
from .render.lanes import Geometry
from .render.rows import Row
from .render.svg import svg
from .skin import Skin, depth_of

if TYPE_CHECKING:
    from textual.strip import Strip

_LOOK_S = 0.03
_LOOKS = 600


def captured(app: App[Any], skin: Skin, title: str) -> str:
    """What is on the screen now, as an SVG image."""
    rows: list[Row] = [_row(strip) for strip in _strips(app)]
    return svg(rows, skin.style("text"), title, dark=skin.theme.dark)


def _row(strip: Strip) -> Row:
    return tuple((segment.text, segment.style or Style.null()) for segment in strip if not segment.control)


def _strips(app: App[Any]) -> list[Strip]:
    """As `App.export_screenshot` does it, but nothing that is still to be painted is forgotten over it."""
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips()


def board_columns(width: int) -> int:
    """Columns that a picture's board must have for a screen of `width` cells."""
    return Geometry.of(width).chart


class Still(Monitor):
    """A monitor that shows one picture for ever."""

    def __init__(self, picture: Picture, logbook: LogBook) -> None:
        super().__init__(_nothing, Config(), window_s=picture.window_s)
        self._shown, self.logbook = picture, logbook

    def start(self, wake: Callable[[], None] | None = None) -> None:
        """The picture is there at once."""
        self.picture = self._shown
        if wake is not None:
            wake()


def _nothing() -> Feed:
    raise AssertionError("a picture that stands still is fed by nobody")


class _Sitter(PerfmonApp):
    """The screen in all colours, without the cost of this process, which is nobody's monitor."""

    def __init__(self, monitor: Monitor, opening: Opening) -> None:
        super().__init__(monitor, opening)
        self.skin = Skin(opening.themes[opening.theme], depth_of("truecolor", self.no_color), opening.glyphs)
        self.register_theme(self.skin.textual_theme())

    def _tick(self) -> None:
        self._show_place()


async def shoot(
    picture: Picture, logbook: LogBook, opening: Opening, size: tuple[int, int], keys: Sequence[str] = ()
) -> str:
    """An SVG image of the screen of `size` cells that shows the picture, after `keys` were pressed.

    The picture's board has to have `board_columns(size[0])` columns. Raises PerfmonError when nothing comes.
    """
    app = _Sitter(Still(picture, logbook), opening)
    async with app.run_test(size=size) as pilot:
        await _settled(app, pilot, picture)
        for key in keys:
            await pilot.press(key)
            await _settled(app, pilot, picture)
        return captured(app, app.skin, opening.title)


async def _settled(app: PerfmonApp, pilot: Pilot[int], picture: Picture) -> None:
    """Waits until the screen shows the picture, and goes on to look the same."""
    before: list[str] = []
    for _ in range(_LOOKS):
        await pilot.pause(_LOOK_S)
        now = [strip.text for strip in _strips(app)]
        if app.picture.number == picture.number and now == before and not app.log_pane.view.waiting:
            return
        before = now
    raise PerfmonError("the screen does not come to rest: no screenshot")
