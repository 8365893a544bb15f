"""Polled numbers as people read them, the same on the screen and on pages; "" for what is not known."""

from __future__ import annotations

from math import isfinite, nan

from perfmon.drawing import compact, compact_seconds
from perfmon.machines import Seen

from .wording import age_words

_DIGITS = frozenset("0123456789")
_MOST_CORES = 256


def value(seen: Seen, key: str) -> float | None:
    """A number that was told, and is one."""
    told = seen.reading.values.get(key)
    return told if told is not None and isfinite(told) else None


def cores(seen: Seen, key: str) -> list[float]:
    """Of every core, or of some neighbours together, a percentage; NaN for one that is off. Nothing where untold."""
    return [
        10.0 * int(sign) + 5.0 if sign in _DIGITS else nan for sign in seen.reading.words.get(key, "")[:_MOST_CORES]
    ]


def percent(told: float | None) -> str:
    """`31%`, "" for what is not known."""
    return "" if told is None else f"{told:.0f}%"


def share(part: float | None, whole: float | None) -> float | None:
    """`part` of `whole`, 0 to 1."""
    return part / whole if part is not None and whole else None


def gib(mb: float | None) -> str:
    """Mebibytes as gibibytes, without a unit: `71`, `0.4`."""
    return "" if mb is None else f"{mb / 1024:.0f}" if mb >= 10_000 else f"{mb / 1024:.1f}"


def rate(mb_s: float | None) -> str:
    """`412 MB/s`, `1.1 GB/s`."""
    if mb_s is None:
        return ""
    return f"{mb_s / 1000:.1f} GB/s" if mb_s >= 999.5 else f"{compact(mb_s, 4)} MB/s"


def size(gb: float | None) -> str:
    """`812 GB`, `4.1 TB`."""
    return "" if gb is None else f"{gb / 1000:.1f} TB" if gb >= 999.5 else f"{compact(gb, 4)} GB"


def size_of_bytes(count: float | None) -> str:
    """`3.9 MB`, `0`."""
    if not count:
        return "" if count is None else "0"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{compact(count / factor, 4)} {unit}"
    return f"{count:.0f} B"


def uptime(seconds: float | None) -> str:
    """`2h 05m`; whole minutes, once it is one."""
    if seconds is None:
        return ""
    if seconds < 60:
        return age_words(seconds)
    return f"{seconds // 60:.0f}m" if seconds < 3600 else compact_seconds(seconds, 7)


def labelled(label: str, text: str) -> str:
    """`cpu 31%`; "" where there is nothing to say."""
    return f"{label} {text}" if text else ""
