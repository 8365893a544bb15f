"""Packs made ready for scanning: headers joined into one regex, patterns with extractors, needles in one automaton."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

from perfmon.model import (
    CLOSE,
    EPOCH,
    LEG,
    LEGS,
    MARK,
    OPEN,
    SAMPLE,
    SPAN,
    STEP,
    Fields,
    Observation,
    Stamp,
)
from perfmon.units import convert, metric_unit

from .prefixes import PREFIXES
from .schema import Emit, Pack, Pattern
from .stamps import iso_stamp, stamp_parser, time_regex
from .values import READERS, Values, to_number

_LEGS = frozenset(LEGS)
_LIMITS = {"ms": (0.0, 1e10), "s": (0.0, 1e7), "%": (-1e-9, 1e4)}
_KEEP_TEXT = 200


class AbsurdValueError(ValueError):
    """A value that no clock or counter shows: nan, infinite, negative duration, 1e300."""


def checked(name: str, value: float, unit: str) -> float:
    """`value` when it can be meant, else AbsurdValueError naming it."""
    low, high = _LIMITS.get(unit, (-1e15, 1e15))
    if not low <= value <= high:
        raise AbsurdValueError(f"{name}={value:g}")
    return max(value, 0.0) if unit == "%" else value


def _first(values: Values, names: tuple[str, ...]) -> Any:
    for name in names:
        value = values.get(name)
        if value is not None:
            return value
    return None


class CompiledEmit:
    """One emit rule, called with the fields of a line."""

    __slots__ = ("emit", "make", "unit")

    def __init__(self, emit: Emit) -> None:
        self.emit = emit
        self.unit = metric_unit(emit.name)
        self.make: Callable[[Values], Observation | None] = getattr(self, f"_{emit.kind}")

    def _seconds(self, values: Values, names: tuple[str, ...]) -> float | None:
        value = _first(values, names)
        if value is None:
            return None
        unit = self.emit.unit or "s"
        seconds = convert(to_number(value, unit), "s" if unit == "duration" else unit, "s")
        return checked(names[0], seconds * self.emit.scale, "s")

    def _group(self, values: Values) -> str:
        group = values.get(self.emit.group) if self.emit.group else None
        return "" if group is None else str(group)[:_KEEP_TEXT]

    def _key(self, values: Values) -> str:
        """The key's fields that the line has, joined by `/`."""
        return "/".join(str(values[name]) for name in self.emit.key if values.get(name) is not None)[:_KEEP_TEXT]

    def _kept(self, values: Values) -> Fields:
        kept: Fields = {}
        for name in self.emit.keep:
            value = values.get(name)
            if value is not None:
                kept[name] = float(value) if isinstance(value, int | float) else str(value)[:_KEEP_TEXT]
        return kept

    def _metric(self, values: Values) -> Observation | None:
        emit = self.emit
        value = _first(values, emit.field)
        if value is None:
            return None
        number = to_number(value, emit.unit)
        if emit.minus:
            parts = [to_number(values[name], emit.unit) for name in emit.minus if values.get(name) is not None]
            number = max(0.0, number - sum(parts))
        if emit.skip_zero and not number:
            return None
        if emit.over:
            whole = _first(values, emit.over)
            if whole is None:
                return None
            divisor = to_number(whole, emit.unit)
            if divisor <= 0:
                return None
            number = 100.0 * number / divisor
        else:
            source = "s" if emit.unit == "duration" else emit.unit
            number = convert(number * emit.scale, source, self.unit)
        return (SAMPLE, emit.name, checked(emit.field[0], number, self.unit), self._group(values))

    def _leg(self, values: Values) -> Observation | None:
        leg = values.get(self.emit.name)
        trace = _first(values, self.emit.key)
        if leg not in _LEGS or trace is None:
            return None
        fields: Fields = {}
        for name in self.emit.keep:
            value = values.get(name)
            if value is None:
                continue
            if name.endswith("_ms"):
                fields[name] = checked(name, to_number(value, "ms"), "ms")
            else:
                fields[name] = str(value)[:_KEEP_TEXT]
        return (LEG, str(trace)[:_KEEP_TEXT], leg, fields)

    def _span(self, values: Values) -> Observation | None:
        duration = self._seconds(values, self.emit.duration)
        if duration is None:
            return None
        if self.emit.minus:
            parts = [self._seconds(values, (name,)) or 0.0 for name in self.emit.minus]
            duration = max(0.0, duration - sum(parts))
        if self.emit.skip_zero and not duration:
            return None
        lead = self._seconds(values, self.emit.lead) if self.emit.lead else None
        return (
            SPAN,
            self.emit.name,
            duration,
            duration if lead is None else max(lead, duration),
            self._key(values),
            self._kept(values),
        )

    def _open(self, values: Values) -> Observation | None:
        return (OPEN, self.emit.name, self._key(values), self._kept(values))

    def _close(self, values: Values) -> Observation | None:
        fields = self._kept(values)
        if self.emit.duration:
            duration = self._seconds(values, self.emit.duration)
            if duration is not None:
                fields["duration_s"] = duration
        if self.emit.metric:
            fields["metric"] = self.emit.metric
        return (CLOSE, self.emit.name, self._key(values), fields)

    def _step(self, values: Values) -> Observation | None:
        value = _first(values, self.emit.field)
        if value is None:
            return None
        duration = self._seconds(values, self.emit.duration) if self.emit.duration else None
        return (STEP, self.emit.name, int(checked("step", to_number(value, ""), "")), duration)

    def _mark(self, values: Values) -> Observation | None:
        value = _first(values, self.emit.field) if self.emit.field else 1.0
        if value is None:
            return None
        count = checked(self.emit.name, to_number(value, ""), "")
        if not count:
            return None
        return (MARK, self.emit.name, count, self._group(values))


