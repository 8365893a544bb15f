"""The samples of one metric, in arrays."""

from __future__ import annotations

from array import array

from .model import Ref

_TEXT_BYTES = 250
"""Beside its characters: the string, its place, and the entry of the table."""


class Series:
    """The samples of one metric and group, in the order in which they were read."""

    __slots__ = (
        "_looked", "_steady", "group", "lines", "metric", "offsets", "peaks", "sources", "texts", "times", "values",
    )  # fmt: skip

    def __init__(self, metric: str, group: str) -> None:
        self.metric, self.group = metric, group
        self.times = array("d")
        """Seconds on the axis of the sample's source."""
        self.values = array("d")
        """In the metric's unit."""
        self.sources = array("L")
        self.lines = array("Q")
        self.offsets = array("Q")
        self.texts: dict[tuple[int, int], str] = {}
        """Text of remarkable samples by source and line's offset: evidence."""
        self.peaks: dict[int, tuple[int, float]] = {}
        """Of each source how many samples there were and the largest value: what is kept of a log must not depend on
        what other logs said meanwhile."""
        self._looked = 0
        self._steady = True

    def __len__(self) -> int:
        return len(self.values)

    def ref(self, index: int) -> Ref:
        """Where sample `index` stands."""
        return Ref(self.sources[index], self.lines[index], self.offsets[index])

    def text(self, index: int) -> str:
        """The line of sample `index`, "" when it was not kept."""
        return self.texts.get((self.sources[index], self.offsets[index]), "")

    def steady(self) -> bool:
        """Whether all samples are of one source and in time order; only what is new since the last call is judged."""
        size = len(self)
        if self._steady and self._looked < size:
            begin = max(0, self._looked - 1)
            times, sources = self.times[begin:], self.sources[begin:]
            self._steady = sources.count(sources[0]) == len(sources) and list(times) == sorted(times)
        self._looked = size
        return self._steady

    def thin(self, larger_is_kept: bool = True) -> tuple[int, int]:
        """Halves the older half; returns how many samples went, and how many bytes of their lines."""
        half = len(self) // 2 // 2 * 2
        pick = max if larger_is_kept else min
        keep = [pick((i, i + 1), key=lambda at: self.values[at]) for i in range(0, half, 2)]
        keep += range(half, len(self))
        gone = len(self) - len(keep)
        self._looked = 0
        for name in ("times", "values", "sources", "lines", "offsets"):
            old: array[float] = getattr(self, name)
            setattr(self, name, array(old.typecode, [old[at] for at in keep]))
        left = set(zip(self.sources, self.offsets, strict=True))
        before = sum(map(text_bytes, self.texts.values()))
        self.texts = {place: text for place, text in self.texts.items() if place in left}
        return gone, before - sum(map(text_bytes, self.texts.values()))


def text_bytes(text: str) -> int:
    """What a line takes that is kept as evidence."""
    return _TEXT_BYTES + len(text)
