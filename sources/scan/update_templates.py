"""Lines of weight updates: templates by which the compiled search reads them, and the phases of an update joined."""

from __future__ import annotations

import re
from collections.abc import Sequence
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
    LEG,
    LEGS,
    Fields,
    Joined,
    LegStamp,
    Record,
    Stamp,
)

from ..formats.timestamps import HeaderReader
from .json_envelope import json_begin

PHASES = {phase: number for number, phase in enumerate(LEGS)}
SEND, DONE = PHASES["client.send"], PHASES["client.done"]

PhaseLine = tuple[int, int, int, LegStamp | None, str, int, Sequence[int], Sequence[object], int]
"""The line of a phase: begin and end in the block, line number, stamp, update id, number of the phase, positions in a
`Joined`, the value of each, pattern index."""
EvidenceLimits = tuple[float, float]
"""Milliseconds below which an update's queue and RPC are unremarkable: the text of its lines is then not kept."""
KEEP_ALL: EvidenceLimits = (float("-inf"), float("-inf"))

_MAX_HEADS = 4096
_MAX_HEAD = 400
_NEEDLE = "[w"
"""Begin of the needles of weight updates, which stand behind the heads."""


class HeadStamps(dict[bytes, Stamp | None]):
    """Stamps by the head of a line, the bytes up to its needle; None where only the whole line has a stamp."""

    def __init__(self, headers: HeaderReader) -> None:
        super().__init__()
        self._headers = headers

    def __missing__(self, head: bytes) -> Stamp | None:
        if len(self) >= _MAX_HEADS:
            self.clear()
        stamp = self[head] = self._read(head)
        return stamp

    def _read(self, head: bytes) -> Stamp | None:
        if not head.isascii() or len(head) > _MAX_HEAD or b"\r" in head or b"\x00" in head:
            return None
        text = head.decode("ascii")
        if "\x1b" in text:
            text = ESCAPES.sub("", text + _NEEDLE)
            if not text.endswith(_NEEDLE):
                return None  # an unfinished escape sequence takes what follows with it
            text = text.removesuffix(_NEEDLE)
        return self._headers.at_start(text) if json_begin(text) < 0 else None


# --- Templates: literal text with places for values, learned from lines that were read by their pattern ---
#
# The compiled search reads lines of these without a regex. What a value may be is narrower there than in the pattern:
# every other line is left to that.

_MAX_TEMPLATES = 12
_MAX_PIECES, _MAX_PIECE = 16, 64
_VALUE = rb"[!-+\--:<-Z\\-{}~]"
"""No `[`: another record may begin there, glued to this one."""
_PAIR = re.compile(rb" ([\w./%-]+)=(" + _VALUE + rb"+)")
_TRAILER = re.compile(rb"(?:\x1b\[[\d;]*m)*\r?\Z")
_UNREAD, _NO_VALUE = -1, -2

Piece = tuple[bytes, int, bool]
"""Literal text, the position in a `Joined` of the value behind it, and whether that is a number."""

_POSITIONS = {"wall_ms": (J_WALL, True), "queue_ms": (J_QUEUE, True), "url": (J_URL, False), "op": (J_OP, False)}


def _position(field: str, phase: int) -> tuple[int, bool]:
    """Position in a `Joined` of a field, and whether it is a number; _UNREAD for a field that is not used."""
    if field == "t":
        return J_TIMES + phase, True
    if field == "rpc_ms":
        return (J_RPC if phase == DONE else J_SERVER_RPC), True
    if field == "path":
        return (J_PATH if phase == SEND else J_SERVER_PATH), False
    return _POSITIONS.get(field, (_UNREAD, False))


