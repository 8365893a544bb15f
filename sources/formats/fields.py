"""The fields of a recognised line: how they are read, and which values are plausible."""

from __future__ import annotations

import json
import re
import warnings
from ast import literal_eval
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from math import isfinite
from typing import Any

from perfmon.core import EPOCH, LOCAL, Observation, Stamp, parse_duration, parse_number

from .schema import Style

# --- Reads the fields of a recognised line: key=value pairs, comma lists, JSON, Python dicts, and their numbers ---

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
_EXTRA = ("jsonPayload", "fields", "extra")
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
        if not column:
            continue
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
    """A text parsed as JSON, shared by all that read the same line: not to be changed; None when it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_json(body: str) -> Values:
    """One JSON object; an unfinished or other text gives nothing."""
    value = loaded(body)
    try:
        return _extra_fields(value) | _flat(value) if isinstance(value, dict) else {}
    except RecursionError:
        return {}


def _extra_fields(record: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that loggers and collectors put into a table of their own, under their names there."""
    serialized = record.get("record")
    tables = [record.get(name) for name in _EXTRA]
    tables += [serialized.get("extra")] if isinstance(serialized, dict) else []
    fields: dict[str, Any] = {}
    for table in tables:
        if isinstance(table, dict):
            fields.update(_flat(table))
    return fields


def read_pydict(body: str) -> Values:
    """A Python dict as `print` shows it, with `np.float64(...)` and `nan` inside."""
    text = _NAN.sub(r"'\g<0>'", _NUMPY.sub(r"\1", body.strip()))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the compiler warns of malformed escapes in other people's strings
            value = literal_eval(text)
        return _flat(value) if isinstance(value, dict) else {}
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        # A `tensor(...)` or an object among them costs the other numbers nothing.
        return dict(_ITEM.findall(text)) if text.startswith("{") and text.endswith("}") else {}


USERS_S = 0.05
"""Processor time of one search for a regex of the user's: ours are held to be quick by a test."""


def condition(where: Mapping[str, str], stopped: Callable[[], None] | None = None) -> Callable[[Values], bool]:
    """A check that the text of each field fits its regex as a whole; a missing field has the text "".

    Those of users come with `stopped`, which is called when one takes too long: then it does not fit.
    """
    if stopped is not None:
        return _stoppable(where, stopped)
    wanted = [(name, re.compile(regex)) for name, regex in where.items()]
    return lambda values: all(regex.fullmatch(_text(values, name)) for name, regex in wanted)


def _text(values: Values, name: str) -> str:
    value = values.get(name)
    return "" if value is None else str(value)


def _stoppable(where: Mapping[str, str], stopped: Callable[[], None]) -> Callable[[Values], bool]:
    import regex  # few users have packs

    wanted: list[tuple[str, Any]] = [(name, regex.compile(text)) for name, text in where.items()]

    def fits(values: Values) -> bool:
        try:
            return all(one.fullmatch(_text(values, name), timeout=USERS_S) for name, one in wanted)
        except TimeoutError:
            stopped()
            return False

    return fits


def _read_bar(body: str) -> Values:
    from .bar_frames import read_bar  # its regexes take a tenth of the time of starting up, and few logs need them

    return read_bar(body)


_SETTINGS = re.compile(
    r"(?:[^\w\s]{1,4} ?)?(?:(?:args?|arguments|config|parameters|opts?|options|settings|hparams)\s?[:=]{0,2}\s{0,4})?"
    r"(?P<settings>(?:argparse\.)?Namespace\(|Using device\b|Using (?:cuda|cpu) device"
    r"|Py(?:Torch|thon)(?: version)? ?[:=]|(?:Global |Random )?seeds? (?:is |was )?set to\b|CUDA available\b)",
    re.IGNORECASE,
)
_PLANNED = re.compile(
    r"""(?ix)(?<![\w.])["']?(?:
    (?P<epochs>(?:(?:num|n|max|nb|total|num_train|training|train)_?)?epochs|(?:num|max|total)_epoch|total[ ]epochs)
    |(?P<steps>(?:max|total|num)_(?:train(?:ing)?_)?steps|total[ ](?:optimization|train(?:ing)?)[ ]steps)
    |(?P<iterations>(?:max|total|num)_(?:num_)?iter(?:s|ations)?)
    |(?P<episodes>(?:num|max|n|total)_episodes)
    |(?P<timesteps>total_timesteps)
    )["']?\s{0,20}[:=]\s{0,20}(?P<n>[1-9]\d{0,2}(?:,\d{3})+|[1-9]\d{0,10})(?=[\s,;)}\]]|$)"""
)
_ANNOUNCED = re.compile(r"(?i)\btraining for (?P<n>\d{1,6}) epochs\b")
_PROGRESS = re.compile(r"(?i)\b(?:loss|acc(?:uracy)?|reward|lr)\W{1,4}\d|\d(?:it/s|s/it)")
"""A line with figures, or with few settings: those of an epoch, not of a run."""
_LISTED = 5
_LONGEST_SETTINGS = 20_000


