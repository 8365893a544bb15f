"""Numbers as characters, for the screen and for pages: sparklines, bars, spans, axes, short numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .charts import Leg, Tick, axis, bar, bucket, gantt, limits, spark, stack, ticks
    from .glyphs import ASCII, UNICODE, Glyphs, glyphs_for
    from .text_fit import compact, compact_bytes, compact_seconds, compact_value, cut, fit

__getattr__ = lazy_face(
    __name__,
    {
        "charts": "Leg,Tick,axis,bar,bucket,gantt,limits,spark,stack,ticks",
        "glyphs": "ASCII,Glyphs,UNICODE,glyphs_for",
        "text_fit": "compact,compact_bytes,compact_seconds,compact_value,cut,fit",
    },
)
