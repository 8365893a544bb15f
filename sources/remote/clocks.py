"""How far the clock of a machine is from this one's."""

from __future__ import annotations

import re
import time
from collections import deque
from datetime import datetime, tzinfo

from .runner import Runner
from .states import ClockOffset

_KEPT = 16
_ZONE = re.compile(r"[+-](0[0-9]|1[0-4])[0-5][0-9]")
_SECONDS = re.compile(r"([0-9]{9,11})(?:\.([0-9]{9}))?")


class ClockEcho:
    """Asks for the time there; the answer that came quickest says most."""

    def __init__(self) -> None:
        self.zone: tzinfo | None = None
        """That its user's clocks show; None while unknown."""
        self._samples: deque[ClockOffset] = deque(maxlen=_KEPT)

    @property
    def offset(self) -> ClockOffset | None:
        """The best of the last estimates."""
        return min(self._samples, key=lambda sample: sample.uncertainty_s, default=None)

    def now(self) -> datetime:
        """What a clock there shows, as its logs print it."""
        offset = self.offset
        return datetime.fromtimestamp(time.time() + (0.0 if offset is None else offset.seconds), self.zone)

    async def ask(self, runner: Runner) -> None:
        """Takes a sample. Raises RunnerError."""
        sent, before = time.time(), time.monotonic()
        text, _, zone = (await runner.run("date '+%s.%N %z'")).text.strip().partition(" ")
        trip = time.monotonic() - before
        if _ZONE.fullmatch(zone):
            self.zone = datetime.strptime(zone, "%z").tzinfo
        match = _SECONDS.match(text)
        if match is None:
            return
        exact = match[2] is not None
        there = int(match[1]) + (int(match[2]) / 1e9 if exact else 0.5)
        offset = there - (sent + trip / 2)
        if self._samples and abs(offset - self._samples[-1].seconds) > 1.0 + trip:
            self._samples.clear()  # one of the clocks was set
        self._samples.append(ClockOffset(offset, trip / 2 + (0.0 if exact else 0.5), trip))
