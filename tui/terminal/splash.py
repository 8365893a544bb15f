"""The first thing on the screen: header and titles, painted while all that the screen needs is still being loaded."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from perfmon.core import plain
from perfmon.textgraphics import Glyphs
from perfmon.themes import ThemeData

from ..layout import USUALLY_LISTED, Layout, layout_for, share_of_alerts

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[0m\x1b[?25h\x1b[?1049l"
_DEEP = ("truecolor", "24bit")


@contextmanager
def curtain(title: str, theme: ThemeData, glyphs: Glyphs, preset: str = "auto") -> Iterator[None]:
    """Paint the frame at once; the app that is started after the block paints over it.

    Whatever ends perfmon before that leaves the terminal as it was.
    """
    for name in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        with suppress(ValueError):  # not in the main thread
            signal.signal(name, _end)
    with suppress(ValueError):
        signal.signal(signal.SIGTSTP, signal.SIG_IGN)  # for this moment: a shell would get the screen as it is here
    try:
        columns, rows = _size()
        layout = layout_for(columns, rows, preset, listed=USUALLY_LISTED)
        _write(_ENTER + "".join(frame(title, theme, glyphs, os.environ, layout, columns)))
        yield
    except BaseException:
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        _write(_LEAVE)
        raise


def frame(
    title: str, theme: ThemeData, glyphs: Glyphs, environment: Mapping[str, str], layout: Layout, columns: int
) -> Iterator[str]:
    """A cleared screen with what is being opened, and the titles of the panes where these will stand.

    In the theme's colours where the terminal has them all.
    """
    deep = environment.get("COLORTERM", "").lower() in _DEEP and not environment.get("NO_COLOR")
    ground, name, text, line, key = (
        _paint(theme, style) if deep else "" for style in ("background", "title", "muted", "frame", "footer-key")
    )
    heading = plain(title, max(8, columns - 24))
    yield f"\x1b[0m{ground}\x1b[2J\x1b[{_header_row(layout)};1H"
    yield f" {name}\x1b[1mperfmon\x1b[22m {text}{heading} {glyphs['vertical']} opening {glyphs['loading']}"
    rule = glyphs["horizontal"]
    for number, pane, row, column, width in _titles(layout, columns):
        drawn = f"{rule * 2} {key}{number} {text}{pane} {line}{rule * max(0, width - len(pane) - 6)}"
        yield f"\x1b[{row};{column}H{line}{drawn}"
    yield "\x1b[0m"


def _header_row(layout: Layout) -> int:
    return layout.answer + layout.board + 1 if layout.bare else 1


def _titles(layout: Layout, columns: int) -> Iterator[tuple[int, str, int, int, int]]:
    """Number, name, row, column and width of each pane that has a title."""
    if layout.bare:
        return
    row = layout.header + layout.answer + 1
    if layout.board > 3:
        yield 1, "TIMELINE", row, 1, columns
    row += layout.board
    left = (columns if not layout.sources else share_of_alerts(columns)) if layout.alerts else 0
    if left:
        yield 2, "ALERTS", row, 1, left
    if layout.sources:
        yield 3, "SOURCES", row, left + 1, columns - left
    row += max(layout.alerts, layout.sources)
    if layout.log > 1:
        yield 4, "LOG", row, 1, columns


def _paint(theme: ThemeData, style: str) -> str:
    spec = theme.styles[style]
    return "".join(
        f"\x1b[{plane};2;{int(word[1:3], 16)};{int(word[3:5], 16)};{int(word[5:7], 16)}m"
        for plane, word in ((38, spec.colour), (48, spec.background))
        if word is not None and word.startswith("#")
    )


def _size() -> tuple[int, int]:
    try:
        size = os.get_terminal_size(2)
        return size.columns, size.lines
    except OSError:
        return 80, 24


def _write(text: str) -> None:
    stream = sys.__stderr__
    if stream is not None:
        with suppress(OSError):
            os.write(stream.fileno(), text.encode(errors="replace"))


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    _write(_LEAVE)
    raise SystemExit(128 + number)
