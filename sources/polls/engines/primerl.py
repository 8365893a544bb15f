"""Asks a prime-rl trainer (`trainer.metrics_server`, off by default, port 8000) how it gets on."""

from __future__ import annotations

from collections.abc import Sequence

from ..pages.endpoint import Endpoint
from ..pages.openmetrics import Samples, read_samples
from ..poller import Machine
from ..reading import Area, Reading

EVERY_S = 5.0
_STEP, _AT = "trainer_step", "trainer_last_step_timestamp_seconds"
GAUGES = {
    _STEP: "step",
    "trainer_loss": "loss",
    "trainer_throughput_tokens_per_sec": "throughput_tps",
    "trainer_mfu_percent": "mfu_pct",
    "trainer_peak_memory_gib": "peak_mem_gib",
    "trainer_grad_norm": "grad_norm",
    "trainer_entropy": "entropy",
    "trainer_mismatch_kl": "mismatch_kl",
}
"""Metric → value."""


class TrainerPoller:
    """Asks one trainer."""

    every_s = EVERY_S

    def __init__(self, machine: Machine, endpoint: Endpoint) -> None:
        self._machine, self._endpoint = machine, endpoint
        self._step: float | None = None

    @property
    def name(self) -> str:
        """`prime-rl http://127.0.0.1:8000`."""
        return self._endpoint.shown

    async def poll(self) -> Sequence[Reading]:
        """One reading; `new_step` is told once for each step that is seen to end."""
        samples = read_samples(await self._endpoint.fetch(self._machine.opener), {*GAUGES, _AT})
        if not samples.told:
            raise self._endpoint.trouble(_nothing(samples))
        told = {sample.name: sample.value for sample in samples.told}
        values = {value: told[name] for name, value in GAUGES.items() if name in told}
        if told.get(_AT, 0.0) > 0:
            values["step_age_s"] = round(max(0.0, self._machine.now().timestamp() - told[_AT]), 3)
        step = told.get(_STEP)
        if step is not None:
            if self._step is not None and step != self._step:
                values["new_step"] = step
            self._step = step
        return [Reading(Area.QUEUE, self._endpoint.short, values, {"kind": "prime-rl", "role": "trainer"})]

    async def close(self) -> None:
        """Nothing is kept open."""


def _nothing(samples: Samples) -> str:
    if samples.refused:
        return "its trainer metrics are no numbers"
    return "no metrics of a prime-rl trainer on this page; its inference server is asked by vllm=URL"
