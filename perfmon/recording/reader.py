"""Reads recordings, also those that a crash cut off, with a note about what is missing."""

from __future__ import annotations

import os
import stat
import zlib
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfmon.core import InputError, format_seconds, plain

from . import format
from .format import DamagedError, Frame, Header, Section


@dataclass(frozen=True, slots=True)
class Group:
    """The place of frames of about the same time."""

    first_s: float
    last_s: float
    frames: int
    position: int
    """Of the payload."""
    section: Section


@dataclass(slots=True)
class Recording:
    """An opened recording; `open_recording` makes it."""

    path: Path
    header: Header
    logs: tuple[str, ...] = ()
    """Names of all logs, fit for display, in the order of their first appearance."""
    groups: tuple[Group, ...] = ()
    """In the order of time: an index for seeking."""
    duration_s: float = 0.0
    """From the start to the end, or to the last frame when there is no end."""
    note: str | None = None
    """Note on missing parts: cut off, damaged, stopped early."""

    @property
    def frame_count(self) -> int:
        """Frames in all groups."""
        return sum(group.frames for group in self.groups)

    def frames(self, from_s: float = 0.0) -> Iterator[Frame]:
        """The frames in the order in which they came: all from `from_s` on, and a few before.

        Ends early, with a `note`, at damage. Raises InputError when the file is gone.
        """
        begin = bisect_left(self.groups, from_s, key=lambda group: group.last_s)
        descriptor = _opened(self.path)
        try:
            for group in self.groups[begin:]:
                yield from format.read_frames(_payload(descriptor, group), self.logs)
        except (DamagedError, OSError):
            self.note = f"{_name(self.path)}: damaged at {format_seconds(group.first_s)}: the rest is lost"
        finally:
            os.close(descriptor)


def open_recording(path: Path) -> Recording:
    """Opens a recording and makes its index; raises InputError when it is none, or of a newer schema."""
    descriptor = _opened(path)
    try:
        return _Scan(path, descriptor).recording()
    except OSError as error:
        raise InputError(f"{_name(path)}: cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class _Scan:
    """Goes from head to head."""

    path: Path
    descriptor: int
    size: int = 0
    position: int = 0
    logs: list[str] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    last_s: float = 0.0

    def recording(self) -> Recording:
        self.size = os.fstat(self.descriptor).st_size
        header = self._header()
        if header is None:
            note = f"{_name(self.path)}: cut off within its first bytes: nothing was recorded"
            return Recording(self.path, Header(format.SCHEMA, "", 0.0, ()), note=note)
        missing = self._groups()
        return Recording(self.path, header, tuple(self.logs), tuple(self.groups), self.last_s, missing)

    def _header(self) -> Header | None:
        """None when it was cut off."""
        begin = os.pread(self.descriptor, format.BEGIN_SIZE, 0)
        if begin and len(begin) < format.BEGIN_SIZE and format.pack_begin().startswith(begin):
            return None
        schema = format.read_begin(begin)
        if not schema:  # none was ever written under 0
            found = "an empty file" if not begin else "a different file type"
            raise InputError(f"{_name(self.path)}: not a recording: expected what `perfmon record` writes, not {found}")
        if schema > format.SCHEMA:
            schemas = f"schema {schema}, this one reads up to {format.SCHEMA}"
            raise InputError(f"{_name(self.path)}: recorded by a newer perfmon ({schemas}): update perfmon")
        self.position = format.BEGIN_SIZE
        try:
            first = self._section()
            if first is None:
                return None
            if first[0].kind != format.HEADER:
                raise DamagedError
            return format.read_header(schema, first[1])
        except DamagedError:
            raise InputError(f"{_name(self.path)}: damaged recording: invalid header") from None

    def _groups(self) -> str | None:
        """Notes all groups; what is missing of them."""
        try:
            while (found := self._section()) is not None:
                section, extra = found
                self.last_s = max(self.last_s, section.last_s)
                if section.kind == format.END:
                    return self._early(extra)
                if section.kind == format.GROUP:
                    self._add(section, extra)
        except DamagedError:
            return f"{_name(self.path)}: damaged after {format_seconds(self.last_s)}: the rest is lost"
        return (
            f"{_name(self.path)}: cut off after {format_seconds(self.last_s)}: still being written, or ended by a crash"
        )

    def _section(self) -> tuple[Section, Any] | None:
        """The section at the position, which goes on to the next one; None at the end or the cut."""
        head = os.pread(self.descriptor, format.HEAD_SIZE, self.position)
        if len(head) < format.HEAD_SIZE:
            return None
        section = format.read_head(head)
        if self.position + section.size > self.size:
            return None
        extra = format.read_extra(head, os.pread(self.descriptor, section.extra_size, self.position + format.HEAD_SIZE))
        self.position += section.size
        return section, extra

    def _add(self, section: Section, extra: Any) -> None:
        if not isinstance(extra, list) or section.first_s < (self.groups[-1].last_s if self.groups else 0.0):
            raise DamagedError
        self.logs += [plain(str(name)) for name in extra]
        position = self.position - section.packed_size
        self.groups.append(Group(section.first_s, section.last_s, section.frames, position, section))

    def _early(self, extra: Any) -> str | None:
        why = extra.get("failed") if isinstance(extra, dict) else None
        return f"ends early, after {format_seconds(self.last_s)}: {plain(str(why))}" if why else None


def _payload(descriptor: int, group: Group) -> bytes:
    """The frames of a group, decompressed. Raises DamagedError."""
    import zstandard

    section = group.section
    data = os.pread(descriptor, section.packed_size, group.position)
    if len(data) < section.packed_size or zlib.crc32(data) != section.crc:
        raise DamagedError
    try:
        # What a frame claims to hold is allocated before it is read.
        if zstandard.get_frame_parameters(data).content_size != section.raw_size:
            raise DamagedError
        return zstandard.ZstdDecompressor().decompress(data, max_output_size=section.raw_size)
    except zstandard.ZstdError:
        raise DamagedError from None


def _opened(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InputError(f"{_name(path)}: cannot be read: {error.strerror}") from None
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError(f"{_name(path)}: a pipe cannot be played (write it to a file first)")
    return descriptor


def _name(path: Path) -> str:
    return plain(str(path))
