"""Reading the buffer: lines of all logs by time, both ways; lines that left it are read from their files."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from math import inf
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from perfmon.core import Block, InputError, UsageError, evidence_text, plain
from perfmon.sources import newlines

from .chunks import NEVER, Chunk
from .filters import CompiledFilter, Filter
from .index import Index
from .lines import Line, Place, cleaned, level_of, searchable, shown, ticks, trace_of

if TYPE_CHECKING:
    from .buffer import LogBuffer
    from .line_times import LineTimer


# --- Reads a book: the lines of all logs in the order in which they were printed, from any place, both ways ---

BUDGET_S = 0.008
_KEPT_LINES = 1024
_KEPT_INDEXES = 64
_GONE = 16
"""So many chunks that are gone may be remembered: every line that comes ends one."""
_first, _stop, _end = attrgetter("first"), attrgetter("stop"), attrgetter("end")

Rank = tuple[float, float, int, int]
"""(seconds on the run's axis, arrival, source, ordinal): the order of all lines."""
_Ranked = tuple[float, float, int, int, Chunk]
"""A rank, and the chunk that holds the line; of no two lines the ranks are equal, so chunks are not compared."""
_BEGIN: Rank = (-inf, -1, -1, -1)
_END: Rank = (inf, inf, 1 << 62, 0)


class _OutOfTimeError(Exception):
    """The budget of this call is spent: what is known so far must do."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines, in order."""

    lines: tuple[Line, ...]
    complete: bool
    """No more could be found; else ask again, the search goes on where it stopped."""


class _Found:
    """How far a chunk has been searched."""

    __slots__ = ("done", "lines", "slices")

    def __init__(self, slices: Iterator[list[int]]) -> None:
        self.slices = slices
        self.lines: list[int] = []
        self.done = False


class View:
    """A reader of a book with a filter, for one thread. Every call looks at what the book holds at that moment.

    A search takes about `budget_s`, and at most 256 lines more, however little it finds. Raises UsageError, one line,
    for a regular expression that is wrong or takes too long.
    """

    def __init__(self, book: LogBuffer, wanted: Filter) -> None:
        self.book = book
        self.wanted = wanted
        self._sieve = None if wanted.lets_all else CompiledFilter(wanted)
        self._dater: LineTimer | None = None
        self._version = self._epoch = -1
        self._chunks: dict[int, tuple[Chunk, ...]] = {}
        self._shifts: dict[int, float] = {}
        self._indexes: dict[int, Index] = {}
        self._found: dict[int, _Found] = {}
        self._lines: dict[Place, Line] = {}
        self._remembered = _GONE
        self._deadline, self._searched = inf, False
        self._failed: UsageError | None = None

    # --- asking -------------------------------------------------------------------------------------------------
    def tail(self, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The last lines."""
        return self._read_back(_END, rows, budget_s)

    def head(self, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The first lines that the ring still holds."""
        return self._read_on(_BEGIN, rows, budget_s)

    def before(self, place: Place, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The lines right before a place; none when the ring has forgotten it."""
        self._look()
        return self._read_back(self._rank(place), rows, budget_s)

    def after(self, place: Place, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The lines right after a place; the first ones when the ring has forgotten it."""
        self._look()
        rank = self._rank(place)
        return self._read_on(rank if rank == _BEGIN else (*rank[:3], rank[3] + 1), rows, budget_s)

    def start(self, place: Place, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The lines from a place on."""
        self._look()
        return self._read_on(self._rank(place), rows, budget_s)

    def at(self, when: float, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The lines from a moment on, in seconds on the run's axis."""
        return self._read_on((when, -1, -1, -1), rows, budget_s)

    def find(self, name: str, number: int, text: str = "") -> Place | None:
        """The line of a log with that number: the newest that has it, as numbers begin anew when a log is rotated.

        `text`, where it is given, is how it reads as evidence. None when the ring does not hold it.
        """
        self._look()
        source = next((index for index, known in self.book.names.items() if known == name), None)
        if source is None:
            return None
        for chunk in reversed(self._chunks.get(source, ())):
            for at in chunk.lines_numbered(number):
                if not text or self._reads(chunk, at, text):
                    return Place(source, chunk.first + at)
        return None

    def line(self, place: Place) -> Line | None:
        """A line, whatever the filter; None when the ring has forgotten it."""
        self._look()
        chunk = self._chunk(place)
        return None if chunk is None else self._read([(place, chunk)])[0]

    def fraction(self, place: Place) -> float:
        """Share of what the ring holds that stands before a place, 0 to 1; the filter does not matter."""
        self._look()
        rank = self._rank(place)
        total = sum(chunks[-1].stop - chunks[0].first for chunks in self._chunks.values())
        before = sum(
            self._bound(source, rank) - chunks[0].first for source, chunks in self._chunks.items()
        )  # fmt: skip
        return before / total if total else 0.0

    # --- the merge ----------------------------------------------------------------------------------------------
    def _read_on(self, rank: Rank, rows: int, budget_s: float) -> Page:
        self._look()
        self._deadline, self._searched = time.perf_counter() + budget_s, False
        return self._page(merge(*[self._forward(source, self._bound(source, rank)) for source in self._wanted()]), rows)

    def _read_back(self, rank: Rank, rows: int, budget_s: float) -> Page:
        self._look()
        self._deadline, self._searched = time.perf_counter() + budget_s, False
        runs = [self._backward(source, self._bound(source, rank)) for source in self._wanted()]
        page = self._page(merge(*runs, reverse=True), rows)
        return Page(page.lines[::-1], page.complete)

    def _page(self, ranks: Iterator[_Ranked], rows: int) -> Page:
        found: list[tuple[Place, Chunk]] = []
        complete = True
        try:
            for _, _, source, ordinal, chunk in islice(ranks, max(0, rows)):
                found.append((Place(source, ordinal), chunk))
        except _OutOfTimeError:
            complete = False
        return Page(self._read(found), complete)

    def _wanted(self) -> list[int]:
        sources = self.wanted.sources
        return [source for source in self._chunks if sources is None or source in sources]

    def _forward(self, source: int, ordinal: int) -> Iterator[_Ranked]:
        chunks = self._chunks[source]
        for chunk in chunks[bisect_right(chunks, ordinal, key=_stop) :]:
            numbers = self._fitting(chunk)
            yield from self._ranked(source, chunk, numbers[bisect_left(numbers, ordinal - chunk.first) :])

    def _backward(self, source: int, ordinal: int) -> Iterator[_Ranked]:
        chunks = self._chunks[source]
        for chunk in reversed(chunks[: bisect_left(chunks, ordinal, key=_first)]):
            numbers = self._fitting(chunk)
            yield from self._ranked(source, chunk, reversed(numbers[: bisect_left(numbers, ordinal - chunk.first)]))

    def _ranked(self, source: int, chunk: Chunk, numbers: Iterable[int]) -> Iterator[_Ranked]:
        index, first, mark = self._index(chunk), chunk.first, chunk.mark
        shift = 0.0 if chunk.free else self._shifts.get(source, 0.0)
        for at in numbers:
            yield index.key(at) + shift, mark(at).arrival, source, first + at, chunk

    def _rank(self, place: Place) -> Rank:
        chunk = self._chunk(place)
        if chunk is None:
            chunks = self._chunks.get(place.source)
            return _END if chunks and place.ordinal >= chunks[-1].stop else _BEGIN
        return next(self._ranked(place.source, chunk, (place.ordinal - chunk.first,)))[:4]

    def _bound(self, source: int, rank: Rank) -> int:
        """Ordinal of the first line of a log that does not stand before `rank`."""
        chunks, shift = self._chunks[source], self._shifts.get(source, 0.0)
        if source == rank[2]:
            return min(max(rank[3], chunks[0].first), chunks[-1].stop)
        when, arrival = rank[0], rank[1] + (0.5 if source < rank[2] else -0.5)

        def stands_before(chunk: Chunk) -> bool:
            return ((chunk.end if chunk.free else chunk.end + shift), chunk.marks[-1].arrival) < (when, arrival)

        if rank == _END:
            return chunks[-1].stop
        at = bisect_left(chunks, True, key=lambda chunk: not stands_before(chunk))
        if at == len(chunks):
            return chunks[-1].stop
        chunk = chunks[at]
        return chunk.first + self._index(chunk).lines_before(when if chunk.free else when - shift, arrival)

    # --- what is remembered -------------------------------------------------------------------------------------
    def _look(self) -> None:
        """Takes note of what the book holds now."""
        if self._version == self.book.version:
            return
        epoch = self.book.epoch
        self._version, chunks, shifts = self.book.chunks()
        self._chunks, self._shifts = {source: held for source, held in chunks.items() if held}, dict(shifts)
        if epoch != self._epoch:
            self._epoch = epoch
            self._lines.clear()
        if len(self._indexes) + len(self._found) > self._remembered:
            self._forget()
        if self._dater is None and self._chunks:  # without any line nobody needs what reads headers
            from .line_times import LineTimer

            self._dater = LineTimer(self.book.packs)

    def _forget(self) -> None:
        """What is remembered of a chunk holds its text: it goes soon after the ring lets go of it."""
        held_now = {chunk.serial for held in self._chunks.values() for chunk in held}
        for known in (self._found, self._indexes):
            for serial in [serial for serial in known if serial not in held_now]:
                del known[serial]
        self._remembered = len(self._indexes) + len(self._found) + _GONE

    def _chunk(self, place: Place) -> Chunk | None:
        chunks = self._chunks.get(place.source, ())
        at = bisect_right(chunks, place.ordinal, key=_first) - 1
        return chunks[at] if at >= 0 and place.ordinal < chunks[at].stop else None

    def _index(self, chunk: Chunk) -> Index:
        index = self._indexes.get(chunk.serial)
        if index is None:
            assert self._dater is not None  # noqa: S101
            while len(self._indexes) >= _KEPT_INDEXES:
                del self._indexes[next(iter(self._indexes))]
            index = self._indexes[chunk.serial] = Index(chunk, self._dater)
        return index

    def _fitting(self, chunk: Chunk) -> Sequence[int]:
        """Numbers of the chunk's lines that fit the filter; what a call has no time for, the next one goes on with."""
        if self._sieve is None:
            return range(chunk.count)
        found = self._found.get(chunk.serial)
        if found is None:
            if self._spent():
                raise _OutOfTimeError
            found = _Found(self._sieve.sift(searchable(chunk.data).removesuffix("\n")))
            self._found[chunk.serial] = found
        while not found.done:
            more = self._next_slice(found)
            self._searched = True
            if more is None:
                found.done = True
                break
            found.lines += more
            if self._spent():
                raise _OutOfTimeError
        return found.lines

    def _next_slice(self, found: _Found) -> list[int] | None:
        if self._failed is not None:
            raise self._failed
        try:
            return next(found.slices, None)
        except UsageError as error:
            self._failed = error
            raise

    def _spent(self) -> bool:
        return self._searched and time.perf_counter() > self._deadline

    def _read(self, found: Sequence[tuple[Place, Chunk]]) -> tuple[Line, ...]:
        """The lines at these places."""
        known = self._lines
        fresh = [at for at in found if at[0] not in known]
        if fresh:
            if len(known) + len(fresh) > _KEPT_LINES:
                known.clear()
                fresh = list(found)
            known.update({line.place: line for line in self._made(fresh)})
        return tuple([known[place] for place, _ in found])

    def _made(self, found: Sequence[tuple[Place, Chunk]]) -> Iterator[Line]:
        indexes = [(self._index(chunk), place.ordinal - chunk.first) for place, chunk in found]
        texts = cleaned([index.raw(at) for index, at in indexes])
        for (place, chunk), (index, at), text, seen in zip(found, indexes, texts, shown(texts), strict=True):
            told = index.told(at)
            when = index.key(at) if told is None else told
            when += 0.0 if chunk.free else self._shifts.get(place.source, 0.0)
            yield Line(
                place,
                place.source,
                chunk.number(at),
                None if when == NEVER else when,
                told is not None,
                ticks(text),
                level_of(text),
                trace_of(text),
                seen,
            )

    def _reads(self, chunk: Chunk, at: int, text: str) -> bool:
        return evidence_text(cleaned([self._index(chunk).raw(at)])[0])[:80].strip() == text[:80].strip()


# --- Reads a piece of a log back from its file: lines that the ring has forgotten ---

_CHUNK = 1 << 20
_LINE_CAP = 1 << 16
_BYTES_CAP = 1 << 20


def read_back(path: Path, number: int, around: int = 200, name: str = "") -> Block:
    """The line of that number, from 1, with up to `around` lines on both sides (blocking: reads the file up to it).

    Raises InputError, one line that calls the log `name`, when the file cannot be read or has no such line.
    """
    first = max(1, number - around)
    name = plain(name or str(path))
    try:
        with path.open("rb") as file:
            offset = _offset_of(file, first)
            data = None if offset is None else _lines(file, offset, number - first + 1, around)
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from None
    if offset is None or not data:
        raise InputError(f"{name}: line {number} no longer exists: rotated or truncated")
    return Block(data, offset, first)


def _offset_of(file: BinaryIO, line: int) -> int | None:
    """Where a line begins; None when the file has fewer."""
    left, offset = line - 1, 0
    while left:
        chunk = file.read(_CHUNK)
        if not chunk:
            return None
        count = newlines(chunk)
        if count < left:
            left -= count
            offset += len(chunk)
            continue
        at = -1
        for _ in range(left):
            at = chunk.index(b"\n", at + 1)
        return offset + at + 1
    return offset


def _lines(file: BinaryIO, offset: int, needed: int, more: int) -> bytes | None:
    """`needed` lines and up to `more` after them, the longest cut; None when there are not so many."""
    file.seek(offset)
    lines: list[bytes] = []
    size = 0
    while len(lines) < needed + more and (len(lines) < needed or size < _BYTES_CAP):
        line = file.readline(_LINE_CAP)
        if not line:
            break
        lines.append(line if line.endswith(b"\n") else line + b"\n")
        size += len(line)
        while len(line) == _LINE_CAP and not line.endswith(b"\n"):
            line = file.readline(_LINE_CAP)
    return b"".join(lines) if len(lines) >= needed else None
