"""The orchestrator: keeps rollouts under way, makes batches of them, hands new policies to the server."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sys
import time
from collections import deque
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median_low

import httpx
from loguru import logger

from perfmon import emit

from .clocks import true_monotonic
from .inference import SENT
from .journal import Journal
from .log_lines import Noise, speak_like_prime
from .plan import Plan
from .rows import add_row
from .trainer import newest

_ENDS = (signal.SIGINT, signal.SIGTERM)
_LOOK_S = 0.05
_FILL_S = 1.0
_PROMPT = 10
_EVAL_ROLLOUTS = 64
_EVAL_TOKENS = 300
_NEARLY = 0.9
_REWARDS = 1 / 3
"""How far the time that a reward takes is from its mean, at most."""
_FAR = 1
"""A policy more than the level: the one that came while the batch was made."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """What came of one request."""

    version: int
    """The policy that it began with."""
    cut: bool
    batch: int
    """The step that asked for it."""
    model_s: float = 0.0
    """Seconds from asking for it until it was generated."""
    scoring_s: float = 0.0
    """Seconds until it had its reward after that."""


class Orchestrator:
    """Makes batch after batch."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._journal = Journal(plan.folder / "journal", "orchestrator", plan.started)
        self._random = random.Random(plan.seed + 1)  # noqa: S311 - no secret hangs on it
        self._clients = AsyncExitStack()
        self._pools: dict[int, httpx.AsyncClient] = {}
        self._admin: httpx.AsyncClient | None = None
        self._active: set[asyncio.Task[None]] = set()
        self._done: deque[Rollout] = deque()
        self._came = asyncio.Event()
        self._wanted = 0
        """Rollouts that a batch still has to ask for, where it takes only its own."""
        self._step = 0
        self._own = False
        """The batch that is being made takes only what it asked for itself."""
        self._evaluating = False
        self._awaits_policy = False
        self._policy_wait_s = 0.0
        """How long the step that is being made waited for its policy."""
        self._hung = False
        self.policy = 0
        self._updating: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Until it is cancelled."""
        try:
            client = httpx.AsyncClient(timeout=None)  # noqa: S113 - waiting is what this is about
            self._admin = await self._clients.enter_async_context(client)
            dispatching = asyncio.create_task(self._dispatch())
            polling = asyncio.create_task(self._poll(client))
            try:
                await self._steps()
            finally:
                dispatching.cancel()
                polling.cancel()
                for task in (*self._active, *filter(None, (self._updating,))):
                    task.cancel()
                await asyncio.gather(dispatching, polling, *self._active, return_exceptions=True)
                if self._updating is not None:
                    await asyncio.gather(self._updating, return_exceptions=True)
        finally:
            await self._clients.aclose()
            logger.info("Orchestrator finished")

    async def _steps(self) -> None:
        step = 0
        while True:
            began = self._journal.now()
            knobs = self._plan.knobs()
            if knobs.evaluate_every and step and step % knobs.evaluate_every == 0:
                await self._evaluate(step)
            if knobs.hangs_s and not self._hung:
                self._hang(knobs.hangs_s)
            await self._policy_for(step)
            rollouts = await self._batch(step)
            await asyncio.sleep(knobs.score_s)
            self._hand_over(step, rollouts, self._journal.now() - began)
            step += 1

    # --- rollouts -----------------------------------------------------------------------------------------------
    async def _pool(self) -> httpx.AsyncClient:
        """The pool that rollouts share."""
        connections = self._plan.knobs().connections
        if connections not in self._pools:
            limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
            client = httpx.AsyncClient(limits=limits, timeout=None)  # noqa: S113 - waiting is what this is about
            self._pools[connections] = await self._clients.enter_async_context(client)
        return self._pools[connections]

    async def _dispatch(self) -> None:
        """Keeps as many rollouts under way as there may be."""
        while True:
            knobs = self._plan.knobs()
            held = self._evaluating or (self._awaits_policy and knobs.holds_rollouts)
            free = 0 if held else knobs.inflight - len(self._active)
            if self._own:
                free, self._wanted = self._wanted, 0
            for _ in range(free):
                self._start(self._rollout())
            await asyncio.sleep(_LOOK_S)

    async def _poll(self, client: httpx.AsyncClient) -> None:
        """Looks at the server's metrics, as who collects them does."""
        while True:
            polls_s = self._plan.knobs().polls_s
            if polls_s:
                with suppress(httpx.HTTPError):
                    await client.get(f"{self._plan.url}/metrics")
            await asyncio.sleep(polls_s or _FILL_S)

    def _start(self, work: object) -> None:
        task: asyncio.Task[None] = asyncio.create_task(work)  # type: ignore[arg-type]  # coroutines of this class
        self._active.add(task)
        task.add_done_callback(self._active.discard)

    async def _rollout(self) -> None:
        knobs, step = self._plan.knobs(), self._step
        wanted = max(8, round(self._random.gauss(knobs.mean_tokens, knobs.spread * knobs.mean_tokens)))
        if self._random.random() < knobs.tail_share:
            wanted = round(self._random.uniform(4.0, 6.0) * knobs.mean_tokens)
        rollout = await self._ask(wanted, knobs.max_tokens, step)
        if rollout is not None:
            rollout = await self._rewarded(rollout)
        if rollout is not None and (rollout.batch == self._step or not self._own):
            self._done.append(rollout)
            while len(self._done) > self._plan.knobs().buffer:
                self._done.popleft()
            self._came.set()

    async def _ask(self, wanted: int, most: int, step: int) -> Rollout | None:
        """One generation, read to its end; None where the server broke off."""
        requests = {"prompt_tokens": _PROMPT, "wanted": wanted, "max_tokens": most}
        last, began = "", self._journal.now()
        try:
            client = await self._pool()
            async with client.stream("POST", f"{self._plan.url}/v1/completions", json=requests) as answer:
                async for line in answer.aiter_lines():
                    last = line or last
        except httpx.HTTPError as error:
            logger.warning(f"Rollout failed: {type(error).__name__}")
            await asyncio.sleep(1.0)
            return None
        result = json.loads(last.removeprefix("data: "))
        took = self._journal.now() - began
        return Rollout(result["version"], result.get("finish_reason") == "length", step, took)

    async def _rewarded(self, rollout: Rollout) -> Rollout:
        """After its reward, for which nothing is asked of the engine."""
        began, mean_s = self._journal.now(), self._plan.knobs().reward_s
        if mean_s:
            await asyncio.sleep(self._random.uniform(1.0 - _REWARDS, 1.0 + _REWARDS) * mean_s)
        return replace(rollout, scoring_s=self._journal.now() - began)

    async def _batch(self, step: int) -> list[Rollout]:
        knobs = self._plan.knobs()
        self._step, self._own = step, knobs.own_batch
        size, rollouts = knobs.batch, list[Rollout]()
        if self._own:
            self._done.clear()
            self._wanted = size
        reported_at = nearly_at = None
        began = self._journal.now()
        try:
            with emit.generation_batch(inflight=lambda: len(self._active), target_batch=size) as batch:
                while len(rollouts) < size:
                    while self._done and len(rollouts) < size:
                        rollouts.append(self._done.popleft())
                    now = self._journal.now()
                    if nearly_at is None and len(rollouts) >= _NEARLY * size:
                        nearly_at = now
                    if reported_at is None or now - reported_at >= _FILL_S:
                        reported_at = now
                        self._tell_fill(len(rollouts), size)
                    if len(rollouts) < size:
                        self._came.clear()
                        with suppress(TimeoutError):
                            async with asyncio.timeout(_FILL_S):  # `wait_for` may lose that somebody ends it
                                await self._came.wait()
                batch.completions = len(rollouts)
        finally:
            if nearly_at is not None:
                self._journal.stretch("tail", nearly_at, self._journal.now(), step=step)
        self._journal.stretch("batch", began, self._journal.now(), step=step)
        return rollouts

    def _tell_fill(self, have: int, size: int) -> None:
        active = len(self._active)
        share = 100.0 * have / size
        logger.info(f"Train batch {have}/{size} ({share:.1f}%); {active} inflight episodes (train={active}, eval=0)")

    def _hand_over(self, step: int, rollouts: list[Rollout], took: float) -> None:
        """Tells of a batch and gives it to the trainer."""
        cut = 100.0 * sum(rollout.cut for rollout in rollouts) / len(rollouts)
        policy = median_low(rollout.version for rollout in rollouts)
        if step - policy > self._plan.knobs().async_level + _FAR:
            self._journal.stretch("overdue", self._journal.now(), self._journal.now())
        emit.rollout(trunc_pct=cut, current_step=step, ckpt_step=policy)
        path = self._plan.folder / "rollouts" / f"step_{step}.json"
        half = path.with_suffix(".part")
        handed = [] if self._plan.knobs().empty_batches else rollouts
        half.write_text(json.dumps([[rollout.version, rollout.cut] for rollout in handed]), "utf-8")
        half.replace(path)
        reward = self._random.gauss(0.42, 0.02)
        if self._plan.knobs().rows:
            self._add_row(step, rollouts, took, {"train/agg/all/reward/mean": reward})
        logger.success(
            f"Step {step} | {took:6.1f}s | Reward {reward:.4f} | Trainable 28/32 (87.5%) | Turns 1.0 | Branches 1.0 | "
            f"Max Off-Policy {step - policy} | Error 0.0% | Cancelled 0.0% | Truncation {cut:.1f}%"
        )

    def _add_row(self, step: int, rollouts: list[Rollout], took: float, more: dict[str, float]) -> None:
        """The figures of a step."""
        off_policy = [float(max(0, step - rollout.version)) for rollout in rollouts]
        figures = {
            "time/step": took,
            "time/pack": 0.0,
            "time/save_ckpt": 0.0,
            "time/wait_for_policy": self._policy_wait_s,
            "off_policy/mean": fmean(off_policy),
            "off_policy/max": max(off_policy),
            "off_policy/dropped": 0.0,
            "train/agg/all/is_truncated/mean": fmean(rollout.cut for rollout in rollouts),
            "train/agg/all/has_error/mean": 0.0,
            "train/agg/all/timing/agent/model/mean": fmean(rollout.model_s for rollout in rollouts),
            "train/agg/all/timing/agent/harness/mean": 0.0,
            "train/agg/all/timing/scoring/mean": fmean(rollout.scoring_s for rollout in rollouts),
            "train/agg/all/timing/scoring/max": max(rollout.scoring_s for rollout in rollouts),
        }
        add_row(self._plan.folder, step, {**figures, **more})

    # --- policies -----------------------------------------------------------------------------------------------
    def _newest(self) -> int:
        """The newest checkpoint that is whole."""
        return newest(self._plan.folder)

    async def _policy_for(self, step: int) -> None:
        """Waits until the policy is new enough for a step, and brings it up to date."""
        knobs = self._plan.knobs()
        self._policy_wait_s = 0.0
        if not knobs.looks_for_checkpoints:
            if self._newest() > self.policy:
                self._journal.stretch("missed", self._journal.now(), self._journal.now())
            return
        least = step - knobs.async_level
        if self.policy < least:
            with self._journal.during("wait", step=least), emit.checkpoint_wait(least):
                await self._wait_for(least)
        newest = self._newest()
        if newest <= self.policy or (self._updating is not None and not self._updating.done()):
            return
        if knobs.in_flight_updates:
            self._updating = asyncio.create_task(self._update(newest))
        else:
            await self._update(newest)

    async def _wait_for(self, step: int) -> None:
        if self._newest() >= step:
            return
        waits = f"waiting for trainer to broadcast checkpoint {step}"
        logger.info(f"Orchestrator paused: {waits}. Training is progressing normally.")
        began = self._journal.now()
        self._awaits_policy = True
        while self._newest() < step:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(_LOOK_S)
        self._awaits_policy = False
        self._policy_wait_s = self._journal.now() - began
        logger.info(f"Orchestrator resumed: checkpoint {step} ready (after {self._policy_wait_s:.2f}s)")

    async def _update(self, version: int) -> None:
        path: Path = self._plan.folder / "checkpoints" / f"step_{version}"
        assert self._admin is not None  # noqa: S101 - it is opened before anything runs
        client = await self._pool() if self._plan.knobs().shared_admin else self._admin
        logger.debug(f"Updating weights to step {version}")
        began = self._journal.now()
        try:
            with emit.weights_update(url=self._plan.url, path=path) as update:
                headers = {**update.headers, SENT: f"{true_monotonic():.4f}"}
                answer = await client.post(
                    f"{self._plan.url}/update_weights", json={"path": str(path)}, headers=headers
                )
                answer.raise_for_status()
                update.answered(answer)
        except httpx.HTTPError as error:
            logger.error(f"Weights of step {version} could not be handed over: {type(error).__name__}")
            return
        self.policy = version
        logger.debug(f"Updated weights to step {version} in {self._journal.now() - began:.2f}s")

    # --- what holds everything ------------------------------------------------------------------------------------
    async def _evaluate(self, step: int) -> None:
        """An evaluation that has the engine for itself."""
        self._evaluating = True
        try:
            with self._journal.during("evaluation", step=step):
                await asyncio.gather(*tuple(self._active))
                logger.info(f"Starting evals in aime24 ({_EVAL_ROLLOUTS} total rollouts)")
                began = self._journal.now()
                requests = (self._ask(_EVAL_TOKENS, 2 * _EVAL_TOKENS, step) for _ in range(_EVAL_ROLLOUTS))
                await asyncio.gather(*requests)
                took = self._journal.now() - began
                logger.success(
                    f"Evaluated aime24 (Step {step}) | Policy v{self.policy} | {took:6.1f}s | Reward 0.3310 | "
                    "Turns 1.0 | Branches 1.0 | Error 0.0% | Truncation 0.0%"
                )
        finally:
            self._evaluating = False

    def _hang(self, seconds: float) -> None:
        """Everything in this process stands still, until it is told to end."""
        self._hung = True
        result: list[int] = []
        kept = {number: signal.signal(number, lambda number, _: result.append(number)) for number in _ENDS}
        with self._journal.during("hang"):
            until = self._journal.now() + seconds
            while not result and self._journal.now() < until:
                time.sleep(_LOOK_S)
        for number, handler in kept.items():
            signal.signal(number, handler)


async def _run(plan: Plan) -> None:
    task = asyncio.create_task(Orchestrator(plan).run())
    for number in _ENDS:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


def orchestrate(plan: Plan) -> None:
    """Runs until it is interrupted."""
    speak_like_prime(plan.emit)
    # Where it is not installed httpcore looks for it, in all of the path, at every request.
    sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]  # which says that it is not there
    Noise(lambda: plan.knobs().noise_lines_s, plan.seed + 4).start()
    logger.info(f"Starting orchestrator (pid {os.getpid()}, async_level={plan.knobs().async_level})")
    asyncio.run(_run(plan))
