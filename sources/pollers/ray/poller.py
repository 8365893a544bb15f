"""Ray clusters by their pages of metrics: discovery, queues, waits."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from perfmon.core import UsageError, plain, without_login

from ...http_client import Opener, ReplyError, Url, get, parse_url
from ...shell import quoted
from ..base import Script, ScriptPoller
from ..metrics_page import Counters, Endpoint, Increase, Sample, Samples, off_loop, read_samples
from ..reading import Area, Machine, NotAvailableError, PollError, Reading

# --- What Ray's metrics show of its queues, of Ray Data and of the object store ---
#
# Of `ray.util.queue` they show who waits: a `get` of the queue's actor that runs is a consumer before an empty queue, a
# `put` that runs a producer before a full one. (Depth as puts less gets is only rough, for workers report when they
# like; and puts equal gets in every steady state: which side waits is what counts.)

NAMES = frozenset({
    "ray_tasks", "ray_object_store_used_memory", "ray_object_store_available_memory", "ray_spill_manager_objects_bytes",
    "ray_data_iter_total_blocked_seconds", "ray_data_iter_time_to_first_batch_seconds", "ray_data_iter_user_seconds",
    "ray_data_iter_batches_total", "ray_data_iter_blocked_production_wait_seconds",
    "ray_data_num_external_inqueue_blocks", "ray_data_num_external_outqueue_blocks",
})  # fmt: skip
"""Metrics that are looked for on the pages."""
_CALL = re.compile(r"(?:[^:]*:)?(\w*[Qq]ueue\w*)\.(get|put)\w*")
_DATA = {
    "ray_data_iter_total_blocked_seconds": "blocked_s",
    "ray_data_iter_time_to_first_batch_seconds": "first_s",
    "ray_data_iter_user_seconds": "user_s",
    "ray_data_iter_batches_total": "batches",
    "ray_data_iter_blocked_production_wait_seconds": "production_s",
}
_LOOKS = 6
"""Polls over which shares of time are taken."""
_LEAST_S = 0.5
"""Of a dataset that was read for less than this since the last poll nothing is reported."""
MOST = 32
_MB = 1e6

Sums = dict[str, dict[str, float]]


class RayWaits:
    """Readings of all pages of a cluster, poll after poll."""

    def __init__(self) -> None:
        self._counters = Counters()
        self._recent: dict[str, deque[tuple[bool, bool]]] = {}

    def take(self, samples: Sequence[Sample], at: float) -> list[Reading]:
        """Return the readings of pages that were fetched at `at` (monotonic seconds)."""
        running, ended = _calls(samples)
        data, blocks, store = _datasets(samples), _blocks(samples), _store(samples)
        counted: dict[Hashable, float] = {(name, call): n for name, calls in ended.items() for call, n in calls.items()}
        counted |= {(name, key): n for name, figures in data.items() for key, n in figures.items()}
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
        recent = self._recent.setdefault(name, deque(maxlen=_LOOKS))
        recent.append((waiting["consumers_waiting"] > 0, waiting["producers_waiting"] > 0))
        values = {**waiting, **_rates(name, ("put", "get"), grown)}
        if len(recent) == _LOOKS:
            values["empty_pct"] = 100.0 * sum(empty for empty, _ in recent) / _LOOKS
            values["full_pct"] = 100.0 * sum(full for _, full in recent) / _LOOKS
        return Reading(Area.QUEUE, f"ray/{plain(name, 80)}", values, {"kind": "ray"})


def _rates(name: str, calls: Iterable[str], grown: Increase) -> dict[str, float]:
    increases = {call: grown.by[name, call] for call in calls if (name, call) in grown.by}
    return {f"{call}_per_s": by / grown.seconds for call, by in increases.items()}


def _calls(samples: Sequence[Sample]) -> tuple[Sums, Sums]:
    """Running and finished calls of queues, by class and method; all other labels added up."""
    running, ended = Sums(), Sums()
    for sample in samples:
        match = _CALL.fullmatch(sample.labels.get("Name", "")) if sample.name == "ray_tasks" else None
        if match is None:
            continue
        teller = sample.labels.get("Source")  # since 2.5x; owners and executors report the same calls
        if sample.labels.get("State") == "RUNNING" and teller in (None, "executor"):
            _add(running, match[1], match[2], sample.value)
        elif sample.labels.get("State") == "FINISHED" and teller in (None, "owner"):
            _add(ended, match[1], match[2], sample.value)
    return running, ended


def _datasets(samples: Sequence[Sample]) -> Sums:
    sums = Sums()
    for sample in samples:
        if sample.name in _DATA:
            _add(sums, sample.labels.get("dataset", ""), _DATA[sample.name], sample.value)
    return sums


def _blocks(samples: Sequence[Sample]) -> Sums:
    sums = Sums()
    for sample in samples:
        if sample.name.startswith("ray_data_num_external_"):
            way = "in" if "_inqueue_" in sample.name else "out"
            _add(sums, sample.labels.get("dataset", ""), f"{way}_blocks", sample.value)
    return sums


def _dataset(name: str, blocks: Mapping[str, float], grown: Increase) -> Reading:
    """The share of its reader's time that went into waiting, but for the first batch, which means nothing."""
    by = {key: grown.by.get((name, key)) for key in _DATA.values()}
    values = dict(blocks)
    if by["blocked_s"] is not None and by["user_s"] is not None:
        blocked = max(0.0, by["blocked_s"] - (by["first_s"] or 0.0))
        if blocked + by["user_s"] >= _LEAST_S:
            values["data_share_pct"] = 100.0 * blocked / (blocked + by["user_s"])
        if by["production_s"] is not None and blocked >= _LEAST_S:
            # The rest of what it waits for happens in its own process: transfer, batching, formats, collation.
            production = max(0.0, by["production_s"] - (by["first_s"] or 0.0))
            values["production_pct"] = min(100.0, 100.0 * production / blocked)
    if by["batches"] is not None:
        values["get_per_s"] = by["batches"] / grown.seconds
    return Reading(Area.QUEUE, f"ray/data/{plain(name, 80)}", values, {"kind": "ray"})


