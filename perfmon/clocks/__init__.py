"""The clocks of several logs aligned; clocks that were adjusted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .adjustments import SET, find_steps, take_out
    from .alignment import Alignment, align, axis_moved, heed_file_time, polled_ahead
    from .live_adjustments import Arrivals, Setbacks, follows

__all__ = [
    "SET",
    "Alignment",
    "Arrivals",
    "Setbacks",
    "align",
    "axis_moved",
    "find_steps",
    "follows",
    "heed_file_time",
    "polled_ahead",
    "take_out",
]

__getattr__ = lazy_face(
    __name__,
    {
        "adjustments": "SET,find_steps,take_out",
        "alignment": "Alignment,align,axis_moved,heed_file_time,polled_ahead",
        "live_adjustments": "Arrivals,Setbacks,follows",
    },
)
