"""Draws numbers as characters, the same for the screen and for pages: sparklines, bars, spans, axes, short numbers.

All of it is total: NaN, infinities, nothing at all and no room give something sensible, and widths hold exactly.
"""

from .amounts import bar, bucket, limits, spark, stack
from .times import Cell, Tick, axis, gantt, ticks
from .words import compact, compact_bytes, compact_seconds, compact_value, cut, fit

__all__ = [
    "Cell",
    "Tick",
    "axis",
    "bar",
    "bucket",
    "compact",
    "compact_bytes",
    "compact_seconds",
    "compact_value",
    "cut",
    "fit",
    "gantt",
    "limits",
    "spark",
    "stack",
    "ticks",
]