def _store(samples: Sequence[Sample]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for sample in samples:
        key = {"ray_object_store_used_memory": "used", "ray_object_store_available_memory": "free"}.get(sample.name)
        if sample.name == "ray_spill_manager_objects_bytes" and sample.labels.get("State") == "Spilled":
            key = "spilled"
        if key is not None:
            sums[key] = sums.get(key, 0.0) + sample.value
    return sums


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


def _add(sums: Sums, name: str, key: str, value: float) -> None:
    values = sums.setdefault(name, {})
    values[key] = values.get(key, 0.0) + value


# --- Finds where a Ray cluster serves its metrics: by the files that it leaves, its own processes, or an address ---

FILE = "prom_metrics_service_discovery.json"
USUAL = "/tmp/ray"  # noqa: S108 - that is where Ray puts it
MOST_TARGETS = 32
SD_PATH = "/api/prometheus/sd"
"""Path at which a dashboard (port 8265) lists its targets, in Ray 2.5x and later."""
_TARGET = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]+\]):\d{1,5}")
_PROCESS = (
    "for f in $(grep -lsa 'ray/_private/[l]og_monitor.py' /proc/[0-9]*/cmdline); do "
    "if [ -O \"$f\" ]; then tr '\\0' '\\n' <\"$f\"; echo; fi; done"
)
"""Every node has this process, started by the cluster's Python; one of another user's is not believed."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray that runs on a machine, as its process there shows."""

    python: str = ""
    folder: str = USUAL
    """Its `--temp-dir`."""
    gcs: str = ""
    """HOST:PORT to attach to."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a cluster, from `ray=HOST:PORT`, `ray=http://HOST:PORT`, `ray=/temp/dir`, or `ray`."""

    url: Url | None = None
    folder: str = ""

    @classmethod
    def parse(cls, text: str) -> Place:
        """Raises UsageError."""
        if not text:
            return cls()
        if text.startswith("/"):
            return cls(folder=text.removesuffix(f"/{FILE}").rstrip("/") or "/")
        url = text if "://" in text else f"http://{text}"
        try:
            parsed = parse_url(url)
        except UsageError:
            parsed = None
        if parsed is None or parsed.scheme != "http" or (parsed.port == 80 and ":80" not in text):
            raise UsageError(
                f"'ray={without_login(text)}': expected the metrics port or the dashboard as HOST:PORT, "
                "Ray's --temp-dir as /PATH, or nothing"
            )
        return cls(url=parsed)


