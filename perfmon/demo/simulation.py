"""A discrete simulation of asynchronous RL: orchestrator, trainer and inference server wait for each other.

The orchestrator generates a step's batches, hands them to the trainer and continues; the trainer leaves checkpoint
n + 1 after step n; at the start of a step the orchestrator takes the newest checkpoint and updates the server's
weights while generation continues. What was generated with old weights until then does not count for the step.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from operator import itemgetter

from .scenarios import SOON_S, Scenario

# --- The logs while a run is simulated: lines with their times, dressed as the programs dress them ---

BEGIN = datetime.fromisoformat("2026-11-20T09:00:00")
"""Default start of a built-in run, by the clock in its lines."""
MONOTONIC_S = 86_412.25
"""The machine's monotonic clock at that time."""
ORCHESTRATOR, INFERENCE, TRAINER = "orchestrator.log", "inference.log", "trainer.log"
_COLOURS = {"DEBUG": "34", "INFO": "", "SUCCESS": "32", "WARNING": "33", "ERROR": "31"}
_PREFIX = {ORCHESTRATOR: "", TRAINER: "[trainer0]:"}
Line = tuple[float, str, str]
"""(seconds since the run began, log, text)."""


class Journal:
    """Collects lines in any order of time; the times are seconds since the run began at `begin`, by its own clock."""

    def __init__(self, begin: datetime = BEGIN) -> None:
        self._begin = begin
        self._count = 0
        self._lines: list[tuple[float, int, str, str]] = []

    def log_line(self, log: str, at: float, level: str, message: str, place: str = "") -> None:
        """A line of the orchestrator or the trainer, coloured as they colour their files."""
        colour = f"\x1b[{_COLOURS[level]}m\x1b[1m" if _COLOURS[level] else "\x1b[1m"
        suffix = f"{colour}\x1b[22m [{place}]\x1b[0m\x1b[0m" if place else ""
        head = f"{_PREFIX[log]}\x1b[2m{self._moment(at):%H:%M:%S}\x1b[0m {colour}{level:>7}\x1b[0m"
        self._put(log, at, f"{head} {colour}\x1b[22m{message}\x1b[0m\x1b[0m{suffix}")

    def serve(self, at: float, place: str, message: str) -> None:
        """A line of the inference server."""
        self._put(INFERENCE, at, f"(APIServer pid=412) INFO {self._moment(at):%m-%d %H:%M:%S} [{place}] {message}")

    def access(self, at: float, request: str) -> None:
        """An access line of the inference server, which has no clock."""
        self._put(INFERENCE, at, f'(APIServer pid=412) INFO:     10.0.0.3:53122 - "{request} HTTP/1.1" 200 OK')

    def cut(self, at: float) -> None:
        """Forgets what is later than `at`."""
        self._lines = [line for line in self._lines if line[0] <= at]
        heapify(self._lines)

    def take(self, until: float = math.inf) -> Iterator[Line]:
        """Remove and return the lines up to `until`, in the order of time; nothing earlier may be added afterwards."""
        while self._lines and self._lines[0][0] <= until:
            at, _, log, text = heappop(self._lines)
            yield at, log, text

    def texts(self) -> dict[str, str]:
        """Content of each log, its lines in the order of their times."""
        texts: dict[str, list[str]] = {ORCHESTRATOR: [], INFERENCE: [], TRAINER: []}
        for _, _, log, line in sorted(self._lines):
            texts[log].append(f"{line}\n")
        return {log: "".join(lines) for log, lines in texts.items()}

    def _put(self, log: str, at: float, text: str) -> None:
        # Lines of one moment keep the order in which they were added.
        self._count += 1
        heappush(self._lines, (at, self._count, log, text))

    def _moment(self, at: float) -> datetime:
        return self._begin + timedelta(seconds=at)


def clock(at: float) -> str:
    """A `t=` field."""
    return f"t={MONOTONIC_S + at:.6f}"


def format_duration(seconds: float) -> str:
    """A duration as prime-rl prints it: `850ms`, `42.3s`, `1m 13s`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 60 else f"{int(seconds // 60)}m {int(seconds % 60)}s"


_FIRST_STEPS = 3
"""Steps that fill the pipeline."""
_GROUP = 64
"""Rollouts of a generation batch."""
_STATS_S = 10.0
_POLL_S = 0.02
_HALF_S = 0.5
_FILLING_STEPS = 2
"""The trainer's wait for the first batches is no loss."""
_GROWING_STEPS = 12
_GOOD_QUEUE_S, _GOOD_RPC_S, _GOOD_WRITE_S, _GOOD_WAIT_S = 0.1, 2.0, 1.0, 0.5


