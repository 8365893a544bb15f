"""How many steps were made, whatever share of them the logs print: a line every 50 iterations covers 50."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from perfmon.stats import median

if TYPE_CHECKING:
    from .run_view import RunView

_LEAP = 20.0
"""Times the usual interval that is no interval: a run that is resumed begins where it had been."""


def steps_covered(component: str, view: RunView) -> int:
    """Steps of a component within the window; where several logs tell of them, by the one that tells of most."""
    track = view.steps.get(component)
    if track is None:
        return 0
    told: dict[int, list[float]] = {}
    for at, step in enumerate(track.values):
        told.setdefault(track.source(at), []).append(step)
    return max(map(_covered, told.values()), default=0)


def _covered(steps: Sequence[float]) -> int:
    """By the step numbers of one log, in the order in which it prints them."""
    usual = _usual(pairwise(steps))
    made = min(steps[0], usual) if steps[0] >= 1 else 1.0
    for before, after in pairwise(steps):
        if after > before:
            made += after - before if after - before <= _LEAP * usual else usual
        elif after < before:  # the next epoch, or a run that began anew
            made += min(max(after, 1.0), usual)
    return round(made)


def _usual(pairs: Iterable[tuple[float, float]]) -> float:
    rises = sorted(after - before for before, after in pairs if after > before)
    return median(rises) if rises else 1.0
