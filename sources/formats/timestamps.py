"""Timestamps: from a strptime-like format to a parser, and the headers of records that hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from perfmon.core import DAYTIME, EPOCH, LOCAL, UPTIME, YEARLESS, Stamp

from ..blocks import may_hold_time, scanning
from .fields import C10, INDENTED, JOURNAL, LEVEL, NAMED, PREFIXES, USERS_S, any_stamp, epoch_stamp, iso_stamp
from .schema import Pack

if TYPE_CHECKING:
    from .._scanning import Clocks, Form


# --- Time stamps as logs print them: from a strptime-like format to a regex and a quick parser ---
#
# A stamp holds as much as the line does: with date and zone it is EPOCH, without a zone LOCAL, without a year YEARLESS,
# without a date DAYTIME. What is missing is inferred later, from the lines around it (`perfmon.sources.clock`).

MONTHS = {
    name: i + 1
    for i, name in enumerate(("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"))
}
_DIRECTIVES = {
    "Y": r"\d{4}",
    "m": r"\d{1,2}",
    "d": r"[ \d]?\d",
    "e": r"\d\d",
    "H": r"\d{1,2}",
    "M": r"\d\d",
    "S": r"\d\d",
    "f": r"(?:[.,]\d{1,9})?",
    "z": r"(?:Z|[+-]\d\d:?\d\d)?",
    "b": "|".join(MONTHS),
    "p": r"(?: ?[AP]M(?!\w))?",
    "u": r"\d{1,6}\.[0-5]\d\.\d{3}\.\d{3}",
    "s": r"1\d{18}|1\d{15}|1\d{12}|\d{9,10}(?:\.\d+)?",
}
_NEIGHBOURS = 256
"""So many stamps are known again: the lines of a second share theirs, whatever stands before and behind it."""
_DAYS_BEFORE = (0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335, 366)


@cache
def _split(time: str) -> tuple[tuple[str, bool], ...]:
    """(text, is_directive) pieces of a format."""
    pieces: list[tuple[str, bool]] = []
    position = 0
    for match in re.finditer(r"%(.)", time):
        if match.start() > position:
            pieces.append((time[position : match.start()], False))
        if match[1] not in _DIRECTIVES:
            raise ValueError(f"unknown directive %{match[1]}, expected one of %{' %'.join(_DIRECTIVES)}")
        pieces.append((match[1], True))
        position = match.end()
    if position < len(time):
        pieces.append((time[position:], False))
    names = {text for text, directive in pieces if directive}
    if not names & {"s", "u"} and not {"H", "M", "S"} <= names:
        raise ValueError("expected at least %H, %M and %S, or %s, or %u")
    return tuple(pieces)


@cache
def time_regex(time: str) -> str:
    """The regex of a time format, without groups that capture; ValueError for an unknown directive."""
    return "".join(f"(?:{_DIRECTIVES[text]})" if directive else re.escape(text) for text, directive in _split(time))


@cache
def _day_seconds(year: int, month: int, day: int) -> float:
    return (date(year, month, day).toordinal() - 719163) * 86400.0


def _offset(text: str) -> float:
    if text == "Z":
        return 0.0
    sign = -1.0 if text[0] == "-" else 1.0
    digits = text[1:].replace(":", "")
    return sign * (int(digits[:2]) * 3600 + int(digits[2:4]) * 60)


class _Parts(NamedTuple):
    """A stamp without its fraction of a second."""

    kind: int
    day_s: float
    """The begin of its day, in seconds since 1970 or since New Year; 0 where no date is known."""
    time_s: int
    """Whole seconds of that day."""
    offset_s: float
    """Of its zone."""


class StampReader:
    """Reads the stamps of one format."""

    def __init__(self, time: str) -> None:
        pieces = _split(time)
        self._regex = re.compile("".join(f"({_DIRECTIVES[t]})" if d else re.escape(t) for t, d in pieces))
        names = [text for text, directive in pieces if directive]
        self._at = {name: names.index(name) for name in set(names)}

    def stamp(self, text: str) -> Stamp | None:
        """The stamp of a text; None when the numbers are no date or time (`99:99:99`)."""
        match = self._regex.match(text)
        if match is None:
            return None
        if "s" in self._at:
            return epoch_stamp(float(match[1 + self._at["s"]]))
        if "u" in self._at:
            minutes, seconds, milli, micro = map(int, match[1 + self._at["u"]].split("."))
            return (UPTIME, 60.0 * minutes + seconds + milli / 1e3 + micro / 1e6)
        parts = self._parts(match)
        if parts is None:
            return None
        digits = match[1 + self._at["f"]][1:] if "f" in self._at else ""
        time_s = parts.time_s + float(f"0.{digits}") if digits else parts.time_s
        return (parts.kind, parts.day_s + time_s - parts.offset_s)

    def time_of_day(self, text: str) -> tuple[_Parts, int, int, int] | None:
        """The stamp of a text, the begin of its `HH:MM:SS`, and begin and end of its fraction, with the sign; None
        where the time of day has another form."""
        match = None if self._at.keys() & {"s", "p", "u"} else self._regex.match(text)
        parts = None if match is None else self._parts(match)
        if match is None or parts is None:
            return None
        begin, end = match.start(1 + self._at["H"]), match.end(1 + self._at["S"])
        if end - begin != len("HH:MM:SS") or text[begin + 2] != ":" or text[begin + 5] != ":":
            return None
        first, last = match.span(1 + self._at["f"]) if "f" in self._at else (end, end)
        return (parts, begin, first, last) if first == end else None

    def _parts(self, match: re.Match[str]) -> _Parts | None:
        at, part = self._at, match.groups()
        hour, minute, second = int(part[at["H"]]), int(part[at["M"]]), int(part[at["S"]])
        half = part[at["p"]] if "p" in at else ""
        if half and 1 <= hour <= 12:  # behind another hour it is a word of the message
            hour = hour % 12 + (12 if half[-2] == "P" else 0)
        if hour > 23 or minute > 59 or second > 60:
            return None
        seconds = hour * 3600 + minute * 60 + second
        month = MONTHS[part[at["b"]]] if "b" in at else int(part[at["m"]]) if "m" in at else None
        if month is None:
            return _Parts(DAYTIME, 0.0, seconds, 0.0)
        day = int(part[at["d" if "d" in at else "e"]]) if "d" in at or "e" in at else 1
        if not 1 <= month <= 12 or not 1 <= day <= _DAYS_BEFORE[month] - _DAYS_BEFORE[month - 1]:
            return None
        if "Y" not in at:
            return _Parts(YEARLESS, (_DAYS_BEFORE[month - 1] + day - 1) * 86400.0, seconds, 0.0)
        try:
            began = _day_seconds(int(part[at["Y"]]), month, day)
        except ValueError:
            return None
        zone = part[at["z"]] if "z" in at else ""
        return _Parts(EPOCH, began, seconds, _offset(zone)) if zone else _Parts(LOCAL, began, seconds, 0.0)


@cache
def stamp_reader(time: str) -> StampReader:
    """The reader of the stamps of a format."""
    return StampReader(time)


@cache
def stamp_parser(time: str) -> Callable[[str], Stamp | None]:
    """A function from the stamp's text to a Stamp; None when the numbers are no date or time (`99:99:99`)."""
    return lru_cache(_NEIGHBOURS)(stamp_reader(time).stamp)


