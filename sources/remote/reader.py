"""The text of one remote log, whatever its files are called by now."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import PurePosixPath

from perfmon.core import Block, Notice, NoticeKind, format_bytes, plain

from ..blocks import LineSplitter
from ..discovery import LogFile
from ..follow import CERTAIN_S, EMPTY, HEAD_SIZE, TAIL_SIZE, Fingerprint
from ..spec import HEAD, compression_in, compression_of, is_binary
from .files import SQUEEZED, Files, Handle, InodeOwners, State, Text, UnreadableError, find_deleted, find_renamed, held
from .parts import (
    Part,
    holds,
    parts_since,
    pieces,
    rest_in_copy,
    rest_in_packed,
    trouble,
    was_consumed,
    whole,
    with_head,
)

# --- Looks at the text of a file on a machine apart from following it: its state, where to begin, where it went on ---

_LOOK_BACK = 1 << 16


async def state_of(files: Files, text: Text) -> State | None:
    """Current state of a text's own file; None if it cannot be found."""
    if text.handle is None:
        return None
    now = await files.state(text.handle)
    return now if now is not None and now.identity == text.identity else None


async def full_fingerprint(files: Files, text: Text) -> Fingerprint:
    """The print of all that a text's own file holds now; an empty one when it cannot be read."""
    now = await state_of(files, text)
    if now is None or text.handle is None:
        return EMPTY
    return await _fingerprint(files, text.handle, now.size)


async def _fingerprint(files: Files, handle: Handle, position: int) -> Fingerprint:
    head = await files.read(handle, 0, min(HEAD_SIZE, position))
    tail = await files.read(handle, max(0, position - TAIL_SIZE), min(TAIL_SIZE, position))
    return EMPTY if head is None or tail is None else Fingerprint(head, tail, position)


async def _may_hold(files: Files, handle: Handle, size: int, known: Fingerprint) -> bool | None:
    """True if a file of that size begins with a known text; None while it is too short to decide."""
    head = await files.read(handle, 0, min(size, len(known.head)))
    if not head or not known.head.startswith(head):
        return False
    if size < known.position:
        return None
    again = len(known.tail)
    return await files.read(handle, known.position - again, again) == known.tail


