"""Older parts of a log that were not read to their end: plain ones, and compressed ones, unpacked on their machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, replace

from perfmon.units import format_bytes

from ..rotation import age_by_name
from ..stream import Print
from .claims import HEAD
from .files import Files, Handle, State

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
    """What its text begins with; empty where it cannot be read."""


async def parts_since(files: Files, log: str, since_s: float) -> list[Part]:
    """Those that were written then or later, the oldest first."""
    found = [
        Part(path, state, packed)
        for packed in (False, True)
        for path, state in await files.parts(log, packed=packed)
        if state.changed_s >= since_s
    ]
    found.sort(key=lambda part: (part.state.changed_s, part.state.stamp, *age_by_name(part.path)))
    return [await seen_again(files, part) for part in found]


async def seen_again(files: Files, part: Part) -> Part:
    """The same after another look: it may have been half written before."""
    return replace(part, head=await _read(files, part, 0, HEAD))


async def _read(files: Files, part: Part, offset: int, size: int) -> bytes:
    if not part.packed:
        return await files.read(Handle(part.state.identity, part.path), offset, size) or b""
    return await files.unpacked(part.path, offset, size) if part.state.size <= _LARGEST else b""


async def rest_in_packed(files: Files, log: str, known: Print, since_s: float) -> Part | None:
    """The compressed part that holds a text of which so much was read."""
    for part in reversed(await parts_since(files, log, since_s)) if known.position else ():
        if part.packed and await holds(files, part, known) and not await trouble(files, part):
            return part
    return None


async def trouble(files: Files, part: Part) -> str:
    """Why a compressed part cannot be read to its end; "" where it can."""
    if part.state.size > _LARGEST:
        return f"larger than {format_bytes(_LARGEST)}"
    return await files.damage(part.path)


async def holds(files: Files, part: Part, known: Print) -> bool:
    """Whether a part begins with a known text."""
    if not part.head or not part.head.startswith(known.head):
        return False
    again = len(known.tail)
    return await _read(files, part, known.position - again, again) == known.tail


async def was_read(files: Files, part: Part, past: Iterable[Print]) -> bool:
    """Whether its text is one of those that were read, under another name or before it was compressed or copied."""
    for known in past:
        if known.position and await holds(files, part, known):
            return True
    return False


async def pieces(files: Files, part: Part, offset: int) -> AsyncIterator[bytes]:
    """What a compressed part holds from `offset` on."""
    end = offset + _MOST
    while offset < end and (data := await files.unpacked(part.path, offset, min(_PIECE, end - offset))):
        yield data
        offset += len(data)
