"""The newest lines of all logs in a ring of bytes, with search and filters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .buffer import LogBuffer
    from .lines import EVERYTHING, Filter, Line, LogLevel, Place, Query
    from .reader import Page, Tally, View, read_back

__getattr__ = lazy_face(__name__)
