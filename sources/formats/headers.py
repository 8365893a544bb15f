"""Finds the stamp at the head of a record, whatever prefixes stand before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from perfmon.model import Stamp

from ..accelerator import scanning, tells_time
from .prefixes import C10, INDENTED, JOURNAL, LEVEL, NAMED, PREFIXES
from .schema import Pack
from .stamps import Parts, any_stamp, stamp_parser, stamp_reader, time_regex

if TYPE_CHECKING:
    from .._scanning import Clocks, Form

_GLUED_WITHIN = 400
_FIELD_WITHIN = 300
_SEEN = re.compile(r"%H:%M:%S|%s")
"""Time formats of which `tells_time` sees that there is one."""
_SHAPES = 4
_FORMS, _FORM_WITHIN = 24, 80
_FRAME = '  File "'
"""How a frame of a traceback begins behind no prefix at all."""
_INNERMOST = ("actor", "pid")
_ALIASES = (
    ("mpi_rank", "rank"),
    ("named_rank", "rank"),
    ("task", "rank"),
    ("engine", "actor"),
    ("unit_host", "host"),
)
"""Other names of what prefixes tell."""


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
        self._around: tuple[tuple[str, str], ...] = ()
        """What stood around the `HH:MM:SS` of the headers that were looked at for their form."""
        self._forms: list[Form] = []
        self._dating: Clocks | None = None
        self._message: tuple[str, str, dict[str, str]] = ("", "", {})
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
        for before, after, begin, end, parts in self._shapes:
            if text.startswith(before) and text.startswith(after, end) and text[begin:end].isdecimal():
                if tells_time(text, end):  # of two stacked headers the last one tells the time
                    break
                return parts.stamp(text[begin:end])
        if self._seen and not tells_time(text, 0):
            return None
        match = self._at_start.match(text)
        if match is None:
            return self._read_glued(text) if 0 <= text.find("]") < len(text) - 1 else None
        stamp = self._parse(match)
        end = match.end()
        if text[end : end + 1] == " ":  # AM, PM or a zone may stand there in a line that begins so, too
            end += 1
        goes_on = text[end : end + 1] in "AP+-.,:0123456789"  # the time does, or the text ends
        if stamp is not None and not goes_on and text[end - 1 : end + 1].isascii():
            self._last_prefix, self._last_stop, self._last = text[: end + 1], end, stamp
            self._learn(text, match, end)
        return stamp

    def _learn(self, text: str, match: re.Match[str], stop: int) -> None:
        """Remembers the shape of a header that ends, with a blank behind it, at `stop`."""
        index = int((match.lastgroup or "")[1:])
        if not self._seen:
            return
        begin, end = match.span(f"t{index}")
        reader = stamp_reader(self._formats[index])
        told = reader.fraction(text[begin:end]) if "%f" in self._formats[index] else None
        if told is not None:
            parts, first, last = told
            before, after = text[: begin + first], text[begin + last : stop + 1]
            shape = _Shape(before, after, begin + first, begin + last, parts)
            self._shapes = (shape, *self._shapes[: _SHAPES - 1])
        stop += text[stop - 1] != " "  # what else ends a header may need what follows it
        colon = text.find(":", begin, end)
        around = text[: max(0, colon - 2)], text[colon + 6 : stop]
        if scanning is not None and around not in self._around and text[:stop].isascii() and stop <= _FORM_WITHIN:
            self._around = (around, *self._around[: _FORMS - 1])
            self._learn_form(reader.time_of_day(text[begin:end]), text, begin, stop)

    def _learn_form(self, told: tuple[Parts, int, int, int] | None, text: str, begin: int, stop: int) -> None:
        """Remembers how headers stand around a time of day, for who dates lines by the thousand."""
        if told is None:
            return
        parts, at, first, last = told
        before, after = text[: begin + at].encode(), text[begin + last : stop].encode()
        sign = ord(text[begin + first]) if last > first else 0
        if not sign and after[:1] in (b".", b","):  # a fraction that this header does not read
            return
        form = (before, sign, max(0, last - first - 1), after, parts.kind, parts.day_s, parts.offset_s)
        if form not in self._forms:
            self._forms = [form, *self._forms[: _FORMS - 1]]
            self._dating = None

    @property
    def clocks_seen(self) -> Clocks | None:
        """What dates lines whose headers are like those that were read; None where that cannot be done."""
        if self._dating is None and self._seen and scanning is not None:
            hints = [hint.encode() for hint in self._hints]
            with suppress(ValueError):  # no room
                self._dating = scanning.Clocks(self._forms, hints)
        return self._dating

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

    def message(self, text: str) -> tuple[str, dict[str, str]]:
        """What a record says behind launcher prefixes, header, level and place in the source; what the prefixes name.

        Indentation is kept where nothing stands before it: it tells a frame of a traceback from a message.
        """
        if text is not self._message[0]:  # several patterns are asked about a line
            self._message = (text, *self._split(text))
        return self._message[1:]

    def _split(self, text: str) -> tuple[str, dict[str, str]]:
        if text.startswith(_FRAME):  # most lines of a traceback
            return text, {}
        match = self._prefixed.match(text)
        lead = match.end() if match is not None else 0
        header = self._at_start.match(text)
        if header is not None and header.end() >= lead:
            end = LEVEL.match(text, header.end()).end()  # type: ignore[union-attr]  # it may match nothing
            end = JOURNAL.match(text, end).end()  # type: ignore[union-attr]  # it may match nothing
        else:
            end = lead
            bare = LEVEL.match(text, lead)
            if bare is not None and bare[0].strip(" \t:|,-"):
                end = bare.end()
        if not C10.match(text, lead):
            again = self._prefixed.match(text, end)  # `[rank0]:` may stand behind the header, too
            end = again.end() if again is not None else end
        named: dict[str, str] = {}
        for found in NAMED.finditer(text, 0, end):
            for name, value in found.groupdict().items():
                if value and (name not in named or name in _INNERMOST):
                    named[name] = value.strip()
        for alias, name in _ALIASES:
            if alias in named:
                named.setdefault(name, named.pop(alias))
        return text[end:], named

    @cached_property
    def _prefixed(self) -> re.Pattern[str]:
        """Launcher prefixes alone."""
        return re.compile(PREFIXES)

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
