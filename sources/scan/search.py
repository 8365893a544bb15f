"""Search for the literals of all patterns in a block, compiled or in Python, and the patterns of some packs for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from perfmon.core import Observation, Stamp

from ..blocks import in_use, scanning
from ..formats import HeaderReader, Pack
from ..formats.compiled import MORE, CompiledPattern, compile_patterns
from .block_times import Dated
from .update_templates import KEEP_ALL, EvidenceLimits, HeadStamps, PhaseLine, Templates

if TYPE_CHECKING:
    from .._scanning import Clocks
    from .._scanning import Finder as CompiledFinder

_GROUP = 48
_MAX_NEEDLES = 2000
_MAX_NEEDLE = 10_000
_MAX_ENDING = 240

Hit = tuple[
    int, int, int, int, int, int, str | None, int, Stamp | None, bool, Stamp | None, tuple[int, int] | None
]  # fmt: skip
"""A needle: its begin, end and number; its line's begin, end, lines before it in the block and, where at hand, text
without escape sequences; end and stamp of the last line before it that a template read (0 and None for none); whether
the line's own stamp is known, and that stamp; pattern and group of the `Ending` that the line has, if that is all of
it."""


class Ending(NamedTuple):
    """The end of lines that differ only in place and time, or in what stands behind all that is read of them."""

    needle: int
    """The only one in them."""
    lead: int
    """Bytes of `text` before the needle: what is read, colours, and one more; none more where it is the whole line."""
    whole: bool
    first: int
    """The byte that what is read begins with."""
    text: bytes
    """Up to the end of the line, or up to the blank behind what is read."""
    is_open: bool
    """More follows, which differs."""
    pattern: int
    group: int
    """Lines of one group give the same observations, whichever pattern reads them."""


class Found(Protocol):
    """The findings of a search in a block."""

    @property
    def hits(self) -> list[Hit]:
        """Needles by position, but for those in lines that a template read."""

    @property
    def dated(self) -> list[Dated]:
        """Those lines at which the stamp may have changed: the first ones behind another stamp or another hit."""

    @property
    def newlines(self) -> int:
        """In the block."""

    @property
    def repeats(self) -> Mapping[int, tuple[int, int]]:
        """Of lines that repeat each other in one second only the first has hits: by its begin, how many others there
        are, and how many lines of the block stand before the last of them."""

    @property
    def repeated(self) -> Mapping[int, int]:
        """The number of those others, by pattern."""

    def phases(self, line: int, pattern: int) -> list[PhaseLine]:
        """The lines that a template read; `line` is the number of the block's first one."""


class Search(Protocol):
    """A search for the needles of a scanner."""

    def find(self, data: bytes, clocks: Clocks | None = None) -> Found:
        """Search a block; `clocks` date lines by the headers that were read before."""

    def learn_ending(self, ending: Ending) -> None:
        """Leave out lines with this ending that repeat the one before in the same second."""

    def learn_phase(self, tail: bytes, update: str, phase: str) -> None:
        """Read lines like this one, `tail` from its needle on without the newline, by a template."""


def grouped(needles: Sequence[bytes]) -> list[list[int]]:
    """Numbers of the needles by group, in the order in which they are tried.

    The search in Python is vectorised for up to about sixty needles and several times slower for more. It compares the
    low four bits of four bytes first: needles that share those are quicker to search for together.
    """
    order = sorted(range(len(needles)), key=lambda number: bytes(byte & 15 for byte in needles[number][:4]))
    return [order[first : first + _GROUP] for first in range(0, len(order), _GROUP)]


def make_search(needles: Sequence[bytes], phase: int, headers: HeaderReader) -> Search:
    """The compiled search where it is in use, else the one in Python; `phase` is the needle of weight updates."""
    if (
        scanning is None
        or not in_use()
        or len(needles) > _MAX_NEEDLES
        or max(map(len, needles), default=0) > _MAX_NEEDLE
    ):
        return PythonSearch(needles)
    ordered = [(needles[number], group, number) for group, numbers in enumerate(grouped(needles)) for number in numbers]
    return CompiledSearch(scanning.Finder(ordered, phase), headers)


