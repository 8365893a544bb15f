"""Copies of remote files: the logs of a run, resumed where an earlier copy ended, and chosen small files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath

import aiofiles

from perfmon.core import evidence_text, last_key_line, masked, plain

from ..archives import BrokenError, inflate
from ..shell import RunnerError, quoted
from ..spec import compression_of
from .connection import Cause, HostError
from .discovery import discover
from .files import Files, Handle, State, UnreadableError, Wanted, list_logs
from .host import Host

_CHUNK = 4 << 20
_COMPARED = 4096
_DIGESTED = 1 << 30
"""A larger log takes its machine too long to work out a SHA-256 of."""
_TRIES = 5
_BACKOFF_S = 0.5
_FACTS = (
    "uname -srm; hostname || uname -n; date -u +%Y-%m-%dT%H:%M:%SZ; cat /proc/loadavg; "
    "grep -c ^processor /proc/cpuinfo; head -n 1 /proc/meminfo; timeout 10 nvidia-smi -L"
)
_NO_NAME = re.compile(r"[^A-Za-z0-9@._-]")
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Copied:
    """A log that was copied."""

    path: str
    """There."""
    file: str
    """Below the folder here."""
    size: int
    sha256: str
    changed: float
    verified: bool = False
    """Its machine works out the same SHA-256."""


@dataclass(slots=True)
class HostCopy:
    """The copied logs of a host."""

    host: str
    facts: dict[str, object] = field(default_factory=dict)
    logs: list[Copied] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """One line each."""
    missing: list[str] = field(default_factory=list)
    """Paths and patterns that nothing fits there, as requested."""

    @property
    def unfound(self) -> list[str]:
        """A line for each of `missing`."""
        return [f"{self.host}: {plain(path)}: no such log" for path in self.missing]


class Fetcher:
    """Copies what hosts hold."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self._folder, self._progress = folder, progress
        self._total = 0
        self._at: dict[Path, int] = {}
        """Bytes of each log that are here."""

    async def fetch(self, host: Host, paths: Sequence[str]) -> HostCopy:
        """Copy the logs of one host, to `<folder>/<host>/...`; a lost connection is made again a few times.

        Logs are copied as far as they were written when they were found. Raises HostError when the host is lost.
        """
        copy = HostCopy(host.address.shown)
        found: dict[str, State] | None = None
        for attempt in range(_TRIES):
            try:
                if host.files is None:
                    await host.connect()
                assert host.files is not None  # noqa: S101 - it is connected
                if found is None:
                    copy.facts = await _facts(host, host.files)
                    found, copy.missing = await _found(host.files, paths)
                    copy.problems += [f"{copy.host}: skipped: {why}" for why in host.files.left_out]
                    self._total += sum(state.size for state in found.values())
                for path, state in found.items():
                    if all(log.path != path for log in copy.logs):
                        await self._copy(host.files, path, state, copy)
                return copy
            except (RunnerError, HostError) as error:
                host.drop()
                final = isinstance(error, HostError) and error.cause.final
                if final or attempt == _TRIES - 1:
                    raise HostError(f"{error} (copied data is kept: the same command resumes)") from None
                await asyncio.sleep(_BACKOFF_S * 2.0**attempt)
        raise HostError(f"{host.address.shown}: lost", Cause.UNREACHABLE)

    async def _copy(self, files: Files, path: str, state: State, copy: HostCopy) -> None:
        name = file_name(copy.host, path)
        target = self._folder / name
        try:
            handle = await files.hold(path)
        except UnreadableError as error:
            copy.problems.append(f"{copy.host}:{plain(path)}: cannot be read ({error})")
            return
        if handle is None:
            copy.problems.append(f"{copy.host}:{plain(path)}: deleted during the copy")
            return
        there = None
        try:
            await self._pull(files, handle, target, state.size)
            if state.size <= _DIGESTED:
                there = await files.digest(handle, state.size)
        except OSError as error:
            raise HostError(f"{target}: cannot be written: {error.strerror}", Cause.CONFIG) from None
        finally:
            if not files.runner.closed:
                await files.release(handle)
        size, digest = await asyncio.to_thread(_digest, target)
        if size < state.size:
            copy.problems.append(f"{copy.host}:{plain(path)}: {size} of {state.size} bytes: truncated during the copy")
        elif there is not None and there != digest:
            copy.problems.append(f"{copy.host}:{plain(path)}: sha256sum differs: rewritten during the copy")
        copy.logs.append(Copied(path, name, size, digest, state.changed_s, verified=there == digest))

    async def _pull(self, files: Files, handle: Handle, target: Path, size: int) -> None:
        at = await self._kept(files, handle, target, size)
        self._report(target, at)
        async with aiofiles.open(target, "ab") as file:
            while at < size:
                data = await files.read(handle, at, min(_CHUNK, size - at), squeezed=True)
                if not data:
                    return
                await file.write(data)
                await file.flush()
                at += len(data)
                self._report(target, at)

    async def _kept(self, files: Files, handle: Handle, target: Path, size: int) -> int:
        """Bytes that an earlier run copied, where they are still those of the log; else it starts over."""
        await asyncio.to_thread(target.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
        kept = await asyncio.to_thread(lambda: target.stat().st_size if target.exists() else 0)
        if 0 < kept <= size and await _same(files, handle, target, kept):
            return kept
        async with aiofiles.open(target, "wb"):
            return 0

    def _report(self, target: Path, at: int) -> None:
        self._at[target] = at
        self._progress(sum(self._at.values()), self._total)


def file_name(host: str, path: str) -> str:
    """Path of the copy of a log below the folder: nothing leads out of it."""
    parts = [part for part in path.split("/") if part not in ("..", ".", "")]
    return "/".join([_NO_NAME.sub("_", host).lstrip(".") or "_", *parts])


def manifest(copies: Sequence[HostCopy], made: str, version: str) -> str:
    """The contents of a bundle as JSON."""
    data = {"schema": 1, "perfmon": version, "made": made, "hosts": [asdict(copy) for copy in copies]}
    return json.dumps(data, indent=2, ensure_ascii=True) + "\n"


def redact(folder: Path, log: Copied, target: Path) -> Copied:
    """Write a second copy of a copied log, below `target`, with each byte of a credential as a star, and return that.

    A compressed log is unpacked for it; what follows damage in one is left out. Raises OSError.
    """
    kind = compression_of(log.file)
    name = log.file.rpartition(".")[0] if kind else log.file
    digest, size = hashlib.sha256(), 0
    (target / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (folder / log.file).open("rb") as original, (target / name).open("wb") as copy:
        pieces = inflate(kind, original.read) if kind else iter(lambda: original.read(_CHUNK), b"")
        after = b""
        for lines in _whole_lines(pieces):
            hidden, after = masked(lines, after), last_key_line(lines, after)
            digest.update(hidden)
            size += copy.write(hidden)
    return replace(log, file=name, size=size, sha256=digest.hexdigest(), verified=False)


def _whole_lines(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Join pieces and cut them behind lines, so that no credential is in two of them."""
    rest = b""
    with suppress(BrokenError):
        for piece in pieces:
            rest += piece
            cut = rest.rfind(b"\n") + 1
            if cut or len(rest) > _CHUNK:
                yield rest[: cut or len(rest)]
                rest = rest[cut or len(rest) :]
    yield rest


async def _found(files: Files, paths: Sequence[str]) -> tuple[dict[str, State], list[str]]:
    """The logs that exist, and the paths that none of them fits."""
    fitting = {path: await list_logs(files, Wanted(await files.expanded(path), packed=True)) for path in paths}
    names = [name for names in fitting.values() for name in names]
    if not paths:
        for path in (await discover(files)).paths:
            parts = sorted([name for name, _ in await files.parts(path)], key=lambda name: not compression_of(name))
            names += [*(name for name in parts if "\n" not in name), path]
    there = await files.look(list(dict.fromkeys(names)))
    return there, [path for path, names in fitting.items() if there.keys().isdisjoint(names)]


async def _facts(host: Host, files: Files) -> dict[str, object]:
    lines = (await files.runner.run(_FACTS)).text.split("\n")
    names = ("system", "name", "time", "load", "cores", "memory")
    facts: dict[str, object] = {name: evidence_text(line) for name, line in zip(names, lines, strict=False)}
    facts["gpus"] = [evidence_text(line) for line in lines[len(names) :] if line.startswith("GPU ")]
    clock = host.clock.offset
    if clock is not None:
        facts["clock_offset_s"], facts["clock_uncertainty_s"] = round(clock.seconds, 4), round(clock.uncertainty_s, 4)
    return facts


async def _same(files: Files, handle: Handle, target: Path, size: int) -> bool:
    """Check that the log still begins with what was copied: its first bytes and its last ones."""
    async with aiofiles.open(target, "rb") as file:
        for start in {0, max(0, size - _COMPARED)}:
            await file.seek(start)
            if await files.read(handle, start, min(_COMPARED, size - start)) != await file.read(_COMPARED):
                return False
    return True


def _digest(target: Path) -> tuple[int, str]:
    with target.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return target.stat().st_size, digest


# --- Small files of followed hosts, chosen by their names and first bytes ---

_PIECE = 1 << 20
"""Bytes at once: logs are followed through the same shell."""
_HEAD = 1 << 16
_MOST_FILES = 2048


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
            more = await files.read(handle, len(data), min(_PIECE, state.size - len(data)), squeezed=True)
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
