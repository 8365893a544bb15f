"""Parsing of command arguments; a one-line UsageError for invalid ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.errors import UsageError
from perfmon.picture import Alert
from perfmon.text import plain
from perfmon.units import format_seconds, parse_duration

if TYPE_CHECKING:
    from perfmon.sources.replay import Player

    from .doings import Doings

_NAMED = 60
_TOLD = 6


def seconds(text: str, least: float, most: float, example: str) -> float:
    """A duration within these bounds; `example` says how one is typed."""
    try:
        seconds = parse_duration(text)
    except (ValueError, OverflowError):
        seconds = -1.0
    if not (isfinite(seconds) and least <= seconds <= most):
        span = f"{format_seconds(least)} to {format_seconds(most)}"
        raise UsageError(f"{plain(text, _NAMED)!r}: expected {span}, as in {example}")
    return seconds


def named(text: str, names: Iterable[str], what: str) -> str:
    """The name that is meant: that one, or the only one that begins with the text, or else has it."""
    known = list(dict.fromkeys(names))
    if text in known:
        return text
    low = text.lower()
    for fitting in (
        [name for name in known if name.lower().startswith(low)],
        [name for name in known if low in name.lower()],
    ):
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise UsageError(f"{plain(text, _NAMED)!r} is ambiguous: expected one of {_list(fitting)}")
    if not known:
        raise UsageError(f"no such {what}: {plain(text, _NAMED)!r} (there are none yet)")
    raise UsageError(f"no such {what}: {plain(text, _NAMED)!r}, expected one of {_list(known)}")


def _list(names: Sequence[str]) -> str:
    told = ", ".join(plain(name, 40) for name in names[:_TOLD])
    return f"{told} and {len(names) - _TOLD} more" if len(names) > _TOLD else told


def alerts(app: Doings, text: str) -> list[Alert]:
    """Alerts by number (`#12`, `12`), or all of one signature, by its name or a part of it or of a title."""
    alerts = app.monitor.picture.alerts
    number = text.removeprefix("#")
    if number.isdecimal():
        found = [alert for alert in alerts if str(alert.number) == number.lstrip("0")]
        if not found:
            raise UsageError(f"no such alert: #{number[:_NAMED]}")
        return found
    titled = {alert.key[0] for alert in alerts if text.lower() in alert.finding.title.lower()}
    signature = titled.pop() if len(titled) == 1 else named(text, [alert.key[0] for alert in alerts], "alert")
    return [alert for alert in alerts if alert.key[0] == signature]


def file(text: str) -> str:
    """Path of a file, which may not exist."""
    try:
        return str(Path(plain(text, 4000)).expanduser())
    except RuntimeError:
        raise UsageError(f"{plain(text, _NAMED)}: unknown home folder") from None


def player(app: Doings) -> Player:
    """The player of a replay."""
    player = None if app.monitor.feed is None else app.monitor.feed.player
    if player is None:
        raise UsageError("this run is live: only for replays")
    return player
