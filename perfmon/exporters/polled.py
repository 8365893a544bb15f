"""Last readings of GPUs, hosts, queues and jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from perfmon.machines import Seen
from perfmon.sources.polls.reading import Area
from perfmon.surroundings.amounts import cores

from .families import Families
from .names import label_name, named

OLDEST_S = 300.0
"""Of a thing that was not heard of for longer only the age is told: old values must not be taken for new ones."""
_LABELS: Mapping[Area, str] = {
    Area.GPU: "gpu", Area.PROCESS: "pid", Area.HOST: "", Area.DISK: "mount", Area.NIC: "device", Area.SOCKET: "port",
    Area.QUEUE: "queue", Area.JOB: "job_id", Area.NODE: "node", Area.VALUE: "name", Area.POLLER: "poller",
}  # fmt: skip
"""The label that says which one it is; a host is said by `host` alone."""
_CHANGING = frozenset({"state", "throttle", "verdict", "reason", "why"})
"""Words that change: each is a family of its own, so that what they stand beside stays the same series."""

_OF_CORES = frozenset({"cores_busy", "cores_iowait"})


def add_polled(families: Families, seen: Iterable[Seen], now: float) -> None:
    """Every reading; `now` is the present on the axis of `Seen.at`."""
    for one in seen:
        age_s = max(0.0, now - one.at)
        which = _which(one)
        families.gauge(
            "reading_age_seconds",
            "Seconds since the last reading of a poller",
            age_s,
            area=one.reading.area.value,
            host=one.host,
            name=one.reading.name,
        )
        if age_s <= OLDEST_S:
            _add_reading(families, one, which)


def _which(one: Seen) -> dict[str, str]:
    label = _LABELS[one.reading.area]
    return {"host": one.host, **({label: one.reading.name} if label else {})}


def _add_reading(families: Families, one: Seen, which: dict[str, str]) -> None:
    area, words = one.reading.area.value, one.reading.words
    for key, value in one.reading.values.items():
        base, factor, _ = named(key)
        families.gauge(f"{area}_{base}", f"{key} of the {area}, last polled value", value * factor, **which)
    for key in _CHANGING & words.keys():
        said = f"1 for the {key} of the {area}, last polled value"
        families.gauge(f"{area}_{key}", said, 1.0, **{**which, key: words[key]})
    for key in _OF_CORES & words.keys():
        about = f"Of the {area}'s CPU cores, singly or in groups, last polled value, rounded to 0.1"
        for at, told in enumerate(cores(one, key)):
            families.gauge(f"{area}_{key}_ratio", about, told / 100.0, **which, core=str(at))
    steady = {label_name(key): word for key, word in words.items() if key not in _CHANGING | _OF_CORES}
    if steady:
        families.info(area, f"What the {area} is", **{**steady, **which})