class CompiledSearch:
    """The search in C, which also reads lines of weight updates by templates and leaves repeated lines out."""

    def __init__(self, compiled: CompiledFinder, headers: HeaderReader) -> None:
        self._compiled = compiled
        self._stamps = HeadStamps(headers)
        self.templates = Templates()

    def find(self, data: bytes, clocks: Clocks | None = None) -> Found:
        """Search a block, while other threads run."""
        return self._compiled.find(data, self._stamps.__getitem__, clocks)

    def learn_ending(self, ending: Ending) -> None:
        """Leave out lines with this ending, unless it is too long."""
        if len(ending.text) <= _MAX_ENDING:
            self._compiled.learn_ending(*ending)

    def learn_phase(self, tail: bytes, update: str, phase: str) -> None:
        """Read lines like this one by a template, where it fits one."""
        if self.templates.learn(tail, update, phase):
            self._compiled.set_templates(self.templates.opening, self.templates.lines)

    def forget_phases(self) -> None:
        """Read no lines by templates until others are learned."""
        self.templates = Templates()
        self._compiled.set_templates(b"", [])


@dataclass(frozen=True, slots=True)
class _PythonFound:
    hits: list[Hit]
    newlines: int
    dated: list[Dated] = field(default_factory=list)
    repeats: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    repeated: Mapping[int, int] = field(default_factory=dict)

    def phases(self, line: int, pattern: int) -> list[PhaseLine]:
        return []


