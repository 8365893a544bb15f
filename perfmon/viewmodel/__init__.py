"""Immutable state that the screen, reports and exporters read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from perfmon.textgraphics import Leg

    from .board import (
        AlertKey,
        AlertState,
        Bar,
        Board,
        CollectiveNow,
        CollectivesState,
        Course,
        Level,
        LinkNow,
        MetricLane,
        MissingRanks,
        Overview,
        RankNow,
        SpanLane,
        Transition,
        Viewport,
    )
    from .buckets import BaselineRun, baseline_run, held, held_values, is_level, smoothed, viewport
    from .hosts import (
        Host,
        HostOverview,
        age_words,
        bare,
        clock_words,
        cores,
        gib,
        labelled,
        level_of,
        level_within,
        metric_of,
        percent,
        rate,
        share,
        size,
        size_of_bytes,
        state_of,
        throttle_level,
        throttle_words,
        uptime,
        value,
        verdict_words,
        worst_of,
    )
    from .state import (
        BEYOND,
        Alert,
        Freshness,
        MonitorState,
        Recording,
        RunState,
        SourceStatus,
        TimeRange,
        empty_picture,
        levels_text,
        little_is_recognised,
    )
    from .timeline import Now, TimelineBuilder

__getattr__ = lazy_face(__name__)
