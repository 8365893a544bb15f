"""Initial theme of the screen: requested, else last selected, else configured, else by the terminal."""

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
    """Name of the initial theme: the first of these that exists.

    A requested one (`--theme`) must exist: UsageError lists the known ones. A selected or configured one may have been
    deleted; then COLORFGBG of `environment` decides if the terminal is light.
    """
    if asked is not None and asked not in known:
        raise UsageError(f"no such theme: {asked!r}: expected one of {', '.join(sorted(known))}")
    fitting = LIGHT if _light(environment or {}) else DARK
    return next(name for name in (asked, picked, configured, fitting) if name is not None and name in (*known, fitting))


def _light(environment: Mapping[str, str]) -> bool:
    """COLORFGBG is `foreground;background`, as numbers of the terminal's colours; some put a third in between."""
    return environment.get("COLORFGBG", "").rpartition(";")[2] in _LIGHT_GROUNDS
