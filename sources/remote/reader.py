"""Reads the texts of one log of a machine, whatever their files are called by now, and the parts that were missed."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from pathlib import PurePosixPath

from perfmon.text import plain
from perfmon.units import format_bytes

from ..blocks import Block, Notice, NoticeKind
from ..files import LogFile
from ..kinds import HEAD as JUDGED
from ..kinds import compression_in, is_binary
from ..stream import Print
from .claims import Claims, Text, grown
from .files import Files, State, UnreadableError
from .parts import Part, holds, parts_since, pieces, rest_in_packed, seen_again, trouble, was_read
from .texts import SQUEEZED, rest_in_copy, state_of

CHUNK = 1 << 20
_HISTORY_CHUNK = 4 << 20
_REMEMBERED = 64
Item = tuple[LogFile, Block | Notice]


class LogReader:
    """What was read of a log, and how the next bytes of a text of it are."""

    def __init__(self, log: LogFile, path: str, claims: Claims) -> None:
        self.log, self.path = log, path
        self.text: Text | None = None
        self.more = True
        """There is more to read at once."""
        self.behind = 0
        """Bytes that are known to be there and are not read yet."""
        self._claims = claims
        self._told = ""
        self._late: list[tuple[Text, float]] = []
        self._past: deque[Print] = deque(maxlen=_REMEMBERED)
        """The texts that it has read."""

    # --- one text -------------------------------------------------------------------------------------------------
    async def _read(self, files: Files, text: Text, now: State, items: list[Item]) -> None:
        """The next bytes of a text; those before them are read again and tell whether it is still the same."""
        known = text.print
        wanted = now.size - known.position
        self.behind = max(0, wanted)
        if wanted < 0:
            await self._start_anew(files, text, items)
            return
        if not wanted and now.stamp == text.stamp:
            return
        old = known.position < text.history
        wanted = min(wanted, _HISTORY_CHUNK if old and files.gzip else CHUNK)
        again = len(known.tail)
        assert text.handle is not None  # noqa: S101 - it was opened or found again
        squeezed = old and wanted > SQUEEZED
        data = await files.read(text.handle, known.position - again, again + wanted, squeezed=squeezed)
        if data is None:
            return  # the name leads to another file by now: the next look tells which
        if data[:again] != known.tail:
            await self._start_anew(files, text, items)
            return
        if data and text.since_s is not None:
            since_s, text.since_s = text.since_s, None
            await self._read_missed(files, since_s, items, grown(known, data[again:]))
        self._take(text, data[again:], items)
        self.behind = max(0, now.size - text.print.position)
        self.more = self.behind > 0
        text.changed_s = now.changed_s
        if not self.more:
            text.stamp = now.stamp

    def _take(self, text: Text, data: bytes, items: list[Item]) -> None:
        if data and not text.print.position:
            head = data[:JUDGED].lstrip(b"\0")
            text.ignored = is_binary(head) or compression_in(head) is not None
            if text.ignored:
                self._tell(items, "lost", "binary, not a log: skipped", again=True)
        text.advance(data)
        if not text.ignored:
            self._put(items, text.cutter.feed(data))

    async def _start_anew(self, files: Files, text: Text, items: list[Item]) -> None:
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
        self._tell(items, "truncated", f"truncated or rewritten: reading from the start{doubt}", again=True)
        self.more = True

    async def _claimed(self, files: Files, path: str, items: list[Item]) -> Text | None:
        """The text of the file at a path, open."""
        try:
            handle = await files.hold(path)
        except UnreadableError as error:
            self._tell(items, "lost", f"cannot be read ({error}): retrying")
            return None
        text = self._claims.claim(handle.identity, self) if handle is not None else None
        if text is None or handle is None:
            await files.release(handle)
            return None
        text.handle = handle
        head = text.print.head
        if head and await files.read(handle, 0, len(head)) != head:
            self._restart(text)  # its number was given to another file
        return text

    def _let_go(self, text: Text) -> None:
        self._past.append(text.print)
        self._claims.release(text)

    def _restart(self, text: Text) -> None:
        self._past.append(text.print)
        text.restart()

    # --- its parts ------------------------------------------------------------------------------------------------
    async def _recover(self, files: Files, text: Text, items: list[Item], *, late: bool = False) -> bool:
        """Reads the rest of a text that was compressed meanwhile; False when it is not there."""
        part = await rest_in_packed(files, self.path, text.print, text.changed_s)
        if part is None:
            return False
        async for data in pieces(files, part, text.print.position):
            text.advance(data)
            if not text.ignored:
                self._put(items, text.cutter.feed(data), late=late)
        return True

    async def _read_missed(self, files: Files, since_s: float, items: list[Item], next_: Print) -> int:
        """Parts that were written since then and never seen: logs that came and went between two looks; how many.

        `next_` is of the text that is read after them: it may have become a part by now, too.
        """
        found = 0
        late = {text.identity for text, _ in self._late}
        for part in await parts_since(files, self.path, since_s):
            if self.text is not None and part.state.identity == self.text.identity and not part.packed:
                break  # what is being read has been rotated, too: what follows it comes later
            if part.packed:
                if not await was_read(files, part, [*self._known(), next_]):
                    found += await self._read_packed(files, part, items, next_)
            elif part.head and part.state.identity not in late and await self._is_new(files, part):
                await self._read_part(files, part, items)
                found += 1
        return found

    async def _is_new(self, files: Files, part: Part) -> bool:
        text = self._claims.text(part.state.identity)
        if text is not None and await holds(files, part, text.print):
            return text.owner is self and text is not self.text
        return not await was_read(files, part, self._known())

    def _known(self) -> list[Print]:
        """The texts that are read, or were."""
        texts = [*(text for text, _ in self._late), *([] if self.text is None else [self.text])]
        return [*self._past, *(text.print for text in texts)]

    async def _read_part(self, files: Files, part: Part, items: list[Item]) -> None:
        text = await self._claimed(files, part.path, items)
        if text is None:
            return
        self._tell(items, "rotated", f"rotated more than once: reading {_name(part)} first", again=True)
        self.more = True
        while self.more and (now := await state_of(files, text)) is not None:
            await self._read(files, text, now, items)
        self._put(items, text.cutter.finish())
        await files.release(text.handle)
        self._let_go(text)

    async def _read_packed(self, files: Files, part: Part, items: list[Item], next_: Print) -> bool:
        """Whether there was one to be read, or to be missed."""
        if why := await trouble(files, part):
            what = f"{_name(part)} ({format_bytes(part.state.size)})"
            self._tell(
                items, "lost", f"rotated more than once: {what} cannot be decompressed: {plain(why)}", again=True
            )
            return True
        if await was_read(files, await seen_again(files, part), [*self._known(), next_]):
            return False  # it was still being compressed when it was looked at first
        self._tell(items, "rotated", f"rotated more than once: reading {_name(part)} first", again=True)
        text = Text(part.state.identity)
        async for data in pieces(files, part, 0):
            self._take(text, data, items)
        self._past.append(text.print)
        self._put(items, text.cutter.finish())
        return True

    # --- telling --------------------------------------------------------------------------------------------------
    def _put(self, items: list[Item], blocks: list[Block | Notice], *, late: bool = False) -> None:
        log = replace(self.log, name=f"{self.log.name} (rotated)") if late else self.log
        items += [(log, _named(log, item)) for item in blocks]

    def _tell(self, items: list[Item], kind: NoticeKind, text: str, *, again: bool = False) -> None:
        """A notice; one that was told last is not told again, unless `again`."""
        if text != self._told or again:
            self._told = text
            items.append((self.log, Notice(f"{self.log.name}: {text}", kind)))


def _named(log: LogFile, item: Block | Notice) -> Block | Notice:
    return replace(item, text=f"{log.name}: {item.text}") if isinstance(item, Notice) else item


def unread(text: Text) -> str:
    """What of a text was not read."""
    size = text.print.position
    return f"the old file after the first {format_bytes(size)}" if size else "the content of the old file"


def _name(part: Part) -> str:
    return plain(PurePosixPath(part.path).name)
