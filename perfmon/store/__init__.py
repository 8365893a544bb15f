"""Observations of a run in bounded memory: series, spans, weight updates, latest readings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .assembler import Assembler
    from .counters import Fall, Leap, WorkCounter
    from .failures import NUMBERS, Failure, place_of
    from .latest_readings import LatestReadings, Seen, logged_queues
    from .progress import COUNTED, STEP_KINDS, ProgressTrack, RunMark
    from .source_state import SourceState
    from .store import NOT_FINITE, UPDATES, HangNote, Recent, Series, Store, last_value, on_own_axes

__getattr__ = lazy_face(__name__)
