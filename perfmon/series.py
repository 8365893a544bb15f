"""The samples of one metric, in arrays."""

from __future__ import annotations

from array import array
from itertools import compress
from operator import gt, lt

from .model import Ref

_OTHER = bytes.maketrans(b"\0\1", b"\1\0")
_TEXT_BYTES = 250
"""Beside its characters: the string, its place, and the entry of the table."""


class Series:
    """The samples of one metric and group, in the order in which they were read."""

    __slots__ = (
        "_looked", "_steady", "gone", "group", "lines", "metric", "offsets", "peaks", "sources", "texts", "times",
        "values",
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
        self.gone = 0
        """Samples that were let go of."""
        self._looked = 0
        self._steady = True

    def __len__(self) -> int:
        return len(self.values)

    @property
    def ever(self) -> int:
        """Samples that there have been."""
        return len(self.values) + self.gone

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
        # Of each two neighbours the second one stays only where it is the better one.
        second = bytes(map(gt if larger_is_kept else lt, self.values[1:half:2], self.values[0:half:2]))
        kept = bytearray(half)
        kept[1::2], kept[0::2] = second, second.translate(_OTHER)
        gone = set(compress(zip(self.sources, self.offsets, strict=True), kept.translate(_OTHER)))
        self._looked = 0
        self.gone += half // 2
        for name in ("times", "values", "sources", "lines", "offsets"):
            held: array[float] = getattr(self, name)
            setattr(self, name, array(held.typecode, compress(held, kept)) + held[half:])
        before = sum(map(text_bytes, self.texts.values()))
        if not gone.isdisjoint(self.texts):  # a line that tells two of the samples may have lost but one
            gone.difference_update(zip(self.sources, self.offsets, strict=True))
            self.texts = {place: text for place, text in self.texts.items() if place not in gone}
        return half // 2, before - sum(map(text_bytes, self.texts.values()))


def text_bytes(text: str) -> int:
    """What a line takes that is kept as evidence."""
    return _TEXT_BYTES + len(text)
