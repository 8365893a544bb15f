"""The trainer: waits for a batch, computes, writes a checkpoint that is on the disk before it is seen."""

from __future__ import annotations

import json
import random
import shutil
import signal
import threading
from pathlib import Path

from loguru import logger

from perfmon import emit

from . import throttle
from .gpu import AcceleratorError, Gpu
from .host import leak
from .journal import Journal
from .log_lines import Noise, speak_like_prime
from .plan import Plan
from .rows import add_row
from .settings import MIB

STABLE = "STABLE"
"""A checkpoint that holds this file is whole."""
_LOOK_S = 0.02
_KEPT = 8
_STATE_GIB = 51.3
"""Weights, gradients and optimizer states."""


class Trainer:
    """Trains step after step."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._journal = Journal(plan.folder / "journal", "trainer", plan.started)
        self._stop = threading.Event()
        self._random = random.Random(plan.seed + 2)  # noqa: S311 - no secret hangs on it
        self._gpu = Gpu()
        self._gpu.allocate(_STATE_GIB)
        self._made = 0
        """Steps that were made before it was started again."""
        self._weight = 0.0
        """Of one rollout in the loss."""

    def stop(self, *_: object) -> None:
        """Ends it soon."""
        self._stop.set()

    def note_death(self) -> None:
        """It ends by an exception."""
        self._journal.stretch("died", self._journal.now(), self._journal.now())

    def run(self) -> None:
        """Until it is stopped."""
        step = self._resume() if self._plan.attempt else 0
        while not self._stop.is_set():
            began = self._journal.now()
            if not self._batch(step):
                break
            came = self._journal.now()
            if not self._compute():
                break
            computed = self._journal.now()
            if not self._checkpoint(step + 1):
                break
            ended = self._journal.now()
            took = ended - began
            if self._plan.knobs().rows:
                self._add_row(step, took, came - began, computed - came, ended - computed)
            logger.success(
                f"Step {step} | {took:6.1f}s | Loss {self._random.gauss(0, 0.002):.4f} | Entropy 0.3310 | "
                f"Mismatch KL 0.0009 | Grad. Norm 0.1184 | LR 1.00e-06 | Throughput {3200 / took:.0f} tokens/s | "
                f"MFU 25.1% | Peak Mem. {self._gpu.peak_gib:.1f} GiB"
            )
            if step < self._made:
                self._journal.stretch("again", began, self._journal.now(), step=step)
            step += 1
            self._save(step)
        logger.info("Trainer finished")

    def _resume(self) -> int:
        """The step of the last full checkpoint, from which it goes on."""
        saved = [int(path.name.removeprefix("step_")) for path in (self._plan.folder / "states").glob("step_*")]
        step = max(saved, default=0)
        self._made = newest(self._plan.folder)
        self._journal.stretch("began", self._journal.now(), self._journal.now(), step=step)
        logger.info(f"Resuming training from checkpoint step {step}")
        logger.info(f"Starting from step {step} (total_tokens={3200 * step}, total_samples={32 * step})")
        return step

    def _save(self, step: int) -> None:
        """A full checkpoint, every so often; what was trained on before is not wanted any more."""
        every = self._plan.knobs().save_every
        if not every or step % every:
            return
        logger.info(f"Saving checkpoint at step {step}")
        (self._plan.folder / "states" / f"step_{step}").mkdir(parents=True)
        for path in (self._plan.folder / "rollouts").glob("step_*.json"):
            if int(path.stem.removeprefix("step_")) < step:
                path.unlink()

    def _add_row(self, step: int, took: float, waited: float, computed: float, wrote: float) -> None:
        """The figures of a step."""
        figures = {
            "time/step": took,
            "time/wait_for_batch": waited,
            "time/load_data": 0.0,
            "time/broadcast_weights": wrote,
            "time/save_ckpt": 0.0,
            "time/forward_backward": computed,
        }
        add_row(self._plan.folder, step, figures)

    def _batch(self, step: int) -> bool:
        """Waits for the batch of a step; whether it came."""
        path = self._plan.folder / "rollouts" / f"step_{step}.json"
        logger.info("Waiting for training batch to arrive")
        began = self._journal.now()
        while not path.exists():
            if self._stop.wait(_LOOK_S):
                return False
        took = self._journal.now() - began
        self._journal.stretch("batch-wait", began, began + took, step=step)
        logger.debug(f"Waited for batch to arrive for {took:.2f} seconds")
        rollouts = json.loads(path.read_text("utf-8"))
        self._weight = 1.0 / len(rollouts)
        if not self._plan.knobs().save_every:
            path.unlink()
        return True

    def _compute(self) -> bool:
        logger.info("Starting forward and backward pass (num_micro_batches=8)")
        with self._journal.during("train"):
            if self._plan.knobs().trainer_hangs:
                with self._journal.during("hang"):
                    self._stop.wait()
                return False
            if self._plan.knobs().trainer_fails and not self._plan.attempt:
                raise AcceleratorError("CUDA error: unspecified launch failure")
            activations = self._plan.knobs().activations_gib
            self._gpu.allocate(activations)
            took = 0.0
            while took < self._plan.knobs().train_s:
                if self._stop.wait(0.1):
                    return False
                took += 0.1
            self._gpu.free(activations)
        return True

    def _checkpoint(self, step: int) -> bool:
        folder = self._plan.folder / "checkpoints" / f"step_{step}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        knobs = self._plan.knobs()
        size = int(knobs.checkpoint_mib * MIB)
        try:
            with self._journal.during("write", step=step), emit.checkpoint_write(step):
                throttle.write(folder / "weights.bin", size, lambda: self._plan.knobs().write_mib_s, self._stop.is_set)
                if self._stop.is_set():
                    raise InterruptedError
        except InterruptedError:
            return False
        except OSError as error:
            logger.error(f"Checkpoint {step} could not be written: {error.strerror}")
            return True
        if knobs.visible_after_s > 0:
            timer = threading.Timer(knobs.visible_after_s, _show, (folder,))
            timer.daemon = True
            timer.start()
        else:
            _show(folder)
        old = folder.parent / f"step_{step - _KEPT}"
        shutil.rmtree(old, ignore_errors=True)
        return True


def newest(run: Path) -> int:
    """The newest checkpoint of the run in a folder that is whole."""
    whole = (int(path.parent.name.removeprefix("step_")) for path in (run / "checkpoints").glob(f"step_*/{STABLE}"))
    return max(whole, default=0)


def _show(folder: Path) -> None:
    (folder / STABLE).touch()


def train(plan: Plan) -> None:
    """Runs until it is interrupted."""
    speak_like_prime(plan.emit)
    Noise(lambda: plan.knobs().noise_lines_s, plan.seed + 3).start()
    threading.Thread(target=leak, args=(lambda: plan.knobs().leak_mib_s,), name="leak", daemon=True).start()
    trainer = Trainer(plan)
    signal.signal(signal.SIGINT, trainer.stop)
    signal.signal(signal.SIGTERM, trainer.stop)
    logger.info("Starting RL trainer in World(world_size=1, rank=0, local_rank=0, local_world_size=1, num_nodes=1)")
    try:
        trainer.run()
    except Exception:
        trainer.note_death()
        raise
