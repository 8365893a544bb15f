"""`--engine ray`: partial results are made and merged by the workers of an existing Ray cluster.

Workers read the log files themselves, from a file system that all nodes share; only aggregated tables travel. Before
any work each node shows that it has the same version of perfmon and sees the files.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from platform import python_version
from typing import TYPE_CHECKING, Any

from perfmon._version import __version__
from perfmon.core import ConnectError, InputError, MissingExtraError, UsageError, counted, plain

from .aggregate import PartialTables, RepairCounts, load_tables, merge, partial
from .files import InspectorFile, batches

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ADDRESS = re.compile(r"(?:ray://)?(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_REACH_S = 5
_ANSWER_S = 60
"""Seconds for a node to start a worker."""
_MOST_BYTES = 256 << 20
_LEAST_BYTES = 64 << 10
_TASKS_PER_CPU = 2
_MERGED_AT_ONCE = 16
_SAMPLED_FILES = 16
_NAMED_NODES = 3
_LOCAL = "or use --engine local"


@dataclass(frozen=True, slots=True)
class RayEngine:
    """A Ray cluster by its address: `auto` is the one of RAY_ADDRESS, or else the one that runs on this host.

    Raises UsageError for what is no address, and MissingExtraError without Ray.
    """

    address: str = "auto"

    def __post_init__(self) -> None:
        if self.address != "auto":
            _port(self.address, "--engine ray")
        if find_spec("ray") is None:
            raise MissingExtraError("--engine ray", "ray")

    def load(
        self,
        connection: DuckDBPyConnection,
        files: Sequence[InspectorFile],
        progress: Callable[[int, int], None] | None = None,
    ) -> RepairCounts:
        """Aggregate files into the tables of a database, as the local `load` does, and with the same result.

        Raises ConnectError without a cluster, and InputError where its nodes cannot do it.
        """
        seen = [replace(file, path=file.path.absolute()) for file in files]
        with _connected(self.address) as (ray, name):
            _check_nodes(ray, name, seen)
            tables = _tables(ray, name, seen, progress)
        return load_tables(connection, tables)


def _aggregate(files: Sequence[InspectorFile]) -> PartialTables:
    """Run by a worker, on one CPU."""
    missing = next((file.path for file in files if not file.path.is_file()), None)
    if missing is not None:
        raise InputError(f"{plain(str(missing), 200)}: not visible on {socket.gethostname()}")
    return partial(files, cores=1)


def _merge(*tables: PartialTables) -> PartialTables:
    """Run by a worker."""
    return merge(tables)


def _tables(
    ray: Any, name: str, files: Sequence[InspectorFile], progress: Callable[[int, int], None] | None
) -> list[PartialTables]:
    """Partial results of all files, merged until a few are left."""
    from ray.exceptions import RayError, RayTaskError

    cpus = int(ray.available_resources().get("CPU", 0))
    if cpus < 1:
        raise InputError(f"{name}: all CPUs of the Ray cluster are in use (repeat when one is free, {_LOCAL})")
    total, done = sum(file.volume for file in files), 0
    volume = max(_LEAST_BYTES, min(_MOST_BYTES, total // (_TASKS_PER_CPU * cpus) + 1))
    aggregate, combine = ray.remote(num_cpus=1)(_aggregate), ray.remote(num_cpus=1)(_merge)
    pending = {}
    try:
        for batch in batches(files, volume):
            pending[aggregate.remote(batch)] = sum(file.volume for file in batch)
        parts = list(pending)
        while pending:
            for ready in ray.wait(list(pending))[0]:
                done += pending.pop(ready)
                if progress is not None:
                    progress(done, total)
        while len(parts) > _MERGED_AT_ONCE:
            parts = [combine.remote(*parts[at : at + _MERGED_AT_ONCE]) for at in range(0, len(parts), _MERGED_AT_ONCE)]
        tables: list[PartialTables] = ray.get(parts)
    except RayTaskError as error:
        cause = error.cause
        reason = str(cause) if isinstance(cause, InputError) else f"{type(cause).__name__}: {cause}"
        raise InputError(f"{name}: a Ray worker failed: {_line(reason)}") from None
    except RayError as error:
        raise InputError(f"{name}: a Ray worker failed: {_line(str(error))} ({_LOCAL})") from None
    return tables


# --- The cluster ---


def _port(address: str, what: str) -> tuple[str, int]:
    """(host, port) of an address."""
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match[1]) > 65535:
        raise UsageError(f"{what}={plain(address, 80)}: expected HOST:PORT or ray://HOST:PORT")
    host = address.removeprefix("ray://").rpartition(":")[0].strip("[]")
    return host, int(match[1])


@contextmanager
def _connected(address: str) -> Iterator[tuple[Any, str]]:
    """(Ray, the address that is used). Ray starts nothing here: there is a cluster, or an error."""
    if address == "auto":
        address = os.environ.get("RAY_ADDRESS", "").strip() or "auto"
    if address != "auto":
        host, port = _port(address, "RAY_ADDRESS")
        # Ray itself waits for any port that is open, without an end.
        try:
            socket.create_connection((host, port), _REACH_S).close()
        except OSError as error:
            raise ConnectError(f"{address}: no Ray cluster at this address: {error.strerror or error}") from None
        if not _speaks_grpc(host, port):
            raise ConnectError(f"{address}: no Ray cluster at this address: another service answers there")
    with warnings.catch_warnings(action="ignore"):
        import ray

        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, namespace="perfmon")
        except Exception as error:  # of many types, those of its own and of gRPC among them
            raise _refusal(address, str(error)) from None
        try:
            yield ray, "this host" if address == "auto" else address
        finally:
            ray.shutdown()


def _speaks_grpc(host: str, port: int) -> bool:
    """Return false if what listens there is no gRPC server; with TLS that is not known."""
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true") or find_spec("grpc") is None:
        return True
    import grpc

    channel = grpc.insecure_channel(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    try:
        grpc.channel_ready_future(channel).result(timeout=_REACH_S)
    except grpc.FutureTimeoutError:
        return False
    finally:
        channel.close()
    return True


def _refusal(address: str, reason: str) -> ConnectError | InputError:
    if "ersion mismatch" in reason:
        versions = re.findall(r"(Ray|Python): (\S+)", reason)
        words = [" ".join(pair) for pair in versions]
        half = len(words) // 2
        detail = f": {', '.join(words[:half])} there, {', '.join(words[half:])} here" if half else ""
        return InputError(f"{address}: the Ray cluster has other versions{detail} (install the same, {_LOCAL})")
    if address == "auto":
        return ConnectError(f"no Ray cluster runs on this host (--engine ray=HOST:PORT, {_LOCAL})")
    return ConnectError(f"{address}: no Ray cluster at this address: {_line(reason)}")


def _line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return plain(lines[0] if lines else "no reason given", 200)


# --- Its nodes ---

_Sight = tuple[str, str, bool, str]
"""Versions of perfmon and Python, presence of DuckDB, and the first file that is not there."""


def _probe() -> Callable[[Sequence[tuple[str, int]]], _Sight]:
    """Function that travels by value, as a node may have no perfmon: it is local, and uses nothing of this module."""

    def probe(files: Sequence[tuple[str, int]]) -> _Sight:
        import os
        from importlib.util import find_spec
        from platform import python_version

        try:
            from perfmon._version import __version__ as version
        except ImportError:
            version = ""
        missing = ""
        for path, size in files:
            try:
                complete = os.stat(path).st_size >= size
            except OSError:
                complete = False
            if not complete:
                missing = path
                break
        return version, python_version(), find_spec("duckdb") is not None, missing

    return probe


def _check_nodes(ray: Any, name: str, files: Sequence[InspectorFile]) -> None:
    """Raise InputError if a node that has CPUs cannot do the work, with the reason and the names of such nodes."""
    from ray.exceptions import GetTimeoutError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    step = max(1, len(files) // _SAMPLED_FILES)
    sample = [(str(file.path), file.size) for file in (*files[::step], files[-1])]
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
    probe = ray.remote(num_cpus=0, max_retries=0)(_probe())
    sights = {
        node["NodeManagerHostname"] or node["NodeManagerAddress"]: probe.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(sample)
        for node in nodes
    }
    problems: dict[str, list[str]] = {}
    for host, sight in sights.items():
        try:
            reason = _obstacle(ray.get(sight, timeout=_ANSWER_S))
        except GetTimeoutError:
            reason = f"started no worker within {_ANSWER_S} s"
        except RayError as error:
            reason = f"started no worker: {_line(str(error))}"
        if reason:
            problems.setdefault(reason, []).append(plain(str(host), 60))
    for reason, hosts in problems.items():
        others = f" and {counted(len(hosts) - _NAMED_NODES, 'other')}" if len(hosts) > _NAMED_NODES else ""
        raise InputError(f"{name}: Ray node {', '.join(hosts[:_NAMED_NODES])}{others} {reason}")


def _obstacle(sight: _Sight) -> str:
    """Reason why a node cannot do the work; empty if it can."""
    version, python, has_duckdb, missing = sight
    install = f"(pip install 'perfmon-tui[nccl]=={__version__}' there, {_LOCAL})"
    if not version:
        return f"has no perfmon {install}"
    if version != __version__:
        return f"has perfmon {version}, here it is {__version__} {install}"
    if python.split(".")[:2] != python_version().split(".")[:2]:
        return f"has Python {python}, here it is {python_version()} (use the same, {_LOCAL})"
    if not has_duckdb:
        return f"has no DuckDB {install}"
    if missing:
        return f"does not see {plain(missing, 200)} (put the logs on a file system that all nodes share, {_LOCAL})"
    return ""