# --- Finds the stamp at the head of a record, whatever prefixes stand before it ---

_GLUED_WITHIN = 400
_FIELD_WITHIN = 300
_SEEN = re.compile(r"%H:%M:%S|%s|%u")
"""Time formats of which `may_hold_time` sees that there is one."""
_FORMS, _FORM_WITHIN = 24, 80
_FULL = re.compile(r"(?<![\d.:-])(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?)(?:Z|[+-]\d\d:\d\d)?(?=\s)")
"""The stamp of a container before the header of its program; in a group as the clock of its zone shows it."""
_PERIODS = {DAYTIME: 86400.0, YEARLESS: 366 * 86400.0}
_ROUNDED_S, _BUFFERED_S = 1.5, 1800.0
"""A program's own time is earlier than that of its container by a rounded second, or by the age of its buffer."""
_TORN = re.compile(
    r"(?P<type>(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{1,60}?(?:Error|Exception|Interrupt))"
    r"(?P<more>(?:(?P=type)){1,63})(?:: ){2,64}"
)
"""An exception of several processes that wrote its parts at once, as Python does: type, colon, message."""
_FRAME = '  File "'
"""The begin of a frame of a traceback without any prefix."""
_INNERMOST = ("actor", "pid")
_ALIASES = (
    ("mpi_rank", "rank"),
    ("named_rank", "rank"),
    ("task", "rank"),
    ("engine", "actor"),
    ("unit_host", "host"),
)
"""Other names of what prefixes contain."""


