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
    """A fixed set of needles."""

    def __init__(self, needles: Sequence[bytes]) -> None:
        self._groups = [
            (first, BytesAhoCorasick(needles[first : first + _GROUP], matchkind=MatchKind.LeftmostFirst))
            for first in range(0, len(needles), _GROUP)
        ]

    def find(self, data: bytes) -> list[Hit]:
        """All hits by position; of needles of one group that overlap only the first is told."""
        hits: list[Hit] = []
        for first, group in self._groups:
            hits += [(begin, end, first + needle) for needle, begin, end in group.find_matches_as_indexes(data)]
        if len(self._groups) > 1:
            hits.sort()
        return hits
