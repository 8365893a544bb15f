"""`--engine ray`: functions run on the workers of an existing Ray cluster.

Workers read files themselves, from a file system that all nodes share. Before any work each node shows that it has the
same version of perfmon and sees the files.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from platform import python_version
from typing import Any

from perfmon._version import __version__
from perfmon.core import ConnectError, InputError, MissingExtraError, UsageError, counted, plain

_ADDRESS = re.compile(r"(?:ray://)?(?:\[[0-9a-fA-F:]+\]|[A-Za-z0-9._-]+):(\d{1,5})")
_REACH_S = 5
_ANSWER_S = 60
"""Seconds for a node to start a worker."""
_SAMPLED_FILES = 16
_NAMED_NODES = 3
LOCAL = "or use --engine local"


@dataclass(frozen=True, slots=True)
class RayCluster:
    """A Ray cluster by its address: `auto` is the one of RAY_ADDRESS, or else the one that runs on this host.

    Raises UsageError for what is no address, and MissingExtraError without Ray.
    """

    address: str = "auto"

    def __post_init__(self) -> None:
        if self.address != "auto":
            _port(self.address, "--engine ray")
        if find_spec("ray") is None:
            raise MissingExtraError("--engine ray", "ray")

    @classmethod
    def of_option(cls, text: str) -> RayCluster | None:
        """The cluster of an option `--engine`: `ray` or `ray=ADDRESS`; None for `local`.

        Raises UsageError or MissingExtraError.
        """
        name, equals, address = text.partition("=")
        if name == "ray" and (address or not equals):
            return cls(address or "auto")
        if text != "local":
            raise UsageError(f"--engine {plain(text, 80)}: expected local, ray or ray=HOST:PORT")
        return None

    @contextmanager
    def workers(self, files: Sequence[tuple[Path, int]], needs: Mapping[str, str]) -> Iterator[Workers]:
        """The workers for files: path, and bytes that must be there; `needs`: extra by module that nodes must have.

        Raises ConnectError without a cluster, and InputError where its nodes cannot do it.
        """
        with _connected(self.address) as (ray, name):
            _check_nodes(ray, name, files, needs)
            yield Workers(ray, name)


@dataclass(frozen=True, slots=True)
class Workers:
    """Connected workers."""

    ray: Any
    name: str
    """The address that is used, for messages."""

    def free(self) -> int:
        """Count the CPUs that are free.

        Raises InputError where all are in use.
        """
        cpus = int(self.ray.available_resources().get("CPU", 0))
        if cpus < 1:
            raise InputError(f"{self.name}: all CPUs of the Ray cluster are in use (repeat when one is free, {LOCAL})")
        return cpus

    def start(self, function: Callable[..., Any], items: Iterable[tuple[Any, ...]]) -> list[Any]:
        """References to the results for arguments, in their order; one CPU each."""
        task = self.ray.remote(num_cpus=1)(function)
        return [task.remote(*arguments) for arguments in items]

    def wait(self, pending: Mapping[Any, int], progress: Callable[[int, int], None] | None) -> None:
        """Wait for results; the numbers are their parts of the progress."""
        left, total, done = dict(pending), sum(pending.values()), 0
        while left:
            for ready in self.ray.wait(list(left))[0]:
                done += left.pop(ready)
                if progress is not None:
                    progress(done, total)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Turn what workers raise into an InputError."""
        from ray.exceptions import RayError, RayTaskError

        try:
            yield
        except RayTaskError as error:
            cause = error.cause
            reason = str(cause) if isinstance(cause, InputError) else f"{type(cause).__name__}: {cause}"
            raise InputError(f"{self.name}: a Ray worker failed: {_line(reason)}") from None
        except RayError as error:
            raise InputError(f"{self.name}: a Ray worker failed: {_line(str(error))} ({LOCAL})") from None


def check_visible(path: Path) -> None:
    """Raise InputError on a worker that does not see a file."""
    if not path.is_file():
        raise InputError(f"{plain(str(path), 200)}: not visible on {socket.gethostname()}")


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
        if not _serves_grpc(host, port):
            raise ConnectError(f"{address}: no Ray cluster at this address: another service answers there")
    with warnings.catch_warnings(action="ignore"):
        import ray

        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.CRITICAL, namespace="perfmon")
        except Exception as error:  # of many types, those of its own and of gRPC among them
            if address != "auto" and _wants_token(host, port):
                raise ConnectError(
                    f"{address}: the Ray cluster requires authentication, and got no valid token "
                    f"(RAY_AUTH_MODE=token with RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH, {LOCAL})"
                ) from None
            raise _refusal(address, str(error)) from None
        try:
            yield ray, "this host" if address == "auto" else address
        finally:
            ray.shutdown()


