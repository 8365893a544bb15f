"""Numbers as characters, for the screen and for pages: sparklines, bars, spans, axes, short numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .cells import (
        ASCII,
        UNICODE,
        Glyphs,
        compact,
        compact_bytes,
        compact_seconds,
        compact_value,
        cut,
        fit,
        glyphs_for,
        shown_unit,
    )
    from .charts import Leg, Tick, axis, bar, bucket, gantt, limits, line, spark, stack, ticks, trace

__getattr__ = lazy_face(__name__)
