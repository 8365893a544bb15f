"""Finds the lines of a block that may mean something; lines of known shapes are read at once and left out."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from perfmon.model import J_LINES, LEG, Record, Stamp

from .heads import Heads
from .joining import Calm, HeldLeg, Leg, join
from .needles import Hit, NeedleSearch
from .numbering import Numbering
from .shapes import Shapes
from .silence import Dated

if TYPE_CHECKING:
    from ._scanning import Clocks

Sighting = tuple[
    int, int, int, int, int, int, str | None, int, Stamp | None, bool, Stamp | None, tuple[int, int] | None
]  # fmt: skip
"""A needle: its begin, end and number; its line's begin, end, lines before it in the block and, where at hand, text
without escape sequences; end and stamp of the last line of a known shape before it (0 and None for none); whether the
line's own stamp was seen, and that stamp; pattern and group of the `Repeat` that it ends with, if that is all it says.
"""


_UNSEEN: Final = (False, None, None)


class Repeat(NamedTuple):
    """How lines end that say the same, but for where and when they were printed."""

    needle: int
    """The only one in them."""
    lead: int
    """Bytes of `text` before the needle: what is read, colours, and one more; none more where it is the whole line."""
    whole: bool
    first: int
    """The byte that what is read begins with."""
    text: bytes
    """Up to the end of the line."""
    pattern: int
    group: int
    """Lines of one group say the same, of whichever pattern they are."""


class Found(Protocol):
    """What a block holds."""

    @property
    def hits(self) -> list[Sighting]:
        """Needles by position, but for those in lines of known shapes."""

    @property
    def dated(self) -> list[Dated]:
        """The lines of known shapes at which the stamp changed, each with the one before it, and the last one."""

    @property
    def newlines(self) -> int:
        """In the block."""

    @property
    def taken(self) -> int:
        """How many lines of known shapes there are."""

    @property
    def repeats(self) -> dict[int, tuple[int, int]]:
        """Of lines that say the same in one second only the first one has hits: where it begins, how many others there
        are, and how many lines of the block stand before the last of them."""

    @property
    def left_out(self) -> dict[int, int]:
        """How many others there are in all, by pattern."""

    def legs(self, line: int, pattern: int) -> list[Leg]:
        """These lines; `line` is the number of the block's first one."""

    def join(self, line: int, offset: int, pattern: int, calm: Calm) -> list[Record]:
        """Their updates, as `joined` gives them."""


class Finder(Protocol):
    """Finds the needles of a scanner and knows the shapes that it has learned."""

    def find(self, data: bytes, clocks: Clocks | None = None) -> Found:
        """What a block holds; `clocks` date lines by the headers that were read before."""

    def repeat(self, text: Repeat) -> None:
        """Leaves lines out that end so and say the same as the one before in the same second."""

    def know(self, shapes: Shapes) -> None:
        """To be called when another shape was learned."""


def joined(legs: Sequence[HeldLeg], data: bytes, offset: int, calm: Calm) -> list[Record]:
    """The records of the updates that some legs make."""
    records: list[Record] = []
    for index, trace, update in join([*legs], data, offset, calm):
        line, place, text = update[J_LINES][-1]
        records.append((index, line, place, None, None, [(LEG, trace, update)], text))
    return records


class PlainFinder:
    """Finds them in Python, with a search for many texts at once."""

    def __init__(self, needles: Sequence[bytes], leg: int, heads: Heads) -> None:
        self.heads, self.shapes, self.leg = heads, Shapes(), leg
        self.leg_size = len(needles[leg]) if leg >= 0 else 0
        self.needles = NeedleSearch(needles, leg)

    def find(self, data: bytes, clocks: Clocks | None = None) -> Found:
        """What a block holds."""
        return _PlainFound(self, data)

    def repeat(self, text: Repeat) -> None:
        """Nothing is left out."""

    def know(self, shapes: Shapes) -> None:
        """Reads lines of these shapes from now on."""
        self.shapes = shapes


