"""What the lab's commands have in common: lengths and numbers of runs, and an end in order."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable

from .conductor import LabError

_LONGEST_S = 7 * 24 * 3600.0


def duration(text: str) -> float:
    """Seconds of a run, as an argument: more than none, and an end to it."""
    seconds = moment(text)
    if not seconds > 0:
        raise argparse.ArgumentTypeError(f"{text!r}: a run takes more than 0 s")
    return seconds


def moment(text: str) -> float:
    """A second of a run, as an argument."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = float("nan")
    if not 0 <= seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"{text!r}: expected seconds, at most a week of them")
    return seconds


def how_many(text: str) -> int:
    """So many of something, as an argument: one at least."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number of 1 or more")
    return int(text)


def in_order(work: Callable[[], int], left: str = "") -> int:
    """The exit status of `work`: 1 where the lab could not run, 130 where it was ended; `left` says what is there then.

    SIGTERM and SIGHUP end it as Ctrl+C does: its own processes first, then what it keeps in memory.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, signal.default_int_handler)
    try:
        return work()
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"lab: ended early{left}", file=sys.stderr)
        return 130
