"""Asks servers of engines for their page of metrics: vLLM, SGLang, and what TRL generates with."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from perfmon.text import plain

from ..pages.endpoint import Endpoint
from ..pages.openmetrics import Samples, read_samples
from ..pages.poller import PagePoller
from ..poller import Machine
from ..reading import Area, Reading
from .dialects import Dialect
from .values import EngineValues, Key, by_engine

MOST_ENGINES = 64
"""Engines of one page that are told of."""
_WORD = 60


class EnginePoller(PagePoller):
    """Asks one server: one reading for each engine."""

    def __init__(
        self, machine: Machine, endpoint: Endpoint, dialect: Dialect, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(machine, endpoint, clock)
        self._dialect, self._values = dialect, EngineValues(dialect)

    async def poll(self) -> Sequence[Reading]:
        """Asks once; rates and quantiles come from the second time on."""
        samples, at = await self._page(self._read)
        engines = by_engine(samples.told, self._dialect.only)
        if not engines:
            raise self._endpoint.trouble(self._nothing(samples))
        return self._readings(self._values.take(engines, at))

    def _read(self, page: bytes) -> Samples:
        return read_samples(page, self._dialect.names)

    def _nothing(self, samples: Samples) -> str:
        if samples.refused:
            return f"its {self._dialect.title} metrics are not numeric"
        return f"no {self._dialect.title} metrics on this page; use prometheus=URL for other servers"

    def _readings(self, values: Mapping[Key, Mapping[str, float]]) -> list[Reading]:
        kind, short = self._dialect.kind, self._endpoint.short
        several = len({key[0] for key in values}) > 1
        made = []
        for key in sorted(values)[:MOST_ENGINES]:
            model, *parts = (plain(part, _WORD) for part in key)
            name = "/".join([short, *([model] if several else []), *parts])
            made.append(Reading(Area.QUEUE, name, values[key], {"kind": kind, "model": model}))
        if len(values) > MOST_ENGINES:
            left_out = {"left_out": float(len(values) - MOST_ENGINES)}
            made.append(Reading(Area.QUEUE, f"{short}/others", left_out, {"kind": kind}))
        return made
