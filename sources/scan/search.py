"""Search for the literals of all patterns in a block, compiled or plain; line numbers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from io import BytesIO
from itertools import accumulate, pairwise, repeat
from operator import sub
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ahocorasick_rs import BytesAhoCorasick, MatchKind

from perfmon.core import J_LINES, LEG, Record, Stamp

from ..blocks import in_use, scanning
from .gaps import Dated
from .update_templates import Calm, Heads, HeldLeg, Leg, Shapes, Slot, join

if TYPE_CHECKING:
    from .._scanning import Clocks
    from .._scanning import Finder as CompiledFinder


# --- Finds any of many literal texts in a block, in one pass or a few ---
#
# The search is vectorised for up to about sixty needles and several times slower for more, hence the groups. It looks
# at the low four bits of four bytes first: needles that share those are quicker to look for together.

_GROUP = 48

Hit = tuple[int, int, int]
"""(begin, end, number of the needle)."""


def grouped(needles: Sequence[bytes]) -> list[list[int]]:
    """Numbers of the needles, by group, in the order in which they are asked."""
    order = sorted(range(len(needles)), key=lambda number: bytes(byte & 15 for byte in needles[number][:4]))
    return [order[first : first + _GROUP] for first in range(0, len(order), _GROUP)]


class NeedleSearch:
    """A fixed set of needles; the hits of `alone`, the number of one of them, are told apart from the others."""

    def __init__(self, needles: Sequence[bytes], alone: int = -1) -> None:
        self._alone = alone
        self._groups = [
            (numbers, BytesAhoCorasick([needles[number] for number in numbers], matchkind=MatchKind.LeftmostFirst))
            for numbers in grouped(needles)
        ]

    def find(self, data: bytes) -> tuple[list[int], list[Hit]]:
        """Positions of the needle that is told apart, and hits of all others; both by position.

        Of needles of one group that overlap only the first is told.
        """
        alone: list[int] = []
        hits: list[Hit] = []
        for numbers, group in self._groups:
            found = group.find_matches_as_indexes(data)
            if self._alone in numbers:
                own = numbers.index(self._alone)
                alone = [match[1] for match in found if match[0] == own]
                found = [match for match in found if match[0] != own]
            hits += [(begin, end, numbers[needle]) for needle, begin, end in found]
        if len(self._groups) > 1:
            hits.sort()
        return alone, hits


# --- Numbers the lines of a block where something was found ---


class Numbering:
    """How many lines of a block stand before each of some lines."""

    def __init__(self, data: bytes, begins: Iterable[int]) -> None:
        # Cutting the lines takes two thirds of the time of counting newlines; a hint of 0 would mean all of them.
        lines = BytesIO(data)
        self._data = data
        self._starts = sorted({*begins} - {0})
        before = accumulate(map(len, map(lines.readlines, map(sub, self._starts, [0, *self._starts]))))
        self.before: dict[int, int] = {0: 0, **dict(zip(self._starts, before, strict=True))}
        """By the begin of each of these lines."""
        self.count = self.before[self._starts[-1] if self._starts else 0] + len(lines.readlines())
        """Lines in all; the last one may have no newline."""


class LineCount:
    """How many lines of a block stand before any position; quick for positions near the edges or the last one."""

    def __init__(self, data: bytes, newlines: int) -> None:
        self._data = data
        self._marks = [(0, 0), (len(data), newlines)]
        self.lines = newlines + (data != b"" and not data.endswith((b"\n", b"\r")))
        """Lines in all; the last one may have no newline, but frames of a bar that goes on are no line yet."""

    def before(self, position: int) -> int:
        """Lines before the one that holds a position."""
        mark, count = min(self._marks, key=lambda mark: abs(mark[0] - position))
        low, high = sorted((mark, position))
        between = self._data.count(b"\n", low, high)
        count += between if mark == low else -between
        self._marks[2:] = [(position, count)]
        return count


# --- Finds the lines of a block that may mean something; lines of known shapes are read at once and left out ---

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


class PythonSearch:
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

    def __init__(self, finder: PythonSearch, data: bytes) -> None:
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


# --- Finds what `search.py` finds with the compiled search, where it is in use ---

_MAX_NEEDLES = 2000
_MAX_NEEDLE = 10_000
_MAX_PARTS = 16
_MAX_PIECE = 64
_MAX_REPEAT = 240
_UNREAD, _NOTHING = -1, -2


def finder(needles: Sequence[bytes], leg: int, heads: Heads) -> Finder:
    """Finds these needles; lines of known shapes have the one numbered `leg`."""
    if (
        scanning is None
        or not in_use()
        or len(needles) > _MAX_NEEDLES
        or max(map(len, needles), default=0) > _MAX_NEEDLE
    ):
        return PythonSearch(needles, leg, heads)
    told = [(needles[number], group, number) for group, numbers in enumerate(grouped(needles)) for number in numbers]
    return NativeSearch(scanning.Finder(told, leg), heads)


class NativeSearch:
    """Finds them in C."""

    def __init__(self, compiled: CompiledFinder, heads: Heads) -> None:
        self._compiled = compiled
        self._stamp_of = heads.stamp

    def find(self, data: bytes, clocks: Clocks | None = None) -> Found:
        """What a block holds; other threads run meanwhile."""
        return self._compiled.find(data, self._stamp_of, clocks)

    def repeat(self, text: Repeat) -> None:
        """Leaves such lines out from now on, but for those that have no room."""
        if len(text.text) <= _MAX_REPEAT:
            self._compiled.repeats(*text)

    def know(self, shapes: Shapes) -> None:
        """Reads lines of these shapes from now on, but for those that have no room."""
        told = [
            (leg, [_part(*part) for part in parts])
            for leg, parts in shapes.parts
            if len(parts) <= _MAX_PARTS and all(len(piece) <= _MAX_PIECE for piece, _ in parts)
        ]
        if len(shapes.opening) <= _MAX_PIECE:
            self._compiled.know(shapes.opening, told)


def _part(piece: bytes, slot: Slot | None) -> tuple[bytes, int, bool]:
    if slot is None:
        return piece, _UNREAD if piece.endswith(b"=") else _NOTHING, False
    return piece, *slot
