"""How a polled value stands to its limits: those of the bands where the run has them, else a few that always hold."""

from __future__ import annotations

from collections.abc import Mapping

from perfmon.picture import Level
from perfmon.snapshot import MetricStats
from perfmon.sources.polls.reading import Area, Reading

_LIMITS: Mapping[tuple[Area, str], tuple[float, float]] = {
    (Area.GPU, "temp_c"): (83.0, 90.0),  # where data-centre GPUs begin to slow down, and where they have to
    (Area.HOST, "cpu_pct"): (90.0, 98.0),
    (Area.HOST, "mem_pct"): (90.0, 97.0),
    (Area.HOST, "iowait_pct"): (20.0, 50.0),
    (Area.HOST, "psi_mem_pct"): (10.0, 40.0),
    (Area.HOST, "psi_io_pct"): (20.0, 50.0),
    (Area.DISK, "used_pct"): (90.0, 97.0),
    (Area.QUEUE, "kv_usage_pct"): (80.0, 90.0),  # the band kv_usage
    (Area.SOCKET, "recv_q_share_pct"): (50.0, 90.0),
}
"""Where warning begins, and where a value is critical; more is worse."""
_METRICS: Mapping[tuple[Area, str], str] = {
    (Area.QUEUE, "kv_usage_pct"): "kv_usage",
    (Area.GPU, "temp_c"): "gpu_temp_c",
    (Area.DISK, "used_pct"): "disk_used_pct",
    (Area.HOST, "cpu_pct"): "cpu_pct",
}
"""Metrics whose bands a value is judged by."""
_WORDS: Mapping[tuple[Area, str], Mapping[str, Level]] = {
    (Area.GPU, "state"): {"lost": Level.CRITICAL},
    (Area.SOCKET, "verdict"): dict.fromkeys(("producer", "network", "consumer", "upstream"), Level.WARNING),
    (Area.POLLER, "state"): {"failed": Level.CRITICAL, "stale": Level.WARNING},
    (Area.JOB, "state"): dict.fromkeys(
        ("FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "CANCELLED", "PREEMPTED"), Level.CRITICAL
    )
    | dict.fromkeys(("PENDING", "SUSPENDED", "REQUEUED"), Level.WARNING),
}
_SICK_NODES = ("down", "fail", "drain", "not_respond")
_HARD = ("thermal", "slowdown", "brake")
"""Reasons for which a GPU slows down that somebody has to mend; a power cap is how most are run."""


def level_of(area: Area, key: str, value: float, metrics: Mapping[str, MetricStats] | None = None) -> Level:
    """The level of a value; NONE where it has no limits."""
    good, critical = _limits(area, key, metrics or {})
    if good is None or critical is None:
        return Level.NONE
    if critical < good:
        value, good, critical = -value, -good, -critical
    return Level.CRITICAL if value >= critical else Level.WARNING if value >= good else Level.GOOD


def _limits(area: Area, key: str, metrics: Mapping[str, MetricStats]) -> tuple[float | None, float | None]:
    known = metrics.get(_METRICS.get((area, key), ""))
    if known is not None and known.good is not None:
        return known.good, known.critical
    return _LIMITS.get((area, key), (None, None))


def worst_of(reading: Reading, metrics: Mapping[str, MetricStats] | None = None) -> Level:
    """The worst of all that it says."""
    area = reading.area
    levels = [level_of(area, key, value, metrics) for key, value in reading.values.items() if _judged(area, key)]
    levels += [_WORDS.get((area, key), {}).get(word, Level.NONE) for key, word in reading.words.items()]
    if area is Area.GPU:
        levels.append(throttle_level(reading))
    if area is Area.NODE and any(sick in reading.words.get("state", "").lower() for sick in _SICK_NODES):
        levels.append(Level.CRITICAL)
    return max(levels, default=Level.NONE)


def _judged(area: Area, key: str) -> bool:
    return (area, key) in _LIMITS or (area, key) in _METRICS


def throttle_level(reading: Reading) -> Level:
    """Whether it is slowed down: by heat or a fault, or by its power limit."""
    why = reading.words.get("throttle", "").lower()
    if not why or why in ("none", "-"):
        return Level.WARNING if reading.values.get("throttled") else Level.NONE
    if any(word in why for word in _HARD):
        return Level.CRITICAL if "hw" in why or "brake" in why else Level.WARNING
    return Level.WARNING if reading.values.get("throttled") else Level.NONE
