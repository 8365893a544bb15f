"""Finds any of many literal texts in a block, in one pass or a few.

The search is vectorised for up to about sixty needles and several times slower for more, hence the groups. It looks
at the low four bits of four bytes first: needles that share those are quicker to look for together.
"""

from __future__ import annotations

from collections.abc import Sequence

from ahocorasick_rs import BytesAhoCorasick, MatchKind

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