class _Stoppable:
    """A regex with headers of users, in the one library that stops a search in any thread."""

    def __init__(self, text: str, stopped: Callable[[], None]) -> None:
        import regex  # few users have packs

        self._regex: Any = regex.compile(text)
        self._stopped = stopped

    def match(self, text: str) -> re.Match[str] | None:
        """Match the begin of a text; None, and nothing more, once it takes too long."""
        try:
            found: re.Match[str] | None = self._regex.match(text, timeout=USERS_S)
        except TimeoutError:
            self._stopped()
            return None
        return found


class HeaderReader:
    """Reads stamps with the header grammars of some packs, all of them joined into one regex."""

    def __init__(self, packs: Iterable[Pack]) -> None:
        packs = tuple(packs)
        self._packs = packs
        self.slow: list[str] = []
        """Headers of users that took too long and are no longer used; the code that reports them empties it."""
        self._join(packs, users=True)
        self.clocks = tuple(dict.fromkeys(name for pack in packs for p in pack.patterns for name in p.clock))
        """Fields that patterns take for the clock of their lines, the first one first."""
        self.quoted_clocks = tuple(f'"{name}"' for name in self.clocks)
        hints = [form.format(name) for name in self.clocks for form in ("{}=", "'{}': ")]
        self._hints = [hint for hint in hints if not any(hint.endswith(other) for other in hints if other != hint)]
        names = "|".join(map(re.escape, self.clocks)) or "(?!)"
        self._field = re.compile(rf"""(?<![\w./%-])(?<! at )(?:(?:{names})=|'(?:{names})': )["']?([^\s,;"'}}]+)""")
        self._last_prefix, self._last_stop = "\n", 0
        self._last: Stamp | None = None
        self._around: tuple[tuple[str, str], ...] = ()
        """Texts around the `HH:MM:SS` of the headers of which the form is known."""
        self._forms: list[Form] = []
        self._clocks: Clocks | None = None
        self._message: tuple[str, str, dict[str, str]] = ("", "", {})

    def _join(self, packs: Sequence[Pack], *, users: bool) -> None:
        """Join the headers of all packs into one regex, with those of users, if any, in one that can be stopped."""
        alternatives: list[str] = []
        own: list[str] = []
        users_own: list[str] = []
        self._formats: list[str] = []
        seen: set[tuple[str, str]] = set()
        for name, header in ((pack.id, header) for pack in packs for header in pack.headers):
            if (header.regex, header.time) in seen or not (users or header.trusted):
                continue
            seen.add((header.regex, header.time))
            index = len(self._formats)
            body = re.sub(r"\(\?P<\w+>", "(?:", header.regex)
            body = body.replace("{time}", f"(?P<t{index}>{time_regex(header.time)})")
            alternatives.append(f"{body}(?P<h{index}>)")
            self._formats.append(header.time)
            if header.trusted:
                own.append(alternatives[-1])
            else:
                users_own.append(f"{name}/{header.id}")
        self._own, self._users = "|".join(own) or "(?!)", ", ".join(users_own)
        start = f"{PREFIXES}{INDENTED}(?:{'|'.join(alternatives) or '(?!)'})"
        self._at_start: re.Pattern[str] | _Stoppable = _Stoppable(start, self._stop) if users_own else re.compile(start)
        self._seen = all(map(_SEEN.search, self._formats))
        """All times are of such formats: a line without one needs no closer look, nor one with no other."""

    def _stop(self) -> None:
        self.slow.append(self._users)
        self._join(self._packs, users=False)
        self.__dict__.pop("_glued", None)

    @cached_property
    def _glued(self) -> re.Pattern[str]:
        """Compiled when the first line needs it: few logs have progress bars."""
        return re.compile(rf"(?<=\])(?:{self._own})")

    def read(self, text: str) -> Stamp | None:
        """The stamp of a record, None when it has none; neighbours that share their head share the stamp object."""
        if text.startswith(self._last_prefix) and not may_hold_time(text, self._last_stop):
            return self._last
        if self._seen and not may_hold_time(text, 0):
            return None
        match = self._at_start.match(text)
        if match is None:
            return self._read_glued(text) if 0 <= text.find("]") < len(text) - 1 else None
        own, end = self._parse(match), match.end()
        stamp = _dated_by_outer(match, own)
        if text[end : end + 1] == " ":  # AM, PM or a zone may stand there in a line that begins so, too
            end += 1
        goes_on = text[end : end + 1] in "AP+-.,:0123456789"  # the time does, or the text ends
        if stamp is not None and not goes_on and text[end - 1 : end + 1].isascii():
            self._last_prefix, self._last_stop, self._last = text[: end + 1], end, stamp
            if stamp is own:
                self._learn(text, match, end)
        return stamp

    def _learn(self, text: str, match: re.Match[str], stop: int) -> None:
        """Remember the text around the time of day of a header that ends, with a blank behind it, at `stop`."""
        if scanning is None or not self._seen:
            return
        index = int((match.lastgroup or "")[1:])
        begin, end = match.span(f"t{index}")
        stop += text[stop - 1] != " "  # what else ends a header may need what follows it
        colon = text.find(":", begin, end)
        around = text[: max(0, colon - 2)], text[colon + 6 : stop]
        if around in self._around or not text[:stop].isascii() or stop > _FORM_WITHIN:
            return
        self._around = (around, *self._around[: _FORMS - 1])
        found = stamp_reader(self._formats[index]).time_of_day(text[begin:end])
        if found is None:
            return
        parts, at, first, last = found
        before, after = text[: begin + at].encode(), text[begin + last : stop].encode()
        sign = ord(text[begin + first]) if last > first else 0
        if not sign and after[:1] in (b".", b","):  # a fraction that this header does not read
            return
        form = (before, sign, max(0, last - first - 1), after, parts.kind, parts.day_s, parts.offset_s)
        if form not in self._forms:
            self._forms = [form, *self._forms[: _FORMS - 1]]
            self._clocks = None

    @property
    def fast_clocks(self) -> Clocks | None:
        """Dates lines whose headers are like those that were read; None where that cannot be done."""
        if self._clocks is None and self._seen and scanning is not None:
            hints = [hint.encode() for hint in self._hints]
            with suppress(ValueError):  # no room
                self._clocks = scanning.Clocks(self._forms, hints)
        return self._clocks

    def at_start(self, text: str) -> Stamp | None:
        """The stamp that `text` begins with, whatever may follow."""
        match = self._at_start.match(text)
        return None if match is None else _dated_by_outer(match, self._parse(match))

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
        """The message behind launcher prefixes, header, level and place in the source, and the names in the prefixes.

        Indentation is kept where nothing stands before it: it distinguishes a frame of a traceback from a message.
        """
        if text is not self._message[0]:  # several patterns are tried on a line
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
        message = text[end:]
        return (_untorn(message) if ": : " in message else message), named

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
        return stamp_parser(self._formats[index])(match[f"t{index}"])


