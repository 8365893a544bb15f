"""The screen as an SVG image."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.style import Style
from textual._context import visible_screen_stack
from textual.app import App
from textual.strip import Strip

from perfmon.errors import InputError

from .render.rows import Row
from .render.svg import svg
from .skin import Skin

if TYPE_CHECKING:
    from .doings import Doings


def captured(app: App[Any], skin: Skin, title: str) -> str:
    """The image; `title` is for those who cannot see it."""
    rows: list[Row] = [_row(strip) for strip in strips(app)]
    return svg(rows, skin.style("text"), title, dark=skin.theme.dark)


def _row(strip: Strip) -> Row:
    return tuple((segment.text, segment.style or Style.null()) for segment in strip if not segment.control)


def strips(app: App[Any]) -> list[Strip]:
    """The screen row by row: as `App.export_screenshot` has it, but what is still to be painted stays so."""
    visible_screen_stack.set(app._background_screens)
    return app.screen._compositor.render_strips()


async def save_svg(app: Doings, path: str) -> None:
    """Writes the image to `path`, or where that is a folder or "", to a file named after the moment; says so."""
    from perfmon.reports.saving import save

    image = captured(app, app.skin, app.opening.title)
    try:
        file = await asyncio.to_thread(save, image, Path(path or "."), datetime.now().astimezone(), ".svg")
    except InputError as error:
        app.say(str(error))
        return
    app.say(f"written: {file}")
