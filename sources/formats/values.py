"""Reads the fields of a recognised line: key=value pairs, comma lists, JSON, Python dicts, and their numbers."""

from __future__ import annotations

import json
import re
from ast import literal_eval
from collections.abc import Callable, Mapping
from typing import Any

from perfmon.units import parse_duration, parse_number

from .schema import Style

_KV = re.compile(r"([\w./%-]+)=([^\s,;|]+)")
_COMMAS = re.compile(r"\s*([^:=,][^:=,]*?)\s*[:=]\s*([^,\s]+)[^,]*(?:,|$)")
_DASHES = re.compile(r"([\w./()%-]+):(\S+)(?: - |\s*$)")
_NUMPY = re.compile(r"\b(?:np|numpy)\.\w+\(([^()]*)\)")
_NAN = re.compile(r"(?<![\w'\"])(?:nan|-?inf)(?![\w'\"])")
_PIPES = re.compile(r"\s*([A-Za-z][\w .()/%-]*?)\s*[:=]?\s+([-+]?(?:\d|nan|inf).*?)\s*$")

Values = Mapping[str, Any]


def _flat(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested tables as `outer/inner` keys, one level of names however deep the nesting."""
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            flat.update(_flat(item, f"{prefix}{key}/"))
        else:
            flat[f"{prefix}{key}"] = item
    return flat


def read_kv(body: str) -> Values:
    """`a=1 b=2`."""
    return dict(_KV.findall(body))


def read_commas(body: str) -> Values:
    """`Running: 128 reqs, token usage: 0.97`: the first word of each value, fields in any order."""
    return dict(_COMMAS.findall(body))


def read_dashes(body: str) -> Values:
    """`step:1 - timing_s/gen:12.5`."""
    return dict(_DASHES.findall(body))


def read_pipes(body: str) -> Values:
    """`Loss -0.0021 | Reward: 0.48 | lm loss: 6.1E+00`: columns of a name and a number, colon or not."""
    values: dict[str, str] = {}
    for column in body.split("|"):
        name, colon, value = column.partition(": ")
        if not colon:
            match = _PIPES.match(column)
            if match is None:
                continue
            name, value = match.groups()
        values[name.strip()] = value.strip()
    return values


def read_json(body: str) -> Values:
    """One JSON object; an unfinished or other text gives nothing."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return _flat(value) if isinstance(value, dict) else {}


def read_pydict(body: str) -> Values:
    """A Python dict as `print` shows it, with `np.float64(...)` and `nan` inside."""
    text = _NAN.sub("None", _NUMPY.sub(r"\1", body.strip()))
    try:
        value = literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return {}
    return _flat(value) if isinstance(value, dict) else {}


READERS: dict[Style, Callable[[str], Values]] = {
    "kv": read_kv,
    "commas": read_commas,
    "dashes": read_dashes,
    "pipes": read_pipes,
    "json": read_json,
    "pydict": read_pydict,
}


def to_number(value: Any, unit: str) -> float:
    """The number in a field; ValueError when there is none. `unit` "duration" reads `1m 13s` as seconds."""
    if isinstance(value, bool):
        raise ValueError("a truth value is no number")
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str):
        raise ValueError("no number")
    if unit == "duration":
        return parse_duration(value)
    try:
        return float(value)
    except ValueError:
        return parse_number(value.split()[0] if value else value)
