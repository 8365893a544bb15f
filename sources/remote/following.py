"""All logs of one machine, followed in rounds: one look at all of them, then the bytes of those that have grown."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path, PurePosixPath

from perfmon.text import plain

from ..blocks import Notice
from ..files import LogFile
from ..rotation import is_part_of
from .claims import Claims
from .files import Files, State
from .listing import Wanted, list_logs
from .tail import Item, RemoteTail, Wish

Finder = Callable[[Files], Awaitable[Sequence[str]]]
"""Tells the logs of whatever runs on a machine."""
Emit = Callable[[list[Item]], Awaitable[None]]
_RESCAN_S = 5.0
_RESCAN_SHARE = 0.02
"""Looking for new logs takes no more than this share of the time."""
_MOST = 1000
_TOGETHER = 4
"""Logs that are read at a time: each may bring some megabytes."""


class HostLogs:
    """What is followed on one machine; its state outlives connections."""

    def __init__(self, shown: str, paths: Sequence[str], history: int | None, finder: Finder | None = None) -> None:
        self.shown = shown
        self.paths = list(paths)
        """Paths and patterns; absolute, or from the home folder on."""
        self.tails: dict[str, RemoteTail] = {}
        self.caught_up = False
        """All that was there at the start was read."""
        self._history, self._finder = history, finder
        self._claims = Claims()
        self._next_scan = 0.0
        self._scanned = self._told_many = False
        self._left_out: set[str] = set()

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
        for at in range(0, len(turns), _TOGETHER):
            async with asyncio.TaskGroup() as tasks:
                for tail in turns[at : at + _TOGETHER]:
                    tasks.create_task(self._turn(tail, files, states.get(tail.path), emit))
        more = any(tail.more for tail in self.tails.values())
        self.caught_up = self.caught_up or not more
        return more

    async def _turn(self, tail: RemoteTail, files: Files, state: State | None, emit: Emit) -> None:
        items: list[Item] = []
        try:
            await tail.advance(files, state, items)
        finally:
            if items:
                await emit(items)

    async def _scan(self, files: Files, emit: Emit) -> None:
        began = time.monotonic()
        first, self._scanned = not self._scanned, True
        for found in await self._finder(files) if self._finder is not None else ():
            await self._admit(found, files.home, first, emit)
        for path in self.paths:
            for found in await list_logs(files, Wanted(await files.expanded(path))):
                await self._admit(found, files.home, first, emit)
        await self._tell_left_out(files, emit)
        took = time.monotonic() - began
        self._next_scan = time.monotonic() + max(_RESCAN_S, took / _RESCAN_SHARE)

    async def _tell_left_out(self, files: Files, emit: Emit) -> None:
        for why in files.left_out:
            if why not in self._left_out:
                self._left_out.add(why)
                log = LogFile(self.shown, Path(f"ssh:/{self.shown}"), "")
                await emit([(log, Notice(f"{self.shown}: not followed: {why}", "lost"))])

    async def _admit(self, path: str, home: str, first: bool, emit: Emit) -> None:
        if path in self.tails or (not first and self._is_part(path)):
            return
        if len(self.tails) >= _MOST:
            if not self._told_many:
                self._told_many = True
                log = next(iter(self.tails.values())).log
                await emit([(log, Notice(f"{self.shown}: more than {_MOST} logs: name the relevant ones", "lost"))])
            return
        log = LogFile(f"{self.shown}:{_short(path, home)}", Path(f"ssh:/{self.shown}"), path)
        if any(ord(sign) < 32 for sign in path):
            if first:
                await emit([(log, Notice(f"{log.name}: a name with control characters: not followed", "lost"))])
            return
        self.tails[path] = RemoteTail(log, path, self._claims, Wish(self._history, not first))

    def _is_part(self, path: str) -> bool:
        """An older part of a log that is followed is read with it, where it has to be."""
        return any(is_part_of(Path(path), Path(other)) for other in self.tails)


def _short(path: str, home: str) -> str:
    inside = home != "/" and PurePosixPath(path).is_relative_to(home)
    return plain(f"~/{PurePosixPath(path).relative_to(home)}" if inside else path)
