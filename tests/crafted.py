"""Recordings that were made to stop their reader."""

from __future__ import annotations

import json
import struct
import zlib

import zstandard

from perfmon.recording import format as recordings

_HEADER = json.dumps({"perfmon": "1", "start": 1.7e9, "specs": ["run.log"]}).encode()
_LINE = b"2026-03-02 10:00:00 step 1 loss 0.5\n"
_DEEP = b"[" * 900_000


def _section(
    kind: int, text: bytes, payload: bytes = b"", raw: int = 0, first_s: float = 0.0, last_s: float = 0.0
) -> bytes:
    head = recordings._HEAD.pack(
        recordings._MARK, kind, len(text), len(payload), raw, 1, first_s, last_s, zlib.crc32(payload)
    )  # fmt: skip
    return head + recordings._CRC.pack(zlib.crc32(text, zlib.crc32(head))) + text + payload


def _frame(
    kind: int = 0, at_s: float = 1.0, log: int = 0, offset: int = 0, line: int = 1, data: bytes = _LINE
) -> bytes:  # fmt: skip
    return struct.pack(">BdIQQI", kind, at_s, log, offset, line, len(data)) + data


def _group(frames: bytes, names: bytes = b'["run.log"]', first_s: float = 0.0, last_s: float = 10.0) -> bytes:
    packed = zstandard.ZstdCompressor().compress(frames)
    return _section(recordings.GROUP, names, packed, len(frames), first_s, last_s)


def _recording(*groups: bytes, header: bytes = _HEADER) -> bytes:
    end = _section(recordings.END, b'{"failed":null}', first_s=10.0, last_s=10.0)
    return recordings.pack_begin() + _section(recordings.HEADER, header) + b"".join(groups) + end


CRAFTED = {
    "deep header": _recording(header=_DEEP),
    "start of many digits": _recording(
        _group(_frame()), header=b'{"perfmon":"1","specs":[],"start":%s}' % (b"9" * 400)
    ),
    "start beyond all years": _recording(_group(_frame()), header=b'{"perfmon":"1","specs":[],"start":1e300}'),
    "start before all years": _recording(_group(_frame()), header=b'{"perfmon":"1","specs":[],"start":-1e12}'),
    "deep names": _recording(_group(_frame(), names=_DEEP)),
    "names without end": _recording(_group(_frame(), names=json.dumps([f"l{at}" for at in range(90_000)]).encode())),
    "deep notice": _recording(_group(_frame(kind=2, data=_DEEP))),
    "notice of infinitely many": _recording(_group(_frame(kind=2, data=b'["x", "lost", Infinity]'))),
    "notice of a long number": _recording(_group(_frame(kind=2, data=b'["x", "lost", %s]' % (b"9" * 4000)))),
    "time without end": _recording(_group(_frame(at_s=1e300), last_s=1e300)),
    "time before the start": _recording(_group(_frame(at_s=-1e300), first_s=-1e300)),
    "line number": _recording(_group(_frame(line=2**64 - 1))),
    "offset": _recording(_group(_frame(offset=2**64 - 1))),
    "number of the log": _recording(_group(_frame(log=99))),
    "frames without data": _recording(_group(_frame(data=b"") * 1_900_000)),
}

SOUND = _recording(_group(_frame()))
"""A recording made by hand like these that is read."""