def _serves_grpc(host: str, port: int) -> bool:
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


def _wants_token(host: str, port: int) -> bool:
    """Return true if a cluster refuses a call without a token; Ray itself writes that to its log alone."""
    if find_spec("grpc") is None:
        return False
    import grpc

    with grpc.insecure_channel(f"[{host}]:{port}" if ":" in host else f"{host}:{port}") as channel:
        try:
            call: Any = channel.unary_unary("/ray.rpc.NodeInfoGcsService/GetClusterId")
            call(b"", timeout=_REACH_S)
        except grpc.RpcError as error:
            return bool(error.code() is grpc.StatusCode.UNAUTHENTICATED)
    return False


def _refusal(address: str, reason: str) -> ConnectError | InputError:
    if "ersion mismatch" in reason:
        versions = re.findall(r"(Ray|Python): (\S+)", reason)
        words = [" ".join(pair) for pair in versions]
        half = len(words) // 2
        detail = f": {', '.join(words[:half])} there, {', '.join(words[half:])} here" if half else ""
        return InputError(f"{address}: the Ray cluster has other versions{detail} (install the same, {LOCAL})")
    if address == "auto":
        return ConnectError(f"no Ray cluster runs on this host (--engine ray=HOST:PORT, {LOCAL})")
    return ConnectError(f"{address}: no Ray cluster at this address: {_line(reason)}")


def _line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return plain(lines[0] if lines else "no reason given", 200)


# --- Its nodes ---

_Sight = tuple[str, str, str, str]
"""Versions of perfmon and Python, the first module and the first file that is not there."""


def _probe() -> Callable[[Sequence[tuple[str, int]], Sequence[str]], _Sight]:
    """Function that travels by value, as a node may have no perfmon: it is local, and uses nothing of this module."""

    def probe(files: Sequence[tuple[str, int]], modules: Sequence[str]) -> _Sight:
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
        absent = next((module for module in modules if find_spec(module) is None), "")
        return version, python_version(), absent, missing

    return probe


def _check_nodes(ray: Any, name: str, files: Sequence[tuple[Path, int]], needs: Mapping[str, str]) -> None:
    """Raise InputError if a node that has CPUs cannot do the work, with the reason and the names of such nodes."""
    from ray.exceptions import GetTimeoutError, RayError
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    step = max(1, len(files) // _SAMPLED_FILES)
    sample = [(str(path), size) for path, size in (*files[::step], files[-1])]
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
    probe = ray.remote(num_cpus=0, max_retries=0)(_probe())
    sights = {
        node["NodeManagerHostname"] or node["NodeManagerAddress"]: probe.options(
            scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        ).remote(sample, list(needs))
        for node in nodes
    }
    problems: dict[str, list[str]] = {}
    for host, sight in sights.items():
        try:
            reason = _obstacle(ray.get(sight, timeout=_ANSWER_S), needs)
        except GetTimeoutError:
            reason = f"started no worker within {_ANSWER_S} s"
        except RayError as error:
            reason = f"started no worker: {_line(str(error))}"
        if reason:
            problems.setdefault(reason, []).append(plain(str(host), 60))
    for reason, hosts in problems.items():
        others = f" and {counted(len(hosts) - _NAMED_NODES, 'other')}" if len(hosts) > _NAMED_NODES else ""
        raise InputError(f"{name}: Ray node {', '.join(hosts[:_NAMED_NODES])}{others} {reason}")


def _obstacle(sight: _Sight, needs: Mapping[str, str]) -> str:
    """Reason why a node cannot do the work; empty if it can."""
    version, python, absent, missing = sight
    extras = f"[{','.join(sorted({*needs.values()}))}]" if needs else ""
    install = f"(pip install 'perfmon-tui{extras}=={__version__}' there, {LOCAL})"
    if not version:
        return f"has no perfmon {install}"
    if version != __version__:
        return f"has perfmon {version}, here it is {__version__} {install}"
    if python.split(".")[:2] != python_version().split(".")[:2]:
        return f"has Python {python}, here it is {python_version()} (use the same, {LOCAL})"
    if absent:
        return f"has no {absent} {install}"
    if missing:
        return f"does not see {plain(missing, 200)} (put the files on a file system that all nodes share, {LOCAL})"
    return ""
