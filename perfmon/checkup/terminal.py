"""The terminal: size, colours, characters, tmux."""

from __future__ import annotations

import os
import sys

from perfmon.glyphs import UNICODE, glyphs_for
from perfmon.text import plain

from .asking import Silent, asked, first_line, program
from .check import Finding, found, limited, missing

_LEAST, _GOOD = (60, 10), (120, 30)
_TRUE = ("truecolor", "24bit")


def terminal(_: float) -> Finding:
    """Whether there is one, and how large it is."""
    size = next((size for stream in (2, 1, 0) if (size := _size(stream)) is not None), None)
    if size is None:
        mend = "run perfmon in a terminal; without one: perfmon snapshot, status, export"
        return missing("this is no terminal", "the live monitor cannot open here", mend)
    told = f"{size[0]}x{size[1]}, {_name()}"
    if size[0] < _LEAST[0] or size[1] < _LEAST[1]:
        return limited(told, "less than 60x10: the monitor shows only what fits", "make the window larger")
    if size[0] < _GOOD[0] or size[1] < _GOOD[1]:
        return limited(told, "some panes are folded away", "from 120x30 on all of them have room")
    if not sys.stdin.isatty():
        return limited(f"{told}; stdin is none", "the live monitor takes no keys", "do not redirect stdin")
    return found(told)


def _size(stream: int) -> tuple[int, int] | None:
    try:
        return tuple(os.get_terminal_size(stream))  # type: ignore[return-value]  # two numbers
    except OSError:
        return None


def _name() -> str:
    return f"TERM={plain(os.environ.get('TERM', ''), 40) or 'not set'}"


def colours(_: float) -> Finding:
    """How many the terminal says it has."""
    kind, depth = os.environ.get("TERM", ""), os.environ.get("COLORTERM", "").lower()
    if os.environ.get("NO_COLOR"):
        return limited("none: NO_COLOR is set", "signs and words tell what colours would", "unset NO_COLOR")
    if kind in ("", "dumb"):
        return missing(
            f"none: {_name()}", "signs and words tell what colours would", "set TERM to what the terminal is"
        )
    if depth in _TRUE:
        return found("16 million")
    mend = "export COLORTERM=truecolor where the terminal can do it (most can)"
    if "256" in kind:
        return limited("256", "themes are shown in the nearest colours", mend)
    return limited("16", "themes are shown in the nearest colours", mend)


def characters(_: float) -> Finding:
    """Which set the monitor draws with."""
    said = next((f"{name}={value}" for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")
    if glyphs_for(os.environ) is UNICODE:
        return found(plain(said, 60) or "taken for granted: no locale is set")
    return limited(f"not with {plain(said, 60)}", "bars and signs are drawn in plain ASCII", "export LC_ALL=C.UTF-8")


def tmux(patience_s: float) -> Finding:
    """Whether it is there, and whether this is inside of it."""
    path = program("tmux")
    if path is None:
        costs = "the screen ends with its connection, and there is no status line (perfmon status --format tmux)"
        return missing("not installed", costs, "install tmux")
    try:
        version = first_line(asked(patience_s, path, "-V"))
    except Silent as error:
        return limited(f"does not work: {error}", "no status line (perfmon status --format tmux)")
    return found(f"{version}, {'inside of it' if os.environ.get('TMUX') else 'not inside of it'}")
