"""Older parts of a remote log: plain ones, and compressed ones, which are unpacked on their machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace

from perfmon.core import format_bytes

from ..follow.file_reader import HEAD_SIZE, TAIL_SIZE, Fingerprint
from ..spec import compression_of
from .files import SQUEEZED, Files, Handle, State

_REST = 64 << 20
_LOOKS = 3
_PIECE = 16 << 20
_LARGEST = 256 << 20
"""A compressed part that is larger is not unpacked: the machine has better things to do."""
_MOST = 1 << 30
"""Of what it holds no more than that is read."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a log."""

    path: str
    state: State
    packed: bool
    head: bytes = b""
    """First bytes of its text; empty where it cannot be read."""


async def parts_since(files: Files, log: str, since_s: float) -> list[Part]:
    """Those that were written then or later, the oldest first."""
    found = [
        Part(path, state, compression_of(path) is not None)
        for path, state in await files.parts(log)
        if state.changed_s >= since_s
    ]
    return [await with_head(files, part) for part in found]


async def with_head(files: Files, part: Part) -> Part:
    """The same after another look: it may have been half written before."""
    return replace(part, head=await _read(files, part, 0, HEAD_SIZE))


async def _read(files: Files, part: Part, offset: int, size: int) -> bytes:
    if not part.packed:
        return await files.read(Handle(part.state.identity, part.path), offset, size) or b""
    return await files.unpacked(part.path, offset, size) if part.state.size <= _LARGEST else b""


async def rest_in_copy(files: Files, log: str, known: Fingerprint) -> bytes | None:
    """The rest of a truncated log after the position that was read, from a copy; None without a copy."""
    if not known.position:
        return None
    for _ in range(_LOOKS):  # a copy may be renamed between the look at its name and its opening
        moved = False
        for path, state in reversed(await files.parts(log)):
            if state.size < known.position or compression_of(path):
                continue
            handle, again = Handle(state.identity, path), len(known.tail)
            head = await files.read(handle, 0, len(known.head))
            moved = moved or head is None
            if head != known.head:
                continue
            size = min(_REST, state.size - known.position)
            data = await files.read(handle, known.position - again, again + size, squeezed=size > SQUEEZED)
            moved = moved or data is None
            if data is not None and data[:again] == known.tail:
                return data[again:]
        if not moved:
            break
    return None


async def rest_in_packed(files: Files, log: str, known: Fingerprint, since_s: float) -> Part | None:
    """The compressed part that holds a text of which so much was read."""
    for part in reversed(await parts_since(files, log, since_s)) if known.position else ():
        if part.packed and await holds(files, part, known) and not await trouble(files, part):
            return part
    return None


async def trouble(files: Files, part: Part) -> str:
    """The reason why a compressed part cannot be read to its end; "" if it can."""
    if part.state.size > _LARGEST:
        return f"larger than {format_bytes(_LARGEST)}"
    return await files.damage(part.path)


async def holds(files: Files, part: Part, known: Fingerprint) -> bool:
    """True if a part begins with a known text."""
    if not part.head or not part.head.startswith(known.head):
        return False
    again = len(known.tail)
    return await _read(files, part, known.position - again, again) == known.tail


async def was_consumed(files: Files, part: Part, past: Iterable[Fingerprint]) -> bool:
    """True if its text was read already, under another name or before it was compressed or copied."""
    for known in past:
        if known.position and await holds(files, part, known):
            return True
    return False


async def pieces(files: Files, part: Part, offset: int) -> AsyncIterator[bytes]:
    """Yield the contents of a compressed part from `offset` on."""
    end = offset + _MOST
    while offset < end and (data := await files.unpacked(part.path, offset, min(_PIECE, end - offset))):
        yield data
        offset += len(data)


async def whole(files: Files, part: Part) -> Fingerprint:
    """The print of all that a plain part holds."""
    size = part.state.size
    tail = await _read(files, part, max(0, size - TAIL_SIZE), min(TAIL_SIZE, size))
    return Fingerprint(part.head, tail, size)
