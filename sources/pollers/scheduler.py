"""Scheduling of pollers, each at its own pace, or once; the log that their readings go to."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from zlib import crc32

from perfmon.core import Block, Notice, evidence_text, plain, without_secrets

from ..discovery import LogFile
from ..follow.wakeups import end
from ..remote.follow import Emit
from .base import LocalMachine
from .metrics_page import Endpoint, PrometheusPoller, parse_prometheus
from .reading import SCHEME, Area, DiskPaths, Machine, NotAvailableError, Poller, Reading, no_disk_paths, polled_block
from .request import PollRequest

# --- The virtual logs of the readings of pollers, known by their names ---


def poll_log(host: str, name: str) -> LogFile:
    """The virtual log of a poller."""
    shown = plain(f"{SCHEME}{host}/{without_secrets(name)}", 200)
    return LogFile(shown, Path(SCHEME, host), shown)


# --- Runs pollers at their intervals: one that hangs delays no other, and the age of its last result is reported ---
#
# Every poller has a virtual log, of its readings and its own state.

STALE_AFTER_PERIODS = 3
"""Periods without an answer from which on the last one is stale."""
ABSENT_RETRY_S = 60.0
"""Time until a missing device is polled again."""
DEADLINE_S = 60.0
"""A question is taken back when it has had no answer for so long (or for ten periods, where that is longer)."""
_REPORT_S, _REPEAT_S = 2.0, 60.0
"""Most often that a stale poller is reported; least often that one is well, or still absent."""
_LONGEST_S = 10.0
"""The longest time until a failed poll is repeated (or its period)."""
_END_S = 1.0


class PollScheduler:
    """All pollers of one machine."""

    def __init__(self, machine: Machine, pollers: Sequence[Poller], emit: Emit) -> None:
        self.paced: list[PollTask] = []
        phase = 0.0 if machine.here else crc32(machine.name.encode()) % 1000 / 1000
        names: set[str] = set()
        for poller in pollers:
            name = poller.name
            while name in names:
                name += "'"
            names.add(name)
            self.paced.append(PollTask(poller, name, machine, emit, phase))

    async def run(self) -> None:
        """Until it is cancelled; then it lets go of all pollers."""
        async with asyncio.TaskGroup() as tasks:  # waits for the end of all
            for paced in self.paced:
                tasks.create_task(paced.run())


class PollTask:
    """One poller."""

    def __init__(self, poller: Poller, name: str, machine: Machine, emit: Emit, phase: float = 0.0) -> None:
        """`phase` is the share of a period by which its questions come later than those of others."""
        self.log = poll_log(machine.name, name)
        self._poller, self._name, self._machine, self._emit = poller, evidence_text(name, 120), machine, emit
        self._phase = phase
        self._offset, self._line = 0, 1
        self._answered_at = self._reported_at = time.monotonic()
        self._state, self._why = "", ""
        self._failures = 0

    async def run(self) -> None:
        """Poll until cancelled."""
        rest = 0.0
        try:
            while rest >= 0.0:
                await asyncio.sleep(rest)
                rest = await self._turn()
        finally:
            with suppress(Exception):
                async with asyncio.timeout(_END_S):
                    await self._poller.close()

    async def _turn(self) -> float:
        """Poll once; return the seconds until the next poll."""
        began, every = time.monotonic(), self._poller.every_s
        try:
            readings = await self._answer(began)
        except NotAvailableError as error:
            await self._report_failure("absent", str(error), always=False)
            return max(ABSENT_RETRY_S, every)
        except Exception as error:  # whatever one poller meets must not end the others
            await self._report_failure("failed", _message(error))
            self._failures += 1
            return max(every, min(every * 2.0**self._failures, _LONGEST_S))
        self._failures = 0
        await self._report_ok(readings, began)
        return self._rest(every)

    def _rest(self, every: float) -> float:
        """Until the next moment of a grid that all pollers of this machine share: so it wakes up once for many."""
        now = time.monotonic() - self._phase * every
        rest = every - now % every
        return rest if rest > 0.2 * every else rest + every

    async def _answer(self, began: float) -> Sequence[Reading]:
        """The result of one poll; while it waits, the age of the last one is reported."""
        every = self._poller.every_s
        deadline = began + max(DEADLINE_S, 10 * every)
        poll = asyncio.ensure_future(self._poller.poll())
        try:
            report_at = max(began, self._answered_at) + STALE_AFTER_PERIODS * every
            while True:
                now = time.monotonic()
                done, _ = await asyncio.wait({poll}, timeout=max(0.0, min(report_at, deadline) - now))
                if done:
                    return poll.result()
                now = time.monotonic()
                if now >= deadline:
                    raise TimeoutError(f"no answer for {now - began:.0f} s")
                await self._report_failure("stale", f"no answer for {now - began:.0f} s")
                report_at = now + max(every, _REPORT_S)
        finally:
            if not poll.done():
                with suppress(Exception):
                    await end(poll, _END_S)

    async def _report_ok(self, readings: Sequence[Reading], began: float) -> None:
        now = time.monotonic()
        self._answered_at = now
        if self._state != "ok" or now - self._reported_at >= _REPEAT_S:
            self._state, self._why, self._reported_at = "ok", "", now
            took = {"took_ms": round(1e3 * (now - began), 1), "age_s": 0.0}
            readings = [*readings, Reading(Area.POLLER, self._name, took, {"state": "ok"})]
        await self._emit_readings(readings)

    async def _report_failure(self, state: str, why: str, *, always: bool = True) -> None:
        """Report a failure; one that is known already is repeated rarely, unless `always`."""
        why = evidence_text(why, 160)
        now = time.monotonic()
        if (state, why) == (self._state, self._why) and not always and now - self._reported_at < _REPEAT_S:
            return
        self._state, self._why, self._reported_at = state, why, now
        age = {"age_s": round(now - self._answered_at, 1)}
        await self._emit_readings([Reading(Area.POLLER, self._name, age, {"state": state, "why": why})])

    async def _emit_readings(self, readings: Sequence[Reading]) -> None:
        if readings:
            block = polled_block(readings, self._machine.name, self._machine.now(), self._offset, self._line)
            self._offset, self._line = self._offset + len(block.data), self._line + len(readings)
            await self._emit([(self.log, block)])


def _message(error: BaseException) -> str:
    """The message of an error; of a group the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error) or type(error).__name__