class CompiledPattern:
    """One pattern, ready to read lines."""

    def __init__(self, pattern: Pattern, index: int) -> None:
        self.pattern = pattern
        self.index = index
        self._emits = tuple(CompiledEmit(emit) for emit in pattern.emit)
        self._reader = READERS.get(pattern.style)

    @cached_property
    def regex(self) -> re.Pattern[str]:
        """Compiled when the first line needs it: most runs need a tenth of all patterns."""
        return re.compile(self.pattern.regex)

    def fields(self, text: str) -> Values | None:
        """The fields of a line, None when it is not of this kind."""
        match = self.regex.search(text)
        if match is None:
            return None
        if self._reader is None:
            return match.groupdict()
        values = match.groupdict()
        read = self._reader(values.pop("body"))
        if not read and not values:
            return None
        if values:
            return {**values, **read}
        return read

    def observe(self, values: Values, problems: list[str]) -> list[Observation]:
        """What the fields say; values that cannot be meant go to `problems` and cost nothing else."""
        observations: list[Observation] = []
        for compiled in self._emits:
            when = compiled.emit.when
            if when is not None and str(values.get(when[0])) != when[1]:
                continue
            try:
                observation = compiled.make(values)
            except AbsurdValueError as error:
                problems.append(str(error))
                continue
            except (ValueError, OverflowError, IndexError):
                problems.append(f"{compiled.emit.field[0] if compiled.emit.field else compiled.emit.name}: not a number")
                continue
            if observation is not None:
                observations.append(observation)
        return observations

    def clock(self, values: Values) -> Stamp | None:
        """The line's own clock, where a field holds one."""
        value = _first(values, self.pattern.clock)
        if isinstance(value, str):
            return iso_stamp(value)
        return (EPOCH, float(value)) if isinstance(value, int | float) and 1e8 < value < 1e11 else None

    def mono(self, values: Values) -> float | None:
        """Monotonic seconds of the line, where a field holds them."""
        value = values.get(self.pattern.mono)
        try:
            seconds = float(value) if value is not None else None
        except (ValueError, TypeError, OverflowError):
            return None
        return seconds if seconds is not None and 0 <= seconds < 1e10 else None


class HeaderReader:
    """Finds the stamp at the head of a record, whatever prefixes stand before it."""

    def __init__(self, packs: Iterable[Pack]) -> None:
        alternatives: list[str] = []
        self._parsers: list[Callable[[str], Stamp | None]] = []
        seen: set[tuple[str, str]] = set()
        for pack in packs:
            for header in pack.headers:
                if (header.regex, header.time) in seen:
                    continue
                seen.add((header.regex, header.time))
                index = len(self._parsers)
                body = re.sub(r"\(\?P<\w+>", "(?:", header.regex)
                body = body.replace("{time}", f"(?P<t{index}>{time_regex(header.time)})")
                alternatives.append(f"{body}(?P<h{index}>)")
                self._parsers.append(stamp_parser(header.time))
        joined = "|".join(alternatives) if alternatives else "(?!)"
        self._at_start = re.compile(f"(?:{PREFIXES})*(?:{joined})")
        self._glued = re.compile(rf"(?<=\])(?:{joined})")
        self._last_prefix = "\n"
        self._last: Stamp | None = None

    def read(self, text: str) -> Stamp | None:
        """The stamp of a record, None when it has none."""
        if text.startswith(self._last_prefix):
            return self._last
        match = self._at_start.match(text)
        if match is None:
            if "]" not in text:
                return None
            for match in self._glued.finditer(text, 0, 400):
                pass
            if match is None:
                return None
            return self._parse(match)
        stamp = self._parse(match)
        end = match.end()
        if stamp is not None and end < len(text) and text[end - 1 : end + 1].isascii():
            self._last_prefix, self._last = text[: end + 1], stamp
        return stamp

    def _parse(self, match: re.Match[str]) -> Stamp | None:
        which = match.lastgroup
        if which is None:
            return None
        index = int(which[1:])
        return self._parsers[index](match[f"t{index}"])





def compile_patterns(packs: Sequence[Pack]) -> list[CompiledPattern]:
    """All patterns in the order in which they are asked."""
    patterns = [pattern for pack in packs for pattern in pack.patterns]
    return [CompiledPattern(pattern, index) for index, pattern in enumerate(patterns)]


def needle_index(patterns: Sequence[CompiledPattern]) -> tuple[list[bytes], list[tuple[int, ...]]]:
    """Every distinct needle, and for each the patterns to ask when it is found.

    An automaton that finds non-overlapping needles may report one needle where another begins inside it; so each
    needle also stands for those that share a stretch of text with it.
    """
    wanted: dict[bytes, set[int]] = {}
    for compiled in patterns:
        for needle in compiled.pattern.needles:
            wanted.setdefault(needle.encode(), set()).add(compiled.index)
    needles = sorted(wanted)
    asked = [tuple(sorted(set().union(*(wanted[o] for o in needles if _overlap(n, o))))) for n in needles]
    return needles, asked


def _overlap(found: bytes, hidden: bytes) -> bool:
    if hidden in found or found in hidden:
        return True
    return any(found.endswith(hidden[:size]) for size in range(1, min(len(found), len(hidden))))
