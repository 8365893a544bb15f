"""The queue between producer and consumer: one in a process of its own, or an actor of a Ray cluster."""

from __future__ import annotations

import logging
import pickle
import queue
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import Any, Protocol

from perfmon import emit

from .plan import Plan
from .process import until_stopped

NAME = "peaknet_q1"
"""Of the actor, in the namespace `NAMESPACE`."""
NAMESPACE = "lab"
RAY_ENVIRONMENT = {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}
"""A token that lies in the home of who runs the lab is not that of its cluster."""
_METHODS = ("put", "get", "qsize")
_KEY = b"of this run alone"
_STORE_BYTES = 200_000_000


class Batch:
    """What is handed over; it may take long to serialise."""

    def __init__(self, data: bytes, serialise_s: float) -> None:
        self.data = data
        self._serialise_s = serialise_s

    def __reduce__(self) -> tuple[object, ...]:
        """Takes as long as it is slow; only the first time, as that is the producer's."""
        time.sleep(self._serialise_s)
        return Batch, (self.data, 0.0)


class Channel(Protocol):
    """The queue, as producer and consumer see it."""

    def store(self, batch: Batch) -> object:
        """Serialises a batch; what it returns can be put."""

    def put(self, stored: object) -> None:
        """Waits for a free place."""

    def get(self, timeout_s: float) -> Batch | None:
        """The next batch; None where none came in time."""


def address_file(plan: Plan) -> Path:
    """A file that is there once the queue is."""
    return plan.folder / "queue-address"


def ray_folder(plan: Plan) -> str:
    """Ray's `--temp-dir`; its sockets need a short path."""
    return f"{tempfile.gettempdir()}/lab-ray-{plan.port}"


# --- The side of the queue ---


def serve(plan: Plan) -> None:
    """Keeps the queue until it is stopped."""
    if plan.knobs().ray_queue:
        _serve_ray(plan)
    else:
        _serve_own(plan)


class _Queue:
    """One queue in this process; every put and get takes its time, one at a time."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._items: queue.Queue[object] = queue.Queue(plan.knobs().queue_items)
        self._one = threading.Lock()

    def put(self, stored: object) -> None:
        self._take_time()
        self._items.put(stored)

    def get(self, timeout_s: float) -> object:
        try:
            stored = self._items.get(timeout=timeout_s)
        except queue.Empty:
            return None
        self._take_time()
        return stored

    def qsize(self) -> int:
        return self._items.qsize()

    def _take_time(self) -> None:
        with self._one:
            time.sleep(self._plan.knobs().queue_s)


class _Manager(BaseManager):
    """Serves one queue to other processes."""


def _serve_own(plan: Plan) -> None:
    served = _Queue(plan)
    _Manager.register("queue", callable=lambda: served, exposed=_METHODS)
    server = _Manager(_address(plan), _KEY).get_server()
    address_file(plan).write_text(_address(plan)[1:], "utf-8")
    with until_stopped():
        server.serve_forever()


def _address(plan: Plan) -> str:
    """A Unix socket without a file."""
    return f"\0lab-queue-{plan.port}"


def _serve_ray(plan: Plan) -> None:
    import ray
    from ray.util.queue import Queue

    with until_stopped():
        ray.init(
            num_cpus=1, object_store_memory=_STORE_BYTES, namespace=NAMESPACE, log_to_driver=False,
            logging_level=logging.ERROR, _temp_dir=ray_folder(plan), include_dashboard=True, dashboard_port=0,
        )  # fmt: skip
        kept = Queue(plan.knobs().queue_items, actor_options={"num_cpus": 0, "name": NAME})
        kept.qsize()
        address_file(plan).write_text(ray.get_runtime_context().gcs_address, "utf-8")
        threading.Event().wait()


# --- The side of who puts and gets ---


def connect(plan: Plan) -> Channel:
    """The queue of a run, once it is there."""
    return _RayChannel(plan) if plan.knobs().ray_queue else _OwnChannel(plan)


def _monitored(calls: Any, plan: Plan) -> emit.QueueMonitor:
    """Of this process: it counts what is put, or got, in here, and how long that waits."""
    monitor = emit.QueueMonitor(calls.qsize, "Q1", plan.knobs().queue_items)
    monitor.start()
    return monitor


class _OwnChannel:
    def __init__(self, plan: Plan) -> None:
        _Manager.register("queue", exposed=_METHODS)
        manager = _Manager(_address(plan), _KEY)
        manager.connect()
        self._queue = manager.queue()  # type: ignore[attr-defined]  # registered above
        self._monitor = _monitored(self._queue, plan)

    def store(self, batch: Batch) -> object:
        return pickle.dumps(batch)

    def put(self, stored: object) -> None:
        with self._monitor.putting():
            self._queue.put(stored)

    def get(self, timeout_s: float) -> Batch | None:
        with suppress(queue.Empty), self._monitor.getting():
            stored = self._queue.get(timeout_s)
            if stored is None:
                raise queue.Empty
            batch: Batch = pickle.loads(stored)  # noqa: S301 - of this run
            return batch
        return None


class _RayChannel:
    def __init__(self, plan: Plan) -> None:
        import ray
        from ray.util.queue import Empty, Queue

        address = address_file(plan).read_text("utf-8")
        ray.init(address, namespace=NAMESPACE, log_to_driver=False, logging_level=logging.ERROR)
        self._ray, self._empty = ray, Empty
        self._queue: Any = Queue.__new__(Queue)  # that one which is there; the class can only make new ones
        self._queue.maxsize, self._queue.actor = plan.knobs().queue_items, ray.get_actor(NAME)
        self._monitor = _monitored(self._queue, plan)

    def store(self, batch: Batch) -> object:
        return self._ray.put(batch)

    def put(self, stored: object) -> None:
        with self._monitor.putting():
            self._queue.put([stored])

    def get(self, timeout_s: float) -> Batch | None:
        with suppress(self._empty), self._monitor.getting():
            [stored] = self._queue.get(timeout=timeout_s)
            batch: Batch = self._ray.get(stored)
            return batch
        return None