class _PlainFound:
    """What the Python way found in one block."""

    repeats: Final[dict[int, tuple[int, int]]] = {}
    left_out: Final[dict[int, int]] = {}

    def __init__(self, finder: PlainFinder, data: bytes) -> None:
        self._finder, self._data = finder, data
        alone, hits = finder.needles.find(data)
        begins, leg_begins = self._begins([hit[0] for hit in hits]), self._begins(alone)
        numbering = Numbering(data, {*begins, *leg_begins})
        self.newlines = numbering.count - (data != b"" and not data.endswith(b"\n"))
        self._before = numbering.before
        read = self._read_legs(alone, leg_begins)
        for begin, following in pairwise(leg_begins):
            if begin == following:  # glued lines
                read.pop(begin, None)
        for hit, begin in zip(hits, begins, strict=True):
            if begin in read and hit[0] < read[begin][0]:  # what stands first in a line is asked first
                del read[begin]
        self._legs = {begin: leg for begin, (_, leg) in read.items()}
        self.taken = len(self._legs)
        self.dated = self._datings()
        left = [pair for pair in zip(hits, begins, strict=True) if pair[1] not in read]
        if self.taken < len(alone):
            size, number = finder.leg_size, finder.leg
            left += [
                ((at, at + size, number), begin)
                for at, begin in zip(alone, leg_begins, strict=True)
                if begin not in read
            ]
            left.sort()
        self.hits = self._sightings(left)

    def legs(self, line: int, pattern: int) -> list[Leg]:
        """The lines of known shapes; `line` is the number of the block's first one."""
        return [
            (begin, end, line + before, stamp, trace, values, pattern)
            for begin, end, before, stamp, trace, values, _ in self._legs.values()
        ]

    def join(self, line: int, offset: int, pattern: int, calm: Calm) -> list[Record]:
        """Their updates."""
        return joined(self.legs(line, pattern), self._data, offset, calm)

    def _begins(self, positions: Sequence[int]) -> list[int]:
        """Where the lines of these positions begin."""
        return [at + 1 for at in map(self._data.rfind, repeat(b"\n"), repeat(0), positions)]

    def _read_legs(self, needles: Sequence[int], begins: Sequence[int]) -> dict[int, tuple[int, Leg]]:
        """Lines of known shapes with the positions of their needles, by where they begin."""
        shapes, data = self._finder.shapes, self._data
        if not shapes:
            return {}
        stamps = self._finder.heads.stamps(data, begins, needles)
        found = [
            (begin, at, stamp) for begin, at, stamp in zip(begins, needles, stamps, strict=True) if stamp is not None
        ]
        ends = list(map(data.find, repeat(b"\n"), [at for _, at, _ in found]))
        while ends and ends[-1] < 0:
            found.pop()
            ends.pop()
        traces, told = shapes.read(
            map(data.__getitem__, map(slice, [at for _, at, _ in found], [end + 1 for end in ends]))
        )
        before = self._before
        return {
            begin: (at, (begin, end, before[begin], stamp, trace, values, 0))
            for (begin, at, stamp), end, trace, values in zip(found, ends, traces, told, strict=True)
            if values is not None
        }

    def _datings(self) -> list[Dated]:
        dated: list[Dated] = []
        before: Stamp | None = None
        last = 0
        for begin, _, _, stamp, *_ in self._legs.values():
            if stamp is not before and stamp is not None:
                if before is not None:
                    dated.append((last, before))
                dated.append((begin, stamp))
                before = stamp
            last = begin
        if before is not None:
            dated.append((last, before))
        return dated

    def _sightings(self, hits: Sequence[tuple[Hit, int]]) -> list[Sighting]:
        legs, begins, before = list(self._legs.values()), list(self._legs), self._before
        told: list[Sighting] = []
        for (at, to, needle), begin in hits:
            end = self._data.find(b"\n", to)
            last = bisect_right(begins, begin) - 1
            _, until, _, stamp, *_ = legs[last] if last >= 0 else (0, 0, 0, None)
            end = len(self._data) if end < 0 else end
            told.append((at, to, needle, begin, end, before[begin], None, until, stamp, *_UNSEEN))
        return told
