"""Follows one log of a machine by its name: through rotation, truncation and lost connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from perfmon.text import plain
from perfmon.units import format_bytes

from ..blocks import Block, Notice, NoticeKind
from ..files import LogFile
from ..kinds import HEAD as JUDGED
from ..kinds import compression_in, is_binary
from .claims import Claims, Text
from .files import Files, Handle, State, UnreadableError
from .texts import SQUEEZED, rest_in_copy, skip_history, state_of

LINGER_S = 5.0
"""How long a file that was renamed is still read after it grew last: some writers are slow to let go."""
CHUNK = 1 << 20
_HISTORY_CHUNK = 4 << 20
Item = tuple[LogFile, Block | Notice]


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of a log that is there already."""

    history: int | None = None
    """The most bytes of its end; None: all, 0: nothing but what comes."""
    new: bool = False
    """It appeared while its folder was followed."""


class RemoteTail:
    """The text that appears under one name. Its state outlives connections."""

    def __init__(
        self, log: LogFile, path: str, claims: Claims, wish: Wish, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.log, self.path = log, path
        self.text: Text | None = None
        self.more = True
        """There is more to read at once."""
        self.behind = 0
        """Bytes that are known to be there and are not read yet."""
        self.changed_s: float | None = None
        """When it was last written to, by the clock of its machine."""
        self._claims, self._wish, self._clock = claims, wish, clock
        self._files: Files | None = None
        self._new = wish.new
        self._gone_at: float | None = None
        self._left_s: float | None = None
        self._told = ""
        self._late: list[tuple[Text, float]] = []

    def quiet(self, files: Files, state: State | None) -> bool:
        """Whether `advance` has nothing to do."""
        text = self.text
        if files is not self._files or text is None or state is None or self._late or self.more:
            return False
        same = state.identity == text.identity and state.size == text.print.position
        return same and state.stamp == text.stamp

    async def advance(self, files: Files, state: State | None, items: list[Item]) -> None:
        """Adds what is new to `items`, up to some megabytes; what is there counts as read even if RunnerError comes."""
        self.more = False
        self.changed_s = state.changed_s if state is not None else self.changed_s
        if files is not self._files:
            await self._attach(files, state, items)
        for late, until in list(self._late):
            await self._read_late(files, late, until, items)
        if self.text is None:
            await self._open(files, state, items)
        if self.text is not None:
            await self._follow(files, self.text, state, items)

    async def _follow(self, files: Files, text: Text, state: State | None, items: list[Item]) -> None:
        same = state is not None and state.identity == text.identity
        if not same and (text.handle is None or text.handle.slot is None):
            await self._find(files, text, state)  # it is known by its name alone, and has another one by now
        now = state if same else await state_of(files, text)
        if now is not None:
            await self._read(files, text, now, items)
        if self.more or self.text is not text:
            return
        if state is None:
            await self._gone(files, text, items)
        elif not same and (state.size or text.ignored):
            await self._switch(files, text, items)
        else:
            self._gone_at = None

    # --- reading --------------------------------------------------------------------------------------------------
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
        self._take(text, data[again:], items)
        self.behind = max(0, now.size - text.print.position)
        self.more = self.behind > 0
        if not self.more:
            text.changed_s, text.stamp = now.changed_s, now.stamp

    def _take(self, text: Text, data: bytes, items: list[Item]) -> None:
        if data and not text.print.position:
            head = data[:JUDGED].lstrip(b"\0")
            text.ignored = is_binary(head) or compression_in(head) is not None
            if text.ignored:
                self._tell(items, "lost", "binary, no log: not read", again=True)
        text.advance(data)
        if not text.ignored:
            self._put(items, text.cutter.feed(data))

    async def _start_anew(self, files: Files, text: Text, items: list[Item]) -> None:
        """The file was truncated or rewritten: what a copy holds of the old text first."""
        rest = await rest_in_copy(files, self.path, text.print)
        self._put(items, text.cutter.feed(rest or b"") + text.cutter.finish())
        text.restart()
        text.history = 0
        doubt = "" if rest is not None else "; what was written just before may be lost"
        self._tell(items, "truncated", f"truncated or rewritten: read from its start{doubt}", again=True)
        self.more = True

    # --- which file -----------------------------------------------------------------------------------------------
    async def _attach(self, files: Files, state: State | None, items: list[Item]) -> None:
        """There is a new connection: finds the files again that were being read."""
        self._files = files
        late, self._late = self._late, []
        for old, _ in late:
            if await self._find(files, old, state):
                self._late.append((old, self._clock() + LINGER_S))
            else:
                self._put(items, old.cutter.finish(), late=True)
                self._claims.release(old)
        text = self.text
        if text is None or await self._find(files, text, state):
            return
        if state is not None and state.identity == text.identity:
            text.handle = await _held(files, self.path)
            if text.handle is not None:
                await self._start_anew(files, text, items)
                return
        self._put(items, text.cutter.finish())
        self._tell(items, "lost", "replaced meanwhile: what its old file held last is lost", again=True)
        self._left_s, self._new, self.text = text.changed_s, True, None
        self._claims.release(text)

    async def _find(self, files: Files, text: Text, state: State | None) -> bool:
        """Opens a text again, under the log's name or that of an older part; False when it is not there any more."""
        if state is not None and state.identity == text.identity:
            path: str | None = self.path
        else:
            parts = await files.parts(self.path)
            path = next((path for path, part in parts if part.identity == text.identity), None)
        text.handle = await _held(files, path) if path is not None else None
        if text.handle is None:
            return False
        if text.handle.identity != text.identity:
            await files.release(text.handle)
            text.handle = None
            return False
        head = text.print.head
        if not head or await files.read(text.handle, 0, len(head)) == head:
            return True
        await files.release(text.handle)
        text.handle = None
        return False

    async def _open(self, files: Files, state: State | None, items: list[Item]) -> None:
        """Opens the file that bears the name now, unless it is read under another one."""
        if state is None:
            self._new = self._new or not self._told
            self._tell(items, "gone", "not there yet: waiting for it")
            return
        if self._claims.owner(state.identity) not in (None, self):
            return
        known = self._claims.known(state.identity)
        text = await self._claimed(files, self.path, items)
        if text is None:
            return
        new, self._new, self._told = self._new, False, ""
        if new and not known:
            self._tell(items, "appeared", "appeared: reading it", again=True)
        if not new and not text.print.position:
            await self._skip(files, text, items)
        await self._begin(files, text, items)

    async def _claimed(self, files: Files, path: str, items: list[Item]) -> Text | None:
        """The text of the file at a path, open."""
        try:
            handle = await files.hold(path)
        except UnreadableError as error:
            self._tell(items, "lost", f"cannot be read ({error}): waiting until it can")
            return None
        text = self._claims.claim(handle.identity, self) if handle is not None else None
        if text is None or handle is None:
            await files.release(handle)
            return None
        text.handle = handle
        head = text.print.head
        if head and await files.read(handle, 0, len(head)) != head:
            text.restart()  # its number was given to another file
        return text

    async def _skip(self, files: Files, text: Text, items: list[Item]) -> None:
        """Passes over the history that nobody wants."""
        left_out = await skip_history(files, text, self._wish.history)
        if left_out and self._wish.history:
            self._tell(items, "appeared", f"its first {format_bytes(left_out)} were left out (--history)", again=True)

    async def _begin(self, files: Files, text: Text, items: list[Item]) -> None:
        """Reads a text from now on; before it, what came and went since the last one."""
        if self._left_s is not None:
            await self._read_missed(files, self._left_s, items)
            self._tell(items, "rotated", "rotated: reading the new file", again=True)
        self.text, self._gone_at, self._left_s, self.more = text, None, None, True

    async def _gone(self, files: Files, text: Text, items: list[Item]) -> None:
        """The name is gone, the file may still be written to."""
        if self._gone_at is None:
            self._gone_at = self._clock()
            self._tell(items, "gone", "deleted or renamed: waiting for a new one", again=True)
            return
        if self._clock() - self._gone_at < LINGER_S:
            return
        self._put(items, text.cutter.finish())
        self._left_s = text.changed_s
        await files.release(text.handle)
        self._claims.release(text)
        self.text, self._new = None, True

    async def _switch(self, files: Files, old: Text, items: list[Item]) -> None:
        """Another file bears the name: the old one was read to its end."""
        new = await self._claimed(files, self.path, items)
        if new is old:
            return
        self._put(items, old.cutter.finish())
        if old.handle is None:
            self._tell(items, "lost", "replaced: what its old file held last may be lost", again=True)
            self._claims.release(old)
        else:
            self._late.append((old, self._clock() + LINGER_S))
        self.text, self._gone_at, self._left_s = None, None, old.changed_s
        if new is not None:
            await self._begin(files, new, items)

    async def _read_missed(self, files: Files, since_s: float, items: list[Item]) -> None:
        """Parts that were written since then and never seen: logs that came and went between two looks."""
        late = {text.identity for text, _ in self._late}
        for path, state in await files.parts(self.path):
            known = self._claims.known(state.identity) and self._claims.owner(state.identity) is not self
            if state.changed_s < since_s or known or state.identity in late:
                continue
            text = await self._claimed(files, path, items)
            if text is None:
                continue
            name = plain(PurePosixPath(path).name)
            self._tell(items, "rotated", f"rotated more than once: reading {name} first", again=True)
            self.more = True
            while self.more and (now := await state_of(files, text)) is not None:
                await self._read(files, text, now, items)
            self._put(items, text.cutter.finish())
            await files.release(text.handle)
            self._claims.release(text)

    async def _read_late(self, files: Files, text: Text, until: float, items: list[Item]) -> None:
        """What a slow writer still adds to a file after it was rotated."""
        self._late.remove((text, until))
        now = await state_of(files, text)
        before = text.print.position
        fresh: list[Item] = []
        if now is not None and now.size > before:
            await self._read(files, text, now, fresh)
        late = replace(self.log, name=f"{self.log.name} (rotated)")
        items += [(late, item) for _, item in fresh]
        if text.print.position > before:
            self._late.append((text, self._clock() + LINGER_S))
        elif self._clock() < until and now is not None:
            self._late.append((text, until))
        else:
            self._put(items, text.cutter.finish(), late=True)
            await files.release(text.handle)
            self._claims.release(text)

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


async def _held(files: Files, path: str) -> Handle | None:
    try:
        return await files.hold(path)
    except UnreadableError:
        return None
