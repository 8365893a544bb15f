"""Depth of named queues of a Ray cluster, ten times a second, by a little driver on the host: on request only."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Container, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from perfmon.core import UsageError, evidence_text, plain

from ...follow.wakeups import end
from ...shell import quoted
from ..base import Script
from ..reading import Area, Machine, NotAvailableError, PollError, Reading
from .poller import LOOK_S, Cluster, Place, cluster_on

EVERY_S = 1.0
SAMPLE_S = 0.1
_FIRST_S = 5.0
"""Time in which the driver may attach before a poll returns without samples."""
MOST_QUEUES, MOST_SAMPLES = 32, 600
_NAME = re.compile(r"[\w.:@/+-]{1,100}")
_SCRIPT = Path(__file__).with_name("attached_script.py")
_EOF = "PERFMON_END_OF_SCRIPT"


@dataclass(frozen=True, slots=True)
class Queues:
    """The queues to attach to, from `ray=…#NAMESPACE/QUEUE[,QUEUE]`."""

    namespace: str
    names: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> Queues:
        """Raises UsageError."""
        namespace, found, rest = text.partition("/")
        names = tuple(name for name in rest.split(",") if name)
        words = (namespace, *names)
        if not found or not names or len(names) > MOST_QUEUES or not all(_NAME.fullmatch(word) for word in words):
            shown = evidence_text(text, 100)
            raise UsageError(f"'ray=…#{shown}': expected #NAMESPACE/QUEUE, names of actors in a Ray namespace")
        return cls(namespace, names)


def parse_ray(argument: str) -> tuple[Place, Queues | None]:
    """`[PLACE][#NAMESPACE/QUEUE[,QUEUE]]`. Raises UsageError."""
    where, attach, queues = argument.partition("#")
    return Place.parse(where), Queues.parse(queues) if attach else None


@dataclass(slots=True)
class _Samples:
    depths: dict[str, list[float]] = field(default_factory=dict)
    silent: dict[str, int] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    """Of the queues that did not answer, the last reason."""
    took_ms: list[float] = field(default_factory=list)


class AttachedPoller:
    """Polls the queues of one namespace."""

    every_s = EVERY_S

    def __init__(self, machine: Machine, queues: Queues, folder: str = "") -> None:
        """`folder` is the cluster's `--temp-dir`, "" for the first that runs."""
        self._machine, self._queues, self._folder = machine, queues, folder
        self._samples = _Samples()
        self._used: set[str] = set()
        """Queues in which something was."""
        self._task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        """`ray NAMESPACE/QUEUE`."""
        return f"ray {self._queues.namespace}/{','.join(self._queues.names)}"

    async def poll(self) -> Sequence[Reading]:
        """A reading for each queue: the samples since the last poll. Raises PollError when the driver has ended."""
        if self._task is None:
            self._task = asyncio.create_task(self._listen(await self._cluster()))
        await asyncio.wait({self._task}, timeout=0 if self._samples.took_ms else _FIRST_S)
        samples, self._samples = self._samples, _Samples()
        if self._task.done():
            task, self._task = self._task, None
            task.result()
            raise PollError(f"{self.name}: the process attached to Ray exited")
        self._used.update(name for name, depths in samples.depths.items() if any(depths))
        readings = _readings(samples, self._used)
        if samples.took_ms and not readings:
            raise NotAvailableError(f"{self.name}: no such actors in that namespace (see `ray list actors`)")
        return readings

    async def close(self) -> None:
        """End the driver; nothing of Ray's is stopped."""
        task, self._task = self._task, None
        if task is not None:
            with suppress(Exception):
                await end(task)

    async def _cluster(self) -> Cluster:
        shell = Script(self._machine, f"{self.name}: ", LOOK_S)
        try:
            cluster = await cluster_on(shell, self._folder)
        finally:
            await shell.close()
        if not cluster.python or not cluster.gcs:
            raise NotAvailableError(f"{self.name}: no Ray of this user runs on {self._machine.name}")
        return cluster

    async def _listen(self, cluster: Cluster) -> None:
        async with aclosing(self._machine.lines(self.command(cluster))) as lines:  # type: ignore[type-var]
            async for line in lines:
                self._receive(line)

    def command(self, cluster: Cluster) -> str:
        """Command line for the host: the script comes through stdin, so that nothing is left there."""
        request = {
            "address": cluster.gcs,
            "namespace": self._queues.namespace,
            "names": self._queues.names,
            "every_s": SAMPLE_S,
        }
        return (
            f"PERFMON_QUEUES={quoted(json.dumps(request))} RAY_USAGE_STATS_ENABLED=0 "
            f"exec {quoted(cluster.python)} -u - <<'{_EOF}'\n{_SCRIPT.read_text()}\n{_EOF}\n"
        )

    def _receive(self, line: bytes) -> None:
        try:
            sample = json.loads(line)
        except ValueError:
            return  # what else prints on its stdout
        if not isinstance(sample, dict):
            return
        if "error" in sample:
            raise PollError(f"{self.name}: {evidence_text(str(sample['error']), 160)}")
        depths, took = sample.get("depths"), sample.get("ms")
        if (
            not isinstance(depths, dict)
            or not isinstance(took, int | float)
            or len(self._samples.took_ms) >= MOST_SAMPLES
        ):
            return
        self._samples.took_ms.append(float(took))
        for name in self._queues.names:
            depth = depths.get(name)
            if isinstance(depth, int | float):
                self._samples.depths.setdefault(name, []).append(float(depth))
            elif name in depths:
                self._samples.silent[name] = self._samples.silent.get(name, 0) + 1
                self._samples.why[name] = _reason(sample.get("why"), name)


def _reason(why: object, name: str) -> str:
    reason = why.get(name) if isinstance(why, dict) else None
    return plain(reason, 60) if isinstance(reason, str) else ""


def _readings(samples: _Samples, used: Container[str]) -> list[Reading]:
    took = {"answer_ms": round(max(samples.took_ms), 1)} if samples.took_ms else {}
    names = sorted({*samples.depths, *samples.silent})
    return [
        Reading(
            Area.QUEUE,
            f"ray/{name}",
            {**_values(name, samples, name in used), **took},
            {"kind": "ray", "why": samples.why.get(name, "")},
        )
        for name in names
    ]


def _values(name: str, samples: _Samples, used: bool) -> Mapping[str, float]:
    """Mean, least and most depth, and the share of the samples in which the queue was empty, or did not answer.

    A queue that was never used is not empty: it waits for the first item.
    """
    depths, silent = samples.depths.get(name, []), samples.silent.get(name, 0)
    values = {"silent_pct": 100.0 * silent / (len(depths) + silent)} if silent else {}
    if depths:
        values |= {"depth": sum(depths) / len(depths), "depth_min": min(depths), "depth_max": max(depths)}
        values["empty_pct"] = 100.0 * sum(depth <= 0 for depth in depths) / len(depths) if used else 0.0
    return values
