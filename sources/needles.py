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
    """A fixed set of needles."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        self._groups = [
            (numbers, BytesAhoCorasick([needles[number] for number in numbers], matchkind=MatchKind.LeftmostFirst))
            for numbers in grouped(needles)
        ]

    def find(self, data: bytes) -> list[Hit]:
        """Hits by position; of needles of one group that overlap only the first is told."""
        hits: list[Hit] = []
        for numbers, group in self._groups:
            hits += [(begin, end, numbers[needle]) for needle, begin, end in group.find_matches_as_indexes(data)]
        if len(self._groups) > 1:
            hits.sort()
        return hits