def read_settings(body: str) -> Values:
    """`settings`, where a line begins with what a script prints when it starts, and the totals of what it counts:
    `epochs`, `steps`, `iterations`, `episodes`, `timesteps`; none of which the line has two.
    """
    body = body[:_LONGEST_SETTINGS]
    head = _SETTINGS.match(body)
    values: Values = {} if head is None else {"settings": head["settings"]}
    seen: dict[str, set[str]] = {}
    for found in _PLANNED.finditer(body):
        name = next(name for name in _PLANS if found[name] is not None)
        seen.setdefault(name, set()).add(found["n"].replace(",", ""))
    if (announced := _ANNOUNCED.search(body)) is not None:
        seen.setdefault("epochs", set()).add(announced["n"])
    if seen and head is None and _PROGRESS.search(body) is not None and body.count("=") + body.count(":") < _LISTED:
        return values
    return values | {name: each.pop() for name, each in seen.items() if len(each) == 1}


_PLANS = ("epochs", "steps", "iterations", "episodes", "timesteps")


def _read_step(body: str) -> Values:
    from .step_lines import read_step

    return read_step(body)


READERS: dict[Style, Callable[[str], Values]] = {
    "kv": read_kv,
    "settings": read_settings,
    "commas": read_commas,
    "dashes": read_dashes,
    "pipes": read_pipes,
    "json": read_json,
    "pydict": read_pydict,
    "bar": _read_bar,
    "step": _read_step,
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
    try:
        return float(value)
    except ValueError:
        if unit == AMOUNT and (short := _ABBREVIATED.fullmatch(value)) is not None:
            return float(short[1]) * _POWERS[short[2]]
        return parse_number((value.split() or [""])[0])


LONGEST_S = 2 * 86_400.0
"""No update, batch or checkpoint takes two days: one with such a time would cost more than all of its run."""
_RATE = (0.0, 1e15)
_LIMITS = {
    "ms": (0.0, 1e3 * LONGEST_S),
    "s": (0.0, LONGEST_S),
    "%": (-1e-9, 1e4),
    **dict.fromkeys(("tokens/s", "/s", "/min", "MB/s"), _RATE),
}
_AGES, _AGE = ("uptime_s", "age_s", "elapsed_s", "full_in_s", "timer_s"), (0.0, 1e7)
"""Endings of metrics that give the time since or until something, not the duration of one thing."""
ANY = (-1e15, 1e15)
_COUNT = (0.0, 1e9)
_PART = (-1e-9, 100.5)
_LIMITS_BY_NAME = {
    **dict.fromkeys(("staleness", "off_policy", "inflight", "running", "waiting", "completions"), _COUNT),
    **dict.fromkeys(("trunc_pct", "error_pct", "cancelled_pct", "prefix_hit_pct"), _PART),
    "kv_usage": (-1e-9, 150.0),  # engines that count reserved blocks print a little more than all
}
DIVERGES = re.compile(r"(?:.*_)?(?:loss|grad_norm|reward|lr|kl|entropy)(?:_\w+)?$")
"""Metrics that a run which diverges prints as nan or inf: that is meant."""


class AbsurdValueError(ValueError):
    """A value that no clock or counter shows: a negative duration, 1e300, nan where nothing diverges.

    `rest` is the observation without that value, where it has a meaning without it.
    """

    def __init__(self, text: str, rest: Observation | None = None) -> None:
        super().__init__(text)
        self.rest = rest


def limits(metric: str, unit: str) -> tuple[float, float]:
    """Least and greatest value that a metric can have."""
    return _LIMITS_BY_NAME.get(metric) or (_AGE if metric.endswith(_AGES) else _LIMITS.get(unit, ANY))


def checked(name: str, value: float, unit: str, metric: str = "") -> float:
    """`value` when it can be meant, of `metric` where it is one; else AbsurdValueError naming the field `name`."""
    low, high = limits(metric, unit)
    if not isfinite(value) and DIVERGES.match(metric):
        return value
    if not low <= value <= high:
        raise AbsurdValueError(f"{name}={value:g}")
    return max(value, 0.0) if unit == "%" else value


_DATE_ONLY = len("2026-08-21")
_FINEST = 1e11
"""Seconds since 1970 are less than this, and milliseconds are more: so it is up to nanoseconds."""


def iso_stamp(text: str) -> Stamp | None:
    """The stamp of an ISO 8601 time (`2026-08-21T10:00:03.123+00:00`), None when it is none, or a date only."""
    if len(text) <= _DATE_ONLY:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        return (LOCAL, moment.replace(tzinfo=UTC).timestamp())
    return (EPOCH, moment.timestamp())


def epoch_stamp(number: float) -> Stamp | None:
    """The stamp of a time since 1970 in seconds, or whole milli-, micro- or nanoseconds; None when it is too early."""
    if not 1e8 < number < 1e8 * 1e12:
        return None
    while number >= _FINEST:
        number /= 1e3
    return (EPOCH, float(number)) if number > 1e8 else None


def any_stamp(value: object) -> Stamp | None:
    """The stamp in a field that holds a time, as text or as number; None when it holds none."""
    if isinstance(value, str):
        text = value.strip("\"' ")
        try:
            return epoch_stamp(float(text))
        except ValueError:
            return iso_stamp(text)
    return epoch_stamp(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


# --- Prefixes that launchers put before a record; they may stack: `[trainer0]:`, `3: `, `(Actor pid=1) `, `svc | ` ---
#
# Names of pods end in their number, or in five of the letters that Kubernetes makes names of. Names of hosts have
# letters and a digit (`node01: `): `deadline: ` before a time is no host.

_UNSURE = r"(?!\[?(?:\d{9}|\d\d:\d\d:\d\d\]))"
"""Behind spaces, or what looks like a host, a number or `[00:01:12]` is a figure of the message and no time of day."""

PREFIX = {
    "marks of another rank's traceback": r"[ \t]{0,200}[~^]{2,200}(?=\[rank\d+\]:)",
    "kubectl": r"\[pod/[\w.-]+/[\w.-]+\]\s",
    "stern": (
        r"[a-z][a-z0-9.-]*+(?:(?<=-\d)|(?<=-\d\d)|(?<=-\d\d\d)|(?<=-[b-df-hj-np-tv-xz2-9]{5})) "
        r"[a-z0-9][a-z0-9-]*+\s"
    ),
    "mpirun": r"\[(?:[\w.-]+@)?\d+,\d+\]<std(?:out|err|diag)>:\s?",
    "skypilot": r"\([\w.-]+(?:, (?:rank|pid|ip)=[\w.:]+)+\)\s",
    "raylet": r"\((?:raylet|gcs_server|autoscaler [+\dhms]++)\)\s",
    "torchrun": r"\[[A-Za-z_]*+\d+\]:\s?",
    "srun": r"\s{0,4}\d{1,5}: ",
    "ray, vLLM": (
        r"\((?:[A-Za-z_][\w.:<>-]*(?:\([^()]*\)|\[[\w=, -]{1,40}\])?(?: rank=\d+)? )?pid=\d+(?:, ip=[\d.a-fA-F:]+)?\)\s"
    ),
    "docker-compose, torchx": (
        r"(?!(?:TRACE|DEBUG|INFO|SUCCESS|WARN|WARNING|ERROR|CRITICAL)\b)[A-Za-z][\w.-]*+(?:\s+\||/\d{1,5})\s"
    ),
    "container-time": (
        r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)?\s"
        r"(?:\|\s|std(?:out|err) [FP] )?(?=\S*[\[({A-Z0-9])"
    ),
    "llama.cpp router": r"\[\d{4,5}\]\s(?=\d{1,6}\.[0-5]\d\.\d{3}\.\d{3} |/)",
    "kaggle": r"\d{1,6}\.\d{1,9}s\t\d+\t",
    "dmesg": r"\[\s{0,8}\d{1,10}\.\d{6}\]\s(?=\D)",
    "tagged-rank": r"\[(?:rank|RANK|Rank) ?\d+\]:?\s",
    "tag": (
        r"(?:\[[A-Za-z][\w.:-]{0,40}(?: \d{1,5})?\]:?|[Rr]ank \d{1,5}:)\s"
        r"(?=\[?(?:\d{4}[-/]\d\d[-/]\d\d[ T])?\d\d:\d\d:\d\d)"
    ),
    "pdsh, clush, parallel --tag": (
        r"(?:(?=[A-Za-z][A-Za-z.-]*+\d)[\w.-]++|\d{1,3}(?:\.\d{1,3}){3})(?::\s|\t)" + _UNSURE
    ),
}
"""Name to regex. A container's own stamp is peeled only when another header follows (see HeaderReader)."""

NAMED = re.compile(
    r"\[(?:rank|RANK|Rank) ?(?P<rank>\d+)\]|\[(?:[\w.-]+@)?\d+,(?P<mpi_rank>\d+)\]<std|^\s{0,4}(?P<task>\d{1,5}): |"
    r"\[[A-Za-z_]+(?P<local_rank>\d+)\]:|\brank=(?P<named_rank>\d+)|\bpid=(?P<pid>\d+)|\bip=(?P<ip>[\d.a-fA-F:]+)|"
    r"\((?P<actor>[A-Za-z_][\w.:<>-]*)(?=[ (\[])|^(?P<host>[A-Za-z][\w.-]*\d[\w.-]*):\s|"
    r"\d(?P<engine>(?: [A-Z]{2}\d+)+)\]|\d\d:\d\d\S* (?P<unit_host>[A-Za-z0-9][\w.-]*) (?:kernel|[\w./@-]+\[\d+\]): "
)
"""Names in prefixes and headers: the place of a failure. The first one of a kind counts, but for processes:
`(APIServer pid=1) (EngineCore pid=2)` is of the second."""
_PLACE_IN_SOURCE = (
    r"(?:\[?(?:[DIWEF] )?[\w./+-]{1,160}\.(?:py|pyx|cpp|hpp|cc|cu|cuh|h|go|rs|ts):\d+(?::\w{1,80})?\]?"
    r"|[\w.<>]{1,80}:[\w.<>]{1,80}:\d+(?= - ))"
)
_LEVELS = r"\[?\s{0,8}(?:TRACE|DEBUG|INFO|SUCCESS|WARN|WARNING|ERROR|CRITICAL|FATAL)\s{0,8}\]?(?=[\s:|\-\]])"
_NAME_IN_BRACKETS = r"\[[A-Za-z_][\w.]{0,80}+\]"
_NAME_BEHIND = rf"{_NAME_IN_BRACKETS}\s-\s|(?:__main__|[a-z_]\w{{0,40}}+(?:\.\w{{1,40}}+){{1,6}})\s(?:\||-)\s"
LEVEL = re.compile(
    r"(?:\s?std(?:out|err) [FP](?=\s))?"  # of a container's own stamp
    r"(?:\s?\[(?:[\w.-]{1,80}/){2}[\w.-]{1,80} \(pid \d{1,9}\)\](?:\s\[[\w-]{8,80}\])?(?=\s))?"  # of Metaflow's task
    rf"[\s:|,\-]*(?:(?:[A-Za-z_][\w.]{{0,80}}+(?:\s?-\s|:\s)|{_NAME_IN_BRACKETS}(?=\[))?{_LEVELS}"
    rf"(?::[A-Za-z_][\w.]{{0,80}}:(?=\S)|[\s:|\-]*)(?:{_NAME_BEHIND})?(?:\[rank: ?\d+\]\s)?)?"
    rf"(?:{_PLACE_IN_SOURCE}[\s:|\-]*)?"
    rf"(?:\s[\w.-]{{1,60}}\]\s?\([\w.]{{1,60}} \d{{1,5}}\):\s{_LEVELS}\s)?"  # of Swin's logger and its heirs
)
"""Between a header and the message: the logger's name, level and place in the source."""
JOURNAL = re.compile(r"(?:[A-Za-z0-9][\w.-]*+ (?:[\w./@-]+\[\d+\]|kernel):\s)?(?:\[\s{0,8}\d{1,10}\.\d{6}\]\s)?")
"""Behind the clock of a journal: host, unit and the kernel's own clock."""
C10 = re.compile(r"\[[DIWEF](?:\d{3,4})? [\w.:/+ -]{1,200}\]")
"""The head of a line of torch's C++: `[Rank 0]` behind it is the rank within a process group."""

_STACKED = 8
PREFIXES = f"(?:{'|'.join(f'(?:{regex})' for regex in PREFIX.values())}){{0,{_STACKED}}}"
"""All that may stand before a record: limited, so that no line of thousands takes long."""

INDENTED = rf"(?:[ \t]{{1,16}}+(?=[\[(\dA-Z]){_UNSURE})?"
"""Some loggers indent whole records."""
