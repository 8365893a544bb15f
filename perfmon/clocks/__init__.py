"""The clocks of several logs aligned; clocks that were adjusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .adjustments import SET, ClockWatch, find_clock_steps, follows, remove_clock_step
    from .alignment import Alignment, align, apply_mtime, axis_moved, polled_ahead
    from .spreading import date_tails, in_latest_year, spread_gaps

__getattr__ = lazy_face(__name__)
