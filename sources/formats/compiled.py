"""Patterns made ready for scanning, and the literal text by which their lines are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any

from perfmon.core import TABLE, Observation, Stamp

from ..pollers.reading import Reading, parse_reading
from .emitters import Maker, maker
from .fields import READERS, USERS_S, AbsurdValueError, Values, any_stamp, condition
from .schema import EXTREMES, Emit, Pack, Pattern

MORE = "more"
"""Group of what a line holds behind the record that is read."""
_MOST_TEXT = 4096
"""Characters of a record that a regex with fields reads: what costs the square of that, at worst, takes milliseconds.
The text of the reading styles, such as a table of all metrics of a step, is read as a whole."""
_MOST_BEFORE = 1024
"""Of them so many may stand before the needle."""
_BEGINS = re.compile(r"""(?:\\b)?(?:["A-Za-z]|\\[\[\]().|])(?![?*+{])""")
"""Regexes that begin with one certain character."""
_ATOM = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|.")


def _reads_blanks_one_by_one(regex: str) -> bool:
    """True where nothing but the blanks outside of groups, each once, matches a blank: then a match depends on nothing
    behind the blank that follows it, for all ways to match have as many blanks."""
    atoms, depth = _ATOM.findall(regex), 0
    for atom, after in zip(atoms, [*atoms[1:], ")"], strict=False):
        depth += (atom == "(") - (atom == ")")
        if atom == " ":
            if depth or after in "?*+{":
                return False
        elif atom == "." or (len(atom) > 1 and (atom[1:].isdigit() or re.fullmatch(atom, " "))):
            return False
    return True


def _has_alternatives(regex: str) -> bool:
    """True where a `|` may stand outside of all groups and classes."""
    bare = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "", regex)
    while (inner := re.sub(r"\([^()]*\)", "", bare)) != bare:
        bare = inner
    return "|" in bare