class PythonSearch:
    """The search without a compiler: it learns nothing, every line is read by its pattern."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        from ahocorasick_rs import BytesAhoCorasick, MatchKind

        self._groups = [
            (numbers, BytesAhoCorasick([needles[number] for number in numbers], matchkind=MatchKind.LeftmostFirst))
            for numbers in grouped(needles)
        ]

    def find(self, data: bytes, clocks: Clocks | None = None) -> Found:
        """Search a block. Of needles of one group that overlap only the first is found."""
        places = sorted(
            (begin, end, numbers[needle])
            for numbers, group in self._groups
            for needle, begin, end in group.find_matches_as_indexes(data)
        )
        hits: list[Hit] = []
        first = lines = 0
        for at, to, needle in places:
            begin, end = data.rfind(b"\n", first, at) + 1 or first, data.find(b"\n", to)
            lines += data.count(b"\n", first, begin)
            first = begin
            end = len(data) if end < 0 else end
            hits.append((at, to, needle, begin, end, lines, None, 0, None, False, None, None))
        return _PythonFound(hits, lines + data.count(b"\n", first))

    def learn_ending(self, ending: Ending) -> None:
        """Repeated lines are read one by one."""

    def learn_phase(self, tail: bytes, update: str, phase: str) -> None:
        """Lines of weight updates are read by their pattern."""


# --- Patterns of some packs ---

_MAX_ENDINGS = 64
_MAX_TOGETHER = 4096
_TRAILING_COLOURS = re.compile(rb"(?:\x1b\[[\d;]*m)+\Z")


class PatternIndex(dict[int, tuple[int, ...]]):
    """For each needle the patterns to try when it is found, worked out when it is found first: most never are.

    Of needles that are looked for together only the first one is reported where others begin inside it (see
    `search.py`); so each needle also stands for those of its group that share a part of the text with it.
    """

    def __init__(self, patterns: Sequence[CompiledPattern]) -> None:
        """`patterns` in the order in which they are tried."""
        super().__init__()
        self._patterns: dict[bytes, set[int]] = {}
        for compiled in patterns:
            for needle in compiled.needles:
                self._patterns.setdefault(needle, set()).add(compiled.index)
        self.needles = sorted(self._patterns)
        self._groups = {number: group for group in grouped(self.needles) for number in group}
        packs = list(dict.fromkeys(compiled.pattern.pack for compiled in patterns))
        self._packs = [packs.index(compiled.pattern.pack) for compiled in patterns]
        self._several = [f"(?P<{MORE}>" in compiled.pattern.regex for compiled in patterns]
        """By pattern, whether more records of its pack may stand on a line: then the first of them is read."""
        self._of_several = lru_cache(_MAX_TOGETHER)(self._in_order)

    def candidates(self, found: Sequence[tuple[int, int]]) -> tuple[int, ...]:
        """The patterns to try on a record that holds several needles (position, number), in the order of packs and
        files; where several records of a pack may stand on a line, that one first whose needle stands first."""
        if len(found) == 1:
            return self[found[0][1]]
        return self._of_several(tuple(dict.fromkeys(needle for _, needle in found)))

    def _in_order(self, needles: tuple[int, ...]) -> tuple[int, ...]:
        first: dict[int, int] = {}
        for at, needle in enumerate(needles):
            for index in self[needle]:
                first.setdefault(index, at)
        return tuple(
            sorted(first, key=lambda index: (self._packs[index], first[index] if self._several[index] else 0, index))
        )

    def __missing__(self, needle: int) -> tuple[int, ...]:
        found = self.needles[needle]
        others = (self.needles[number] for number in self._groups[needle])
        near = (self._patterns[other] for other in others if _share_text(found, other))
        near_patterns = self[needle] = tuple(sorted(set().union(*near)))
        return near_patterns


def _share_text(found: bytes, other: bytes) -> bool:
    """True where another needle may stand in one that is found, around it, or begin at its end."""
    return other in found or found in other or any(other.startswith(found[-size:]) for size in range(1, len(found)))


class PatternSet:
    """Patterns by the needles that find their lines; `limits` are those of weight updates that need no evidence."""

    def __init__(self, packs: Sequence[Pack], limits: EvidenceLimits = KEEP_ALL) -> None:
        self.packs = tuple(packs)
        self.limits = limits
        self.patterns: list[CompiledPattern] = compile_patterns(self.packs)
        self.pattern_names = [compiled.pattern.name for compiled in self.patterns]
        """`pack/pattern` by a record's pattern index."""
        self.headers = HeaderReader(self.packs)
        self.update_patterns = frozenset(
            at for at, compiled in enumerate(self.patterns) if any(e.kind == "leg" for e in compiled.pattern.emit)
        )
        """Patterns of the phases of weight updates."""
        self.bar_patterns = frozenset(at for at, compiled in enumerate(self.patterns) if compiled.pattern.frame)
        """Patterns of progress bars, whose frames may stand before a record on the same line."""
        self.row_pattern = next((one for one in self.patterns if one.pattern.style == "table"), None)
        """The pattern of rows of logs that are tables."""
        self.by_needle = PatternIndex(self.patterns)
        needles = self.by_needle.needles
        self._numbers = {needle: number for number, needle in enumerate(needles)}
        self.template_pattern = min(self.update_patterns, default=-1)
        """The pattern whose lines the search may read by templates; they have its first needle."""
        self._template_needle = b""
        if self.update_patterns:
            self._template_needle = self.patterns[self.template_pattern].needles[0]
        self.search = make_search(needles, self._numbers.get(self._template_needle, -1), self.headers)
        self.repeated: list[list[Observation]] = []
        """Observations by the group of an `Ending`."""
        self._groups: dict[str, int] = {}
        self._endings: dict[tuple[int, bool, bytes], None] = {}
        """The last ones that were learned."""

    def pattern_pack(self, index: int) -> str:
        """Pack id of a record's pattern index."""
        return self.patterns[index].pattern.pack

    def message(self, text: str) -> str:
        """The text of a line behind clocks and prefixes."""
        return self.headers.message(text)[0]

    def learn_phase(self, tail: bytes, update: str, phase: str) -> None:
        """Learn the template of the line of a phase: `tail` from the needle on, without its newline."""
        if tail.startswith(self._template_needle):
            self.search.learn_phase(tail, update, phase)

    def learn_ending(
        self, compiled: CompiledPattern, text: str, data: bytes, begin: int, end: int, at: int,
        observations: list[Observation],
    ) -> None:  # fmt: skip
        """Learn the end of a line with a needle at `at`, where any line with it gives `observations` alone; of an end
        that differs from line to line only what is read, up to the blank behind it."""
        needle = next((one for one in compiled.needles if data.startswith(one, at)), b"")
        number = self._numbers.get(needle, -1)
        if number < 0 or b"\r" in data[begin:end] or end == len(data):
            return
        if any(index != compiled.index and self.patterns[index].may_fit(text) for index in self.by_needle[number]):
            return
        place, span = text.find(needle.decode()), compiled.span(text)
        if span is None or span[0] > place:
            return
        read = at - place + span[0]
        if read < begin or data[read:at] != text[span[0] : place].encode():
            return
        start = begin + len(_TRAILING_COLOURS.sub(b"", data[begin:read]))
        whole = start == begin
        start -= not whole  # whether a word begins there
        stop = read + len(text[slice(*span)].encode()) + 1
        is_open = (
            compiled.ends_by_blank
            and self.by_needle[number] == (compiled.index,)
            and data[read:stop] == f"{text[slice(*span)]} ".encode()
        )
        ending = (number, whole, data[start : stop if is_open else end])
        if ending in self._endings:
            return
        if len(self._endings) >= _MAX_ENDINGS:
            self._endings.pop(next(iter(self._endings)))
        self._endings[ending] = None
        group = self._groups.setdefault(repr(observations), len(self._groups))
        if group == len(self.repeated):
            self.repeated.append([*observations])
        self.search.learn_ending(
            Ending(number, at - start, whole, data[read], ending[2], is_open, compiled.index, group)
        )
