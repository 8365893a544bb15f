"""Reads format packs from TOML; errors name file, key and what was expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from perfmon.core import LEGS, DataFileError, Table, read_toml, with_user_files

from ..pollers.reading import NEEDLE, Area
from .schema import EXTREMES, FAILURE_ROLES, KINDS, PATTERN_ROLES, STYLES, Emit, Header, Pack, Pattern, Sample
from .timestamps import time_regex

BUILTIN = Path(__file__).parent
FIGURE = r"(?:[-+]?(?:\d++(?:\.\d*+)?(?:[eE][-+]?\d++)?|\.\d++(?:[eE][-+]?\d++)?|(?i:nan|inf(?:inity)?)\b))"
"""The regex for `{figure}`: a number as any program prints it, also one that is none: what diverges is printed
as nan, inf or Infinity, and a pattern that misses that misses the worst of it."""
PREFIX_FIELDS = ("rank", "local_rank", "pid", "ip", "host", "actor")
"""Names in launcher prefixes: fields of an anchored pattern."""
_PACK_KEYS = ("schema", "id", "title", "component", "rank", "idle_silence", "busy_metric", "generic", "healthy")
_PATTERN_KEYS = (
    "id", "needles", "regex", "style", "emit", "sample", "rejects", "clock", "mono", "rows", "role", "anchored",
    "frame", "reading", "where",
)  # fmt: skip
_UNITS = ("", "us", "ms", "s", "m", "h", "ratio", "%", "duration", "date")


def _compiled(table: Table, name: str, regex: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except (re.error, OverflowError, RecursionError) as error:
        raise table.wrong(name, f"not a valid regular expression ({error})") from None


def _check_fields(table: Table, emits: Iterable[Emit], groups: Iterable[str]) -> None:
    """Raises for an emit that reads a group which the regex does not have: it would give nothing, silently."""
    known = frozenset(groups)
    for index, emit in enumerate(emits):
        read = {*emit.field, *emit.over, *emit.minus, *emit.duration, *emit.lead, *emit.key, *emit.keep}
        read.update((*emit.total, *emit.elapsed, *emit.remaining, *emit.group.split(":"), emit.each))
        read.update(emit.where)
        if emit.when is not None:
            read.add(emit.when[0])
        if emit.kind == "row":
            read.add(emit.name)
        if emit.kind == "leg" and emit.name not in LEGS:
            read.add(emit.name)
        for name in sorted(read - known - {""}):
            expected = f"expected a group of the regex: {', '.join(sorted(known))}"
            raise table.wrong(f"emit[{index}]", f"reads {name!r}, {expected}")


def _check(table: Table, style: str, regex: re.Pattern[str], emits: Iterable[Emit], extra: Iterable[str]) -> None:
    """Raises for a regex that does not capture what is read of it."""
    if style == "regex":
        _check_fields(table, emits, [*regex.groupindex, *extra])
    elif "body" not in regex.groupindex:
        raise table.wrong("regex", f"style {style!r} reads a group named body, expected (?P<body>...)")


def _emit(table: Table) -> Emit:
    table.only((*KINDS, *_EMIT_KEYS))
    data = table.data
    kinds = [kind for kind in KINDS if kind in data]
    if len(kinds) != 1:
        raise DataFileError(table.file, table.key, f"expected exactly one of {', '.join(KINDS)}")
    kind = kinds[0]
    values = {_EMIT_NAMES.get(key, key): _EMIT_KEYS[key](table, key) for key in data if key != kind}
    if values.get("unit", "") not in _UNITS:
        raise table.wrong("unit", f"expected one of {', '.join(_UNITS)}")
    name = table.text(kind) if kind != "step" else values.pop("component", "")
    values.pop("component", None)
    if kind == "step":
        values["field"] = table.texts("step", required=True)
    if kind == "metric" and not values.get("field"):
        raise table.wrong("field", "missing, expected the field that holds the value")
    if kind == "metric" and values.get("each") and not values.get("over"):
        raise table.wrong("over", "missing, expected the field that the mean is a part of")
    if kind == "span" and "duration" not in data:
        raise table.wrong("duration", "missing, expected the field that holds the duration")
    if kind == "failure":
        values.setdefault("role", "cause")
    if values.get("role") and (kind != "failure" or values["role"] not in FAILURE_ROLES):
        raise table.wrong("role", f"expected one of {', '.join(FAILURE_ROLES)}, of a failure")
    if kind == "run" and name not in ("begin", "end", "plan"):
        raise table.wrong("run", "expected begin, end or plan")
    return Emit(kind, name, **values)


def _when(table: Table, key: str) -> tuple[str, str]:
    pair = table.texts(key)
    if len(pair) != 2:
        raise table.wrong(key, "expected [field, text]")
    return pair[0], pair[1]


def _where(table: Table, key: str) -> dict[str, str]:
    """Fields and regexes."""
    inner = table.table(key, table.data.get(key, {}))
    where = {name: inner.text(name) for name in inner.data}
    for name, regex in where.items():
        _compiled(inner, name, regex)
    return where


_EMIT_KEYS: dict[str, Callable[[Table, str], Any]] = {
    **dict.fromkeys(("field", "over", "minus", "duration", "lead", "key", "keep"), Table.texts),
    **dict.fromkeys(("total", "elapsed", "remaining"), Table.texts),
    **dict.fromkeys(("unit", "group", "each", "as", "role", "component"), Table.text),
    **dict.fromkeys(("skip_zero", "behind", "bar", "rate", "fatal"), Table.flag),
    "scale": Table.required_number,
    "when": _when,
    "where": _where,
}
"""Readers of the keys of an emit, its kind apart."""
_EMIT_NAMES = {"as": "metric"}
"""Members of Emit that have another name than their key."""


def _sample(table: Table) -> Sample:
    table.only(("text", "gives"))
    return Sample(table.text("text"), table.numbers("gives"))


def _pattern(pack: str, table: Table, trusted: bool) -> Pattern:
    table.only(_PATTERN_KEYS)
    style = table.text("style", "regex")
    if style not in STYLES:
        raise table.wrong("style", f"expected one of {', '.join(STYLES)}")
    reading = table.text("reading", "")
    if reading and reading not in tuple(Area):
        raise table.wrong("reading", f"expected one of {', '.join(Area)}")
    if reading and {"regex", "needles", "style"} & table.data.keys():
        raise table.wrong("reading", "a reading is found without needles, regex and style")
    if "where" in table.data and not reading:
        raise table.wrong("where", "expected together with `reading`; otherwise use the regex")
    needles = (NEEDLE.decode(),) if reading else table.texts("needles", required=style != "table")
    for needle in needles:
        if len(needle.encode()) < 3:
            raise table.wrong("needles", f"{needle!r} is too short to find lines quickly, expected 3 bytes or more")
    body = "" if reading else "(?P<body>.*)" if style != "regex" else None
    regex = table.text("regex", body).replace("{figure}", FIGURE)
    emits = tuple(_emit(item) for item in table.tables("emit"))
    role = table.text("role", "")
    if role and role not in PATTERN_ROLES:
        raise table.wrong("role", f"expected one of {', '.join(PATTERN_ROLES)}")
    if not trusted and not reading:
        extra = (*(EXTREMES if table.flag("rows") else ()), *(PREFIX_FIELDS if table.flag("anchored") else ()))
        _check(table, style, _compiled(table, "regex", regex), emits, extra)
    return Pattern(
        pack=pack,
        id=table.word("id"),
        needles=needles,
        regex=regex,
        style=style,
        emit=emits,
        samples=tuple(_sample(item) for item in table.tables("sample")),
        rejects=table.texts("rejects"),
        clock=table.texts("clock"),
        mono=table.text("mono", ""),
        rows=table.flag("rows"),
        role=role,
        reading=reading,
        where=_where(table, "where") if "where" in table.data else {},
        anchored=table.flag("anchored"),
        frame=table.flag("frame"),
        trusted=trusted,
    )


def _header(table: Table, trusted: bool) -> Header:
    table.only(("id", "regex", "time", "samples"))
    regex, time = table.text("regex"), table.text("time")
    if regex.count("{time}") != 1:
        raise table.wrong("regex", "expected {time} exactly once")
    try:
        time_text = time_regex(time)
    except ValueError as error:
        raise table.wrong("time", str(error)) from None
    if not trusted:
        _compiled(table, "regex", f"(?:{regex.replace('{time}', time_text)})")
    return Header(table.word("id"), regex, time, table.texts("samples"), trusted)


def load_pack(path: Path, trusted: bool = False) -> Pack:
    """The pack in one TOML file; DataFileError names file, key and what was expected.

    The regexes of a `trusted` one are not compiled until a line needs them: that takes as long as all the rest.
    """
    table = read_toml(path)
    table.only((*_PACK_KEYS, "header", "pattern"))
    if table.data.get("schema") != 1:
        raise table.wrong("schema", "expected 1")
    pack = table.word("id")
    patterns = tuple(_pattern(pack, item, trusted) for item in table.tables("pattern"))
    seen: set[str] = set()
    for pattern in patterns:
        if pattern.id in seen:
            raise table.wrong("pattern", f"id {pattern.id!r} is given twice")
        seen.add(pattern.id)
    return Pack(
        id=pack,
        title=table.line("title"),
        component=table.text("component", ""),
        rank=int(table.number("rank", 100)),
        idle_silence=table.flag("idle_silence"),
        busy_metric=table.text("busy_metric", ""),
        generic=table.flag("generic"),
        headers=tuple(_header(item, trusted) for item in table.tables("header")),
        patterns=patterns,
        file=str(path),
        healthy=table.texts("healthy"),
    )


def load_packs(folders: Iterable[Path] = ()) -> tuple[Pack, ...]:
    """The built-in packs and those of user folders, by rank; a later file with the same id replaces an earlier one."""
    return with_user_files(_builtin(), folders, load_pack)


@cache
def _builtin() -> tuple[Pack, ...]:
    return tuple(
        load_pack(path, trusted=True) for path in sorted(BUILTIN.glob("*.toml")) if not path.name.startswith("_")
    )


# --- What metrics mean ---

_GLOSSARY = Path(__file__).parent.with_name("glossary.toml")
_SHORT = "short"
_KEPT = 256
"""Texts whose words are kept: a screen draws the same ones several times a second."""


@cache
def glossary() -> Mapping[str, str]:
    """Metric → its meaning in one sentence."""
    table = read_toml(_GLOSSARY)
    return {name: table.text(name) for name in table.data if name != _SHORT}


def meaning_of(metric: str) -> str:
    """The meaning of a metric, or of one group or operation of it; "" where none is known."""
    name = metric.partition("{")[0]
    return glossary().get(name) or glossary().get(name.partition(".")[0], "")


@cache
def short_names() -> Mapping[str, str]:
    """Metric or mark → the few words that stand before its value."""
    whole = read_toml(_GLOSSARY)
    table = whole.table(_SHORT, whole.data[_SHORT])
    return {name: table.text(name) for name in table.data}


@cache
def _metric_in_text() -> re.Pattern[str]:
    """A name that is no word anywhere, one that is a word only where a value of it follows."""
    names = sorted(short_names(), key=len, reverse=True)
    coded = "|".join(re.escape(name) for name in names if re.search(r"[_-]", name))
    plain = "|".join(re.escape(name) for name in names if not re.search(r"[_-]", name))
    value = r"(?= (?:\d|at |above |below |not observed|over |went |takes |/ ))"
    return re.compile(rf"(?<![\w.-])(?:{coded})(?![\w.-])|(?:^|(?<= of )|(?<=/ ))(?:{plain}){value}")


@lru_cache(_KEPT)
def in_words(text: str) -> str:
    """The values of a condition with metrics in words: `queue_ms 13.4 s` is `queue time 13.4 s`."""
    return _metric_in_text().sub(lambda match: short_names()[match[0]], text)
