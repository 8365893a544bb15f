"""The bytes of a recording: a mark, the schema, then sections, each with its lengths and checksums; and reading them.

```
file     = MAGIC, u16 schema, section of kind HEADER, sections of kind GROUP, section of kind END
section  = head, u32 CRC-32 of head and extra, extra (JSON), payload
HEADER   extra: {"perfmon", "start", "specs"}
GROUP    extra: names of the logs that appear first in this group; payload: frames, compressed by zstd
END      extra: {"failed": why the recording ended early, or null}
frame    = u8 kind, f64 seconds since the start, u32 number of the log, u64 offset, u64 line, u32 size, data
```
All numbers are big-endian. A group can be read when the heads before it were: they name the logs. Between the notices
"history" and "present" is what the logs contained already; "written" has when one was written to last (in seconds since
1970)."""

from __future__ import annotations

import json
import os
import stat
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from perfmon.core import Block, InputError, Notice, NoticeKind, format_seconds, plain

# --- Identification of recordings ---

MAGIC = b"\x89PMREC\r\n\x1a\n"
SUFFIX = ".pmrec"


SCHEMA = 1

HEADER, GROUP, END = 0, 1, 2
MAX_RAW = 1 << 26
"""Bytes that the frames of one group may have: what a reader must hold at once."""

_BEGIN = struct.Struct(">10sH")
_HEAD = struct.Struct(">4sBIIIIddI")
_CRC = struct.Struct(">I")
_FRAME = struct.Struct(">BdIQQI")
_MARK = b"pmrs"
_BLOCK, _FINAL, _NOTICE = 0, 1, 2
_MAX_EXTRA = 1 << 20
_LATEST_S = 253_402_300_799.0
"""The end of the year 9999, in seconds since 1970."""
_LONGEST_S = 1e9
_MOST_FRAMES, _MOST_LOGS = 200_000, 20_000
"""Frames of a group, and logs, that are read: a group of the writer has a few thousand frames at most."""
_LARGEST = 1 << 60
"""Lines and bytes of a log, beyond what any can have and far from where numbers overflow."""

BEGIN_SIZE, HEAD_SIZE = _BEGIN.size, _HEAD.size + _CRC.size


class DamagedError(Exception):
    """These bytes were never written like this."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a recording."""

    schema: int
    perfmon: str
    """Version that wrote it."""
    start: float
    """Seconds since 1970 at which the recording began."""
    specs: tuple[str, ...]
    """The observed sources, as they were given."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One thing that a source handed over."""

    at_s: float
    """Seconds since the start."""
    log: str
    item: Block | Notice


@dataclass(frozen=True, slots=True)
class Section:
    """The head of a section."""

    kind: int
    extra_size: int
    packed_size: int
    raw_size: int
    frames: int
    first_s: float
    last_s: float
    crc: int
    """Of the payload."""

    @property
    def size(self) -> int:
        """Bytes of the whole section."""
        return HEAD_SIZE + self.extra_size + self.packed_size


def pack_begin() -> bytes:
    """The first bytes of a file."""
    return _BEGIN.pack(MAGIC, SCHEMA)


def read_begin(data: bytes) -> int | None:
    """The schema of the file that begins with `data`; None when it is no recording."""
    return int(_BEGIN.unpack_from(data)[1]) if len(data) >= BEGIN_SIZE and data.startswith(MAGIC) else None


def pack_section(
    kind: int, extra: object, payload: bytes = b"", raw_size: int = 0, frames: int = 0, first_s: float = 0.0,
    last_s: float = 0.0,
) -> bytes:  # fmt: skip
    """A section."""
    text = json.dumps(extra).encode()
    head = _HEAD.pack(
        _MARK, kind, len(text), len(payload), raw_size, frames, first_s, last_s, zlib.crc32(payload)
    )  # fmt: skip
    return b"".join((head, _CRC.pack(zlib.crc32(text, zlib.crc32(head))), text, payload))


def read_head(data: bytes) -> Section:
    """The head that `data`, HEAD_SIZE bytes, holds. Raises DamagedError."""
    mark, *values = _HEAD.unpack_from(data)
    section = Section(*values)
    sound = 0.0 <= section.first_s <= section.last_s <= _LONGEST_S
    small = section.extra_size <= _MAX_EXTRA and section.raw_size <= MAX_RAW and section.frames <= _MOST_FRAMES
    if mark != _MARK or not sound or not small:
        raise DamagedError
    return section


def read_extra(head: bytes, data: bytes) -> Any:
    """Parse the JSON after a head. Raises DamagedError if it is not what was written."""
    if _CRC.unpack_from(head, _HEAD.size)[0] != zlib.crc32(data, zlib.crc32(head[: _HEAD.size])):
        raise DamagedError
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise DamagedError from None


