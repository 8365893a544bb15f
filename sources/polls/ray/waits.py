"""What Ray's metrics say of its queues, of Ray Data and of the object store.

Of `ray.util.queue` they tell who waits: a `get` of the queue's actor that runs is a consumer before an empty queue, a
`put` that runs a producer before a full one. (Depth as puts less gets is only rough, for workers report when they
like; and puts equal gets in every steady state: which side waits is what tells.)
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence

from perfmon.text import plain

from ..pages.openmetrics import Sample
from ..pages.rates import Counters, Increase
from ..reading import Area, Reading

NAMES = frozenset({
    "ray_tasks", "ray_object_store_used_memory", "ray_object_store_available_memory", "ray_spill_manager_objects_bytes",
    "ray_data_iter_total_blocked_seconds", "ray_data_iter_time_to_first_batch_seconds", "ray_data_iter_user_seconds",
    "ray_data_iter_batches_total", "ray_data_num_external_inqueue_blocks", "ray_data_num_external_outqueue_blocks",
})  # fmt: skip
"""What is looked for on the pages."""
_CALL = re.compile(r"(?:[^:]*:)?(\w*[Qq]ueue\w*)\.(get|put)\w*")
_DATA = {
    "ray_data_iter_total_blocked_seconds": "blocked_s",
    "ray_data_iter_time_to_first_batch_seconds": "first_s",
    "ray_data_iter_user_seconds": "user_s",
    "ray_data_iter_batches_total": "batches",
}
_LOOKS = 6
"""Polls over which shares of time are taken."""
_LEAST_S = 0.5
"""Of a dataset that was read for less than this since the last poll nothing is told."""
MOST = 32
_MB = 1e6

Told = dict[str, dict[str, float]]


class RayWaits:
    """Readings of all pages of a cluster, poll after poll."""

    def __init__(self) -> None:
        self._counters = Counters()
        self._looks: dict[str, deque[tuple[bool, bool]]] = {}

    def take(self, samples: Sequence[Sample], at: float) -> list[Reading]:
        """What the pages tell at a moment (monotonic seconds)."""
        running, ended = _calls(samples)
        data, blocks, store = _datasets(samples), _blocks(samples), _store(samples)
        counted: dict[Hashable, float] = {(name, call): n for name, calls in ended.items() for call, n in calls.items()}
        counted |= {(name, key): n for name, told in data.items() for key, n in told.items()}
        if "spilled" in store:
            counted["spilled"] = store["spilled"]
        grown = self._counters.take(counted, at)
        readings = [self._queue(name, running.get(name, {}), grown) for name in sorted({*running, *ended})[:MOST]]
        readings += [_dataset(name, blocks.get(name, {}), grown) for name in sorted(data)[:MOST]]
        if store:
            readings.append(_object_store(store, grown))
        return [reading for reading in readings if reading.values]

    def _queue(self, name: str, running: Mapping[str, float], grown: Increase) -> Reading:
        waiting = {"consumers_waiting": running.get("get", 0.0), "producers_waiting": running.get("put", 0.0)}
        looks = self._looks.setdefault(name, deque(maxlen=_LOOKS))
        looks.append((waiting["consumers_waiting"] > 0, waiting["producers_waiting"] > 0))
        values = {**waiting, **_rates(name, ("put", "get"), grown)}
        if len(looks) == _LOOKS:
            values["empty_pct"] = 100.0 * sum(empty for empty, _ in looks) / _LOOKS
            values["full_pct"] = 100.0 * sum(full for _, full in looks) / _LOOKS
        return Reading(Area.QUEUE, f"ray/{plain(name, 80)}", values, {"kind": "ray"})


def _rates(name: str, calls: Iterable[str], grown: Increase) -> dict[str, float]:
    told = {call: grown.by[name, call] for call in calls if (name, call) in grown.by}
    return {f"{call}_per_s": by / grown.seconds for call, by in told.items()}


def _calls(samples: Sequence[Sample]) -> tuple[Told, Told]:
    """Calls of queues that run, and that have ended, by class and what they do; all other labels added up."""
    running, ended = Told(), Told()
    for sample in samples:
        match = _CALL.fullmatch(sample.labels.get("Name", "")) if sample.name == "ray_tasks" else None
        if match is None:
            continue
        teller = sample.labels.get("Source")  # since 2.5x; owners and executors tell of the same calls
        if sample.labels.get("State") == "RUNNING" and teller in (None, "executor"):
            _add(running, match[1], match[2], sample.value)
        elif sample.labels.get("State") == "FINISHED" and teller in (None, "owner"):
            _add(ended, match[1], match[2], sample.value)
    return running, ended


def _datasets(samples: Sequence[Sample]) -> Told:
    told = Told()
    for sample in samples:
        if sample.name in _DATA:
            _add(told, sample.labels.get("dataset", ""), _DATA[sample.name], sample.value)
    return told


def _blocks(samples: Sequence[Sample]) -> Told:
    told = Told()
    for sample in samples:
        if sample.name.startswith("ray_data_num_external_"):
            way = "in" if "_inqueue_" in sample.name else "out"
            _add(told, sample.labels.get("dataset", ""), f"{way}_blocks", sample.value)
    return told


def _dataset(name: str, blocks: Mapping[str, float], grown: Increase) -> Reading:
    """The share of its reader's time that went into waiting, but for the first batch, which says nothing."""
    by = {key: grown.by.get((name, key)) for key in _DATA.values()}
    values = dict(blocks)
    if by["blocked_s"] is not None and by["user_s"] is not None:
        blocked = max(0.0, by["blocked_s"] - (by["first_s"] or 0.0))
        if blocked + by["user_s"] >= _LEAST_S:
            values["data_share_pct"] = 100.0 * blocked / (blocked + by["user_s"])
    if by["batches"] is not None:
        values["get_per_s"] = by["batches"] / grown.seconds
    return Reading(Area.QUEUE, f"ray/data/{plain(name, 80)}", values, {"kind": "ray"})


def _store(samples: Sequence[Sample]) -> dict[str, float]:
    told: dict[str, float] = {}
    for sample in samples:
        key = {"ray_object_store_used_memory": "used", "ray_object_store_available_memory": "free"}.get(sample.name)
        if sample.name == "ray_spill_manager_objects_bytes" and sample.labels.get("State") == "Spilled":
            key = "spilled"
        if key is not None:
            told[key] = told.get(key, 0.0) + sample.value
    return told


def _object_store(store: Mapping[str, float], grown: Increase) -> Reading:
    values = {}
    whole = store.get("used", 0.0) + store.get("free", 0.0)
    if whole > 0:
        values["store_fill_pct"] = 100.0 * store.get("used", 0.0) / whole
    if "spilled" in store:
        values["spilled_mb"] = store["spilled"] / _MB
    if "spilled" in grown.by:
        values["spill_mb_s"] = grown.by["spilled"] / _MB / grown.seconds
    return Reading(Area.QUEUE, "ray/object-store", values, {"kind": "ray"})


def _add(told: Told, name: str, key: str, value: float) -> None:
    values = told.setdefault(name, {})
    values[key] = values.get(key, 0.0) + value
