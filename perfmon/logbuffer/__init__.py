"""The newest lines of all logs, in a ring of bytes, merged by the time at which they were printed."""

from __future__ import annotations

from .book import LogBook, Totals
from .filters import EVERYTHING, Filter, Query
from .lines import Line, LogLevel, Place
from .readback import read_back
from .view import Page, View

__all__ = [
    "EVERYTHING",
    "Filter",
    "Line",
    "LogBook",
    "LogLevel",
    "Page",
    "Place",
    "Query",
    "Totals",
    "View",
    "read_back",
]
