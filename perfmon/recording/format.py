"""The bytes of a recording: a mark, the schema, then sections, each with its lengths and checksums.

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
1970).
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

from perfmon.core import Block, Notice, NoticeKind, plain

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
    sound = math.isfinite(section.first_s) and math.isfinite(section.last_s) and section.first_s <= section.last_s
    if mark != _MARK or not sound or section.extra_size > _MAX_EXTRA or section.raw_size > MAX_RAW:
        raise DamagedError
    return section


def read_extra(head: bytes, data: bytes) -> Any:
    """Parse the JSON after a head. Raises DamagedError if it is not what was written."""
    if _CRC.unpack_from(head, _HEAD.size)[0] != zlib.crc32(data, zlib.crc32(head[: _HEAD.size])):
        raise DamagedError
    try:
        return json.loads(data)
    except ValueError:
        raise DamagedError from None


def read_header(schema: int, extra: Any) -> Header:
    """The header in the extra of a section. Raises DamagedError."""
    try:
        start, specs = float(extra["start"]), tuple(plain(str(spec)) for spec in extra["specs"])
        header = Header(schema, plain(str(extra["perfmon"])), start, specs)
    except (KeyError, TypeError, ValueError):
        raise DamagedError from None
    if not math.isfinite(start):
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
    position = 0
    while position < len(data):
        try:
            kind, at_s, log, offset, line, size = _FRAME.unpack_from(data, position)
            begin = position + _FRAME.size
            position = begin + size
            part = data[begin:position]
            if len(part) != size or not math.isfinite(at_s):
                raise DamagedError
            item = _notice(part) if kind == _NOTICE else Block(part, offset, line, kind == _FINAL)
            yield Frame(at_s, logs[log], item)
        except (struct.error, IndexError, ValueError, TypeError):
            raise DamagedError from None


def _notice(data: bytes) -> Notice:
    text, kind, count = json.loads(data)
    # Kinds of later versions need no action.
    return Notice(plain(str(text), 2000), cast(NoticeKind, str(kind)), int(count))
