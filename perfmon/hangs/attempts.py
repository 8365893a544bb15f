"""Attempts of a job that restarted: the log of a launcher has the watchdog lines of every one of them.

Only the last attempt hangs. Lines are of an earlier one if time-outs came so long before the others that these must
have begun since, or if the numbers of a rank contradict: what it had completed, it cannot wait for later.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from perfmon.core import Fields

Line = tuple[Fields, str]
"""The fields of a watchdog line, with `log` where several logs are read, and its text."""
_STAMP = re.compile(r"\[[EWIF](\d{1,2})(\d\d) (\d\d):(\d\d):(\d\d)\.\d")
_NUMBER = re.compile(r"-?\d{1,18}")
_PREFIX = 200
_LEAST_S, _USUAL_S = 60.0, 600.0
"""Time between the time-outs of one hang, at least; and the time-out of NCCL where it is not known."""


@dataclass(slots=True)
class _Row:
    line: Line
    log: str
    seconds: float | None


def last_attempt(lines: Iterable[Line]) -> list[Line]:
    """Return the lines without those of earlier attempts, in order of time where that is known."""
    rows = _rows(lines)
    timed = sorted((row for row in rows if row.seconds is not None), key=lambda row: row.seconds or 0.0)
    untimed: dict[str, list[_Row]] = {}  # the order of these is known within a log only
    for row in rows:
        if row.seconds is None:
            untimed.setdefault(row.log, []).append(row)
    kept = [row for held in (_since_gap(timed), *untimed.values()) for row in held[_begin(held) :]]
    return [row.line for row in kept]


def _rows(lines: Iterable[Line]) -> list[_Row]:
    """The lines with their times; one without a time has that of the line before it in its log."""
    rows, last = [], dict[str, float]()
    for fields, text in lines:
        log = str(fields.get("log", ""))
        seconds = _seconds(text)
        if seconds is None:
            seconds = last.get(log)
        else:
            last[log] = seconds
        rows.append(_Row((fields, text), log, seconds))
    return rows


def _seconds(text: str) -> float | None:
    """The time in the year: prefixes have none."""
    match = _STAMP.search(text, 0, _PREFIX)
    if match is None:
        return None
    try:
        at = datetime(2000, *map(int, match.groups()))  # type: ignore[arg-type]
    except ValueError:
        return None
    return (at - datetime(2000, 1, 1)).total_seconds()


def _since_gap(rows: Sequence[_Row]) -> Sequence[_Row]:
    """Rows from the last time-outs on that others came a whole time-out before: they waited that long since."""
    begin, last = 0.0, None
    for row in rows:
        fields = row.line[0]
        if "op" not in fields or row.seconds is None:
            continue
        limit_s = max(_LEAST_S, (_number(fields.get("timeout_ms")) or _USUAL_S * 1e3) / 1e3)
        if last is not None and row.seconds - last > limit_s:
            begin = (last + row.seconds) / 2
        last = row.seconds
    return [row for row in rows if row.seconds is None or row.seconds >= begin]


def _begin(rows: Sequence[_Row]) -> int:
    """Position of the first row of the last attempt, by the numbers of each rank."""
    held: dict[str, list[int]] = {}
    completed: dict[tuple[str, str], tuple[int, int]] = {}
    waited: dict[tuple[str, str], tuple[int, int]] = {}
    """By rank and group the number, and the position of its row."""
    changes = []
    for at, row in enumerate(rows):
        fields = row.line[0]
        rank = str(fields.get("rank", ""))
        if not rank:
            continue
        mine = held.setdefault(rank, [])
        mine.append(at)
        if "process_group" not in fields:
            continue
        key = rank, str(fields["process_group"])
        done, enqueued = _number(fields.get("completed")), _number(fields.get("enqueued"))
        waits = _number(fields.get("seq"))
        if done is not None and enqueued is not None and done > enqueued:
            done = None  # counters of a group that sends and receives, too, mix both kinds
        old, awaited = completed.get(key), waited.get(key)
        if old is None or all(number is None or number >= old[0] for number in (done, enqueued, waits)):
            old = awaited if awaited is not None and done is not None and done >= awaited[0] else None
        if old is not None:  # the new attempt began after that row, at the latest with the next one of the rank
            changes.append((old[1], mine[bisect_right(mine, old[1])]))
            completed.pop(key, None)
            waited.pop(key, None)
        if done is not None:
            completed[key] = done, at
        if waits is not None:
            waited[key] = waits, at
    last = max((old for old, _ in changes), default=-1)
    return min((new for _, new in changes if new > last), default=0)


def _number(value: object) -> int | None:
    text = str(value)
    return int(text) if _NUMBER.fullmatch(text) else None
