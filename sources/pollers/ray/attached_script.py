"""Runs on a node of a Ray cluster, by the cluster's Python and without perfmon: prints the depth of queues.

It is fed to `python -` and joins as a driver, which adds a row to the cluster's list of jobs and nothing else. The
request is a JSON object in PERFMON_QUEUES: address, namespace, names, every_s. It prints one JSON object a sample, and
ends when they are no longer read. A queue that does not answer within a second is null, with the reason: that it is
busy is a finding, too.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from typing import Any

METHODS = ("qsize", "size")
LIMIT_S = 1.0
LOOK_EVERY_S = 5.0


def emit(message: Any) -> None:
    """Print one line; ends when it is not read."""
    try:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    except (OSError, ValueError):
        os._exit(0)


def is_part(actor: str, name: str) -> bool:
    """True if an actor is the queue of this name, or one of its shards."""
    return actor == name or actor.startswith(name + "_shard_")


def find(ray: Any, request: Any) -> Any:
    """Queue name → its actors' methods that return how many are in; None for an actor that has none of them."""
    found: Any = {}
    for actor in ray.util.list_named_actors(all_namespaces=True):
        names = [name for name in request["names"] if is_part(actor["name"], name)]
        if actor["namespace"] != request["namespace"] or not names:
            continue
        handle = ray.get_actor(actor["name"], namespace=actor["namespace"])
        method = next((getattr(handle, method) for method in METHODS if hasattr(handle, method)), None)
        found.setdefault(names[0], []).append(method)
    return found


def depth(ray: Any, methods: Any) -> Any:
    """(how many are in all shards together, ""); (None, why) where one does not answer."""
    if None in methods:
        return None, "has neither " + " nor ".join(METHODS)
    try:
        return sum(ray.get([method.remote() for method in methods], timeout=LIMIT_S)), ""
    except Exception as error:
        return None, "busy" if isinstance(error, ray.exceptions.GetTimeoutError) else type(error).__name__


def main() -> None:
    """Until the output is closed."""
    request = json.loads(os.environ["PERFMON_QUEUES"])
    ray = importlib.import_module("ray")
    ray.init(address=request["address"], namespace=request["namespace"], log_to_driver=False, configure_logging=False)
    queues, looked = {}, 0.0
    while True:
        began = time.time()
        if began - looked > LOOK_EVERY_S:
            queues, looked = find(ray, request), began
        answers = {name: depth(ray, methods) for name, methods in queues.items()}
        depths = {name: count for name, (count, _) in answers.items()}
        why = {name: reason for name, (_, reason) in answers.items() if reason}
        emit({"at": began, "ms": 1e3 * (time.time() - began), "depths": depths, "why": why})
        time.sleep(max(0.0, request["every_s"] - (time.time() - began)))


if __name__ == "__main__":
    try:
        main()
    except Exception as error:
        emit({"error": str(error)[:300]})
