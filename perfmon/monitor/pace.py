"""When to judge: soon after something was said, and never for more than a small share of a core."""

from __future__ import annotations

_SOON_S = 0.9
_IDLE_S = 8.0
_SHARE = 0.007
_LONGEST_S = 20.0


class Pace:
    """Spaces judgements by what the last ones cost."""

    def __init__(self) -> None:
        self._judged_at = float("-inf")
        self._cost_s = 0.0
        self._version = -1

    def due(self, clock: float, version: int) -> bool:
        """Whether to judge now; `version` grows when something was observed."""
        rest = max(_SOON_S, min(self._cost_s / _SHARE, _LONGEST_S))
        if version == self._version:
            rest = max(rest, _IDLE_S)
        return clock - self._judged_at >= rest

    def judged(self, clock: float, cost_s: float, version: int) -> None:
        """A judgement ended at `clock` and took `cost_s`."""
        self._judged_at, self._version = clock, version
        self._cost_s = cost_s if not self._cost_s else 0.5 * (self._cost_s + cost_s)
