"""Moments on the run's axis, as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from perfmon.model import TimeBase
from perfmon.units import format_seconds


def moment_text(time: float, base: TimeBase) -> str:
    """`14:06:38` by the clock of the logs; `t=1240.1` or `1240.1 s` where there is only another one."""
    if base is TimeBase.WALL:
        try:
            return f"{datetime.fromtimestamp(time, UTC):%H:%M:%S}"
        except (OverflowError, ValueError, OSError):
            return "-"
    return f"t={time:.1f}" if base is TimeBase.MONOTONIC else f"{time:.1f} s"


def brief_seconds(seconds: float) -> str:
    """`60 s`, `10m`, `3m 16s`, `1h`: without the zeros of a round length."""
    told = format_seconds(seconds)
    return told.replace(".0 s", " s").replace("m 00s", "m").replace("h 00m", "h")
