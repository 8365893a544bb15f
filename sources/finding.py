"""Finds the lines of a block that may mean something."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from perfmon.model import Stamp

from .needles import NeedleSearch
from .numbering import Numbering

if TYPE_CHECKING:
    from ._scanning import Clocks

Sighting = tuple[int, int, int, int, int, int, str | None, bool, Stamp | None, tuple[int, int] | None]
"""A needle: its begin, end and number; its line's begin, end, lines before it in the block and, where at hand, text
without escape sequences; whether the line's own stamp was seen, and that stamp; pattern and group of the `Repeat` that
it ends with, if that is all it says.
"""


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
        """Needles by position."""

    @property
    def newlines(self) -> int:
        """In the block."""

    @property
    def repeats(self) -> dict[int, tuple[int, int]]:
        """Of lines that say the same in one second only the first one has hits: where it begins, how many others there
        are, and how many lines of the block stand before the last of them."""

    @property
    def left_out(self) -> dict[int, int]:
        """How many others there are in all, by pattern."""


class Finder(Protocol):
    """Finds the needles of a scanner."""

    def find(self, data: bytes, clocks: Clocks | None = None) -> Found:
        """What a block holds; `clocks` date lines by the headers that were read before."""

    def repeat(self, text: Repeat) -> None:
        """Leaves lines out that end so and say the same as the one before in the same second."""


class PlainFinder:
    """Finds them in Python, with a search for many texts at once."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        self._needles = NeedleSearch(needles)

    def find(self, data: bytes, clocks: Clocks | None = None) -> Found:
        """What a block holds."""
        return _PlainFound(self._needles, data)

    def repeat(self, text: Repeat) -> None:
        """Nothing is left out."""


class _PlainFound:
    """What the Python way found in one block."""

    repeats: Final[dict[int, tuple[int, int]]] = {}
    left_out: Final[dict[int, int]] = {}

    def __init__(self, needles: NeedleSearch, data: bytes) -> None:
        hits = needles.find(data)
        begins = [data.rfind(b"\n", 0, at) + 1 for at, _, _ in hits]
        numbering = Numbering(data, begins)
        self.newlines = numbering.count - (data != b"" and not data.endswith(b"\n"))
        self.hits: list[Sighting] = []
        for (at, to, needle), begin in zip(hits, begins, strict=True):
            end = data.find(b"\n", to)
            end = len(data) if end < 0 else end
            self.hits.append((at, to, needle, begin, end, numbering.before[begin], None, False, None, None))
