"""Fills log books in tests as a session would: every block after its log's clock has seen it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from perfmon.core.model import Block
from perfmon.core.text import ESCAPES
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.sources.clock import SourceClock
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.formats.schema import Pack
from perfmon.sources.formats.timestamps import HeaderReader


@cache
def packs() -> Sequence[Pack]:
    """The packs that come with perfmon, read once."""
    return load_packs(())


class Filler:
    """A book with a clock for every log."""

    def __init__(self, budget: int = 16 << 20) -> None:
        self.book = LogBuffer(budget, packs())
        self._headers = HeaderReader(packs())
        self._clocks: dict[int, SourceClock] = {}
        self._next: dict[int, tuple[int, int]] = {}

    def add(self, source: int, lines: Iterable[bytes], *, live: bool = False, name: str | None = None) -> None:
        """Appends whole lines as one block."""
        data = b"".join(line + b"\n" for line in lines)
        number, offset = self._next.get(source, (1, 0))
        clock = self._clocks.setdefault(source, SourceClock())
        for line in data.split(b"\n")[:-1]:
            stamp = self._headers.read(ESCAPES.sub("", line[:200].decode("utf-8", "replace")))
            if stamp is not None:
                clock.resolve(stamp, None)
        self._next[source] = number + data.count(b"\n"), offset + len(data)
        self.book.append(source, name or f"log{source}.log", Block(data, offset, number), clock, live=live)

    def anew(self, source: int) -> None:
        """The log was rotated: its numbers begin anew."""
        self._next.pop(source, None)


def stamped(ms: int, text: str) -> bytes:
    """A line printed so many milliseconds after 10:00."""
    seconds, rest = divmod(ms, 1000)
    minutes, seconds = divmod(seconds, 60)
    return f"2026-08-21 {10 + minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}.{rest:03d} {text}".encode()
