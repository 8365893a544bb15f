"""From which length on a silence of all logs is no pause of the run, by the rhythm that it had until then.

Not every run has one that is known: it takes some steps and some time, and logs of which it is certain that they
printed nothing. Where that is not so nothing is said here, and only a silence that is long by any measure is a stall.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import TYPE_CHECKING

from perfmon.sourcestate import SourceState
from perfmon.stats import median, percentile

if TYPE_CHECKING:
    from .view import View

_STEPS, _REMEMBERED = 8, 256
_KNOWN_S = 30.0
"""Steps, and seconds of them, from which on there is a rhythm."""
_LINES = 20
_USUAL, _STEP, _LONG_STEP, _PAUSE = 5.0, 3.0, 2.0, 2.0
"""Times the usual gap of a log, the median step, a long step, and a pause that a log has made more than once."""
_LONG = 0.95
_FEW = 5
"""Lines between those that enclose a silence: more of them may have been printed meanwhile, without a clock."""
_EDGE_S = 1e-3
_BEGINS = re.compile(
    r"(?i)\b(?:saving|evaluating|validating|compiling|capturing|loading|downloading|initiali[sz]ing|profiling|"
    r"warming up|warm-?up|resharding|offloading|"
    r"(?:start\w*|begin\w*|running|launch\w*|writing|enter\w*)\b.{0,40}\b(?:eval\w*|validation|checkpoint\w*|save|"
    r"compil\w*|test\w*|benchmark\w*|profil\w*))\b"
)


def proven_s(start: float, end: float, telling: Sequence[SourceState], view: View) -> float:
    """Seconds that a silence of all logs must last at least; infinity where the run's rhythm does not tell.

    More than three median steps and two long ones; and for each log more than five times its usual gap, and twice what
    it has been silent for more than once before, counted from its own last line.
    """
    longest = _step_s(start, view)
    if end - start <= longest:
        return longest
    for state in telling:
        own = _Own(state, start, end, view)
        if own.unsure or _BEGINS.search(own.text):
            return inf
        if not state.idle_silence:
            longest = max(longest, own.least_s - (start - own.since))
    return longest


def _step_s(start: float, view: View) -> float:
    """By the steps before it; infinity where too few are told."""
    needed = []
    for track in view.steps.values():
        stop = bisect_right(track.times, start + _EDGE_S)
        times = sorted(set(track.times[max(0, stop - _REMEMBERED) : stop]))
        if len(times) > _STEPS and times[-1] - times[0] >= _KNOWN_S:
            lengths = sorted(after - before for before, after in pairwise(times))
            needed.append(max(_STEP * median(lengths), _LONG_STEP * percentile(lengths, _LONG)))
    return max(needed, default=inf)


class _Own:
    """What one log tells of a silence of all."""

    def __init__(self, state: SourceState, start: float, end: float, view: View) -> None:
        shift = view.shifts.get(state.index, 0.0)
        start, end = start - shift, end - shift
        within = [gap for gap in state.gaps if gap.start <= start + _EDGE_S and gap.end >= end - _EDGE_S]
        tail = not within and (state.last or 0.0) <= start + _EDGE_S
        line, self.text = (within[0].line, within[0].text) if within else state.last_line if tail else (0, "")
        self.since = shift + (within[0].start if within else state.last if tail and state.last is not None else start)
        """When it printed its last line before."""
        open_still = tail and view.present is not None
        upto = within[0].upto if within else state.lines + 1 if tail else line
        self.unsure = upto - line > _FEW or (tail and state.murmurs)
        """It may have printed something meanwhile."""
        others = sorted((gap.end - gap.start for gap in state.gaps if gap not in within), reverse=True)
        usual = max(_usual_gap(state, others), state.held_s if open_still else 0.0)
        self.least_s = max(_USUAL * usual, _PAUSE * others[1] if len(others) > 1 else 0.0)


def _usual_gap(state: SourceState, long_ones: Sequence[float]) -> float:
    """Seconds between two lines, long silences apart; of a log that printed little or seldom no less than those."""
    from .silence import LEAST_S, usual_gap

    usual, observed = usual_gap(state), (state.last or 0.0) - (state.first or 0.0) - sum(long_ones)
    if usual > LEAST_S or state.lines < _LINES or observed < _KNOWN_S:
        return usual
    return min(usual, observed / state.lines)
