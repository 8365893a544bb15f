"""The day of a log whose lines tell the time of day alone, by when its file was last written.

A file's time is believed where it fits the last line: by the clock of this machine or by UTC, at most ten minutes
later. Of files that were copied it is the time of the copy: so it counts only where it fits every log of the run that
it could (those with a date, and those with a time of day); else logs lie where most of them overlap, as without it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from .model import DAYTIME, EPOCH, LOCAL
from .sourcestate import SourceState

_DAY = 86400.0
_LATE_S, _EARLY_S = 600.0, 60.0
"""How much later, and earlier, than its last line a file may have been written."""


def heed_file_time(state: SourceState, written: float) -> None:
    """Takes note of when the file of a log was last written (seconds since 1970), once it was read so far."""
    last = state.last if state.tail is None else state.tail
    if last is None or state.kind not in (EPOCH, LOCAL, DAYTIME):
        return
    zones = (0.0,) if state.kind == EPOCH else (float(time.localtime(written).tm_gmtoff or 0), 0.0)
    for zone in zones:
        late = written + zone - last
        day = round((late - _LATE_S / 2) / _DAY) * _DAY if state.kind == DAYTIME else 0.0
        if -_EARLY_S <= late - day <= _LATE_S:
            state.written_then, state.midnight, state.zone_s = True, day, zone
            return
    state.written_then = False


def days_known(states: Sequence[SourceState]) -> bool:
    """Whether the files tell the days of those logs that tell no dates; beside dates without a year they do not."""
    judged = [state for state in states if state.kind is not None and state.first is not None]
    return all(state.written_then for state in judged) and any(state.kind == DAYTIME for state in judged)