async def skip_history(files: Files, text: Text, wanted: int | None) -> int:
    """Move on to the beginning of a line, so that at most `wanted` bytes of what exists are left.

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
    text.print = replace(await _fingerprint(files, text.handle, at), position=at)
    text.cutter = LineSplitter(offset=at, frames=True, counted=False)
    return at


# --- Reads the texts of one log of a machine, whatever their files are called by now, and the parts that were missed
# ---

CHUNK = 1 << 20
_HISTORY_CHUNK = 4 << 20
_REMEMBERED = 64
Item = tuple[LogFile, Block | Notice]


class LogReader:
    """Reads the texts of one log, and remembers those that were read."""

    def __init__(self, log: LogFile, path: str, claims: InodeOwners) -> None:
        self.log, self.path = log, path
        self.text: Text | None = None
        self.more = True
        """There is more to read at once."""
        self.behind = 0
        """Bytes that are known to be there and are not read yet."""
        self._claims = claims
        self._last_notice = ""
        self._late: list[tuple[Text, float]] = []
        self._next: Text | None = None
        """The empty file that bears the name by now: its writer may still end a line in the old one."""
        self._past: deque[Fingerprint] = deque(maxlen=_REMEMBERED)
        """The texts that it has read."""
        self._damaged: deque[State] = deque(maxlen=_REMEMBERED)
        """Compressed parts that cannot be read."""
        self.logs_of: Callable[[], Iterable[LogReader]] = tuple
        """The followed logs of which this one is named like an older part: what they held may be copied to it."""
        self._doubted_s: float | None = None
        self._unpacking: Text | None = None
        """The text of a compressed part of which not all is read."""

    # --- one text -------------------------------------------------------------------------------------------------
    async def _find(self, files: Files, text: Text, state: State | None, *, deleted: bool = False) -> bool:
        """Open a text again, under the log's name or that of an older part; False when it is not there any more.

        `deleted`: or where it has no name, as long as its writer holds it open.
        """
        text.handle = await find_renamed(files, self.path, text, state)
        if text.handle is None and deleted:
            text.handle = await find_deleted(files, self.path, text)
        if text.handle is None:
            return False
        head = text.print.head
        if not head or await files.read(text.handle, 0, len(head)) == head:
            return True
        await self._forget(files, text)
        return False

    async def _forget(self, files: Files, text: Text) -> None:
        """Close its file."""
        await files.release(text.handle)
        text.handle = None

    async def _read(self, files: Files, text: Text, now: State, items: list[Item]) -> bool:
        """The next bytes of a text; those before them are read again and show if it is still the same.

        False if its name leads to another file by now, or it cannot be read: the next look decides.
        """
        known = text.print
        wanted = now.size - known.position
        self.behind = max(0, wanted)
        if wanted < 0:
            await self._start_over(files, text, items)
            return True
        if not wanted and now.stamp == text.stamp:
            self.more = False
            return True
        if not known.position and wanted and await self._passes_over_copy(files, text, now):
            return True
        old = known.position < text.history
        wanted = min(wanted, _HISTORY_CHUNK if old and files.gzip else CHUNK)
        again = len(known.tail)
        assert text.handle is not None  # noqa: S101 - it was opened or found again
        squeezed = old and wanted > SQUEEZED
        data = await files.read(text.handle, known.position - again, again + wanted, squeezed=squeezed)
        if data is None or len(data) < again + (wanted > 0):
            return False
        if data[:again] != known.tail:
            await self._start_over(files, text, items)
            return True
        if data and text.since_s is not None:
            await self._read_missed(files, text.since_s, items, text, known.extended(data[again:]))
            text.since_s = None
        self._take(text, data[again:], items)
        self.behind = max(0, now.size - text.print.position)
        self.more = self.behind > 0
        text.changed_s = now.changed_s
        if not self.more:
            text.stamp = now.stamp
        return True

    async def _passes_over_copy(self, files: Files, text: Text, now: State) -> bool:
        """Pass over a copy that a rotation made of a followed log; wait a moment while it is too short to decide."""
        known = [one for log in self.logs_of() for one in log._known()]
        if not known or text.handle is None:
            return False
        found = {await _may_hold(files, text.handle, now.size, one) for one in known if one.position}
        if True in found:
            text.print = await _fingerprint(files, text.handle, now.size)
            text.ignored, text.stamp, self.more, self._doubted_s = True, now.stamp, False, None
            return True
        since = self._doubted_s = self._doubted_s or time.monotonic()
        if None in found and await self._is_copied_now(files, text, now):
            since = self._doubted_s = time.monotonic()
        if None in found and time.monotonic() - since < CERTAIN_S:
            self.more = False
            return True
        self._doubted_s = None
        return False

    async def _is_copied_now(self, files: Files, text: Text, now: State) -> bool:
        """True while a file holds the begin of a followed log, of which it is an older part by name: a large copy."""
        assert text.handle is not None  # noqa: S101 - it is read
        known = await _fingerprint(files, text.handle, now.size)
        originals = [log.text.handle for log in self.logs_of() if log.text is not None and log.text.handle is not None]
        for handle in originals if known.position else ():
            if await _may_hold(files, handle, known.position, known):
                return True
        return False

    async def _goes_on(self, files: Files, new: Text, old: Text) -> bool:
        """Take over what was read of an old text that a new file begins with: a copy of it, with more lines."""
        known = old.print
        if new.print.position > known.position or not known.position or not known.distinct or new.handle is None:
            return False
        if await _may_hold(files, new.handle, known.position, known) is not True:
            return False
        new.continue_from(old)
        return True

    def _take(self, text: Text, data: bytes, items: list[Item]) -> None:
        if data and not text.print.position:
            head = data[:HEAD].lstrip(b"\0")
            text.ignored = is_binary(head) or compression_in(head) is not None
            if text.ignored:
                self._notice(items, "lost", "binary, not a log: skipped", again=True)
        text.advance(data)
        if not text.ignored:
            self._put(items, text.cutter.feed(data))

    async def _start_over(self, files: Files, text: Text, items: list[Item]) -> None:
        """The file was truncated or rewritten, or has the number of one that is gone: what is left of that first."""
        rest = await rest_in_copy(files, self.path, text.print)
        text.advance(rest or b"")
        self._put(items, text.cutter.feed(rest or b""))
        found = rest is not None or await self._recover(files, text, items)
        self._put(items, text.cutter.finish())
        doubt = "" if found else f"; {unread(text)} may be lost"
        since_s = text.changed_s if text.print.position else text.since_s
        self._restart(text)
        text.since_s = since_s
        text.history = 0
        if not any(True for _ in self.logs_of()):
            self._notice(items, "truncated", f"truncated or rewritten: reading from the start{doubt}", again=True)
        self.more = True

    async def _claimed(self, files: Files, path: str, items: list[Item]) -> Text | None:
        """The text of the file at a path, open."""
        try:
            handle = await files.hold(path)
        except UnreadableError as error:
            self._notice(items, "lost", f"cannot be read ({error}): retrying")
            return None
        text = self._claims.claim(handle.identity, self) if handle is not None else None
        if text is None or handle is None:
            await files.release(handle)
            return None
        text.handle, text.path = handle, text.path or path
        head = text.print.head
        if head and await files.read(handle, 0, len(head)) != head:
            self._restart(text)  # its number was given to another file
        return text

    async def _end(self, files: Files, text: Text) -> None:
        """Let go of a text, and close its file: if the connection is lost in between, that is closed, too."""
        handle = text.handle
        self._let_go(text)
        await files.release(handle)

    def _let_go(self, text: Text) -> None:
        self._past.append(text.print)
        self._claims.release(text)

    def _restart(self, text: Text) -> None:
        self._past.append(text.print)
        text.restart()

    # --- its parts ------------------------------------------------------------------------------------------------
    async def _recover(self, files: Files, text: Text, items: list[Item], *, late: bool = False) -> bool:
        """Read the rest of a text that has been compressed; False when it is not there."""
        part = await rest_in_packed(files, self.path, text.print, text.changed_s)
        if part is None:
            return False
        async for data in pieces(files, part, text.print.position):
            text.advance(data)
            if not text.ignored:
                self._put(items, text.cutter.feed(data), late=late)
        return True

    async def _read_missed(
        self,
        files: Files,
        since_s: float,
        items: list[Item],
        next_: Text,
        known: Fingerprint = EMPTY,
        *,
        again: bool = False,
    ) -> int:
        """Read unknown parts that were written since then: logs that came and went between two looks; returns how many.

        `next_` is the text that is read after them: it may have become a part by now, too. So much of it is `known`.
        """
        found = gone = 0
        late = {text.identity for text, _ in self._late}
        for part in await parts_since(files, self.path, since_s):
            if not part.packed and any(one and part.state.identity == one.identity for one in (self.text, next_)):
                break  # what is being read has been rotated, too: what follows it comes later
            if part.packed:
                last = known if known.position else await full_fingerprint(files, next_)
                if not await was_consumed(files, part, [*self._known_of_parts(), last]):
                    found += await self._read_packed(files, part, items, last)
            elif (
                part.head
                and part.state.identity not in late
                and not (known.position and await holds(files, part, known))  # copied and emptied since it was read
                and await self._is_new(files, part)
                and not await self._is_copy(files, part, next_)
            ):
                read = await self._read_part(files, part, items)
                found, gone = found + read, gone + (not read)
        if gone and not again:
            found += await self._read_missed(files, since_s, items, next_, known, again=True)
        return found

    async def _is_copy(self, files: Files, part: Part, next_: Text) -> bool:
        """True if a text that is read next begins with all that a part holds; also one that has the name by now."""
        known = await whole(files, part)
        for handle in (next_.handle, await held(files, self.path)):
            if handle is None:
                continue
            copied = handle.identity != part.state.identity and await _may_hold(files, handle, known.position, known)
            if handle is not next_.handle:
                await files.release(handle)
            if copied:
                return True
        return False

    async def _heir(self, files: Files, old: Text) -> Text | None:
        """A copy that replaced a text, which is gone, and has been renamed since: it goes on where that ended."""
        known, found = old.print, await files.parts(self.path)
        if not (known.position and known.distinct) or any(state.identity == old.identity for _, state in found):
            return None
        for path, state in found:
            handle, read = Handle(state.identity, path), self._claims.text(state.identity)
            if state.size <= known.position or compression_of(path) or (read is not None and read.owner is not None):
                continue
            further = read is not None and read.print.position > known.position
            if read is not None and further and await _may_hold(files, handle, state.size, read.print):
                continue  # it was read itself
            if await _may_hold(files, handle, known.position, known):
                heir = await self._claimed(files, path, [])
                if heir is not None:
                    heir.continue_from(old)
                return heir
        return None

    async def _is_new(self, files: Files, part: Part) -> bool:
        text = self._claims.text(part.state.identity)
        if text is not None and text.print.position and await holds(files, part, text.print):
            return text.owner is self and text is not self.text
        return not await was_consumed(files, part, self._known_of_parts())

    def _known_of_parts(self) -> list[Fingerprint]:
        return [*self._known(), *self._claims.prints_of_parts(self.path)]

    def _known(self) -> list[Fingerprint]:
        """The texts that are read, or were."""
        texts = [*(text for text, _ in self._late), *([] if self.text is None else [self.text])]
        return [*self._past, *(text.print for text in texts)]

    async def _read_part(self, files: Files, part: Part, items: list[Item]) -> bool:
        """Read a plain part; False if it has not this name any more."""
        text = await self._claimed(files, part.path, items)
        if text is None:
            return False
        self._notice(items, "rotated", f"rotated more than once: reading {_name(part)} first", again=True)
        self.more = True
        self._late.append((text, math.inf))  # if the connection is lost, its rest is looked for as that of late texts
        while self.more:
            now = await state_of(files, text)
            read = now is not None and await self._read(files, text, now, items)
            if not read and not await self._find(files, text, None):
                await self._recover(files, text, items)
                break
        self._late = [late for late in self._late if late[0] is not text]
        self._put(items, text.cutter.finish())
        await self._end(files, text)
        return True

    async def _read_packed(self, files: Files, part: Part, items: list[Item], next_: Fingerprint) -> bool:
        """Read a compressed part; False if it was read before."""
        if why := await trouble(files, part):
            if part.state in self._damaged:
                return True
            self._damaged.append(part.state)
            what = f"{_name(part)} ({format_bytes(part.state.size)})"
            self._notice(
                items, "lost", f"rotated more than once: {what} cannot be decompressed: {plain(why)}", again=True
            )
            return True
        if await was_consumed(files, await with_head(files, part), [*self._known(), next_]):
            return False  # it was still being compressed when it was looked at first
        self._notice(items, "rotated", f"rotated more than once: reading {_name(part)} first", again=True)
        begun = self._unpacking
        if begun is None or begun.identity != part.state.identity or not await holds(files, part, begun.print):
            begun = None
        text = self._unpacking = begun or Text(part.state.identity)
        async for data in pieces(files, part, text.print.position):
            self._take(text, data, items)
        self._unpacking = None
        self._past.append(text.print)
        self._put(items, text.cutter.finish())
        return True

    # --- notices ------------------------------------------------------------------------------------------------------
    def _put(self, items: list[Item], blocks: list[Block | Notice], *, late: bool = False) -> None:
        log = replace(self.log, name=f"{self.log.name} (rotated)") if late else self.log
        items += [(log, _named(log, item)) for item in blocks]

    def _notice(self, items: list[Item], kind: NoticeKind, text: str, *, again: bool = False) -> None:
        """A notice; the last one is not repeated, unless `again`."""
        if text != self._last_notice or again:
            self._last_notice = text
            items.append((self.log, Notice(f"{self.log.name}: {text}", kind)))


def _named(log: LogFile, item: Block | Notice) -> Block | Notice:
    return replace(item, text=f"{log.name}: {item.text}") if isinstance(item, Notice) else item


def unread(text: Text) -> str:
    """Describe the unread part of a text."""
    size = text.print.position
    return f"the old file after the first {format_bytes(size)}" if size else "the content of the old file"


def _name(part: Part) -> str:
    return plain(PurePosixPath(part.path).name)
