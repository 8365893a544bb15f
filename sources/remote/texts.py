"""Looks at the text of a file on a machine apart from following it: its state, where to begin, where it went on."""

from __future__ import annotations

from ..blocks import Cutter
from ..stream import EMPTY, Print
from .claims import HEAD, TAIL, Text
from .files import Files, Handle, State

SQUEEZED = 1 << 17
"""History that is larger is sent compressed."""
_LOOK_BACK = 1 << 16
_REST = 64 << 20


async def state_of(files: Files, text: Text) -> State | None:
    """What a text's own file is now; None when it cannot be found."""
    if text.handle is None:
        return None
    now = await files.state(text.handle)
    return now if now is not None and now.identity == text.identity else None


async def whole_print(files: Files, text: Text) -> Print:
    """The print of all that a text's own file holds now; an empty one when it cannot be read."""
    now = await state_of(files, text)
    if now is None or text.handle is None:
        return EMPTY
    head = await files.read(text.handle, 0, min(HEAD, now.size))
    tail = await files.read(text.handle, max(0, now.size - TAIL), min(TAIL, now.size))
    return EMPTY if head is None or tail is None else Print(head, tail, now.size)


async def skip_history(files: Files, text: Text, wanted: int | None) -> int:
    """Moves on to the beginning of a line, so that at most `wanted` bytes of what exists are left.

    None leaves all of it, 0 nothing but the line that is unfinished now. The result is how many bytes were left out.
    """
    now = await state_of(files, text)
    size = text.history = 0 if now is None else now.size
    if wanted is None or size <= wanted or text.handle is None:
        return 0
    start = max(0, size - (wanted or _LOOK_BACK))
    data = await files.read(text.handle, start, min(size - start, _LOOK_BACK)) or b""
    end = data.rfind(b"\n") if not wanted else data.find(b"\n")
    at = start + end + 1 if end >= 0 else start
    head = await files.read(text.handle, 0, min(HEAD, at)) or b""
    tail = await files.read(text.handle, max(0, at - TAIL), min(TAIL, at)) or b""
    text.print = Print(head, tail, at)
    text.cutter = Cutter(offset=at, frames=True, counted=False)
    return at


async def rest_in_copy(files: Files, log: str, known: Print) -> bytes | None:
    """What a copy of a truncated log holds after the place that was reached; None when there is no copy."""
    if not known.position:
        return None
    for path, state in reversed(await files.parts(log)):
        if state.size < known.position:
            continue
        handle, again = Handle(state.identity, path), len(known.tail)
        if await files.read(handle, 0, len(known.head)) != known.head:
            continue
        size = min(_REST, state.size - known.position)
        data = await files.read(handle, known.position - again, again + size, squeezed=size > SQUEEZED)
        if data is not None and data[:again] == known.tail:
            return data[again:]
    return None
