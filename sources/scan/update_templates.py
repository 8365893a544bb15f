"""Templates of weight-update lines: lines of a known shape are read without a regex."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from math import isnan
from operator import itemgetter

from perfmon.core import (
    ESCAPES,
    J_DONE_STAMP,
    J_LEGS,
    J_LINES,
    J_OP,
    J_PATH,
    J_QUEUE,
    J_RPC,
    J_SEND_STAMP,
    J_SERVER_LAST_STAMP,
    J_SERVER_PATH,
    J_SERVER_RPC,
    J_SERVER_STAMP,
    J_SIZE,
    J_TIMES,
    J_URL,
    J_WALL,
    LEGS,
    Fields,
    Joined,
    LegStamp,
    Stamp,
)

from ..formats.timestamps import HeaderReader
from .json_envelope import json_begin

# --- The heads of lines, from their begin to the needle that was found: equal heads mean equal stamps ---

_MOST = 4096
_LONGEST = 400
_NEXT = "[w"
"""How the needles of weight updates begin, which stand behind these heads."""


class Heads:
    """The heads that were met, shared by all blocks of a scanner."""

    def __init__(self, headers: HeaderReader) -> None:
        self._headers = headers
        self._known: dict[bytes, Stamp | None] = {}

    def stamps(self, data: bytes, begins: Sequence[int], needles: Sequence[int]) -> list[Stamp | None]:
        """Stamps of the lines that begin and have their needles there; None where only the whole line may tell."""
        heads = list(map(data.__getitem__, map(slice, begins, needles)))
        known = self._known
        if len(known) > _MOST:
            known.clear()
        stamps = list(map(known.get, heads, repeat(_UNMET)))
        return [
            known.setdefault(head, self._read(head)) if stamp is _UNMET else stamp
            for head, stamp in zip(heads, stamps, strict=True)
        ]

    def stamp(self, head: bytes) -> Stamp | None:
        """The stamp of one line."""
        if len(self._known) > _MOST:
            self._known.clear()
        known = self._known.get(head, _UNMET)
        if known is _UNMET:
            known = self._known[head] = self._read(head)
        return known

    def _read(self, head: bytes) -> Stamp | None:
        if head in self._known:
            return self._known[head]
        if not head.isascii() or len(head) > _LONGEST or b"\r" in head or b"\x00" in head:
            return None
        text = head.decode("ascii")
        if "\x1b" in text:
            text = ESCAPES.sub("", text + _NEXT)
            if not text.endswith(_NEXT):
                return None  # an escape sequence that has not ended takes what follows with it
            text = text.removesuffix(_NEXT)
        return self._headers.at_start(text) if json_begin(text) < 0 else None


_UNMET: Stamp = (-1, 0.0)
"""Stands for a head that is met for the first time."""


# --- Shapes of leg lines: literal text with slots for values, learned from lines that were read in the general way ---
#
# Lines of a known shape are read all at once, by one regex on the block's bytes and loops that run outside Python. The
# slots accept less than the general way does: what is odd in any respect is left to it.

NUMBER = {leg: at for at, leg in enumerate(LEGS)}
SEND, DONE = NUMBER["client.send"], NUMBER["client.done"]
_MAX_SHAPES = 12
_MAX_TEXTS = 4096
_ID = rb"([\w.:/-]{1,128})"
_VALUE = rb"[!-+\--:<-Z\\-{}~]"
"""No `[`: another record may begin there, glued to this one."""
_TRAILER = rb"(?:\x1b\[[\d;]*m)*\r?"
_PAIR = re.compile(rb" ([\w./%-]+)=(" + _VALUE + rb"+)")
_KEEP_TEXT = 200
_LIMIT = 172_800_000.0
"""Milliseconds of two days: what is more is left to the general way, which says whether it can be meant."""

Slot = tuple[int, bool]
"""Position in a `Joined`, and whether it holds a number."""
_SLOTS: dict[str, Slot] = {
    "wall_ms": (J_WALL, True),
    "queue_ms": (J_QUEUE, True),
    "url": (J_URL, False),
    "op": (J_OP, False),
}
Cells = tuple[int, tuple[int, ...], Sequence[object]]
"""Number of a leg, positions in a `Joined`, and what to put there."""


def slot_of(field: str, leg: int) -> Slot | None:
    """Where a field of a leg goes; None for a field that nobody reads."""
    if field == "t":
        return J_TIMES + leg, True
    if field == "rpc_ms":
        return (J_RPC if leg == DONE else J_SERVER_RPC), True
    if field == "path":
        return (J_PATH if leg == SEND else J_SERVER_PATH), False
    return _SLOTS.get(field)


@dataclass(frozen=True, slots=True)
class _Shape:
    """One shape: its group in the joined regex, whose values follow."""

    leg: int
    group: int
    slots: tuple[Slot, ...]


class _Texts(dict[bytes, str]):
    """Decoded texts: urls and paths repeat."""

    def __missing__(self, raw: bytes) -> str:
        if len(self) >= _MAX_TEXTS:
            self.clear()
        text = self[raw] = raw.decode("ascii")
        return text


Part = tuple[bytes, Slot | None]
"""Literal text and what the value after it is, None for one that nobody reads."""


class Shapes:
    """Shapes that were met, shared by all blocks of a scanner."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, bytes, tuple[Slot, ...]]] = {}
        self.parts: list[tuple[int, list[Part]]] = []
        """Of each shape its leg and what the line is made of, but for a trailer of colours."""
        self.opening = b""
        """What stands before the trace id in all of them."""
        self._regex: re.Pattern[bytes] | None = None
        self._shapes: list[_Shape] = []
        self._texts = _Texts()

    def __bool__(self) -> bool:
        return self._regex is not None

    def learn(self, tail: bytes, trace: str, leg: str) -> bool:
        """Remembers the shape of a line, `tail` from the needle on, without its newline; whether it is a new one."""
        if len(self._known) >= _MAX_SHAPES or leg not in NUMBER:
            return False
        key = trace.encode("utf-8", "replace")
        opening = tail.find(key + b"] ")
        if opening < 0 or (self.opening and self.opening != tail[:opening]):
            return False
        body = tail[opening + len(key) + 2 :]
        name = leg.encode()
        bare = re.sub(_TRAILER + rb"\Z", b"", body)
        pairs = _PAIR.findall(bare)
        if name + b"".join(b" " + field + b"=" + value for field, value in pairs) != bare:
            return False
        number = NUMBER[leg]
        slots = [slot_of(field.decode("ascii"), number) for field, _ in pairs]
        read = tuple(slot for slot in slots if slot is not None)
        if len({at for at, _ in read}) == len(read):
            regex = b"".join(
                b" " + re.escape(field) + b"=" + _slot_regex(slot)
                for (field, _), slot in zip(pairs, slots, strict=True)
            )
            self.opening = tail[:opening]
            if name + regex not in self._known:
                self._known[name + regex] = (number, b"(" + re.escape(name) + b")" + regex, read)
                pieces = [b" " + field + b"=" for field, _ in pairs]
                pieces[:1] = [name + piece for piece in pieces[:1]] or [name]
                self.parts.append((number, list(zip(pieces, slots or [None], strict=True))))
                self._compile()
                return True
        return False

    def _compile(self) -> None:
        self._shapes = []
        group = 1
        for leg, _, slots in self._known.values():
            self._shapes.append(_Shape(leg, group, slots))
            group += len(slots) + 1
        bodies = b"|".join(regex for _, regex, _ in self._known.values())
        line = re.escape(self.opening) + _ID + rb"\] (?:" + bodies + rb")" + _TRAILER
        self._regex = re.compile(rb"(?:" + line + rb"|[^\n]*+)\n")

    def read(self, lines: Iterable[bytes]) -> tuple[list[str], list[Cells | None]]:
        """Trace id and values of each line (from the needle on, with its newline); None for lines of no known shape."""
        rows = self._regex.findall(b"".join(lines)) if self._regex is not None else []
        found: list[Cells | None] = [None] * len(rows)
        if not rows:
            return [], found
        columns = list(zip(*rows, strict=True))
        traces = b"\n".join(columns[0]).decode("ascii").split("\n")
        for shape in self._shapes:
            marks = columns[shape.group]
            told = [
                self._column(compress(columns[shape.group + 1 + at], marks), numeric)
                for at, (_, numeric) in enumerate(shape.slots)
            ]
            positions = tuple(at for at, _ in shape.slots)
            if None in told:
                continue
            values = zip(*told, strict=True) if told else repeat(())
            for at, row in zip(compress(range(len(rows)), marks), values):  # noqa: B905 - `repeat` has no end
                found[at] = (shape.leg, positions, row)
        return traces, found

    def _column(self, raw: Iterable[bytes], numeric: bool) -> Sequence[object] | None:
        """The values of a column; None when one of them cannot be meant, so that the general way tells which."""
        if not numeric:
            return list(map(self._texts.__getitem__, raw))
        try:
            numbers = list(map(float, raw))
        except ValueError:
            return None
        if numbers and (isnan(sum(numbers)) or min(numbers) < 0.0 or max(numbers) >= _LIMIT):
            return None
        return numbers


def _slot_regex(slot: Slot | None) -> bytes:
    if slot is None:
        return _VALUE + b"+"
    return b"(" + _VALUE + (b"+)" if slot[1] else b"{1,%d})" % _KEEP_TEXT)


# --- Joins the legs of weight updates that one block holds ---
#
# A traced run prints five lines an update, by far most of its recognised lines; joined they cost a fifth to hand on.

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
