"""Output of the simulated run: log files, a feed of blocks, readings of pollers."""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime, timedelta
from heapq import merge
from itertools import count
from operator import itemgetter
from pathlib import Path

from perfmon.core import Block, InputError
from perfmon.sources import TimedItem, Timeline
from perfmon.sources.pollers import Area, Reading, format_reading, poll_log

from .scenarios import scenario_of
from .simulation import BEGIN, Line, Simulation

# --- Writes the logs of a simulated run to files ---


def simulated(scenario: str, seed: int, minutes: float, begin: datetime = BEGIN, *, fixed: bool = False) -> Simulation:
    """A run that begins at `begin` by the clock in its lines. Raises UsageError as `scenario_of` does."""
    return Simulation(scenario_of(scenario, minutes, fixed=fixed), seed, 60.0 * minutes, begin)


def write_demo(
    folder: Path, scenario: str = "frontend-queue", seed: int = 0, minutes: float = 10, *, fixed: bool = False
) -> list[Path]:
    """Writes orchestrator.log, inference.log and trainer.log of a run; the same arguments give the same bytes.

    The run ends with the last step that fits into `minutes` (three steps at least). Raises UsageError for an unknown
    scenario or a length out of range, InputError when the folder cannot be written.
    """
    simulation = simulated(scenario, seed, minutes, fixed=fixed)
    simulation.run()
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in simulation.journal.texts().items():
            (folder / name).write_text(text, encoding="utf-8", newline="\n")
            written.append(folder / name)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error} (choose another folder)") from None
    return written


# --- What pollers would report of the hosts of a simulated run: two hosts of two GPUs each, and the engine's queue ---

_EVERY_S, _FIRST_S = 2.0, 0.6
_HOST_EVERY, _DISK_EVERY, _WELL_EVERY = 2, 5, 15
"""In rounds."""
_INFERENCE, _TRAINER = "a100-0", "a100-1"
_CARD = {"mem_total_mb": 81_559.0, "power_limit_w": 400.0, "sm_max_mhz": 1410.0}
_DRAINED_PCT, _LOADING_PCT = 34.0, 9.0
"""Use of the engine's GPUs when an update has waited for its generations, and while it loads weights."""
PollResult = tuple[str, str, Reading]
"""Host, poller, reading."""