async def cluster_on(shell: Script, folder: str = "") -> Cluster:
    """The user's Ray that runs on a machine, with this `--temp-dir` where one is named; else where one would be."""
    processes = (await shell.run(_PROCESS)).text.split("\n\n")
    found = [cluster for text in processes if (cluster := _cluster(text.splitlines())) is not None]
    return next((cluster for cluster in found if folder in ("", cluster.folder)), Cluster(folder=folder or USUAL))


def _cluster(arguments: Sequence[str]) -> Cluster | None:
    options = dict(argument.removeprefix("--").split("=", 1) for argument in arguments if "=" in argument)
    folder, gcs = options.get("session-dir", "").rpartition("/session_")[0], options.get("gcs-address", "")
    if not folder.startswith("/") or not _TARGET.fullmatch(gcs) or not arguments[0].startswith("/"):
        return None
    return Cluster(arguments[0], folder, gcs)


async def targets_in(shell: Script, folder: str, host: str) -> list[str]:
    """HOST:PORT of all pages of metrics. Raises NotAvailableError without such a file, PollError for an invalid one."""
    path = f"{folder}/{FILE}"
    output = await shell.run(f"head -c 1000000 {quoted(path)}")
    if output.code or not output.data:
        raise NotAvailableError(f"ray: no {plain(path, 200)} on {host}: is Ray running?")
    targets = targets_of(output.text)
    if not targets:
        raise PollError(f"ray: {plain(path, 200)} lists no metrics endpoints")
    return targets


async def targets_by(opener: Opener, url: Url) -> list[str]:
    """HOST:PORT of all pages that a dashboard names; of a page of metrics itself, that one."""
    with suppress(ReplyError):
        reply = await get(opener, Url(url.scheme, url.host, url.port, SD_PATH))
        if reply.status == 200 and (targets := targets_of(reply.body.decode("utf-8", "replace"))):
            return targets
    host = f"[{url.host}]" if ":" in url.host else url.host
    return [f"{host}:{url.port}"]


def targets_of(text: str) -> list[str]:
    """Targets of a discovery file; what is no address is left out."""
    try:
        groups = json.loads(text)
    except ValueError:
        return []
    found = [target for group in _list(groups) if isinstance(group, dict) for target in _list(group.get("targets"))]
    return list(dict.fromkeys(t for t in found if isinstance(t, str) and _TARGET.fullmatch(t)))[:MOST_TARGETS]


def _list(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else []


# --- Queries a Ray cluster's pages of metrics, without joining it: no client, no driver, nothing Ray would notice ---

EVERY_S = 10.0
"""Ray's own metrics are as old as that."""
_LOOK_EVERY = 6
"""Polls after which the pages are looked for again: nodes come and go."""
LOOK_S = 20.0
"""Time limit of a script that looks for a cluster."""


class RayPoller(ScriptPoller):
    """Polls one cluster."""

    every_s = EVERY_S

    def __init__(self, machine: Machine, place: Place) -> None:
        super().__init__(machine, Script(machine, "ray: ", LOOK_S))
        self._place = place
        self._waits = RayWaits()
        self._targets: list[str] = []
        self._polls = 0

    @property
    def name(self) -> str:
        """`ray`, and where."""
        where = self._place.url.shown if self._place.url is not None else self._place.folder
        return f"ray {where}".rstrip()

    async def poll(self) -> Sequence[Reading]:
        """Readings of queues, datasets and the object store. Raises PollError when no page answers."""
        if not self._targets or self._polls % _LOOK_EVERY == 0:
            self._targets = await self._look()
        self._polls += 1
        pages = await asyncio.gather(*(self._page(target) for target in self._targets), return_exceptions=True)
        troubles = [page for page in pages if isinstance(page, BaseException)]
        if len(troubles) == len(pages):
            self._targets = []
            raise troubles[0]
        samples = [sample for page in pages if not isinstance(page, BaseException) for sample in page]
        if not samples:
            where, self._targets = self._targets[0], []
            raise PollError(f"{self.name}: no Ray metrics on {where} yet")
        return self._waits.take(samples, time.monotonic())

    async def _look(self) -> list[str]:
        if self._place.url is not None:
            return await targets_by(self._machine.opener, self._place.url)
        folder = self._place.folder or (await cluster_on(self._shell)).folder
        return await targets_in(self._shell, folder, self._machine.name)

    async def _page(self, target: str) -> Sequence[Sample]:
        page = await Endpoint.parse("ray", f"http://{target}").fetch(self._machine.opener)
        return (await off_loop(page, _read)).found


def _read(page: bytes) -> Samples:
    return read_samples(page, NAMES)
