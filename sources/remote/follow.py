"""Follows one log of a machine by its name: through rotation, truncation and lost connections."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from perfmon.units import format_bytes

from ..files import LogFile
from .claims import Claims, Text
from .files import Files, Handle, State, UnreadableError
from .reading import Item, LogReader, unread
from .texts import skip_history, state_of, whole_print

__all__ = ["Item", "RemoteTail", "Wish"]
LINGER_S = 5.0
"""How long a file that was renamed is still read after it grew last: some writers are slow to let go."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is wanted of a log that exists already."""

    history: int | None = None
    """The most bytes of its end; None: all, 0: nothing but what comes."""
    new: bool = False
    """It appeared while its folder was followed."""


class RemoteTail(LogReader):
    """The text that appears under one name. Its state outlives connections."""

    def __init__(
        self, log: LogFile, path: str, claims: Claims, wish: Wish, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(log, path, claims)
        self.changed_s: float | None = None
        """When it was last written to, by the clock of its machine."""
        self._wish, self._clock = wish, clock
        self._files: Files | None = None
        self._new = wish.new
        self._gone_at: float | None = None
        self._left_s: float | None = None
        self._missing = ""

    def quiet(self, files: Files, state: State | None) -> bool:
        """Whether `advance` has nothing to do."""
        text = self.text
        if files is not self._files or text is None or state is None or self._late or self.more:
            return False
        same = state.identity == text.identity and state.size == text.print.position
        return same and state.stamp == text.stamp

    async def advance(self, files: Files, state: State | None, items: list[Item]) -> None:
        """Adds what is new to `items`, up to some megabytes; what exists counts as read even if RunnerError comes."""
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

    # --- which file -----------------------------------------------------------------------------------------------
    async def _attach(self, files: Files, state: State | None, items: list[Item]) -> None:
        """There is a new connection: finds the files again that were being read."""
        self._files = files
        late, self._late = self._late, []
        for old, _ in late:
            if await self._find(files, old, state):
                self._late.append((old, self._clock() + LINGER_S))
            else:
                await self._recover(files, old, items, late=True)
                self._put(items, old.cutter.finish(), late=True)
                self._let_go(old)
        text = self.text
        if text is None or await self._find(files, text, state):
            return
        if state is not None and state.identity == text.identity:
            text.handle = await _held(files, self.path)
            if text.handle is not None:
                await self._start_anew(files, text, items)
                return
        if not await self._recover(files, text, items):
            self._miss(text, f"replaced: {unread(text)} is lost", items)
        self._put(items, text.cutter.finish())
        self._left_s, self._new, self.text = text.changed_s, True, None
        self._let_go(text)

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
            self._tell(items, "gone", "does not exist yet: waiting")
            return
        if self._claims.owner(state.identity) not in (None, self):
            return
        known = self._claims.known(state.identity)
        text = await self._claimed(files, self.path, items)
        if text is None:
            return
        new, self._new, self._told = self._new, False, ""
        if new and not known:
            self._tell(items, "appeared", "new log: reading", again=True)
        if not new and not text.print.position:
            await self._skip(files, text, items)
        await self._begin(files, text, items)

    async def _skip(self, files: Files, text: Text, items: list[Item]) -> None:
        """Passes over the history that nobody wants."""
        left_out = await skip_history(files, text, self._wish.history)
        if left_out and self._wish.history:
            self._tell(items, "appeared", f"skipped the first {format_bytes(left_out)} (--history)", again=True)

    async def _begin(self, files: Files, text: Text, items: list[Item]) -> None:
        """Reads a text from now on; before it, what came and went since the last one."""
        if self._left_s is not None:
            found = await self._read_missed(files, self._left_s, items, await whole_print(files, text))
            if self._missing and not found:
                self._tell(items, "lost", self._missing, again=True)
            self._missing = ""
            self._tell(items, "rotated", "rotated: reading the new file", again=True)
        text.changed_s = max(text.changed_s, self.changed_s or 0.0)
        if text.handle is not None and text.handle.slot is None:
            text.since_s = text.changed_s  # until it is read another file may take its number
        self.text, self._gone_at, self._left_s, self.more = text, None, None, True

    async def _gone(self, files: Files, text: Text, items: list[Item]) -> None:
        """The name is gone, the file may still be written to."""
        if self._gone_at is None:
            self._gone_at = self._clock()
            self._tell(items, "gone", "deleted or renamed: waiting for a new file", again=True)
            return
        if self._clock() - self._gone_at < LINGER_S:
            return
        self._put(items, text.cutter.finish())
        self._left_s = text.changed_s
        await files.release(text.handle)
        self._let_go(text)
        self.text, self._new = None, True

    async def _switch(self, files: Files, old: Text, items: list[Item]) -> None:
        """Another file bears the name: the old one was read to its end."""
        new = await self._claimed(files, self.path, items)
        if new is old:
            return
        if old.handle is None:
            if not await self._recover(files, old, items):
                self._miss(old, f"replaced: {unread(old)} may be lost", items)
            self._let_go(old)
        else:
            self._late.append((old, self._clock() + LINGER_S))
        self._put(items, old.cutter.finish())
        self.text, self._gone_at, self._left_s = None, None, old.changed_s
        if new is not None:
            await self._begin(files, new, items)

    def _miss(self, text: Text, said: str, items: list[Item]) -> None:
        """Tells that the rest of a text was not found; one of which nothing was read may be found as a part yet."""
        if text.print.position:
            self._tell(items, "lost", said, again=True)
        else:
            self._missing = said

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
            self._let_go(text)


async def _held(files: Files, path: str) -> Handle | None:
    try:
        return await files.hold(path)
    except UnreadableError:
        return None