def _dated_by_outer(match: re.Match[str], stamp: Stamp | None) -> Stamp | None:
    """The stamp of a record; where it has no full date, that of the container or pod, which stands before its line.

    So all lines of a log have stamps of one kind, also where the program dates only some of them. The container's is
    late where the program writes many lines at once: then the time of day is the program's. A longer distance is that
    of another zone.
    """
    if stamp is None or stamp[0] not in _PERIODS:
        return stamp
    found = _FULL.search(match.string, 0, match.start((match.lastgroup or "").replace("h", "t")))
    outer, written = (None, None) if found is None else (iso_stamp(found[0]), iso_stamp(found[1]))
    if outer is None or written is None:
        return stamp
    moment = written[1]
    if stamp[0] == YEARLESS:
        day = datetime.fromtimestamp(moment, UTC)
        moment = (_DAYS_BEFORE[day.month - 1] + day.day - 1) * 86400.0 + moment % 86400.0
    late_s = (moment - stamp[1]) % _PERIODS[stamp[0]]
    return (outer[0], outer[1] - late_s) if _ROUNDED_S <= late_s < _BUFFERED_S else outer


def _untorn(message: str) -> str:
    """The exception of one process, where several have torn their equal lines into each other."""
    torn = _TORN.match(message)
    if torn is None:
        return message
    rest, count = message[torn.end() :], 1 + len(torn["more"]) // len(torn["type"])
    one = rest[: len(rest) // count]
    return f"{torn['type']}: {one if one * count == rest else rest}"
