"""When to judge: soon after something was said, and never for more than a small share of a core."""

from __future__ import annotations

from math import inf

_SOON_S = 1.0
_IDLE_S = 12.0
_SHARE, _PLAYED_SHARE = 0.007, 0.03
"""Of a core; what is played disturbs no run, and its time may go many times as fast."""
_LONGEST_S = 20.0
_BEHIND_S = 10.0
"""A younger judgement is taken for one of the present."""
_CHEAP_S = 0.004
"""What costs less need not wait."""


class Pace:
    """Spaces judgements by what the last ones cost."""

    def __init__(self, *, played: bool = False) -> None:
        self._share = _PLAYED_SHARE if played else _SHARE
        self._played = played
        self._judged_at = float("-inf")
        self._cost_s = 0.0
        self._version = -1

    def due(self, clock: float, version: int, *, still: bool = False) -> bool:
        """Whether to judge now; `version` grows when something was observed.

        Where time stands `still`, at the end or in a replay that is paused, somebody looks at this very moment.
        """
        rest = _SOON_S if still else max(_SOON_S, min(self._cost_s / self._share, _LONGEST_S))
        if version == self._version and (still or not self._played):  # a silence that is played may be hours
            rest = max(rest, _IDLE_S)
        return clock - self._judged_at >= rest

    def judged(self, clock: float, cost_s: float, version: int) -> None:
        """A judgement ended at `clock` and took `cost_s`."""
        self._judged_at, self._version = clock, version
        self._cost_s = cost_s if not self._cost_s else 0.5 * (self._cost_s + cost_s)

    def behind_s(self, clock: float, version: int) -> float | None:
        """The age of the last judgement, where it is more than a moment and something was observed since."""
        age_s = clock - self._judged_at
        return age_s if version != self._version and _BEHIND_S <= age_s < inf else None


class Spacing:
    """Spaces what is done again and again, so that it takes no more than a share of a core."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._due_at = float("-inf")

    def due(self, clock: float) -> bool:
        """Whether it may be done now."""
        return clock >= self._due_at

    def done(self, clock: float, cost_s: float) -> None:
        """It began at `clock` and took `cost_s`."""
        self._due_at = clock + (cost_s / self._share if cost_s > _CHEAP_S else 0.0)
