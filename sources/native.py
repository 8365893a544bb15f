"""Finds what `finding.py` finds with the compiled search, where it is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .accelerator import in_use, scanning
from .finding import Finder, Found, PlainFinder, Repeat
from .needles import grouped

if TYPE_CHECKING:
    from ._scanning import Clocks
    from ._scanning import Finder as CompiledFinder

_MAX_NEEDLES = 2000
_MAX_NEEDLE = 10_000
_MAX_REPEAT = 240


def finder(needles: Sequence[bytes]) -> Finder:
    """Finds these needles."""
    if (
        scanning is None
        or not in_use()
        or len(needles) > _MAX_NEEDLES
        or max(map(len, needles), default=0) > _MAX_NEEDLE
    ):
        return PlainFinder(needles)
    told = [(needles[number], group, number) for group, numbers in enumerate(grouped(needles)) for number in numbers]
    return NativeFinder(scanning.Finder(told))


class NativeFinder:
    """Finds them in C."""

    def __init__(self, compiled: CompiledFinder) -> None:
        self._compiled = compiled

    def find(self, data: bytes, clocks: Clocks | None = None) -> Found:
        """What a block holds; other threads run meanwhile."""
        return self._compiled.find(data, clocks)

    def repeat(self, text: Repeat) -> None:
        """Leaves such lines out from now on, but for those that have no room."""
        if len(text.text) <= _MAX_REPEAT:
            self._compiled.repeats(*text)
