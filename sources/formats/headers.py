"""Finds the stamp at the head of a record, whatever prefixes stand before it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cached_property

from perfmon.model import Stamp

from .prefixes import PREFIXES
from .schema import Pack
from .stamps import any_stamp, stamp_parser, time_regex

_GLUED_WITHIN = 400
_FIELD_WITHIN = 300


class HeaderReader:
    """Reads stamps with the header grammars of some packs, all of them joined into one regex."""

    def __init__(self, packs: Iterable[Pack]) -> None:
        packs = tuple(packs)
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
        self._headers = "|".join(alternatives) if alternatives else "(?!)"
        self._at_start = re.compile(f"{PREFIXES}(?:{self._headers})")
        self.clocks = tuple(dict.fromkeys(name for pack in packs for p in pack.patterns for name in p.clock))
        """Fields that patterns take for the clock of their lines, the first one first."""
        self.quoted_clocks = tuple(f'"{name}"' for name in self.clocks)
        hints = [form.format(name) for name in self.clocks for form in ("{}=", "'{}': ")]
        self._hints = [hint for hint in hints if not any(hint.endswith(other) for other in hints if other != hint)]
        names = "|".join(map(re.escape, self.clocks)) or "(?!)"
        self._field = re.compile(rf"""(?<![\w./%-])(?:(?:{names})=|'(?:{names})': )["']?([^\s,;"'}}]+)""")
        self._last_prefix = "\n"
        self._last: Stamp | None = None

    @cached_property
    def _glued(self) -> re.Pattern[str]:
        """Compiled when the first line needs it: few logs have progress bars."""
        return re.compile(rf"(?<=\])(?:{self._headers})")

    def read(self, text: str) -> Stamp | None:
        """The stamp of a record, None when it has none; neighbours that share their head share the stamp object."""
        if text.startswith(self._last_prefix):
            return self._last
        match = self._at_start.match(text)
        if match is None:
            return self._read_glued(text) if "]" in text else None
        stamp = self._parse(match)
        end = match.end()
        if text[end : end + 1] == " ":  # AM or PM may stand there in a line that begins like this one
            end += 1
        if stamp is not None and end < len(text) and text[end - 1 : end + 1].isascii() and text[end] not in "AP":
            self._last_prefix, self._last = text[: end + 1], stamp
        return stamp

    def at_start(self, text: str) -> Stamp | None:
        """The stamp that `text` begins with, whatever may follow."""
        match = self._at_start.match(text)
        return None if match is None else self._parse(match)

    def field(self, text: str) -> Stamp | None:
        """The stamp in a field of a line without a header: the first one that holds a time."""
        if not any(hint in text for hint in self._hints):
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
