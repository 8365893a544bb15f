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
    """Check for a terminal, and its size."""
    size = next((size for stream in (2, 1, 0) if (size := _size(stream)) is not None), None)
    if size is None:
        mend = "run perfmon in a terminal; without one: perfmon snapshot, status, export"
        return missing("not a terminal", "the live monitor cannot open", mend)
    told = f"{size[0]}x{size[1]}, {_name()}"
    if size[0] < _LEAST[0] or size[1] < _LEAST[1]:
        return limited(told, "smaller than 60x10: the monitor is cut off", "enlarge the window")
    if size[0] < _GOOD[0] or size[1] < _GOOD[1]:
        return limited(told, "some panes are hidden", "all panes fit from 120x30")
    if not sys.stdin.isatty():
        return limited(f"{told}; stdin is not", "the live monitor receives no keys", "do not redirect stdin")
    return found(told)


def _size(stream: int) -> tuple[int, int] | None:
    try:
        return tuple(os.get_terminal_size(stream))  # type: ignore[return-value]  # two numbers
    except OSError:
        return None


def _name() -> str:
    return f"TERM={plain(os.environ.get('TERM', ''), 40) or 'not set'}"


def colours(_: float) -> Finding:
    """Number of colours of the terminal."""
    kind, depth = os.environ.get("TERM", ""), os.environ.get("COLORTERM", "").lower()
    if os.environ.get("NO_COLOR"):
        return limited("none: NO_COLOR is set", "states are shown by symbols and words only", "unset NO_COLOR")
    if kind in ("", "dumb"):
        return missing(
            f"none: {_name()}", "states are shown by symbols and words only", "set TERM to the type of the terminal"
        )
    if depth in _TRUE:
        return found("16 million")
    mend = "export COLORTERM=truecolor if the terminal supports it (most do)"
    if "256" in kind:
        return limited("256", "themes use the nearest available colours", mend)
    return limited("16", "themes use the nearest available colours", mend)


def characters(_: float) -> Finding:
    """Character set of the monitor."""
    said = next((f"{name}={value}" for name in ("LC_ALL", "LC_CTYPE", "LANG") if (value := os.environ.get(name))), "")
    if glyphs_for(os.environ) is UNICODE:
        return found(plain(said, 60) or "assumed: no locale is set")
    return limited(f"not with {plain(said, 60)}", "bars and symbols are drawn in ASCII", "export LC_ALL=C.UTF-8")


def tmux(patience_s: float) -> Finding:
    """Check for tmux, and if this is inside it."""
    path = program("tmux")
    if path is None:
        costs = "the monitor closes with its connection, and there is no status line (perfmon status --format tmux)"
        return missing("not installed", costs, "install tmux")
    try:
        version = first_line(asked(patience_s, path, "-V"))
    except Silent as error:
        return limited(f"does not work: {error}", "no status line (perfmon status --format tmux)")
    return found(f"{version}, {'inside tmux' if os.environ.get('TMUX') else 'not inside tmux'}")
