"""Signatures, bands and the engine that turns observations into findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .activity import Rhythm, is_past_clock, steps_covered
    from .bands import CALIBRATED, DEFAULT_ASYNC_LEVEL, HIGHER, LEARNED, LOWER, Band, Bands, load_bands
    from .causes import queued_s
    from .conditions import Condition
    from .death import CAUSE_WORDS
    from .engine import find
    from .finished import without_end
    from .goals import Pace, Phase, pace_of, phase_of
    from .interruptions import Resumption, resumption_of, set_forward
    from .lifecycle import FIRING, Found, Hypothesis, Occurrence, share_critical
    from .lint import Vocabulary, check_files, metrics_of, unread_metrics, unread_names
    from .open_spans import Route, left_open, overlong, route
    from .run_facts import (
        Checkpoint,
        View,
        component_states,
        idle_since,
        last_checkpoint,
        last_output_of_servers,
        load_of,
    )
    from .run_view import bands_of, has_any_of, logs_of
    from .runs import READY, Boundary, last_run_line
    from .sentences import fill
    from .signatures import Example, Signature, Subject, load_signature, load_signatures
    from .silence import announced_shutdown, usual_gap
    from .stalls import overdue_s, waiting_lines
    from .tracks import EMPTY, SPAN_METRICS, START_SPANS, UPDATE, UPDATE_METRICS, Item, Track, update_values

__getattr__ = lazy_face(__name__)