# --- One answer of each poller, for those who look once ---

PATIENCE_S = 5.0
_LOOK_S = 0.05


def poll_once(requests: Sequence[PollRequest], places: DiskPaths = no_disk_paths) -> list[tuple[LogFile, Block]]:
    """Poll this machine once; pollers that take longer than some seconds are left out."""
    return asyncio.run(_poll_once(requests, places))


async def _poll_once(requests: Sequence[PollRequest], places: DiskPaths) -> list[tuple[LogFile, Block]]:
    machine = LocalMachine()
    blocks: list[tuple[LogFile, Block]] = []

    async def take(items: list[tuple[LogFile, Block | Notice]]) -> None:
        blocks.extend((log, item) for log, item in items if isinstance(item, Block))

    pacing = PollScheduler(machine, [poller for one in requests for poller in make_pollers(machine, one, places)], take)
    running = asyncio.ensure_future(pacing.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while {log for log, _ in blocks} != {paced.log for paced in pacing.paced}:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(_LOOK_S)
    except TimeoutError:
        pass
    finally:
        await end(running)
    return blocks


# --- Registry of pollers: the pollers of a SOURCE. A kind is imported when it is needed ---


def make_pollers(machine: Machine, request: PollRequest, places: DiskPaths = no_disk_paths) -> list[Poller]:
    """Return the pollers of a request, whose argument `parse_request` has checked."""
    argument = request.argument
    match request.kind:
        case "host":
            from .host.host import host_pollers

            return host_pollers(machine, places)
        case "gpu":
            from .gpu.gpu import GpuPoller

            return [GpuPoller(machine)]
        case "net":
            from .network import SocketPoller

            return [SocketPoller(machine, int(argument))]
        case "vllm" | "sglang" as kind:
            from .engines import EnginePoller, load_mapping

            return [EnginePoller(machine, Endpoint.parse(kind, argument), load_mapping(kind))]
        case "trl":
            from .engines import TrlPoller

            return [TrlPoller(machine, Endpoint.parse("trl", argument))]
        case "prime-rl":
            from .engines import TrainerPoller

            return [TrainerPoller(machine, Endpoint.parse("prime-rl", argument))]
        case "prometheus":
            return [PrometheusPoller(machine, *parse_prometheus(argument))]
        case "ray":
            from .ray.attach import AttachedPoller, parse_ray
            from .ray.poller import RayPoller

            place, queues = parse_ray(argument)
            attached = [AttachedPoller(machine, queues, place.folder)] if queues else []
            return [RayPoller(machine, place), *attached]
        case "slurm":
            from .slurm import SlurmPoller

            return [SlurmPoller(machine)]
        case "command":
            from .command import CommandPoller

            return [CommandPoller(machine, argument)]
        case kind:
            raise AssertionError(f"no pollers for {kind}")
