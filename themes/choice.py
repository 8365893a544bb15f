"""Which theme the screen begins with: asked for, else picked last, else configured, else what fits the terminal."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from perfmon.errors import UsageError

from .loader import DARK, LIGHT

REMEMBERED = "theme"
"""The name under which `perfmon.remembered` keeps what was picked."""
_LIGHT_GROUNDS = {"7", *(str(number) for number in range(9, 16))}


def chosen(
    known: Collection[str],
    *,
    asked: str | None = None,
    picked: str | None = None,
    configured: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    """The name of the theme to begin with: the first of these that is known.

    One that was asked for (`--theme`) must be known: UsageError names those that are. One that was picked or configured
    may be gone by now; `environment` then says by COLORFGBG whether the terminal is light.
    """
    if asked is not None and asked not in known:
        raise UsageError(f"no such theme: {asked!r}: expected one of {', '.join(sorted(known))}")
    fitting = LIGHT if _light(environment or {}) else DARK
    return next(name for name in (asked, picked, configured, fitting) if name is not None and name in (*known, fitting))


def _light(environment: Mapping[str, str]) -> bool:
    """COLORFGBG is `foreground;background`, as numbers of the terminal's colours; some put a third in between."""
    return environment.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_GROUNDS
