"""Joins the legs of weight updates that one block holds.

A traced run prints five lines an update, by far most of its recognised lines; joined they cost a fifth to hand on.
"""

from __future__ import annotations

from operator import itemgetter

from perfmon.model import (
    J_DONE_STAMP,
    J_LEGS,
    J_LINES,
    J_QUEUE,
    J_RPC,
    J_SEND_STAMP,
    J_SERVER_LAST_STAMP,
    J_SERVER_STAMP,
    J_SIZE,
    J_TIMES,
    Fields,
    Joined,
    LegStamp,
    Stamp,
)

from .shapes import DONE, NUMBER, SEND, Cells, slot_of

Calm = tuple[float, float]
"""Milliseconds below which an update's queue and RPC are unremarkable: the text of its lines is then not kept."""
NEVER: Calm = (float("-inf"), float("-inf"))

Leg = tuple[int, int, int, Stamp | None, str, Cells, int]
"""A leg line: begin and end in the block, line number, stamp, trace, values, pattern index."""
HeldLeg = tuple[int, int, int, LegStamp | None, str, Cells, int]
"""One that may have inherited its stamp."""

_MAX_TEXT = 4096
_EMPTY: Joined = [0, *[None] * (J_SIZE - 1)]


def cells(leg: str, fields: Fields, mono: float | None) -> Cells:
    """The values of a leg that was read in the general way."""
    number = NUMBER[leg]
    told: dict[int, object] = {J_TIMES + number: mono}
    for field, value in fields.items():
        slot = slot_of(field, number)
        if slot is not None:
            told[slot[0]] = value
    return number, tuple(told), tuple(told.values())


def join(legs: list[HeldLeg], data: bytes, offset: int, calm: Calm) -> list[tuple[int, str, Joined]]:
    """Pattern index, trace and legs of each update; `offset` is that of `data` in its file.

    A leg that its trace has already begins another update.
    """
    legs.sort(key=itemgetter(0))
    whole: list[tuple[int, str, Joined]] = []
    opened: dict[str, Joined] = {}
    for leg in legs:
        _, _, _, stamp, trace, (number, slots, values), pattern = leg
        joined = opened.get(trace)
        if joined is None or joined[0] >> number & 1:
            joined = opened[trace] = _EMPTY.copy()
            joined[J_LINES] = [leg]
            whole.append((pattern, trace, joined))
        else:
            joined[J_LINES].append(leg)
        joined[J_LEGS] |= 1 << number
        for slot, value in zip(slots, values):  # noqa: B905 - as many as there are slots, and this is the inner loop
            joined[slot] = value
        if number == SEND:
            joined[J_SEND_STAMP] = stamp
        elif number == DONE:
            joined[J_DONE_STAMP] = stamp
        else:
            if joined[J_SERVER_STAMP] is None:
                joined[J_SERVER_STAMP] = stamp
            joined[J_SERVER_LAST_STAMP] = stamp
    for _, _, joined in whole:
        joined[J_LINES] = _lines(joined, data, offset, calm)
    return whole


def _lines(joined: Joined, data: bytes, offset: int, calm: Calm) -> list[tuple[int, int, str]]:
    """The lines of an update; an unremarkable one keeps only the place of its last line."""
    held: list[HeldLeg] = joined[J_LINES]
    queue_ms, rpc_ms = joined[J_QUEUE], joined[J_RPC]
    if queue_ms is not None and rpc_ms is not None and queue_ms < calm[0] and rpc_ms < calm[1]:
        return [(held[-1][2], offset + held[-1][0], "")]
    return [
        (line, offset + begin, data[begin : min(end, begin + _MAX_TEXT)].rstrip(b"\r").decode("utf-8", "replace"))
        for begin, end, line, *_ in held
    ]
