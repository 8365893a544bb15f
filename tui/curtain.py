"""The first thing on the screen: the header, painted while everything that the screen needs is still being loaded."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from perfmon.glyphs import Glyphs
from perfmon.text import plain
from perfmon.themes.schema import ThemeData

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[0m\x1b[?25h\x1b[?1049l"
_DEEP = ("truecolor", "24bit")


@contextmanager
def curtain(title: str, theme: ThemeData, glyphs: Glyphs) -> Iterator[None]:
    """Paints the header at once; the app that is started after the block paints over it.

    Whatever ends perfmon before that leaves the terminal as it was.
    """
    for name in (signal.SIGTERM, signal.SIGHUP):
        with suppress(ValueError):  # not in the main thread
            signal.signal(name, _end)
    try:
        _write(_ENTER + header(title, theme, glyphs, os.environ))
        yield
    except BaseException:
        _write(_LEAVE)
        raise


def header(title: str, theme: ThemeData, glyphs: Glyphs, environment: Mapping[str, str]) -> str:
    """A cleared screen with the title in its first row, in the theme's colours where the terminal has them all."""
    deep = environment.get("COLORTERM", "").lower() in _DEEP and not environment.get("NO_COLOR")
    ground, name, text = (_paint(theme, style) if deep else "" for style in ("background", "title", "muted"))
    room = max(8, _columns() - 24)
    said = f" {name}\x1b[1mperfmon\x1b[22m {text}{plain(title, room)} {glyphs['vertical']} opening {glyphs['loading']}"
    return f"\x1b[0m{ground}\x1b[2J\x1b[H{said}\x1b[0m"


def _paint(theme: ThemeData, style: str) -> str:
    spec = theme.styles[style]
    return "".join(
        f"\x1b[{plane};2;{int(word[1:3], 16)};{int(word[3:5], 16)};{int(word[5:7], 16)}m"
        for plane, word in ((38, spec.colour), (48, spec.background))
        if word is not None and word.startswith("#")
    )


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns
    except OSError:
        return 80


def _write(text: str) -> None:
    stream = sys.__stderr__
    if stream is not None:
        with suppress(OSError):
            os.write(stream.fileno(), text.encode(errors="replace"))


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    _write(_LEAVE)
    raise SystemExit(128 + number)