def read_header(schema: int, extra: Any) -> Header:
    """The header in the extra of a section. Raises DamagedError."""
    try:
        start, specs = float(extra["start"]), tuple(plain(str(spec)) for spec in extra["specs"])
        header = Header(schema, plain(str(extra["perfmon"])), start, specs)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError):
        raise DamagedError from None
    if not 0.0 <= start <= _LATEST_S:
        raise DamagedError
    return header


def pack_frame(at_s: float, log: int, item: Block | Notice) -> tuple[bytes, bytes]:
    """(head, data) of a frame; `log` is the number of its log, from 0."""
    if isinstance(item, Notice):
        data = json.dumps([item.text, item.kind, item.count]).encode()
        return _FRAME.pack(_NOTICE, at_s, log, 0, 0, len(data)), data
    kind = _FINAL if item.final else _BLOCK
    return _FRAME.pack(kind, at_s, log, item.offset, item.line, len(item.data)), item.data


def read_frames(data: bytes, logs: Sequence[str]) -> Iterator[Frame]:
    """The frames of a group. Raises DamagedError."""
    position = number = 0
    while position < len(data):
        number += 1
        if number > _MOST_FRAMES:
            raise DamagedError
        try:
            kind, at_s, log, offset, line, size = _FRAME.unpack_from(data, position)
            begin = position + _FRAME.size
            position = begin + size
            part = data[begin:position]
            if len(part) != size or not 0.0 <= at_s <= _LONGEST_S or max(offset, line) > _LARGEST:
                raise DamagedError
            item = _notice(part) if kind == _NOTICE else Block(part, offset, line, kind == _FINAL)
            yield Frame(at_s, logs[log], item)
        except (struct.error, IndexError, ValueError, TypeError, OverflowError, RecursionError):
            raise DamagedError from None


def _notice(data: bytes) -> Notice:
    text, kind, count = json.loads(data)
    # Kinds of later versions need no action.
    if not 0 <= int(count) <= _LARGEST:
        raise DamagedError
    return Notice(plain(str(text), 2000), cast(NoticeKind, str(kind)), int(count))


# --- Reads recordings, also those that a crash cut off, with a note about what is missing ---


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
                yield from read_frames(_payload(descriptor, group), self.logs)
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
            return Recording(self.path, Header(SCHEMA, "", 0.0, ()), note=note)
        missing = self._groups()
        return Recording(self.path, header, tuple(self.logs), tuple(self.groups), self.last_s, missing)

    def _header(self) -> Header | None:
        """None when it was cut off."""
        begin = os.pread(self.descriptor, BEGIN_SIZE, 0)
        if begin and len(begin) < BEGIN_SIZE and pack_begin().startswith(begin):
            return None
        schema = read_begin(begin)
        if not schema:  # none was ever written under 0
            found = "an empty file" if not begin else "a different file type"
            raise InputError(f"{_name(self.path)}: not a recording: expected what `perfmon record` writes, not {found}")
        if schema > SCHEMA:
            schemas = f"schema {schema}, this one reads up to {SCHEMA}"
            raise InputError(f"{_name(self.path)}: recorded by a newer perfmon ({schemas}): update perfmon")
        self.position = BEGIN_SIZE
        try:
            first = self._section()
            if first is None:
                return None
            if first[0].kind != HEADER:
                raise DamagedError
            return read_header(schema, first[1])
        except DamagedError:
            raise InputError(f"{_name(self.path)}: damaged recording: invalid header") from None

    def _groups(self) -> str | None:
        """Notes all groups; what is missing of them."""
        try:
            while (found := self._section()) is not None:
                section, extra = found
                self.last_s = max(self.last_s, section.last_s)
                if section.kind == END:
                    return self._early(extra)
                if section.kind == GROUP:
                    self._add(section, extra)
        except DamagedError:
            return f"{_name(self.path)}: damaged after {format_seconds(self.last_s)}: the rest is lost"
        return (
            f"{_name(self.path)}: cut off after {format_seconds(self.last_s)}: still being written, or ended by a crash"
        )

    def _section(self) -> tuple[Section, Any] | None:
        """The section at the position, which advances to the next one; None at the end or the cut."""
        head = os.pread(self.descriptor, HEAD_SIZE, self.position)
        if len(head) < HEAD_SIZE:
            return None
        section = read_head(head)
        if self.position + section.size > self.size:
            return None
        extra = read_extra(head, os.pread(self.descriptor, section.extra_size, self.position + HEAD_SIZE))
        self.position += section.size
        return section, extra

    def _add(self, section: Section, extra: Any) -> None:
        if not isinstance(extra, list) or len(self.logs) + len(extra) > _MOST_LOGS:
            raise DamagedError
        if section.first_s < (self.groups[-1].last_s if self.groups else 0.0):
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
