"""Opens log records that are wrapped in JSON (JSON modes of prime-rl, vLLM; docker's json-file driver, structlog)."""

from __future__ import annotations

import json

from perfmon.model import EPOCH, Stamp
from perfmon.text import ESCAPES

from .formats.stamps import iso_stamp

_ENVELOPES = (("message", "timestamp"), ("log", "time"), ("msg", "ts"), ("message", "time"), ("event", "timestamp"))


def opened_envelope(text: str) -> tuple[str, Stamp | None] | None:
    """Message and stamp of a JSON log record; None when it is no such record."""
    if '"message"' not in text and '"log"' not in text and '"msg"' not in text and '"event"' not in text:
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict):
        return None
    for message, time in _ENVELOPES:
        inner = record.get(message)
        if isinstance(inner, str) and time in record:
            return ESCAPES.sub("", inner), _stamp(record[time])
    return None


def _stamp(when: object) -> Stamp | None:
    if isinstance(when, str):
        return iso_stamp(when)
    if isinstance(when, int | float) and not isinstance(when, bool) and 1e8 < when < 1e11:
        return (EPOCH, float(when))
    return None
