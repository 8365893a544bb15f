"""The clocks of several logs aligned; clocks that were adjusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .adjustments import SET, find_clock_steps, take_out
    from .alignment import Alignment, align, apply_mtime, axis_moved, polled_ahead
    from .live_adjustments import Arrivals, Setbacks, follows

__getattr__ = lazy_face(
    __name__,
    {
        "adjustments": "SET,find_clock_steps,take_out",
        "alignment": "Alignment,align,axis_moved,apply_mtime,polled_ahead",
        "live_adjustments": "Arrivals,Setbacks,follows",
    },
)
