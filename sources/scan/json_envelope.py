"""Opens log records that are wrapped in JSON, also behind what launchers print before them.

JSON modes of prime-rl and vLLM, docker's json-file driver, structlog, python-json-logger, loguru's `serialize`, zap,
pino, ECS, Google's logging. When a line was printed depends on the line alone, never on what recognises it: else the
silences of a log would depend on which of its lines are looked at.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from perfmon.core import ESCAPES, Stamp

from ..formats.fields import PREFIXES, any_stamp, loaded
from ..formats.timestamps import HeaderReader

_TIMES = ("timestamp", "time", "ts", "@timestamp", "asctime")
_MESSAGES = ("message", "log", "msg", "textPayload")
_ENVELOPES = (*((message, time) for message in _MESSAGES for time in _TIMES), ("event", "timestamp"))
_NAMES = ('"message"', '"log"', '"msg"', '"textPayload"', '"event"')
_PREFIXED_WITHIN = 400
_BEGIN = re.compile(rf"{PREFIXES}(?=\{{\s?\")")


def json_begin(text: str) -> int:
    """The begin of a line's JSON, behind what launchers print before it; -1 for other text."""
    if text[:1] == "{":
        return 0
    if text.find("{", 0, _PREFIXED_WITHIN) < 0:
        return -1
    match = _BEGIN.match(text)
    return -1 if match is None else match.end()


@lru_cache(8)
def opened_envelope(text: str) -> tuple[str, Stamp | None] | None:
    """Message and stamp of a JSON log record, which `text` begins with; None when it is no such record."""
    if not any(name in text for name in _NAMES):
        return None
    record = loaded(text)
    if not isinstance(record, dict):
        return None
    for message, time in _ENVELOPES:
        inner = record.get(message)
        if isinstance(inner, str) and time in record:
            return ESCAPES.sub("", inner), any_stamp(record[time])
    return _traced(record) or _serialized(record.get("record"))


def _serialized(record: Any) -> tuple[str, Stamp | None] | None:
    """Message and stamp of a record of loguru's `serialize`."""
    inner, time = (record.get("message"), record.get("time")) if isinstance(record, dict) else (None, None)
    if not isinstance(inner, str) or not isinstance(time, dict):
        return None
    return ESCAPES.sub("", inner), any_stamp(time.get("timestamp"))


def _traced(record: dict[str, Any]) -> tuple[str, Stamp | None] | None:
    """Message and stamp of a record of Rust's `tracing`, as the routers and launchers of servers print them."""
    fields = record.get("fields")
    inner = fields.get("message") if isinstance(fields, dict) else None
    if not isinstance(inner, str) or "timestamp" not in record:
        return None
    return ESCAPES.sub("", inner), any_stamp(record["timestamp"])


def read_line(text: str, headers: HeaderReader) -> Stamp | None:
    """The stamp of a line: its JSON record's, else that of its header, else that of a field."""
    begin = json_begin(text)
    return headers.read(text) or headers.field(text) if begin < 0 else record_stamp(text, begin, headers)


def record_stamp(text: str, begin: int, headers: HeaderReader) -> Stamp | None:
    """The stamp of a line whose JSON begins there: of what stands before it, as other lines of that log have it, else
    its own."""
    stamp = headers.at_start(text) if begin else None
    if stamp is not None:
        return stamp
    inner = text[begin:]
    opened = opened_envelope(inner)
    return _row_stamp(inner, headers) if opened is None or opened[1] is None else opened[1]


def _row_stamp(text: str, headers: HeaderReader) -> Stamp | None:
    """The stamp of a JSON row of values, in the first field that holds one."""
    if not any(name in text for name in headers.quoted_clocks):
        return None
    clocks = headers.clocks
    row = loaded(text)
    stamps = (any_stamp(row[name]) for name in clocks if name in row) if isinstance(row, dict) else iter(())
    return next((stamp for stamp in stamps if stamp is not None), None)
