"""The heads of lines, from their begin to the needle that was found: equal heads mean equal stamps."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from perfmon.model import Stamp
from perfmon.text import ESCAPES

from .envelope import json_begin
from .formats.headers import HeaderReader

_MOST = 4096
_LONGEST = 400
_NEXT = "[w"
"""How the needles of weight updates begin, which stand behind these heads."""


class Heads:
    """The heads that were met, shared by all blocks of a scanner."""

    def __init__(self, headers: HeaderReader) -> None:
        self._headers = headers
        self._known: dict[bytes, Stamp | None] = {}

    def stamps(self, data: bytes, begins: Sequence[int], needles: Sequence[int]) -> list[Stamp | None]:
        """Stamps of the lines that begin and have their needles there; None where only the whole line may tell."""
        heads = list(map(data.__getitem__, map(slice, begins, needles)))
        known = self._known
        if len(known) > _MOST:
            known.clear()
        stamps = list(map(known.get, heads, repeat(_UNMET)))
        return [
            known.setdefault(head, self._read(head)) if stamp is _UNMET else stamp
            for head, stamp in zip(heads, stamps, strict=True)
        ]

    def stamp(self, head: bytes) -> Stamp | None:
        """The stamp of one line."""
        if len(self._known) > _MOST:
            self._known.clear()
        known = self._known.get(head, _UNMET)
        if known is _UNMET:
            known = self._known[head] = self._read(head)
        return known

    def _read(self, head: bytes) -> Stamp | None:
        if head in self._known:
            return self._known[head]
        if not head.isascii() or len(head) > _LONGEST or b"\r" in head or b"\x00" in head:
            return None
        text = head.decode("ascii")
        if "\x1b" in text:
            text = ESCAPES.sub("", text + _NEXT)
            if not text.endswith(_NEXT):
                return None  # an escape sequence that has not ended takes what follows with it
            text = text.removesuffix(_NEXT)
        return self._headers.at_start(text) if json_begin(text) < 0 else None


_UNMET: Stamp = (-1, 0.0)
"""Stands for a head that is met for the first time."""