class Polls:
    """Follows a simulation: hosts are as busy as the run makes them at that time."""

    def __init__(self, simulation: Simulation, seed: int, begin: datetime) -> None:
        self._run, self._begin = simulation, begin
        self._random = random.Random(f"{simulation.scenario.title}/{seed}/machines")  # noqa: S311
        self._rounds = count()
        self._at = _FIRST_S
        self._heat = dict.fromkeys(((host, index) for host in (_INFERENCE, _TRAINER) for index in range(2)), 41.0)

    def take(self, until: float) -> Iterator[Line]:
        """The lines up to a moment up to which the simulation has come, in the order of time."""
        while self._at <= until:
            at, number = self._at, next(self._rounds)
            moment = (self._begin + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
            for host, poller, reading in self._round(at, number):
                yield at, poll_log(host, poller).name, format_reading(reading, host, moment).decode().rstrip("\n")
            self._at = _FIRST_S + _EVERY_S * (number + 1)

    # --- what the run does ----------------------------------------------------------------------------------------
    def _engine_pct(self, at: float) -> float:
        """Use of the engine's GPUs: it drains while an update waits for it, and hardly computes while it loads."""
        if at > self._run.stopped_at:
            return 0.0
        for sent, received, done in self._run.updates[-3:]:
            if received <= at < done:
                return _LOADING_PCT
            if sent <= at < received:
                return 96.0 - (96.0 - _DRAINED_PCT) * (at - sent) / (received - sent)
        return 96.0 if self._generates(at) else 1.0

    def _generates(self, at: float) -> bool:
        batches = self._run.batches
        place = bisect_right(batches, at, key=lambda batch: batch[0]) - 1
        return place >= 0 and at < batches[place][1] and at <= self._run.stopped_at

    def _trainer_pct(self, at: float) -> float:
        if at > self._run.stopped_at:
            return 100.0  # a collective that hangs spins
        for begin, trained, handed, written in self._run.trainings[-4:]:
            if begin <= at < trained:
                return 97.0
            if trained <= at < handed:
                return 38.0
            if handed <= at < written:
                return 11.0
        return 0.0

    def _writes(self, at: float) -> bool:
        return any(handed <= at < written for _, _, handed, written in self._run.trainings[-4:])

    # --- readings ---------------------------------------------------------------------------------------
    def _round(self, at: float, number: int) -> Iterator[PollResult]:
        engine, trainer = self._engine_pct(at), self._trainer_pct(at)
        for host, used in ((_INFERENCE, engine), (_TRAINER, trainer)):
            for index in range(2):
                yield host, "gpu", self._gpu(host, index, used, at)
        yield _INFERENCE, "vllm", self._queue(at)
        if number % _HOST_EVERY == 0:
            yield _INFERENCE, "host", self._host(12.0 + 0.2 * engine, 21.0, 148_000.0)
            yield _TRAINER, "host", self._host(9.0 + 0.25 * trainer, 17.0, 231_000.0, waits=self._writes(at))
        if number % _DISK_EVERY == 0:
            yield from self._slowly(at, engine, trainer)
        if number % _WELL_EVERY == 0:
            for host, poller in ((_INFERENCE, "gpu"), (_INFERENCE, "host"), (_INFERENCE, "vllm"), (_TRAINER, "gpu"),
                                 (_TRAINER, "host")):  # fmt: skip
                yield host, poller, Reading(Area.POLLER, poller, {"took_ms": self._about(4.0), "age_s": 0.0}, _OK)

    def _gpu(self, host: str, index: int, used: float, at: float) -> Reading:
        used = min(100.0, max(0.0, round(used + (self._random.gauss(0.0, 1.4) if used > 2.0 else 0.0))))
        hangs = at > self._run.stopped_at
        watts = 62.0 + (0.5 if hangs else 3.1) * used + self._random.gauss(0.0, 4.0)
        heat = self._heat[host, index] = 0.85 * self._heat[host, index] + 0.15 * (36.0 + 0.085 * watts + 2.0 * index)
        memory = 71_300.0 if host == _INFERENCE else 63_900.0
        values = {"util_pct": used, "mem_util_pct": round(0.45 * used), "mem_used_mb": memory + 220 * index}
        values |= {"power_w": round(watts, 1), "temp_c": round(heat), "sm_mhz": 1410.0 if used > 5 else 210.0}
        words = {
            "model": "NVIDIA_A100-SXM4-80GB",
            "state": "ok",
            "mine": "yes",
            "uuid": f"GPU-{host[-1]}{index}5e-demo",
        }
        return Reading(Area.GPU, str(index), {**_CARD, **values, "ecc_errors": 0.0, "throttled": 0.0}, words)

    def _queue(self, at: float) -> Reading:
        """The engine; its log reports already how full its cache is, and two reports would be two alerts."""
        scenario = self._run.scenario
        busy = self._generates(at)
        waiting = round(self._about(scenario.waiting)) if busy and scenario.waiting else 0
        running = scenario.inflight - waiting if busy else 0
        values = {"running": float(running), "waiting": float(waiting)}
        values |= {"gen_tps": round(self._about(18.0) * running, 1), "prompt_tps": round(6.4 * running, 1)}
        return Reading(Area.QUEUE, "inference:8000", values, {"kind": "vllm"})

    def _host(self, cpu: float, load: float, memory: float, *, waits: bool = False) -> Reading:
        values = {"cpu_pct": round(self._about(cpu, 0.08), 1), "cpu_max_pct": 99.0, "cores": 64.0}
        values |= {
            "iowait_pct": round(self._about(6.0, 0.3), 1) if waits else 0.2,
            "load1": round(self._about(load), 2),
        }
        return Reading(Area.HOST, "all", values | {"mem_used_mb": memory, "mem_total_mb": 1_031_600.0})

    def _slowly(self, at: float, engine: float, trainer: float) -> Iterator[PollResult]:
        """Disks, network and processes."""
        used = 61.0 + at / 3600.0
        write = self._about(1650.0) if self._writes(at) else self._about(2.0)
        values = {"used_pct": round(used, 2), "free_gb": round(70.0 * (100.0 - used), 1), "total_gb": 7000.0}
        values |= {"read_mb_s": 0.4, "write_mb_s": round(write, 1), "busy_pct": 74.0 if write > 100 else 1.0}
        yield _TRAINER, "host", Reading(Area.DISK, "/scratch", values, {"holds": "checkpoints"})
        for host, rx, tx in ((_INFERENCE, 212.0, 34.0), (_TRAINER, 41.0, 190.0)):
            moved = {"rx_mb_s": round(self._about(rx, 0.2), 1), "tx_mb_s": round(self._about(tx, 0.2), 1)}
            yield host, "host", Reading(Area.NIC, "ib0", {**moved, "speed_mb_s": 25_000.0})
        for host, pid, used, memory, command, role in (
            (_INFERENCE, "412", engine, 142_800.0, "vllm_serve", "inference"),
            (_TRAINER, "5120", trainer, 128_000.0, "torchrun", "trainer"),
        ):
            values = {"cpu_pct": round(60.0 + used, 1), "rss_mb": 31_200.0, "uptime_s": round(at + 240.0)}
            values |= {"gpu_mem_mb": memory, "gpu_util_pct": round(used)}
            yield host, "gpu", Reading(Area.PROCESS, pid, values, {"command": command, "gpu": "0+1", "role": role})

    def _about(self, value: float, spread: float = 0.06) -> float:
        """`value`, give or take."""
        return max(0.0, value * self._random.gauss(1.0, spread))


_OK = {"state": "ok"}


# --- A simulated run as a timeline: each line when it is printed, so that it can be watched as if it happened now ---

MINUTES = 60.0
"""Default length of a run."""


def demo_timeline(
    scenario: str = "frontend-queue", seed: int = 0, minutes: float = MINUTES, begin: datetime | None = None
) -> Timeline:
    """The lines of a run that begins at `begin`, local time: now when None. The same arguments give the same lines.

    It is simulated step by step as it is played. Raises UsageError for an unknown scenario or a length out of range.
    """
    clock = datetime.now() if begin is None else begin
    scenario_of(scenario, minutes)

    def items() -> Iterator[TimedItem]:
        simulation = simulated(scenario, seed, minutes, clock)
        return _lines(simulation, Polls(simulation, seed, clock))

    return Timeline(Path(f"demo-{scenario}"), clock.timestamp(), 60.0 * minutes, items)


def _lines(simulation: Simulation, polls: Polls) -> Iterator[TimedItem]:
    """Every line as a block, and between them the lines of pollers."""
    ends: dict[str, tuple[int, int]] = {}
    for until in simulation.steps():
        printed = list(simulation.journal.take(until))
        polled = polls.take(until if until < math.inf else printed[-1][0] if printed else 0.0)
        for at_s, log, text in merge(printed, polled, key=itemgetter(0)):
            offset, line = ends.get(log, (0, 1))
            data = f"{text}\n".encode()
            ends[log] = offset + len(data), line + 1
            yield at_s, log, Block(data, offset, line)
