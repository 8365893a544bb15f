"""Finds what `finding.py` finds with the compiled search, where this installation and this processor have it.

PERFMON_NATIVE=0 does without, and so does an installation without a compiler: all is then the same, but slower.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from .finding import Finder, Found, PlainFinder
from .heads import Heads
from .needles import grouped
from .shapes import Shapes

try:
    from . import _scanning
except ImportError:  # no compiler when this was installed, or a processor without AVX2
    _COMPILED = None
else:
    _COMPILED = _scanning

_MAX_PARTS = 16
_MAX_PIECE = 64
_UNREAD, _NOTHING = -1, -2


def in_use() -> bool:
    """Whether scanners that are made from now on use the compiled search."""
    return _COMPILED is not None and os.environ.get("PERFMON_NATIVE") != "0"


def finder(needles: Sequence[bytes], leg: int, heads: Heads) -> Finder:
    """Finds these needles; lines of known shapes have the one numbered `leg`."""
    return NativeFinder(needles, leg, heads) if in_use() else PlainFinder(needles, leg, heads)


class NativeFinder:
    """Finds them in C."""

    def __init__(self, needles: Sequence[bytes], leg: int, heads: Heads) -> None:
        assert _COMPILED is not None
        self._stamp_of = heads.stamp
        told = [(needles[number], group, number) for group, numbers in enumerate(grouped(needles)) for number in numbers]
        self._finder = _COMPILED.Finder(told, leg)

    def find(self, data: bytes) -> Found:
        """What a block holds; other threads run meanwhile."""
        return self._finder.find(data, self._stamp_of)

    def know(self, shapes: Shapes) -> None:
        """Reads lines of these shapes from now on, but for those that have no room."""
        told = [
            (leg, [(piece, _NOTHING if not piece.endswith(b"=") else _UNREAD if slot is None else slot[0],
                    slot is not None and slot[1]) for piece, slot in parts])
            for leg, parts in shapes.parts
            if len(parts) <= _MAX_PARTS and all(len(piece) <= _MAX_PIECE for piece, _ in parts)
        ]  # fmt: skip
        if len(shapes.opening) <= _MAX_PIECE:
            self._finder.know(shapes.opening, told)
