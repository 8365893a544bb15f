"""Search for the literals of all patterns in a block, compiled or in Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from perfmon.core import Stamp

from ..blocks import in_use, scanning
from ..formats.timestamps import HeaderReader
from .gaps import Dated
from .update_templates import HeadStamps, PhaseLine, Templates

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
