"""Reads the fields of a recognised line: key=value pairs, comma lists, JSON, Python dicts, and their numbers."""

from __future__ import annotations

import json
import re
import warnings
from ast import literal_eval
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from perfmon.units import parse_duration, parse_number

from .bars import read_bar
from .schema import Style
from .steplines import read_step

# The look-behind keeps a long word without "=" from being tried at each of its characters. Digits after a comma belong
# to the value, unless they are the next key: a `1,5` that were read as 1 would be a wrong number without a word.
_KV = re.compile(r"(?<![\w./%-])([\w./%-]++)=([^\s,;|]+(?:,\d++(?:\.\d++)?(?![\w./%-]*=))*)")
_NUMPY = re.compile(r"\b(?:np|numpy)\.\w+\(([^()]*)\)")
_NAN = re.compile(r"(?<![\w'\"])(?i:-?nan|-?inf(?:inity)?)(?![\w'\"])")
_ABBREVIATED = re.compile(r"([\d.]+) ?([kKMGBT])")
_POWERS = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9, "T": 1e12}
AMOUNT = "amount"
"""Unit of what is counted: `12`, `1,234`, `6K`, `1.59G`."""
_ITEM = re.compile(
    r"""['"]([^'"]+)['"]: ?(?:[a-zA-Z_][\w.]{0,40}\()?['"]?"""
    r"""((?i:[-+]?nan)|[-+]?(?>(?i:inf(?:inity)?)|\d+\.?\d*|\.\d+)(?>(?:[eE][-+]?\d+)?))(?![\w.])"""
)
_DAYS = re.compile(r"(\d{1,3})-(\d{1,2})(?::(\d\d))?\Z")
"""Of schedulers' limits: days and hours, and minutes."""
_BESIDE = ("jsonPayload", "fields", "extra")
_NUMBER = re.compile(r"[-+]?(?:\.?\d|(?i:nan|inf))")

Values = dict[str, Any]


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
    return _plain_kv(body) or dict(_KV.findall(body))


def _plain_kv(body: str) -> Values:
    """The same, in half the time, of words that are all a plain name and a value; nothing where any is not."""
    if "," in body or ";" in body or "|" in body or not body.isascii():
        return {}
    values: Values = {}
    for word in body.split():
        key, _, value = word.partition("=")
        if not value or not key.isidentifier():
            return {}
        values[key] = value
    return values


def read_commas(body: str) -> Values:
    """`Running: 128 reqs, token usage: 0.97`: the first word of each value, fields in any order."""
    values: dict[str, str] = {}
    for part in body.split(","):
        name, mark, value = part.partition(":")
        if not mark or "=" in name:
            name, mark, value = part.partition("=")
        words = value.split(None, 1)
        if words:
            values[name.strip()] = words[0]
    return values


def read_dashes(body: str) -> Values:
    """`step:1 - timing_s/gen:12.5`."""
    values: dict[str, str] = {}
    for part in body.split(" - "):
        name, _, value = part.partition(":")
        words = value.split(None, 1)
        if words:
            values[name.strip()] = words[0]
    return values


def read_pipes(body: str) -> Values:
    """`Loss -0.0021 | Reward: 0.48 | lm loss: 6.1E+00`: columns of a name and a number, colon or not."""
    values: dict[str, str] = {}
    for column in body.split("|"):
        name, colon, value = column.partition(": ")
        if not colon:
            words = column.split()
            at = next((i for i, word in enumerate(words) if i and _NUMBER.match(word)), 0)
            if not at or not words[0][0].isalpha():
                continue
            name, value = " ".join(words[:at]).rstrip(":="), " ".join(words[at:])
        values[name.strip()] = value.strip()
    return values


@lru_cache(8)
def loaded(text: str) -> Any:
    """What a text is in JSON, shared by all who ask about the same line: not to be changed; None when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_json(body: str) -> Values:
    """One JSON object; an unfinished or other text gives nothing."""
    value = loaded(body)
    try:
        return _told_beside(value) | _flat(value) if isinstance(value, dict) else {}
    except RecursionError:
        return {}


def _told_beside(record: Mapping[str, Any]) -> dict[str, Any]:
    """What loggers and collectors put into a table of its own, under its names there."""
    serialized = record.get("record")
    tables = [record.get(name) for name in _BESIDE]
    tables += [serialized.get("extra")] if isinstance(serialized, dict) else []
    told: dict[str, Any] = {}
    for table in tables:
        if isinstance(table, dict):
            told.update(_flat(table))
    return told


def read_pydict(body: str) -> Values:
    """A Python dict as `print` shows it, with `np.float64(...)` and `nan` inside."""
    text = _NAN.sub(r"'\g<0>'", _NUMPY.sub(r"\1", body.strip()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler warns of odd escapes in other people's strings
            value = literal_eval(text)
        return _flat(value) if isinstance(value, dict) else {}
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        # A `tensor(...)` or an object among them costs the other numbers nothing.
        return dict(_ITEM.findall(text)) if text.startswith("{") and text.endswith("}") else {}


def condition(where: Mapping[str, str]) -> Callable[[Values], bool]:
    """Whether the text of each field fits its regex as a whole; a field that is not there has none."""
    wanted = [(name, re.compile(regex)) for name, regex in where.items()]
    return lambda values: all(regex.fullmatch(str(values.get(name, ""))) for name, regex in wanted)


READERS: dict[Style, Callable[[str], Values]] = {
    "kv": read_kv,
    "commas": read_commas,
    "dashes": read_dashes,
    "pipes": read_pipes,
    "json": read_json,
    "pydict": read_pydict,
    "bar": read_bar,
    "step": read_step,
}


def to_number(value: Any, unit: str) -> float:
    """The number in a field; ValueError when there is none.

    `unit` "duration" reads `1m 13s`, or `2-12` of Slurm, as seconds, AMOUNT `6K` as 6000, "date" a date as
    seconds since 1970.
    """
    if not isinstance(value, str):  # nearly all are
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError("a truth value is no number" if isinstance(value, bool) else "no number")
        return float(value)
    if unit == "duration":
        days = _DAYS.match(value)
        return parse_duration(value if days is None else f"{days[1]}-{days[2]}:{days[3] or '00'}:00")
    if unit == "date":  # without a zone it is of the clock that the lines have
        moment = datetime.fromisoformat(value)
        return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()
    if unit == AMOUNT and (short := _ABBREVIATED.fullmatch(value)) is not None:
        return float(short[1]) * _POWERS[short[2]]
    try:
        return float(value)
    except ValueError:
        return parse_number((value.split() or [""])[0])
