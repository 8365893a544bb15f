"""Finds what `finding.py` finds with the compiled search, where it is in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .accelerator import in_use, scanning
from .finding import Finder, Found, PlainFinder, Repeat
from .heads import Heads
from .needles import grouped
from .shapes import Shapes, Slot

if TYPE_CHECKING:
    from ._scanning import Clocks
    from ._scanning import Finder as CompiledFinder

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
        return PlainFinder(needles, leg, heads)
    told = [(needles[number], group, number) for group, numbers in enumerate(grouped(needles)) for number in numbers]
    return NativeFinder(scanning.Finder(told, leg), heads)


class NativeFinder:
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