class Templates:
    """The templates of a scanner."""

    def __init__(self) -> None:
        self.opening = b""
        """Text before the update id, the same in all of them."""
        self.lines: list[tuple[int, list[Piece]]] = []
        """Phase and pieces behind the update id of each, without a trailer of colours."""

    def learn(self, tail: bytes, update: str, phase: str) -> bool:
        """Add the template of a line, `tail` from its needle on without the newline; False where it has no new one."""
        opening, found, body = tail.partition(update.encode("utf-8", "replace") + b"] ")
        if not found or phase not in PHASES or len(self.lines) >= _MAX_TEMPLATES or len(opening) > _MAX_PIECE:
            return False
        bare = _TRAILER.sub(b"", body)
        fields = _PAIR.findall(bare)
        if phase.encode() + b"".join(b" " + name + b"=" + value for name, value in fields) != bare:
            return False
        number = PHASES[phase]
        pieces = [(b" " + name + b"=", *_position(name.decode("ascii"), number)) for name, _ in fields]
        read = [position for _, position, _ in pieces if position != _UNREAD]
        text, position, numeric = pieces[0] if pieces else (b"", _NO_VALUE, False)
        pieces[:1] = [(phase.encode() + text, position, numeric)]
        if len(set(read)) < len(read) or len(pieces) > _MAX_PIECES or max(len(one[0]) for one in pieces) > _MAX_PIECE:
            return False
        if (number, pieces) in self.lines or (self.lines and self.opening != opening):
            return False
        self.opening = opening
        self.lines.append((number, pieces))
        return True


# --- Phases of one update that a block holds are joined into one record, which costs a fifth to hand on ---

_MAX_TEXT = 4096
_EMPTY: Joined = [0, *[None] * (J_SIZE - 1)]


def phase_values(phase: str, fields: Fields, mono: float | None) -> tuple[int, tuple[int, ...], tuple[object, ...]]:
    """Number, positions and values of a phase whose line was read by its pattern."""
    number = PHASES[phase]
    values: dict[int, object] = {J_TIMES + number: mono}
    for field, value in fields.items():
        position, _ = _position(field, number)
        if position != _UNREAD:
            values[position] = value
    return number, tuple(values), tuple(values.values())


def update_records(phases: list[PhaseLine], data: bytes, offset: int, limits: EvidenceLimits) -> list[Record]:
    """A record for each update, with all of its phases in a block; `offset` is that of `data` in its file.

    A phase that an update has already begins another update of that id.
    """
    phases.sort(key=itemgetter(0))
    updates: list[tuple[int, str, Joined]] = []
    latest: dict[str, Joined] = {}
    for line in phases:
        _, _, _, stamp, update, number, positions, values, pattern = line
        joined = latest.get(update)
        if joined is None or joined[J_LEGS] >> number & 1:
            joined = latest[update] = _EMPTY.copy()
            joined[J_LINES] = [line]
            updates.append((pattern, update, joined))
        else:
            joined[J_LINES].append(line)
        joined[J_LEGS] |= 1 << number
        for position, value in zip(positions, values):  # noqa: B905 - as many as positions, and this is the inner loop
            joined[position] = value
        if number == SEND:
            joined[J_SEND_STAMP] = stamp
        elif number == DONE:
            joined[J_DONE_STAMP] = stamp
        else:
            if joined[J_SERVER_STAMP] is None:
                joined[J_SERVER_STAMP] = stamp
            joined[J_SERVER_LAST_STAMP] = stamp
    records: list[Record] = []
    for pattern, update, joined in updates:
        joined[J_LINES] = _evidence(joined, data, offset, limits)
        number, place, text = joined[J_LINES][-1]
        records.append((pattern, number, place, None, None, [(LEG, update, joined)], text))
    return records


def _evidence(joined: Joined, data: bytes, offset: int, limits: EvidenceLimits) -> list[tuple[int, int, str]]:
    """The lines of an update; an unremarkable one keeps only the place of its last line."""
    lines: list[PhaseLine] = joined[J_LINES]
    queue_ms, rpc_ms = joined[J_QUEUE], joined[J_RPC]
    if queue_ms is not None and rpc_ms is not None and queue_ms < limits[0] and rpc_ms < limits[1]:
        return [(lines[-1][2], offset + lines[-1][0], "")]
    return [
        (number, offset + begin, data[begin : min(end, begin + _MAX_TEXT)].rstrip(b"\r").decode("utf-8", "replace"))
        for begin, end, number, *_ in lines
    ]
