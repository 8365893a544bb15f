"""Wakeups of a follower: inotify where the kernel has it, the clock elsewhere."""

from __future__ import annotations

import asyncio
import os
import re
import struct
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncinotify import Inotify


# --- Waits for an event, but no longer than for a while ---


async def wait_for_event(event: asyncio.Event, at_most_s: float) -> None:
    """Wait until `event` is set; after `at_most_s` set it.

    A timeout costs several times as much, for it ends a wait by cancelling it: too much for what is done all the time.
    """
    timer = asyncio.get_running_loop().call_later(at_most_s, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()


# --- Ends tasks that others started, so that the task that ends them can still be ended itself ---


async def end(task: asyncio.Future[Any], at_most_s: float | None = None) -> None:
    """Cancel `task` and wait for its end; raises its error, unless it was cancelled.

    A plain `await task` cannot distinguish the end of the task from that of the caller, which would be lost then.
    """
    task.add_done_callback(_retrieve)
    task.cancel()
    await asyncio.wait([task], timeout=at_most_s)
    if task.done() and not task.cancelled():
        task.result()


def _retrieve(task: asyncio.Future[Any]) -> None:
    """Ignore the error of a task that ends too late."""
    if not task.cancelled():
        task.exception()


# --- Wakes a follower when something changed: by inotify where the kernel reports it, by the clock elsewhere ---
#
# Being woken only means "look": what changed is found by looking, so a lost event costs time, never a line. Events are
# collected once a round; the kernel merges those of writes to one log, so a busy log costs no more than another one.

_BACKSTOP_S = 1.0
_MOST_FOLDERS = 2048
_WRITTEN = 0x00000002
_LISTING = 0x00000040 | 0x00000080 | 0x00000100 | 0x00000200 | 0x00000400 | 0x00000800 | 0x00004000
"""Moved from, moved to, created, deleted, itself deleted, itself moved, queue overflown: see inotify(7)."""
_FOLDERS_ONLY = 0x01000000
_EVENT = struct.Struct("=iIII")
"""Watch, mask, cookie, and the size of the name that follows."""
_REMOTE = re.compile(r"nfs|cifs|smb|fuse|lustre|gpfs|beegfs|ceph|9p|afs|gluster|weka|virtiofs|panfs|orangefs")


class Waker:
    """Waits for changes below some folders."""

    def __init__(self, poll_s: float, *, polling: bool | None = None) -> None:
        """`polling` True never uses inotify; None decides by the file systems that the folders are on."""
        self.polling = bool(polling)
        self.listing_changed = False
        """Names appeared or vanished since this was last set to False."""
        self._poll_s = poll_s
        self._forced = polling
        self._folders: frozenset[str] = frozenset()
        self._event = asyncio.Event()
        self._inotify: Inotify | None = None

    def wake(self) -> None:
        """End the current or next wait."""
        self._event.set()

    async def wait(self) -> None:
        """Return when something may have changed, at the latest after the polling interval."""
        if self._inotify is None:
            await wait_for_event(self._event, self._poll_s)
        else:
            loop, inotify = asyncio.get_running_loop(), self._inotify.fd
            loop.add_reader(inotify, self._event.set)
            try:
                await wait_for_event(self._event, max(self._poll_s, _BACKSTOP_S))
            finally:
                loop.remove_reader(inotify)
        self._event.clear()

    def collect(self) -> None:
        """Take the events that have come, before looking at what they are about."""
        with suppress(BlockingIOError):
            while self._inotify is not None and (events := os.read(self._inotify.fd, 1 << 16)):
                at = 0
                while at < len(events):
                    _, mask, _, name_size = _EVENT.unpack_from(events, at)
                    self.listing_changed = self.listing_changed or bool(mask & _LISTING)
                    at += _EVENT.size + name_size

    async def watch(self, folders: Collection[str]) -> None:
        """Watch these folders from now on, not those below them."""
        wanted = frozenset(folders)
        if self._forced or wanted == self._folders:
            return
        self._folders = wanted
        self.close()
        remote = self._forced is None and await asyncio.to_thread(_any_remote, wanted)
        self.polling = not wanted or len(wanted) > _MOST_FOLDERS or remote
        self._inotify = None if self.polling else _opened(wanted)
        self.polling = self._inotify is None

    def close(self) -> None:
        """Stop watching."""
        inotify, self._inotify = self._inotify, None
        if inotify is not None:
            inotify.close()


def _opened(folders: Collection[str]) -> Inotify | None:
    """An inotify that watches these folders; None where there is none, or not for so many."""
    try:
        from asyncinotify import Inotify, Mask

        inotify = Inotify()
        os.set_blocking(inotify.fd, False)
    except (ImportError, OSError, AttributeError):  # no Linux
        return None
    try:
        for folder in sorted(folders):
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                inotify.add_watch(folder, Mask(_LISTING | _WRITTEN | _FOLDERS_ONLY))
    except OSError:  # no watches left
        inotify.close()
        return None
    return inotify


def _any_remote(folders: Collection[str]) -> bool:
    """True if a folder is on a file system that other machines write to: inotify does not report that."""
    mounts = _mounts()
    return any(_REMOTE.match(_type_of(folder, mounts)) for folder in folders)


def _type_of(folder: str, mounts: list[tuple[str, str]]) -> str:
    over = [(len(point), kind) for point, kind in mounts if Path(folder).is_relative_to(point)]
    return max(over, default=(0, ""))[1]


def _mounts() -> list[tuple[str, str]]:
    """(mount point, file system type) of all mounts; none where the kernel does not list them."""
    try:
        lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    split = [line.partition(" - ") for line in lines]
    return [(before.split()[4].replace("\\040", " "), after.split()[0]) for before, _, after in split if after]