class CompiledPattern:
    """One pattern, ready to read lines."""

    def __init__(self, pattern: Pattern, index: int) -> None:
        self.pattern = pattern
        self.index = index
        self.is_slow = self.is_reported = False
        """A regex is one of the user's and took too long on a line: it is not used any more."""
        self._reader = READERS.get(pattern.style)
        self._needles = () if any("\x1b" in needle for needle in pattern.needles) else pattern.needles

    @cached_property
    def _search(self) -> re.Pattern[str]:
        """Compiled when the first line needs it: most runs need a tenth of all patterns."""
        return re.compile(self.pattern.regex)

    @cached_property
    def _groups(self) -> tuple[tuple[str, int], ...]:
        """Names and numbers of the groups that are fields."""
        return tuple((name, number) for name, number in self._search.groupindex.items() if name != "body")

    @cached_property
    def _makers(self) -> tuple[Maker, ...]:
        return (lambda values: (TABLE, self.index, values),) if self.pattern.rows else self._emitters

    @cached_property
    def _emitters(self) -> tuple[Maker, ...]:
        return tuple(maker(emit, None if self.pattern.trusted else self._stop) for emit in self.pattern.emit)

    def _stop(self) -> None:
        self.is_slow = True

    def may_fit(self, text: str) -> bool:
        """True for a record that holds one of the needles: a pattern is a candidate of needles like its own, too."""
        return not self._needles or any(needle in text for needle in self._needles)

    @cached_property
    def _fits(self) -> Callable[[Values], bool]:
        return condition(self.pattern.where, None if self.pattern.trusted else self._stop)

    def of_reading(self, host: str, reading: Reading) -> Values | None:
        """The fields of a reading, None when it is not of this kind."""
        if reading.area != self.pattern.reading:
            return None
        numbers = {name: int(value) if value.is_integer() else value for name, value in reading.values.items()}
        values: Values = {"host": host, "name": reading.name, **numbers, **reading.words}
        return values if self._fits(values) else None

    def fields(self, text: str) -> Values | None:
        """The fields of a line, None when it is not of this kind."""
        if self.pattern.reading:
            found = _read(text)
            return None if found is None else self.of_reading(*found)
        match = self._found(text)
        if match is None:
            return None
        reader = self._reader
        if reader is None:
            return match.groupdict()
        values = reader(match["body"])
        groups = self._groups
        if not groups:
            return values or None
        for name, number in groups:
            values[name] = match[number]
        return values

    def _found(self, text: str) -> re.Match[str] | None:
        """Match of the regex in a line; None for all lines once it took too long."""
        begin, end = 0, len(text)
        if self._reader is None and end > _MOST_TEXT:
            if not self.pattern.anchored:
                at = min((at for needle in self._needles if (at := text.find(needle)) >= 0), default=0)
                begin = at - _MOST_BEFORE if at > _MOST_TEXT - _MOST_BEFORE else 0
            end = begin + _MOST_TEXT
        if self.pattern.trusted:
            search = self._search
            return search.match(text, begin, end) if self.pattern.anchored else search.search(text, begin, end)
        if self.is_slow:
            return None
        limited: Any = self._limited
        try:
            search_text = limited.match if self.pattern.anchored else limited.search
            found: re.Match[str] | None = search_text(text, begin, end, timeout=USERS_S)
        except TimeoutError:
            self.is_slow = True
            return None
        return found

    @cached_property
    def _limited(self) -> object:
        """The same regex of a user's pack in the one library that stops a search in any thread."""
        import regex  # few users have packs

        return regex.compile(self.pattern.regex)

    @cached_property
    def needles(self) -> tuple[bytes, ...]:
        """As they stand in a log."""
        return tuple(needle.encode() for needle in self.pattern.needles)

    @cached_property
    def repeats(self) -> bool:
        """True where the text before the match of the regex does not matter, as long as the character that
        it begins with does not occur there."""
        pattern = self.pattern
        plain = self._reader is None and not (pattern.anchored or pattern.mono or pattern.clock or pattern.rows)
        return plain and _BEGINS.match(pattern.regex) is not None and not _has_alternatives(pattern.regex)

    @cached_property
    def ends_by_blank(self) -> bool:
        """True where nothing behind a blank that follows the match of the regex matters."""
        return _reads_blanks_one_by_one(self.pattern.regex)

    def span(self, text: str) -> tuple[int, int] | None:
        """Begin and end of what it reads of a line, None when the line is not of this kind."""
        match = self._found(text)
        return None if match is None else match.span()

    def observe(self, values: Values, problems: list[str]) -> list[Observation]:
        """Observations from the fields; values that cannot be meant go to `problems` and cost nothing else."""
        if values.get(MORE) and MORE in self._search.groupindex:
            problems.append("what follows the first record on the line")
        try:
            return [made for make in self._makers if (made := make(values)) is not None]
        except (ValueError, OverflowError, IndexError, TypeError):
            return self._observe_carefully(values, problems)

    def of_table(self, values: Values, low: float, high: float) -> list[Observation]:
        """Observations of the table that a line of this pattern heads, from its least and greatest row."""
        row = {**values, **dict(zip(EXTREMES, (low, high), strict=True))}
        with suppress(ValueError, OverflowError, TypeError):
            return [made for make in self._emitters if (made := make(row)) is not None]
        return []

    def _observe_carefully(self, values: Values, problems: list[str]) -> list[Observation]:
        observations: list[Observation] = []
        for make, emit in zip(self._makers, self.pattern.emit, strict=True):
            try:
                made = make(values)
            except AbsurdValueError as error:
                field = str(error).partition("=")[0]
                if not any(problem.partition("=")[0] == field for problem in problems):
                    problems.append(str(error))
                made = error.rest
            except (ValueError, OverflowError, IndexError, TypeError):
                problems.append(_not_a_number(emit, values))
                continue
            if made is not None:
                observations.append(made)
        return observations

    def clock(self, values: Values) -> Stamp | None:
        """The line's own clock, where a field holds one."""
        stamps = (any_stamp(values[name]) for name in self.pattern.clock if values.get(name) is not None)
        return next((stamp for stamp in stamps if stamp is not None), None)

    def mono(self, values: Values, problems: list[str]) -> float | None:
        """Monotonic seconds of the line, where a field holds them; what cannot be meant goes to `problems`."""
        value = values.get(self.pattern.mono)
        if value is None:
            return None
        try:
            seconds = float(value)
        except (ValueError, TypeError, OverflowError):
            seconds = -1.0
        if 0 <= seconds < 1e10:
            return seconds
        problems.append(f"{self.pattern.mono}={str(value)[:40]}")
        return None


_read = lru_cache(1)(parse_reading)
"""Kept for the next pattern that is tried on the same line."""


def _not_a_number(emit: Emit, values: Values) -> str:
    """The field of a rule that holds no number, and what it holds."""
    name = next((name for name in (*emit.field, *emit.duration) if values.get(name) is not None), emit.name)
    return f"{name}={str(values.get(name, ''))[:40]}"


def too_slow(name: str, what: str = "pattern") -> str:
    """The line about a pattern or header of the user's that is left out from now on."""
    return f"{what} {name} takes longer than {USERS_S * 1000:.0f} ms and is no longer used: simplify its regex"


def compile_patterns(packs: Sequence[Pack]) -> list[CompiledPattern]:
    """All patterns in the order in which they are tried."""
    patterns = [pattern for pack in packs for pattern in pack.patterns]
    return [CompiledPattern(pattern, index) for index, pattern in enumerate(patterns)]
