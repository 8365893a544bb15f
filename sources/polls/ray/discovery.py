"""Finds where a Ray cluster tells its metrics: by the files that it leaves, its own processes, or an address."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from perfmon.errors import UsageError
from perfmon.text import plain

from ...remote.http import Opener, ReplyError, Url, get, parse_url
from ...remote.quoting import quoted
from ...remote.runner import Runner
from ..poller import AbsentError, PollError

FILE = "prom_metrics_service_discovery.json"
USUAL = "/tmp/ray"  # noqa: S108 - that is where Ray puts it
MOST_TARGETS = 32
SD_PATH = "/api/prometheus/sd"
"""Where a dashboard (port 8265) tells its targets, in Ray 2.5x and later."""
_TARGET = re.compile(r"(?:[A-Za-z0-9_.-]{1,253}|\[[0-9A-Fa-f:.]+\]):\d{1,5}")
_PROCESS = (
    "for f in $(grep -lsa 'ray/_private/[l]og_monitor.py' /proc/[0-9]*/cmdline); do "
    "if [ -O \"$f\" ]; then tr '\\0' '\\n' <\"$f\"; echo; fi; done"
)
"""Every node has this process, started by the cluster's Python; one of another user's is not believed."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Ray that runs on a machine, as its process there tells."""

    python: str = ""
    folder: str = USUAL
    """Its `--temp-dir`."""
    gcs: str = ""
    """HOST:PORT to attach to."""


@dataclass(frozen=True, slots=True)
class Place:
    """What an argument says: of `ray=HOST:PORT`, `ray=http://HOST:PORT`, `ray=/temp/dir`, or `ray`."""

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
                f"'ray={plain(text, 100)}': expected the metrics port or the dashboard as HOST:PORT, "
                "Ray's --temp-dir as /PATH, or nothing"
            )
        return cls(url=parsed)


async def cluster_on(runner: Runner, folder: str = "") -> Cluster:
    """The user's Ray that runs on a machine, with this `--temp-dir` where one is named; else where one would be."""
    told = (await runner.run(_PROCESS)).text.split("\n\n")
    found = [cluster for text in told if (cluster := _cluster(text.splitlines())) is not None]
    return next((cluster for cluster in found if folder in ("", cluster.folder)), Cluster(folder=folder or USUAL))


def _cluster(arguments: Sequence[str]) -> Cluster | None:
    told = dict(argument.removeprefix("--").split("=", 1) for argument in arguments if "=" in argument)
    folder, gcs = told.get("session-dir", "").rpartition("/session_")[0], told.get("gcs-address", "")
    if not folder.startswith("/") or not _TARGET.fullmatch(gcs) or not arguments[0].startswith("/"):
        return None
    return Cluster(arguments[0], folder, gcs)


async def targets_in(runner: Runner, folder: str) -> list[str]:
    """HOST:PORT of all pages of metrics. Raises AbsentError where there is no such file, PollError where it is none."""
    path = f"{folder}/{FILE}"
    output = await runner.run(f"head -c 1000000 {quoted(path)}")
    if output.code or not output.data:
        raise AbsentError(f"ray: no {plain(path, 200)} on {runner.name}: is Ray running?")
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
