"""What one finding amounts to over all windows in which it was seen: no occurrence and no second counted twice."""

from __future__ import annotations

from collections import deque

from .ledger import Window, length, union
from .snapshot import Finding, Moment

_ACTIVITY = 64
_SAME_SHARE = 0.5
_EDGE_S = 1e-6


class Tally:
    """Occurrences and lost time of a finding, by windows that overlap.

    Each window knows only itself, and judges what lies at its older edge without what came before. So an occurrence
    stays counted; of lost time the newer half of a window is what that window says (a cause that is found later may
    take it over), while in the older half what earlier windows said stays.
    """

    def __init__(self) -> None:
        self.count = 0
        """Never goes down."""
        self.activity: deque[float] = deque(maxlen=_ACTIVITY)
        """When the newest occurrences ended (silences: began), in seconds on the run's axis."""
        self._known: dict[tuple[int, ...], float] = {}
        self._lacks: list[Window] = []
        self._lost: list[Window] = []
        self._settled_s = 0.0

    @property
    def lost_s(self) -> float:
        """Seconds lost over all windows."""
        return self._settled_s + length(self._lost)

    def add(self, finding: Finding, window: Window) -> float | None:
        """Takes what is said of a window (seconds on the run's axis); when the first new occurrence began, if any."""
        fresh = [moment for moment in finding.moments if self._is_new(moment, window[0])]
        self._lose(finding, window)
        self.activity.extend(window[0] + (moment.end_s if moment.id else moment.start_s) for moment in fresh)
        self.count = max(self.count + len(fresh), finding.count)
        # What is told of later than the window, while the run is silent, is all that comes back of it.
        begins = window[0] + min((moment.start_s for moment in finding.moments), default=0.0)
        self._forget(max(window[0], begins) if begins > window[1] else window[0])
        return window[0] + min(moment.start_s for moment in fresh) if fresh else None

    def shift(self, seconds: float) -> None:
        """The axis moved: all that is remembered moves along."""
        self.activity = deque((time + seconds for time in self.activity), maxlen=_ACTIVITY)
        self._known = {name: end + seconds for name, end in self._known.items()}
        self._lacks = [(low + seconds, high + seconds) for low, high in self._lacks]
        self._lost = [(low + seconds, high + seconds) for low, high in self._lost]

    def _is_new(self, moment: Moment, begin: float) -> bool:
        low, high = begin + moment.start_s, begin + moment.end_s
        if moment.id:
            new = moment.id not in self._known
            self._known[moment.id] = high
            return new
        for at, (start, end) in enumerate(self._lacks):
            if min(end, high) - max(start, low) > _SAME_SHARE * min(end - start, high - low):
                self._lacks[at] = (min(start, low), max(end, high))
                return False
        self._lacks.append((low, high))
        return True

    def _lose(self, finding: Finding, window: Window) -> None:
        told = _goes_on([(window[0] + low, window[0] + high) for low, high in finding.lost], finding, window)
        untold = max(0.0, finding.lost_s - sum(high - low for low, high in finding.lost))
        if not self.count:
            self._settled_s = untold
        trusted = sum(window) / 2
        if untold > _EDGE_S:
            trusted = max(trusted, told[0][0] if told else window[1])
        kept = [(low, min(high, trusted)) for low, high in self._lost if low < trusted]
        self._lost = union([*kept, *told])

    def _forget(self, begin: float) -> None:
        """What lies before the window does not come back: it is remembered as a sum."""
        self._known = {name: end for name, end in self._known.items() if end >= begin}
        self._lacks = [lack for lack in self._lacks if lack[1] >= begin]
        self._settled_s += length([lost for lost in self._lost if lost[1] < begin])
        self._lost = [lost for lost in self._lost if lost[1] >= begin]


def _goes_on(told: list[Window], finding: Finding, window: Window) -> list[Window]:
    """A silence that lasts counts on, though the window waits at its last lines: what it lost ends where it does."""
    until = max((window[0] + moment.end_s for moment in finding.moments if not moment.id), default=window[1])
    if not told or until <= window[1] or told[-1][1] < window[1] - _EDGE_S:
        return told
    return [*told[:-1], (told[-1][0], until)]
