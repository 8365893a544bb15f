"""Metric lanes, and the apps that show one screen."""

from __future__ import annotations

from dataclasses import replace
from math import isnan, nan
from typing import Any

from perfmon.viewmodel import Level, MetricLane, MonitorState

VALUES = (200.0, nan, 13_000.0, 60.0)


def lane(name: str = "queue_ms", values: tuple[float, ...] = VALUES, **changes: Any) -> MetricLane:
    """The queue's wait over the viewport, 100 columns: the values again and again."""
    columns = (values * 100)[:100] if values else ()
    made = MetricLane(
        name=name,
        unit="ms",
        values=columns,
        levels=bytes(map(level, columns)),
        now=13_000.0,
        now_level=Level.CRITICAL,
        p50=200.0,
        p95=13_000.0,
        max=13_000.0,
        critical_share=0.33,
        good=100.0,
        critical=1000.0,
    )
    return replace(made, **changes)


def level(value: float) -> Level:
    """By the limits of the queue's wait."""
    if isnan(value):
        return Level.NONE
    return Level.GOOD if value < 100 else Level.WARNING if value < 1000 else Level.CRITICAL


def with_metrics(picture: MonitorState, *lanes: MetricLane) -> MonitorState:
    """The picture with these lanes."""
    return replace(picture, board=replace(picture.board, metrics=lanes))
