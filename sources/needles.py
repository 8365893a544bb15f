"""Finds any of many literal texts in a block, in one pass or a few.

The search is vectorised for up to about sixty needles and several times slower for more, hence the groups.
"""

from __future__ import annotations

from collections.abc import Sequence

from ahocorasick_rs import BytesAhoCorasick, MatchKind

_GROUP = 56

Hit = tuple[int, int, int]
"""(begin, end, number of the needle)."""


class NeedleSearch:
    """A fixed set of needles; the hits of `alone`, the number of one of them, are told apart from the others."""

    def __init__(self, needles: Sequence[bytes], alone: int = -1) -> None:
        self._alone = alone
        self._groups = [
            (first, BytesAhoCorasick(needles[first : first + _GROUP], matchkind=MatchKind.LeftmostFirst))
            for first in range(0, len(needles), _GROUP)
        ]

    def find(self, data: bytes) -> tuple[list[int], list[Hit]]:
        """Positions of the needle that is told apart, and hits of all others; both by position.

        Of needles of one group that overlap only the first is told.
        """
        alone: list[int] = []
        hits: list[Hit] = []
        for first, group in self._groups:
            found = group.find_matches_as_indexes(data)
            if 0 <= self._alone - first < _GROUP:
                number = self._alone - first
                alone = [match[1] for match in found if match[0] == number]
                found = [match for match in found if match[0] != number]
            hits += [(begin, end, first + needle) for needle, begin, end in found]
        if len(self._groups) > 1:
            hits.sort()
        return alone, hits
