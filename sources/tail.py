"""Follows one log by its name, through rotation, truncation, deletion and links that are pointed elsewhere."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

from perfmon.text import plain

from .blocks import Block, Notice, NoticeKind
from .files import LogFile
from .kinds import HEAD, compression_in, is_binary
from .known import Known
from .rotation import parts_since, rest_in_copy
from .stream import CHUNK, Stream, identity_of

LINGER_S = 5.0
"""How long a file that was renamed or deleted is still read after it grew last: some writers are slow to let go."""
_TURN = 4
"""Chunks that one log may take before the others have theirs."""
Item = tuple[LogFile, Block | Notice]


class Tail:
    """The text that appears under one name, whatever file bears it."""

    def __init__(self, log: LogFile, known: Known, clock: Callable[[], float], *, history: bool, new: bool) -> None:
        self.log = log
        self.stream: Stream | None = None
        self.more = False
        """There is more to read at once."""
        self._known = known
        self._clock = clock
        self._skip = not history
        self._new = new
        self._gone_at: float | None = None
        self._left_ns: int | None = None
        """When the file that last bore the name was written to last."""
        self._told = ""
        self._late: list[tuple[Stream, float]] = []

    def look(self) -> bool:
        """Whether `advance` has anything to do (blocking)."""
        state = _state(self.log.path)
        if self.stream is None or state is None or self._late or identity_of(state) != self.stream.identity:
            return True
        return not self.stream.quiet()

    async def advance(self) -> AsyncIterator[Item]:
        """What is new."""
        self.more = False
        for stream, until in list(self._late):
            async for item in self._read_late(stream, until):
                yield item
        # Looked at before the old file is read to its end: who writes to the new one has left the old one by then.
        state = await asyncio.to_thread(_state, self.log.path)
        if self.stream is None:
            async for item in self._open(state):
                yield item
        if self.stream is None:
            return
        async for item in self._read(self.stream):
            yield item
        if self.more:
            return
        if state is None:
            for item in self._gone():
                yield item
        elif identity_of(state) != self.stream.identity and (state.st_size or self.stream.ignored):
            async for item in self._switch(self.stream):
                yield item
        else:
            self._gone_at = None

    async def _open(self, state: os.stat_result | None) -> AsyncIterator[Item]:
        """Opens the file that bears the name now, unless it is read under another one."""
        path = self.log.path
        if state is None:
            self._new, self._skip = self._new or not self._told, False
            for item in self._tell("gone", "not there yet: waiting for it"):
                yield item
            return
        try:
            known = await asyncio.to_thread(self._known.is_known, path)
            stream = await asyncio.to_thread(self._known.claim, path, self)
            if stream is not None and self._skip:
                await asyncio.to_thread(stream.skip_history)
        except FileNotFoundError:
            return
        except OSError as error:
            for item in self._tell("lost", f"cannot be read ({error.strerror}): waiting until it can"):
                yield item
            return
        if stream is None:
            return
        new, self._new, self._skip, self._told = self._new, False, False, ""
        for item in self._tell("appeared", "appeared: reading it", again=True) if new and not known else []:
            yield item
        async for item in self._begin(stream):
            yield item

    async def _read(self, stream: Stream) -> AsyncIterator[Item]:
        """The next few chunks; at the end of the text `more` is False."""
        self.more = False
        for _ in range(_TURN):
            begins = not stream.print.position
            data, replaced = await stream.read()
            if begins and data:
                for item in self._judge(stream, data[:HEAD]):
                    yield item
            if not stream.ignored:
                for block in stream.cut(data):
                    yield self._item(block)
            if replaced:
                for item in await self._start_anew(stream):
                    yield item
            elif len(data) < CHUNK:
                return
        self.more = True

    def _judge(self, stream: Stream, head: bytes) -> list[Item]:
        text = head.lstrip(b"\0")
        stream.ignored = is_binary(text) or compression_in(text) is not None
        return self._tell("lost", "binary, no log: not read", again=True) if stream.ignored else []

    async def _start_anew(self, stream: Stream) -> list[Item]:
        """The file was truncated or rewritten: what a copy holds of the old text first."""
        rest = await asyncio.to_thread(rest_in_copy, self.log.path, stream.print)
        items = [self._item(block) for block in stream.cut(rest or b"") + stream.cutter.finish()]
        self._known.replaced(self.log.path, stream.print)
        stream.restart()
        doubt = "" if rest is not None else "; what was written just before may be lost"
        return items + self._tell("truncated", f"truncated or rewritten: read from its start{doubt}", again=True)

    def _gone(self) -> list[Item]:
        """The name is gone, the file may still be written to."""
        assert self.stream is not None  # noqa: S101
        if self._gone_at is None:
            self._gone_at = self._clock()
            return self._tell("gone", "deleted or renamed: waiting for a new one", again=True)
        if self._clock() - self._gone_at < LINGER_S:
            return []
        items = [self._item(block) for block in self.stream.cutter.finish()]
        self._left_ns = self.stream.changed_at_ns()
        self._known.release(self.stream)
        self.stream, self._new = None, True
        return items

    async def _switch(self, old: Stream) -> AsyncIterator[Item]:
        """Another file bears the name: the end of the old one first."""
        changed_ns = await asyncio.to_thread(old.changed_at_ns)
        try:
            # Held open before older parts are looked for: whatever is renamed from now on is one or the other.
            new = await asyncio.to_thread(self._known.claim, self.log.path, self)
        except OSError:
            return
        for block in old.cutter.finish():
            yield self._item(block)
        self._late.append((old, self._clock() + LINGER_S))
        self.stream, self._gone_at, self._left_ns = None, None, changed_ns
        if new is not None:
            async for item in self._begin(new):
                yield item

    async def _begin(self, new: Stream) -> AsyncIterator[Item]:
        """Reads `new` from now on; before it, what came and went since the last file."""
        left_ns, self._left_ns = self._left_ns, None
        if left_ns is not None:
            known = self._known.identities
            for part in await asyncio.to_thread(lambda: list(parts_since(self.log.path, left_ns, known))):
                async for item in self._read_missed(part):
                    yield item
            for item in self._tell("rotated", "rotated: reading the new file", again=True):
                yield item
        self.stream, self._gone_at, self.more = new, None, True

    async def _read_missed(self, part: Path) -> AsyncIterator[Item]:
        """A log that was rotated away before it was ever looked at."""
        try:
            stream = await asyncio.to_thread(self._known.claim, part, self)
        except OSError:
            return
        if stream is None:
            return
        for item in self._tell("rotated", f"rotated more than once: reading {plain(part.name)} first", again=True):
            yield item
        self.more = True
        while self.more:
            async for item in self._read(stream):
                yield item
        for block in stream.cutter.finish():
            yield self._item(block)
        self._known.release(stream)

    async def _read_late(self, stream: Stream, until: float) -> AsyncIterator[Item]:
        """What a slow writer still adds to a file after it was rotated."""
        data, _ = await stream.read()
        late = replace(self.log, name=f"{self.log.name} (rotated)")
        for block in stream.cut(data):
            yield late, block
        self._late.remove((stream, until))
        if data:
            self._late.append((stream, self._clock() + LINGER_S))
        elif self._clock() < until:
            self._late.append((stream, until))
        else:
            for block in stream.cutter.finish():
                yield late, block
            self._known.release(stream)

    def _item(self, item: Block | Notice) -> Item:
        if isinstance(item, Notice):
            item = replace(item, text=f"{self.log.name}: {item.text}")
        return self.log, item

    def _tell(self, kind: NoticeKind, text: str, *, again: bool = False) -> list[Item]:
        """A notice; one that was told last is not told again, unless `again`."""
        if text == self._told and not again:
            return []
        self._told = text
        return [self._item(Notice(text, kind))]


def _state(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
