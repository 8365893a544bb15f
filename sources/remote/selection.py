"""Small files of hosts that are followed already, copied into a folder here because of their names and first bytes."""

from __future__ import annotations

import asyncio
import os
import re
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from ..shell import RunnerError, quoted
from .files import Files, State, UnreadableError
from .host import Host

_CHUNK = 1 << 20
"""Bytes at once: logs are followed through the same shell."""
_HEAD = 1 << 16
_MOST_FILES = 2048
_NO_NAME = re.compile(r"[^A-Za-z0-9@._-]")


@dataclass(slots=True)
class Selection:
    """Files that are wanted, and the bounds of a copy."""

    is_name: Callable[[str], bool]
    is_head: Callable[[str, bytes], bool]
    """Takes the name and the first bytes."""
    since: float
    """Time of the last write from which on a file is wanted, in seconds since 1970 by the clock of this machine."""
    most_bytes: int
    """Sum over all hosts; goes down with each file that is copied or here already."""
    largest: int
    """Bytes of one file."""
    prefixes: tuple[str, ...] = ()
    """Beginnings of paths outside the folders of the logs; `~` is the home of the user there."""


async def copy_selected(hosts: Sequence[Host], own: Path, shared: Path, selection: Selection) -> int:
    """Copy what is below the followed folders to `own`, and what has one of the prefixes to `shared`.

    A file that did not change since it was copied is not copied again. Return the number of files that are too large.
    """
    counts = await asyncio.gather(*(_copy_host(host, own, shared, selection) for host in hosts))
    return sum(counts)


async def _copy_host(host: Host, own: Path, shared: Path, selection: Selection) -> int:
    files, too_large = host.files, 0
    if files is None:
        return 0
    with suppress(RunnerError):  # a host that is lost is followed again, and then has its files
        clock = host.clock.offset
        since = selection.since + (0.0 if clock is None else clock.seconds)
        words = [(own, quoted(await files.expanded(path))) for path in host.logs.paths]
        words += [(shared, f"{quoted(await files.expanded(prefix))}*") for prefix in selection.prefixes]
        for folder, word in words:
            names = [name for name in await files.listed(word) if selection.is_name(PurePosixPath(name).name)]
            for path, state in (await files.states(names[:_MOST_FILES])).items():
                if state.changed_s >= since:
                    target = folder / _local_name(host.address.shown, path)
                    changed = state.changed_s - (0.0 if clock is None else clock.seconds)
                    too_large += await _copy(files, path, state, target, changed, selection)
    return too_large


async def _copy(files: Files, path: str, state: State, target: Path, changed: float, selection: Selection) -> int:
    """Copy one file; return 1 if it is too large."""
    if await asyncio.to_thread(_is_here, target, state.size, changed):
        selection.most_bytes -= state.size
        return 0
    try:
        handle = await files.hold(path)
    except UnreadableError:
        return 0
    if handle is None:
        return 0
    try:
        data = await files.read(handle, 0, min(state.size, _HEAD)) or b""
        if not selection.is_head(PurePosixPath(path).name, data):
            return 0
        if state.size > min(selection.largest, selection.most_bytes):
            return 1
        selection.most_bytes -= state.size
        while len(data) < state.size:
            more = await files.read(handle, len(data), min(_CHUNK, state.size - len(data)), squeezed=True)
            if not more:
                break
            data += more
    finally:
        await files.release(handle)
    await asyncio.to_thread(_write, target, data, changed)
    return 0


def _is_here(target: Path, size: int, changed: float) -> bool:
    with suppress(OSError):
        here = target.stat()
        return here.st_size == size and abs(here.st_mtime - changed) < 1.0
    return False


def _write(target: Path, data: bytes, changed: float) -> None:
    target.write_bytes(data)
    os.utime(target, (changed, changed))


def _local_name(host: str, path: str) -> str:
    """A name that is unique by host and path; what ends the name there ends it here."""
    name = _NO_NAME.sub("_", PurePosixPath(path).name)[-200:]
    return f"{zlib.crc32(f'{host}:{path}'.encode('utf-8', 'surrogatepass')):08x}_{name}"
