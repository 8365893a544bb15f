"""Finds the stamp at the head of a record, whatever prefixes stand before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import NamedTuple

from perfmon.model import Stamp

from ..accelerator import scanning, tells_time
from .prefixes import INDENTED, PREFIXES
from .schema import Pack
from .stamps import Parts, any_stamp, stamp_parser, stamp_reader, time_regex

_GLUED_WITHIN = 400
_FIELD_WITHIN = 300
_SEEN = re.compile(r"%H:%M:%S|%s")
"""Time formats of which `tells_time` sees that there is one."""
_SHAPES = 4


class _Shape(NamedTuple):
    """A head of which the lines of one second differ in the fraction of that second alone."""

    before: str
    """Up to the fraction."""
    after: str
    """From the fraction on, and what tells that the header ends there."""
    begin: int
    """Where the fraction's digits begin, and where they end."""
    end: int
    parts: Parts
    raw: tuple[bytes, bytes]
    """`before` and `after` as they stand in a log."""


class HeaderReader:
    """Reads stamps with the header grammars of some packs, all of them joined into one regex."""

    def __init__(self, packs: Iterable[Pack]) -> None:
        packs = tuple(packs)
        alternatives: list[str] = []
        self._parsers: list[Callable[[str], Stamp | None]] = []
        self._formats: list[str] = []
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
                self._formats.append(header.time)
        self._headers = "|".join(alternatives) if alternatives else "(?!)"
        self._at_start = re.compile(f"{PREFIXES}{INDENTED}(?:{self._headers})")
        self.clocks = tuple(dict.fromkeys(name for pack in packs for p in pack.patterns for name in p.clock))
        """Fields that patterns take for the clock of their lines, the first one first."""
        self.quoted_clocks = tuple(f'"{name}"' for name in self.clocks)
        hints = [form.format(name) for name in self.clocks for form in ("{}=", "'{}': ")]
        self._hints = [hint for hint in hints if not any(hint.endswith(other) for other in hints if other != hint)]
        names = "|".join(map(re.escape, self.clocks)) or "(?!)"
        self._field = re.compile(rf"""(?<![\w./%-])(?:(?:{names})=|'(?:{names})': )["']?([^\s,;"'}}]+)""")
        self._last_prefix, self._last_stop = "\n", 0
        self._last: Stamp | None = None
        self._shapes: tuple[_Shape, ...] = ()
        self._seen = all(map(_SEEN.search, self._formats))
        """All times are of such formats: a line without one needs no closer look, nor one with no other."""

    @cached_property
    def _glued(self) -> re.Pattern[str]:
        """Compiled when the first line needs it: few logs have progress bars."""
        return re.compile(rf"(?<=\])(?:{self._headers})")

    def read(self, text: str) -> Stamp | None:
        """The stamp of a record, None when it has none; neighbours that share their head share the stamp object."""
        if text.startswith(self._last_prefix) and not tells_time(text, self._last_stop):
            return self._last
        for before, after, begin, end, parts, _ in self._shapes:
            if text.startswith(before) and text.startswith(after, end) and text[begin:end].isdecimal():
                if tells_time(text, end):  # of two stacked headers the last one tells the time
                    break
                return parts.stamp(text[begin:end])
        if self._seen and not tells_time(text, 0):
            return None
        match = self._at_start.match(text)
        if match is None:
            return self._read_glued(text) if "]" in text else None
        stamp = self._parse(match)
        end = match.end()
        if text[end : end + 1] == " ":  # AM, PM or a zone may stand there in a line that begins so, too
            end += 1
        if stamp is not None and end < len(text) and text[end - 1 : end + 1].isascii() and text[end] not in "AP+-":
            self._last_prefix, self._last_stop, self._last = text[: end + 1], end, stamp
            self._learn(text, match, end + 1)
        return stamp

    def _learn(self, text: str, match: re.Match[str], stop: int) -> None:
        """Remembers the shape of a header; what it is told by ends before `stop`."""
        index = int((match.lastgroup or "")[1:])
        if not self._seen or "%f" not in self._formats[index]:
            return
        begin, end = match.span(f"t{index}")
        told = stamp_reader(self._formats[index]).fraction(text[begin:end])
        if told is not None:
            parts, first, last = told
            before, after = text[: begin + first], text[begin + last : stop]
            raw = before.encode(errors="replace"), after.encode(errors="replace")
            shape = _Shape(before, after, begin + first, begin + last, parts, raw)
            self._shapes = (shape, *self._shapes[: _SHAPES - 1])

    def alike(self, data: bytes, begin: int, most: int, low: int) -> int:
        """How many lines right before the one that begins at `begin` are of the same second, as far as that is seen
        at once; `most` at most, and none that begins before `low`."""
        for shape in self._shapes if scanning is not None else ():
            before, after = shape.raw
            if data.startswith(before, begin):
                return scanning.alike(data, begin, most, low, before, shape.end - shape.begin, after)
        return 0

    def at_start(self, text: str) -> Stamp | None:
        """The stamp that `text` begins with, whatever may follow."""
        match = self._at_start.match(text)
        return None if match is None else self._parse(match)

    def field(self, text: str) -> Stamp | None:
        """The stamp in a field of a line without a header: the first one that holds a time."""
        for hint in self._hints:
            if hint in text:
                break
        else:
            return None
        stamps = (any_stamp(match[1]) for match in self._field.finditer(text, 0, _FIELD_WITHIN))
        return next((stamp for stamp in stamps if stamp is not None), None)

    def _read_glued(self, text: str) -> Stamp | None:
        """The stamp of a record that a progress bar left no newline before: the last one after a `]`."""
        match = None
        for match in self._glued.finditer(text, 0, _GLUED_WITHIN):  # noqa: B007 - the last one is wanted
            pass
        return None if match is None else self._parse(match)

    def _parse(self, match: re.Match[str]) -> Stamp | None:
        which = match.lastgroup
        if which is None:
            return None
        index = int(which[1:])
        return self._parsers[index](match[f"t{index}"])
