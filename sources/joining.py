"""Joins the legs of weight updates while a block is scanned, and reads those of a known shape without detours.

A traced run prints five lines an update, by far most of its recognised lines. Once a leg line was read in the general
way, lines of the same shape (same literal text, other values) are read by one regex on the block's bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from perfmon.model import (
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
    Stamp,
)

_NUMBER = {leg: at for at, leg in enumerate(LEGS)}
_SEND, _DONE = 0, 4
_MAX_SHAPES = 12
_ID = rb"([^\]\s]{1,128})"
_VALUE = rb"([^\s,;|\x1b]+)"
_END = rb"(?:\x1b\[[\d;]*m)*\r?(?=\n)"
_PAIR = re.compile(rb" ([\w./%-]+)=([^\s,;|\x1b]+)")
_SLOTS: dict[str, tuple[int, bool, int]] = {
    "wall_ms": (J_WALL, True, _DONE),
    "rpc_ms": (J_RPC, True, _DONE),
    "queue_ms": (J_QUEUE, True, _DONE),
    "url": (J_URL, False, _SEND),
    "op": (J_OP, False, -1),
}
_LIMIT = 1e10

Calm = Callable[[Joined], bool]
"""Whether an update is unremarkable: the text of its lines is then not kept."""


def _slot(field: str, leg: int) -> tuple[int, bool] | None:
    """Position of a field of a leg, and whether it is a number; None for a field that nobody reads."""
    if field == "t":
        return J_TIMES + leg, True
    if field == "rpc_ms":
        return (J_RPC if leg == _DONE else J_SERVER_RPC), True
    if field == "path":
        return (J_PATH if leg == _SEND else J_SERVER_PATH), False
    known = _SLOTS.get(field)
    return known[:2] if known is not None else None


class Shapes:
    """Shapes of leg lines that were met, shared by all blocks of a scanner."""

    def __init__(self) -> None:
        self._known: dict[bytes, tuple[int, tuple[tuple[int, bool], ...]]] = {}
        self._head = b""
        self.regex: re.Pattern[bytes] | None = None
        self.read: list[tuple[int, int, tuple[tuple[int, bool], ...]]] = []
        """For each shape: number of its leg, its first value group, and (position, is a number) of each value."""
        self._by_marker: dict[str, int] = {}

    def learn(self, tail: bytes, trace: str, leg: str) -> None:
        """Remembers the shape of a line: `tail` from the needle on, without its newline."""
        if len(self._known) >= _MAX_SHAPES or leg not in _NUMBER:
            return
        key = trace.encode()
        opening = tail.find(key + b"] ")
        if opening < 0 or (self._head and self._head != tail[:opening]):
            return
        body = tail[opening + len(key) + 2 :]
        name = leg.encode()
        if not body.startswith(name):
            return
        bare = re.sub(rb"(?:\x1b\[[\d;]*m)*\r?$", b"", body)
        pairs = _PAIR.findall(bare)
        if name + b"".join(b" " + field + b"=" + value for field, value in pairs) != bare:
            return
        number = _NUMBER[leg]
        slots: list[tuple[int, bool]] = []
        regex = re.escape(name)
        for field, value in pairs:
            slot = _slot(field.decode("ascii", "replace"), number)
            regex += b" " + re.escape(field) + b"=" + (_VALUE if slot is not None else b"[^\\s,;|\\x1b]+")
            if slot is not None:
                slots.append(slot)
        if len({at for at, _ in slots}) == len(slots):
            self._head = tail[:opening]
            self._known.setdefault(regex, (number, tuple(slots)))
            self._compile()

    def _compile(self) -> None:
        parts = []
        self.read = []
        group = 2
        for at, (regex, (leg, slots)) in enumerate(self._known.items()):
            parts.append(regex + b"(?P<s%d>)" % at)
            self.read.append((leg, group, slots))
            group += len(slots) + 1
        self.regex = re.compile(re.escape(self._head) + _ID + rb"\] (?:" + b"|".join(parts) + b")" + _END)
        self._by_marker = {f"s{at}": at for at in range(len(parts))}

    def which(self, marker: str | None) -> tuple[int, int, tuple[tuple[int, bool], ...]]:
        """The shape that a match was of."""
        return self.read[self._by_marker[marker or ""]]


class Joiner:
    """The legs of one block, by trace."""

    def __init__(self, shapes: Shapes, calm: Calm | None) -> None:
        self._shapes, self._calm = shapes, calm
        self._open: dict[str, tuple[int, Joined]] = {}
        self.joined: list[tuple[int, str, Joined]] = []
        """(pattern index, trace, legs) by the position of their last leg."""

    def read(self, data: bytes, at: int, pattern: int, stamp: Stamp | None, line: int, offset: int, begin: int) -> int:
        """Reads the leg line whose needle stands at `at`, if it has a known shape; its end, or -1.

        `begin` is where the line begins in `data`, `offset` where it does in the file.
        """
        regex = self._shapes.regex
        match = regex.match(data, at) if regex is not None else None
        if match is None:
            return -1
        leg, group, slots = self._shapes.which(match.lastgroup)
        groups = match.groups()
        try:
            values = [
                float(raw) if numeric else raw.decode("utf-8", "replace")[:200]
                for raw, (_, numeric) in zip(groups[group - 1 : group - 1 + len(slots)], slots, strict=True)
            ]
        except ValueError:
            return -1
        for value in values:
            if value.__class__ is float and not 0.0 <= value <= _LIMIT:
                return -1
        joined = self._leg(groups[0].decode("utf-8", "replace"), leg, pattern)
        for (slot, _), value in zip(slots, values, strict=True):
            joined[slot] = value
        end = match.end()
        self._date(joined, leg, stamp)
        joined[J_LINES].append((line, offset, data[begin:end]))
        return end

    def add(
        self, pattern: int, trace: str, leg: str, fields: Fields, mono: float | None, stamp: Stamp | None,
        line: int, offset: int, raw: bytes,
    ) -> None:  # fmt: skip
        """A leg that was read in the general way."""
        number = _NUMBER[leg]
        joined = self._leg(trace, number, pattern)
        joined[J_TIMES + number] = mono
        for field, value in fields.items():
            slot = _slot(field, number)
            if slot is not None:
                joined[slot[0]] = value
        self._date(joined, number, stamp)
        joined[J_LINES].append((line, offset, raw))

    def _leg(self, trace: str, leg: int, pattern: int) -> Joined:
        """The update that a leg belongs to; a leg that it has already begins another one."""
        held = self._open.get(trace)
        if held is None or held[1][J_LEGS] >> leg & 1:
            joined: Joined = [None] * J_SIZE
            joined[J_LEGS] = 0
            joined[J_LINES] = []
            if held is not None:
                self.joined.append((held[0], trace, held[1]))
            self._open[trace] = (pattern, joined)
        else:
            joined = held[1]
        joined[J_LEGS] |= 1 << leg
        return joined

    @staticmethod
    def _date(joined: Joined, leg: int, stamp: Stamp | None) -> None:
        if leg == _SEND:
            joined[J_SEND_STAMP] = stamp
        elif leg == _DONE:
            joined[J_DONE_STAMP] = stamp
        else:
            if joined[J_SERVER_STAMP] is None:
                joined[J_SERVER_STAMP] = stamp
            joined[J_SERVER_LAST_STAMP] = stamp

    def finish(self) -> list[tuple[int, str, Joined]]:
        """All updates of the block; unremarkable ones keep only the place of their last line."""
        self.joined += [(pattern, trace, joined) for trace, (pattern, joined) in self._open.items()]
        calm = self._calm
        for _, _, joined in self.joined:
            if calm is not None and calm(joined):
                line, offset, _ = joined[J_LINES][-1]
                joined[J_LINES] = [(line, offset, "")]
            else:
                joined[J_LINES] = [(line, offset, _text(raw)) for line, offset, raw in joined[J_LINES]]
        return self.joined


def _text(raw: bytes) -> str:
    return raw[:4096].decode("utf-8", "replace")
