"""Asks a prime-rl trainer (`trainer.metrics_server`, off by default, port 8000) how it gets on."""

from __future__ import annotations

from collections.abc import Sequence

from ..pages.endpoint import Endpoint
from ..pages.openmetrics import Samples, read_samples
from ..pages.poller import PagePoller
from ..poller import Machine
from ..reading import Area, Reading
from .dialects import load_dialect

_STEP, _AT = "trainer_step", "trainer_last_step_timestamp_seconds"


class TrainerPoller(PagePoller):
    """Asks one trainer."""

    def __init__(self, machine: Machine, endpoint: Endpoint) -> None:
        super().__init__(machine, endpoint)
        self._values = {told.names[0]: told.value for told in load_dialect("prime-rl").told}
        self._step: float | None = None

    async def poll(self) -> Sequence[Reading]:
        """One reading; `new_step` is told once for each step that is seen to end."""
        samples, _ = await self._page(self._read)
        if not samples.told:
            raise self._endpoint.trouble(_nothing(samples))
        told = {sample.name: sample.value for sample in samples.told}
        values = {value: told[name] for name, value in self._values.items() if name in told}
        if told.get(_AT, 0.0) > 0:
            values["step_age_s"] = round(max(0.0, self._machine.now().timestamp() - told[_AT]), 3)
        step = told.get(_STEP)
        if step is not None:
            if self._step is not None and step != self._step:
                values["new_step"] = step
            self._step = step
        return [Reading(Area.QUEUE, self._endpoint.short, values, {"kind": "prime-rl", "role": "trainer"})]

    def _read(self, page: bytes) -> Samples:
        return read_samples(page, {*self._values, _AT})


def _nothing(samples: Samples) -> str:
    if samples.refused:
        return "its trainer metrics are not numeric"
    return "no metrics of a prime-rl trainer on this page; use vllm=URL for its inference server"