class Simulation:
    """One run of a scenario; `journal` holds its lines once `run` returned, or while `steps` continue."""

    def __init__(self, scenario: Scenario, seed: int, seconds: float, begin: datetime = BEGIN) -> None:
        self.scenario, self.seconds = scenario, seconds
        self.journal = Journal(begin)
        self._random = random.Random(f"{scenario.title}/{seed}")  # noqa: S311 (figures of a demo, not secrets)
        self._engine = random.Random(f"{scenario.title}/{seed}/engine")  # noqa: S311
        self._policy = 0
        """Checkpoint that the server generates with."""
        self._ready = [0.0]
        """Time from which checkpoint n can be read."""
        self._free = 0.0
        """End of the trainer's last step."""
        self.batches: list[tuple[float, float]] = []
        """Begin and end of every generation batch."""
        self.updates: list[tuple[float, float, float]] = []
        """Times at which every weight update was sent, reached the engine, and was done."""
        self.trainings: list[tuple[float, float, float, float]] = []
        """Begin of every training step, when it was trained, its weights handed over, its checkpoint written."""
        self._fill_logged_at = 0.0
        self._served, self._was_busy = _STATS_S, True
        """Next time of the engine's statistics, and true if it was busy at the last ones."""
        self.lost_s: defaultdict[str, float] = defaultdict(float)
        """Seconds lost beyond the good limits, by the signature that should find them: the truth."""

    def run(self) -> None:
        """Simulates the whole run."""
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[float]:
        """Simulates whole steps while they fit into the run's time.

        After each comes the time up to which all lines have been logged, at last infinity.
        """
        stopped = self.stopped_at
        now, step = 0.0, 0
        length = end = 0.0
        while step < _FIRST_STEPS or now + length < self.seconds:
            end = self._orchestrate(step, now)
            self._train(step, end)
            self._serve(end)
            now, length, step = end, end - now, step + 1
            yield min(now, stopped)
        if stopped < math.inf:
            self._stall(stopped)
        else:
            if not self.scenario.barrier:  # a trainer that is far behind would go on for as long again
                self.journal.cut(end)
            self.journal.log_line(ORCHESTRATOR, end + 0.2, "SUCCESS", "Orchestrator finished.")
        yield math.inf

    @property
    def stopped_at(self) -> float:
        """Time at which everything stops; infinity where nothing does."""
        return self._moment(self.scenario.stalls_at)

    def _moment(self, share: float) -> float:
        """Time after that share of the run, or soon; infinity for all of the run."""
        return min(self.seconds * share, SOON_S) if share < 1 else math.inf

    def _about(self, value: float, spread: float = 0.06, chance: random.Random | None = None) -> float:
        """`value`, give or take."""
        return value * min(1.5, max(0.6, (chance or self._random).gauss(1.0, spread * self.scenario.spread)))

    def _log(self, at: float, message: str, level: str = "INFO") -> None:
        self.journal.log_line(ORCHESTRATOR, at, level, message)

    # --- orchestrator -------------------------------------------------------------------------------------------
    def _orchestrate(self, step: int, now: float) -> float:
        """One step; returns when its batch is complete."""
        begin = now
        now = self._await_checkpoint(step, now)
        updated = self._update_weights(now)
        end = self._generate(step, now, updated)
        truncated = max(0.0, self._about(self.scenario.trunc_pct, 0.2))
        stale = step - self._policy
        self._log(
            end,
            f"[rollout] trunc_pct={truncated:.1f} current_step={step} ckpt_step={self._policy} staleness={stale}",
        )
        if stale > self.scenario.async_level + 2:
            message = f"Cancelled {self._random.randrange(8, 30)} train episodes past max_off_policy_steps=4."
            self._log(end, f"{message} Consider increasing it to avoid this.", "WARNING")
        figures = f"Reward {0.4 + 0.01 * step:.4f} | Trainable 96/128 (75.0%) | Turns 3.2 | Branches 1.0"
        ends = f"Max Off-Policy {stale} | Error 0.8% | Cancelled 0.0% | Truncation {truncated:.1f}%"
        self._log(end, f"Step {step} | {format_duration(end - begin):>7} | {figures} | {ends}", "SUCCESS")
        return end

    def _await_checkpoint(self, step: int, now: float) -> float:
        """Waits at the barrier; returns when generation may begin."""
        needed = step - self.scenario.async_level
        if needed < 1 or not self.scenario.barrier:
            return now
        ready = max(now, self._ready[needed]) + self._about(_POLL_S, 0.3)
        if self.scenario.traced_waits:
            self._log(now, f"[ckpt] wait.start target_step={needed}")
            self._log(ready, f"[ckpt] wait.done target_step={needed} wait_ms={1000 * (ready - now):.1f}")
            self.lost_s["checkpoint-stall"] += max(0.0, ready - now - _GOOD_WAIT_S)
        elif ready - now > 1:
            self.lost_s["trainer-bound"] += ready - now
            message = "Pausing dispatcher to prevent orchestrator from racing from trainer. Waiting for new policy..."
            self._log(now, message)
            self._log(ready, "Resuming dispatcher")
        return ready

    def _update_weights(self, now: float) -> float:
        """Hands the newest checkpoint to the server; returns when it generates with it."""
        newest = bisect_right(self._ready, now) - 1
        if newest <= self._policy:
            return now
        if now > self._moment(self.scenario.updates_until):
            return now
        first, self._policy = self._policy == 0, newest
        # The first update meets a front end that is not full yet.
        queue = self._about(0.02 if first else self.scenario.queue_s, 0.05)
        rpc = self._about(self.scenario.rpc_s, 0.04)
        return self._trace(now, newest, queue, rpc)

    def _trace(self, sent: float, newest: int, queue: float, rpc: float) -> float:
        """The five lines of a weight update; returns when it was done."""
        trace = f"[weights][{self._random.getrandbits(24):06x}]"
        received, done = sent + queue - 0.0003, sent + queue + rpc
        self.updates.append((sent, received, done))
        self.lost_s["frontend-queue"] += max(0.0, queue - _GOOD_QUEUE_S)
        self.lost_s["slow-weight-load"] += max(0.0, rpc - _GOOD_RPC_S)
        started, finished = received + 0.0001, received + 0.0001 + rpc
        path = f"/models/run/step_{newest}"
        self._log(sent, f"{trace} client.send url=http://10.0.0.5:8000 path={path} {clock(sent)}")
        self.journal.serve(received, "server.py:88", f"{trace} server.recv path=/update_weights {clock(received)}")
        self.journal.serve(started, "server.py:131", f"{trace} rpc.start op=update_weights {clock(started)}")
        message = f"{trace} rpc.done op=update_weights {clock(finished)} rpc_ms={1000 * rpc:.1f}"
        self.journal.serve(finished, "server.py:140", message)
        self.journal.access(finished, "POST /update_weights")
        figures = (
            f"wall_ms={1000 * (done - sent):.1f} rpc_ms={1000 * rpc:.1f} queue_ms={1000 * (done - sent - rpc):.1f}"
        )
        self._log(done, f"{trace} client.done {figures}")
        return done

    def _generate(self, step: int, now: float, updated: float) -> float:
        """Generation batches until enough of them ended with the new weights; returns when the last one did."""
        needed = self._batches_of(step)
        done = 0
        while done < needed:
            now = self._batch(now, self._batch_time(now, updated))
            done += now > updated
            self._log_fill(now, done, needed)
        return now

    def _batches_of(self, step: int) -> int:
        """The first steps fill the pipeline for as long as an update takes later, step 0 twice."""
        scenario = self.scenario
        filling = max(scenario.queue_s + scenario.rpc_s, scenario.contended_s) / scenario.batch_s
        needed = scenario.batches + (round(filling) if step < _FIRST_STEPS else 0)
        return 2 * needed if step == 0 else needed

    def _batch_time(self, now: float, updated: float) -> float:
        contended = self.scenario.contended_s and updated - now > self.scenario.queue_s / 2
        return self._about(self.scenario.contended_s if contended else self.scenario.batch_s, 0.07)

    def _batch(self, now: float, duration: float) -> float:
        inflight = self.scenario.inflight
        self._log(now, f"[gen] batch.start inflight={inflight} target_batch={_GROUP}")
        end = now + duration
        if duration > 2 * self.scenario.batch_s:
            self.lost_s["generation-contention"] += duration - self.scenario.batch_s
        grown = inflight + (self._random.randrange(4, 13) if duration > 4 * self.scenario.batch_s else 0)
        self._log(end, f"[gen] batch.done completions={_GROUP} dur_ms={1000 * duration:.1f} inflight={grown}")
        self.batches.append((now, end))
        return end

    def _log_fill(self, now: float, done: int, needed: int) -> None:
        if now - self._fill_logged_at < _STATS_S:
            return
        self._fill_logged_at = now
        fill = f"{done * _GROUP}/{needed * _GROUP} ({100 * done / needed:.1f}%)"
        inflight = self.scenario.inflight
        self._log(now, f"Train batch {fill}; {inflight} inflight episodes (train={inflight}, eval=0)")

    # --- trainer ------------------------------------------------------------------------------------------------
    def _train(self, step: int, ready: float) -> None:
        """One training step on a batch that was ready at `ready`: wait, train, hand over, write."""
        scenario, before = self.scenario, self._free
        begin = max(before, ready) + (scenario.warmup_s if step == 0 else 0.0)
        trained = begin + self._about(scenario.train_s, 0.03)
        handed = trained + self._about(scenario.broadcast_s + scenario.broadcast_growth_s * min(step, _GROWING_STEPS))
        written = handed + self._about(scenario.write_s)
        self._ready.append(written + scenario.visible_after_s)
        self.trainings.append((begin, trained, handed, written))
        self.lost_s["inference-bound"] += begin - before if step >= _FILLING_STEPS else 0.0
        self.lost_s["weight-sync-bound"] += handed - trained
        self.lost_s["slow-checkpoint-write"] += max(0.0, written - handed - _GOOD_WRITE_S)
        self._free = end = written + 0.05
        self._log_trainer(begin, f"Waited for batch to arrive for {begin - before:.2f} seconds", "train.py::412")
        self._log_trainer(begin + 0.02, "Loaded batch in 0.02 seconds", "train.py::418")
        self._log_trainer(handed, f"Weights broadcasted in {handed - trained:.2f}s", "train.py::597")
        message = f"[ckpt] write.done step={step + 1} write_ms={1000 * (written - handed):.1f}"
        self.journal.log_line(TRAINER, written, "INFO", message)
        self.journal.log_line(
            TRAINER,
            end,
            "SUCCESS",
            f"Step {step} | {format_duration(end - before):>7} | Loss {-0.002 - 0.0001 * step:.4f} | Entropy 0.3310 | "
            f"Mismatch KL 0.0009 | Grad. Norm 0.1184 | LR 1.00e-06 | Throughput {self._about(7100):.0f} tokens/s | "
            f"MFU {self._about(25.0):.1f}% | Peak Mem. 71.3 GiB",
        )

    def _log_trainer(self, at: float, message: str, place: str) -> None:
        self.journal.log_line(TRAINER, at, "DEBUG", message, place)

    # --- inference server ---------------------------------------------------------------------------------------
    def _serve(self, end: float) -> None:
        """The engine's statistics every 10 s until `end`, and some of its access lines."""
        while self._served < end:
            at = self._served
            batch = bisect_right(self.batches, at, key=itemgetter(0)) - 1
            busy = batch >= 0 and at < self.batches[batch][1]
            if busy or self._was_busy:
                self._log_engine(at, busy)
            if busy:
                self.journal.access(at + _HALF_S, "POST /v1/chat/completions")
            self._was_busy = busy
            self._served += _STATS_S

    def _log_engine(self, at: float, busy: bool) -> None:
        scenario = self.scenario
        waiting = round(self._about(scenario.waiting, chance=self._engine)) if busy else 0
        running = scenario.inflight - waiting if busy else 0
        usage = min(99.8, self._about(scenario.kv_usage, 0.01, self._engine)) if busy else 0.0
        self.journal.serve(
            at,
            "loggers.py:336",
            f"Engine 000: Avg prompt throughput: {6.4 * running:.1f} tokens/s, "
            f"Avg generation throughput: {self._about(18.0, chance=self._engine) * running:.1f} tokens/s, "
            f"Running: {running} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {usage:.1f}%, "
            "Prefix cache hit rate: 41.0%",
        )

    # --- the end of a stalled run -------------------------------------------------------------------------------
    def _stall(self, stopped: float) -> None:
        """Log no work after the stall, only signs of life."""
        self.journal.cut(stopped)
        self.lost_s.clear()
        self.lost_s["stall"] = self.seconds - stopped
        inflight = self.scenario.inflight
        at = stopped
        while (at := at + _STATS_S) <= self.seconds:
            self._log(at, f"Train batch 0/128 (0.0%); {inflight} inflight rollouts (train={inflight}, eval=0)")
            self.journal.access(at + _HALF_S, "GET /metrics")
