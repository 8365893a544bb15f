"""Writes a recording, group by group: what was written stays readable, whatever happens next."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from perfmon._version import __version__
from perfmon.core import Block, InputError, Notice, format_bytes, last_key_line, masked, plain, without_secrets

from .format import END, GROUP, HEADER, pack_begin, pack_frame, pack_section

MAX_BYTES = 2 << 30
"""Default limit of the size of a recording."""
_GROUP = 256 << 10
_GROUP_S = 1.0
_LEVEL = 1
_END_ROOM = 1 << 10
_REMOVED = "the file was removed; the recorded data is lost"


class RecordingWriter:
    """A recording that is being written. Not for several threads at once.

    Once the file is open nothing raises: if it cannot be written any more, `failed` contains the reason, and recording
    stops. Credentials are masked before they reach the file.
    """

    def __init__(
        self,
        path: Path,
        specs: Sequence[str],
        *,
        start: float | None = None,
        overwrite: bool = False,
        max_bytes: int = MAX_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Makes the file, for its owner's eyes only; `start` is in seconds since 1970, now when None.

        Raises InputError when there is such a file (unless `overwrite`) or none can be made.
        """
        self.path = path
        self.failed: str | None = None
        """Reason for which nothing is written any more: one line."""
        self.frames = 0
        self.lines = 0
        """That are in the file."""
        self.log_bytes = 0
        """Of these lines, before compression."""
        self.bytes_written = 0
        """Size of the file."""
        self._max_bytes = max_bytes
        self._clock = clock
        self._logs: dict[str, int] = {}
        self._new_logs: list[str] = []
        self._key_lines: dict[str, bytes] = {}
        """Of logs whose last block ended within a key: its last line."""
        self._parts: list[bytes] = []
        self._held = 0
        self._held_frames = 0
        self._held_lines = 0
        self._held_bytes = 0
        self._held_since = 0.0
        self._first_s = self._last_s = 0.0
        self._compress: Callable[[bytes], bytes] | None = None
        self._descriptor: int | None = _made(path, overwrite)
        header = {
            "perfmon": __version__,
            "start": time.time() if start is None else start,
            "specs": [without_secrets(spec) for spec in specs],
        }
        self._put(pack_begin() + pack_section(HEADER, header))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def write(self, at_s: float, log: str, item: Block | Notice) -> None:
        """Records an item that came `at_s` seconds after the start; times never go back."""
        if self._descriptor is None:
            return
        if isinstance(item, Notice):
            item = Notice(without_secrets(item.text), item.kind, item.count)
        else:
            after = self._key_lines.pop(log, b"")
            if last := last_key_line(item.data, after):
                self._key_lines[log] = last
            self._held_lines += item.data.count(b"\n") + item.final
            self._held_bytes += len(item.data)
            item = Block(masked(item.data, after), item.offset, item.line, item.final)
        self._hold(at_s, log, item)
        if self._held >= _GROUP:
            self.flush()
        else:
            self.flush_due()

    def flush_due(self) -> None:
        """Writes what has been held for a second. To be called every second, also when nothing comes."""
        if self._parts and self._clock() - self._held_since >= _GROUP_S:
            self.flush()

    def flush(self) -> None:
        """Writes what is held."""
        if self._descriptor is None or not self._parts:
            return
        raw = b"".join(self._parts)
        logs, first_s, frames = self._new_logs, self._first_s, self._held_frames
        lines, log_bytes = self._held_lines, self._held_bytes
        self._parts, self._new_logs = [], []
        self._held = self._held_frames = self._held_lines = self._held_bytes = 0
        packed = self._packed(raw)
        if self._put(pack_section(GROUP, logs, packed, len(raw), frames, first_s, self._last_s)):
            self.frames += frames
            self.lines += lines
            self.log_bytes += log_bytes

    def close(self, at_s: float = 0.0) -> None:
        """Writes what is held and the end, `at_s` seconds after the start; further calls do nothing."""
        self.flush()
        self._last_s = max(at_s, self._last_s)
        if self._descriptor is not None and _removed(self._descriptor):
            self._fail(_REMOVED, stays=False)
        self._finish()

    def _hold(self, at_s: float, log: str, item: Block | Notice) -> None:
        self._last_s = at_s if at_s > self._last_s else self._last_s
        if not self._parts:
            self._first_s, self._held_since = self._last_s, self._clock()
        number = self._logs.get(log)
        if number is None:
            number = self._logs[log] = len(self._logs)
            self._new_logs.append(without_secrets(log))
        frame = pack_frame(self._last_s, number, item)
        self._parts += frame
        self._held += len(frame[0]) + len(frame[1])
        self._held_frames += 1

    def _packed(self, raw: bytes) -> bytes:
        if self._compress is None:
            from zstandard import ZstdCompressor

            self._compress = ZstdCompressor(level=_LEVEL).compress
        return self._compress(raw)

    def _put(self, data: bytes) -> bool:
        """Append a section, all of it or nothing; return True if it was written."""
        assert self._descriptor is not None  # noqa: S101
        if self.bytes_written + len(data) + _END_ROOM > self._max_bytes:
            self._fail(f"maximum size reached, {format_bytes(self._max_bytes)}")
            return False
        if _removed(self._descriptor):
            self._fail(_REMOVED, stays=False)
            return False
        try:
            _write_all(self._descriptor, data)
        except OSError as error:
            self._cut()
            self._fail(error.strerror or str(error))
            return False
        self.bytes_written += len(data)
        return True

    def _fail(self, why: str, *, stays: bool = True) -> None:
        kept = "; earlier data stays readable" if self.bytes_written and stays else ""
        self.failed = f"{plain(str(self.path))}: recording stopped: {why}{kept}"
        self._parts = []
        self._finish()

    def _finish(self) -> None:
        if self._descriptor is None:
            return
        end = pack_section(END, {"failed": self.failed}, first_s=self._last_s, last_s=self._last_s)
        try:
            if self.bytes_written:
                _write_all(self._descriptor, end)
                self.bytes_written += len(end)
        except OSError as error:
            self._cut()
            self.failed = self.failed or f"{plain(str(self.path))}: cannot write the end of the file: {error.strerror}"
        with suppress(OSError):
            if not self.bytes_written and stat.S_ISREG(os.fstat(self._descriptor).st_mode):
                self.path.unlink()  # an empty file would be no recording
            os.close(self._descriptor)
        self._descriptor = None

    def _cut(self) -> None:
        """Remove what was written of a section."""
        assert self._descriptor is not None  # noqa: S101
        with suppress(OSError):
            os.ftruncate(self._descriptor, self.bytes_written)
            os.lseek(self._descriptor, self.bytes_written, os.SEEK_SET)


def _made(path: Path, overwrite: bool) -> int:
    name = plain(str(path))
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | (os.O_TRUNC if overwrite else os.O_EXCL)
    try:
        descriptor = os.open(path, flags, 0o600)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.fchmod(descriptor, 0o600)
    except FileExistsError:
        raise InputError(
            f"{name}: already exists (name another file, or overwrite it: perfmon record --force)"
        ) from None
    except OSError as error:
        raise InputError(f"{name}: cannot be written: {error.strerror} (name another file)") from None
    return descriptor


def _removed(descriptor: int) -> bool:
    """Return True if the file has been deleted."""
    state = os.fstat(descriptor)
    return stat.S_ISREG(state.st_mode) and not state.st_nlink


def _write_all(descriptor: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]
