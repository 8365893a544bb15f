"""Remote logs followed by name through rotation and lost connections, and handed to another thread."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from perfmon.core import Notice, evidence_text, format_bytes

from ..discovery import LogFile
from ..follow.rotation import is_part_of, names_of_logs
from ..spec import INSPECTOR
from .files import Files, InodeOwners, State, Text, UnreadableError, Wanted, held, list_logs
from .parts import parts_since
from .reader import Item, LogReader, skip_history, state_of, unread

# --- Follows one log of a machine by its name: through rotation, truncation and lost connections ---
LINGER_S = 5.0
"""Seconds for which a renamed file is still read after it last grew: some writers are slow to let go."""


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """The part to read of a log that exists already."""

    history: int | None = None
    """The most bytes of its end; None: all, 0: nothing but what comes."""
    new: bool = False
    """It appeared while its folder was followed."""


class RemoteTail(LogReader):
    """The text that appears under one name. Its state outlives connections."""

    def __init__(self, log: LogFile, path: str, claims: InodeOwners, request: ReadRequest) -> None:
        super().__init__(log, path, claims)
        self.changed_s: float | None = None
        """Time of the last write, by the clock of its host."""
        self._request = request
        self._files: Files | None = None
        self._new = request.new
        self._gone_at: float | None = None
        self._left_s: float | None = None
        self._missing = ""

    def quiet(self, files: Files, state: State | None) -> bool:
        """True if `advance` has nothing to do."""
        text = self.text
        if files is not self._files or text is None or state is None or self._late or self.more:
            return False
        if self._next is not None:
            return state.identity == self._next.identity and not state.size
        same = state.identity == text.identity and state.size == text.print.position
        return same and state.stamp == text.stamp and not text.unfinished(time.monotonic())

    async def advance(self, files: Files, state: State | None, items: list[Item]) -> None:
        """Add what is new to `items`, up to some megabytes; what exists counts as read even if RunnerError comes."""
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
        by_name = text.handle is not None and text.handle.slot is None
        if text.handle is None or (not same and by_name and await state_of(files, text) is None):
            found = await self._find(files, text, state, deleted=by_name and self._gone_at is None)
            if same and not found:  # its number was given to another file
                text.handle = await held(files, self.path)
                if text.handle is not None:
                    await self._start_over(files, text, items)
                return
        now = state if same and text.handle is not None else await state_of(files, text)
        before = text.print.position
        moved = now is not None and not await self._read(files, text, now, items)
        if text.print.position > before:
            text.grown_at = time.monotonic()
        if same and (moved or now is None):
            await self._explain(files, text, items)
        elif same:
            self._last_notice = ""
        if self.more or moved or self.text is not text:
            return
        if now is None:
            await self._forget(files, text)
        if self._next is not None or (state is not None and not same):
            await self._follow_name(files, text, state, items)
        elif state is None:
            await self._gone(files, text, items)
        else:
            self._gone_at = None
            if text.unfinished(time.monotonic()):
                self._put(items, text.cutter.release())

    async def _explain(self, files: Files, text: Text, items: list[Item]) -> None:
        """Report that a file that still has its name cannot be read."""
        try:
            handle = await files.hold(self.path)
        except UnreadableError as error:
            self._notice(items, "lost", f"cannot be read ({error}): retrying")
            return
        if handle is not None and handle.identity == text.identity:
            now = await state_of(files, text)
            if now is None or now.size >= text.print.position:  # else truncated since the look: the next one shows it
                self._notice(items, "lost", "cannot be read: retrying")
        await files.release(handle)

    def finish(self) -> list[Item]:
        """Return the unfinished last line: following ends."""
        items: list[Item] = []
        if self.text is not None and not self.text.ignored:
            self._put(items, self.text.cutter.finish())
        return items

    # --- which file -----------------------------------------------------------------------------------------------
    async def _attach(self, files: Files, state: State | None, items: list[Item]) -> None:
        """There is a new connection: finds the files again that were being read."""
        self._files = files
        if self._next is not None:
            self._claims.release(self._next)
            self._next = None
        for old, until in list(self._late):
            if await self._find(files, old, state, deleted=True):
                self._linger(old)
            else:
                await self._recover(files, old, items, late=True)
                self._put(items, old.cutter.finish(), late=True)
                self._late.remove((old, until))
                self._let_go(old)
        text = self.text
        if text is None or await self._find(files, text, state, deleted=True):
            return
        if state is not None and state.identity == text.identity:
            text.handle = await held(files, self.path)
            if text.handle is not None:
                await self._start_over(files, text, items)
                return
        new = None if state is None else await self._claimed(files, self.path, items)
        if new is not text:
            await self._switch(files, text, new, items)

    async def _open(self, files: Files, state: State | None, items: list[Item]) -> None:
        """Open the file that bears the name now, unless it is read under another one."""
        if state is None:
            self._new = self._new or not self._last_notice
            self._notice(items, "gone", "does not exist yet: waiting")
            return
        if self._claims.owner(state.identity) not in (None, self):
            return
        known = self._claims.known(state.identity)
        text = await self._claimed(files, self.path, items)
        if text is None:
            return
        self._last_notice = ""
        if self._new and not known:
            self._notice(items, "appeared", "new log: reading", again=True)
        if not self._new and not text.print.position:
            left_out = await skip_history(files, text, self._request.history)
            if left_out and self._request.history:
                self._notice(items, "appeared", f"skipped the first {format_bytes(left_out)} (--history)", again=True)
        await self._begin(files, text, items)

    async def _begin(self, files: Files, text: Text, items: list[Item]) -> None:
        """Read a text from now on; before it, what came and went since the last one."""
        if self._left_s is not None:
            found = await self._read_missed(files, self._left_s, items, text)
            if self._missing and not found:
                self._notice(items, "lost", self._missing, again=True)
            self._missing = ""
            if await state_of(files, text) is None:  # rotated as well: it was read as a part, or will be
                await self._forget(files, text)
                self._let_go(text)
                self._new = self.more = True
                return
            self._notice(items, "rotated", "rotated: reading the new file", again=True)
        text.changed_s = max(text.changed_s, self.changed_s or 0.0)
        if not text.print.position:
            text.since_s = text.changed_s  # until it is read it may be copied and emptied, or its number be given away
        self.text, self._gone_at, self._left_s, self._new, self.more = text, None, None, False, True

    async def _gone(self, files: Files, text: Text, items: list[Item]) -> None:
        """The name is gone, the file may still be written to."""
        if self._gone_at is None:
            self._gone_at = time.monotonic()
            self._notice(items, "gone", "deleted or renamed: waiting for a new file", again=True)
            return
        if time.monotonic() - self._gone_at < LINGER_S:
            return
        if text.handle is None:
            await self._recover(files, text, items)
        self._put(items, text.cutter.finish())
        self._left_s, self.text, self._new = text.changed_s, None, True
        await self._end(files, text)

    async def _follow_name(self, files: Files, old: Text, state: State | None, items: list[Item]) -> None:
        """Another file bears the name, or did: the old one was read to its end."""
        new, self._next = self._next, None
        if new is not None and (state is None or state.identity != new.identity):
            now = await state_of(files, new)
            if now is None or not now.size:
                self._late.append((new, time.monotonic() + LINGER_S))
                new = None
        fresh = new is None
        if new is None:
            new = None if state is None else await self._claimed(files, self.path, items)
        if state is None and new is None:
            await self._gone(files, old, items)
            return
        if new is old:
            return
        empty = new is not None and state is not None and not (state.size or old.ignored)
        if new is not None and empty and not (fresh and await self._came_between(files, old, new)):
            self._next = new
            return
        await self._switch(files, old, new, items)
        if self.text is not None and self.more:  # at once: its copies are known by what was read of it
            now = await state_of(files, self.text)
            self.text.grown_at = time.monotonic()  # its last line may be half written
            if now is not None:
                await self._read(files, self.text, now, items)

    async def _came_between(self, files: Files, old: Text, new: Text) -> bool:
        """A file was renamed since the old one was: it may be compressed before a line is in the new one."""
        known = {old.identity, new.identity, *(text.identity for text, _ in self._late)}
        parts = await parts_since(files, self.path, old.changed_s)
        return any(not part.packed and part.head and part.state.identity not in known for part in parts)

    async def _switch(self, files: Files, old: Text, new: Text | None, items: list[Item]) -> None:
        if new is not None and await self._goes_on(files, new, old):
            self.text, self._gone_at, self.more = new, None, True
            await self._end(files, old)
            return
        heir = await self._heir(files, old)
        if heir is not None:
            self.text, self.more = heir, True
            await self._end(files, old)
            old = heir
            while self.more:
                now = await state_of(files, old)
                if now is None or not await self._read(files, old, now, items):
                    break
        if old.handle is None:
            if not await self._recover(files, old, items):
                self._miss(old, f"replaced: {unread(old)} may be lost", items)
            self._let_go(old)
        else:
            self._late.append((old, time.monotonic() + LINGER_S))
        self._put(items, old.cutter.finish())
        self.text, self._gone_at, self._left_s = None, None, old.changed_s
        if new is None:
            self._new = True
        else:
            await self._begin(files, new, items)

    def _miss(self, old: Text, text: str, items: list[Item]) -> None:
        """Report that the rest of a text was not found; one that was not read at all may yet be found as a part."""
        if old.print.position:
            self._notice(items, "lost", text, again=True)
        else:
            self._missing = text

    async def _read_late(self, files: Files, text: Text, until: float, items: list[Item]) -> None:
        """Read what a slow writer still adds to a file after it was rotated."""
        now = await state_of(files, text)
        if now is None and await self._find(files, text, None):  # it was known by a name that it has no more
            now = await state_of(files, text)
        before = text.print.position
        fresh: list[Item] = []
        late = replace(self.log, name=f"{self.log.name} (rotated)")
        try:
            if now is not None and now.size > before:
                await self._read(files, text, now, fresh)
        finally:
            items += [(late, item) for _, item in fresh]
        if text.print.position > before:
            self._linger(text)
        elif time.monotonic() >= until or now is None:
            self._put(items, text.cutter.finish(), late=True)
            self._late.remove((text, until))
            await self._end(files, text)

    def _linger(self, text: Text) -> None:
        """Read a text as a late one, from now on for a while."""
        self._late = [*(late for late in self._late if late[0] is not text), (text, time.monotonic() + LINGER_S)]


# --- All logs of one machine, followed in rounds: one look at all of them, then the bytes of those that have grown ---

Finder = Callable[[Files], Awaitable[Sequence[str]]]
"""Returns the logs of whatever runs on a machine."""
Emit = Callable[[list[Item]], Awaitable[None]]
_RESCAN_S = 5.0
_RESCAN_SHARE = 0.02
"""Looking for new logs takes no more than this share of the time."""
_MOST = 1000
_TOGETHER = 4
"""Logs that are read at a time: each may bring some megabytes."""


class HostLogs:
    """The followed logs of one machine; the state outlives connections."""

    def __init__(
        self,
        shown: str,
        paths: Sequence[str],
        history: int | None,
        finder: Finder | None = None,
        inspector: Mapping[str, int] | None = None,
    ) -> None:
        """`inspector` has those paths that hold logs of NCCL Inspector, with the history to read of each of these."""
        self.shown = shown
        self._inspector = dict(inspector or {})
        self.paths = list(paths)
        """Paths and patterns; absolute, or from the home folder on."""
        self.tails: dict[str, RemoteTail] = {}
        self.caught_up = False
        """All that was there at the start was read."""
        self._history, self._finder = history, finder
        self._claims = InodeOwners()
        self._next_scan = 0.0
        self._scanned = self._reported_many = False
        self._left_out: set[str] = set()
        self._turning: set[RemoteTail] = set()
        """Logs of which something was read that is not handed on yet."""

    def finish(self) -> Iterator[Item]:
        """Yield the last lines that have no end, of logs of which everything before them was handed on."""
        for tail in self.tails.values():
            if tail not in self._turning:
                yield from tail.finish()

    @property
    def behind(self) -> int:
        """Bytes that are known to be there and are not read yet."""
        return sum(tail.behind for tail in self.tails.values())

    async def round(self, files: Files, emit: Emit) -> bool:
        """One look; whether there is more to be read at once. Raises RunnerError."""
        if time.monotonic() >= self._next_scan:
            await self._scan(files, emit)
        states = await files.look(list(self.tails))
        turns = [tail for path, tail in self.tails.items() if not tail.quiet(files, states.get(path))]
        parts = [tail for tail in turns if any(True for _ in tail.logs_of())]  # known by what is read of their logs
        for group in ([tail for tail in turns if tail not in parts], parts):
            for at in range(0, len(group), _TOGETHER):
                async with asyncio.TaskGroup() as tasks:
                    for tail in group[at : at + _TOGETHER]:
                        tasks.create_task(self._turn(tail, files, states.get(tail.path), emit))
        more = any(tail.more for tail in self.tails.values())
        self.caught_up = self.caught_up or not more
        return more

    async def _turn(self, tail: RemoteTail, files: Files, state: State | None, emit: Emit) -> None:
        items: list[Item] = []
        self._turning.add(tail)
        try:
            await tail.advance(files, state, items)
        finally:
            if items:
                await emit(items)
            self._turning.discard(tail)

    async def _scan(self, files: Files, emit: Emit) -> None:
        began = time.monotonic()
        first, self._scanned = not self._scanned, True
        for found in await self._finder(files) if self._finder is not None else ():
            await self._admit(found, files.home, first, emit)
        for path in self.paths:
            for found in await list_logs(files, Wanted(await files.expanded(path))):
                await self._admit(found, files.home, first, emit, self._inspector.get(path))
        await self._report_left_out(files, emit)
        took = time.monotonic() - began
        self._next_scan = time.monotonic() + max(_RESCAN_S, took / _RESCAN_SHARE)

    async def _report_left_out(self, files: Files, emit: Emit) -> None:
        for why in files.left_out:
            if why not in self._left_out:
                self._left_out.add(why)
                log = LogFile(self.shown, Path(f"ssh:/{self.shown}"), "")
                await emit([(log, Notice(f"{self.shown}: not followed: {why}", "lost"))])

    async def _admit(self, path: str, home: str, first: bool, emit: Emit, inspector: int | None = None) -> None:
        if path in self.tails or (not first and self._is_part(path)):
            return
        if len(self.tails) >= _MOST:
            if not self._reported_many:
                self._reported_many = True
                log = next(iter(self.tails.values())).log
                await emit([(log, Notice(f"{self.shown}: more than {_MOST} logs: name the relevant ones", "lost"))])
            return
        marked = None if inspector is None else INSPECTOR
        log = LogFile(f"{self.shown}:{_short(path, home)}", Path(f"ssh:/{self.shown}"), path, marked)
        if any(ord(sign) < 32 for sign in path):
            if first:
                await emit([(log, Notice(f"{log.name}: a name with control characters: not followed", "lost"))])
            return
        history = self._history if inspector is None or self._history == 0 else inspector
        self.tails[path] = tail = RemoteTail(log, path, self._claims, ReadRequest(history, not first))
        if names := names_of_logs(PurePosixPath(path).name):
            folder = PurePosixPath(path).parent
            paths = [f"{folder / name}" for name in names]
            tail.logs_of = lambda: [self.tails[one] for one in paths if one in self.tails]

    def _is_part(self, path: str) -> bool:
        """An older part of a log that is followed is read with it, where it has to be."""
        return any(is_part_of(Path(path), Path(other)) for other in self.tails)


def _short(path: str, home: str) -> str:
    inside = home != "/" and PurePosixPath(path).is_relative_to(home)
    return evidence_text(f"~/{PurePosixPath(path).relative_to(home)}" if inside else path)
