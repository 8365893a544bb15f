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
from typing import BinaryIO

from perfmon.core import Block, InputError, UsageError, evidence_text, plain
from perfmon.sources import newlines

from .buffer import LogBuffer
from .chunks import NEVER, Chunk, Index, LineTimer, Ranked, line_count, merged_back
from .lines import (
    EVERYTHING,
    CompiledFilter,
    Filter,
    Line,
    Place,
    cleaned,
    level_of,
    searchable,
    shown,
    ticks,
    trace_of,
)

# --- The lines of all logs in the order in which they were printed, from any place, both ways ---

BUDGET_S = 0.008
_KEPT_LINES = 1024
_KEPT_INDEXES = 64
_GONE = 16
"""Chunks that are remembered after they were dropped: every new line replaces one."""
_first, _stop, _end = attrgetter("first"), attrgetter("stop"), attrgetter("end")

Rank = tuple[float, float, int, int]
"""(seconds on the run's axis, arrival, source, ordinal): the order of all lines."""
_BEGIN: Rank = (-inf, -1, -1, -1)
_END: Rank = (inf, inf, 1 << 62, 0)


class _OutOfTimeError(Exception):
    """The time budget of this call is spent."""


@dataclass(frozen=True, slots=True)
class Page:
    """Some lines, in order."""

    lines: tuple[Line, ...]
    complete: bool
    """Nothing is left; otherwise the next call continues the search."""


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of lines that fit."""

    total: int
    at: int
    """Which of them the line is, from 1, by time; 0 if it does not fit."""
    complete: bool
    """All lines were searched; otherwise the next call continues."""


class _Search:
    """The progress of searching a chunk; of one that has grown only what is new is searched."""

    __slots__ = ("begin", "lines", "rest", "size", "slices")

    def __init__(self) -> None:
        self.lines: list[int] = []
        self.slices: Iterator[list[int]] | None = None
        """Of the piece that is being searched."""
        self.size = self.begin = 0
        """Bytes that were searched, and lines before the piece."""
        self.rest = b""
        """The piece."""


class View:
    """A reader of a buffer with a filter, for one thread. Every call reads what the buffer holds at that moment.

    A search takes about `budget_s`, and at most 256 lines more, however little it finds. Raises UsageError, one line,
    for a regular expression that is wrong or takes too long.
    """

    def __init__(self, book: LogBuffer, wanted: Filter = EVERYTHING) -> None:
        self.book = book
        self.wanted = wanted
        self._filter = None if wanted.lets_all else CompiledFilter(wanted)
        self._timer: LineTimer | None = None
        self._version = self._epoch = self._readings = -1
        self._chunks: dict[int, tuple[Chunk, ...]] = {}
        self._shifts: dict[int, float] = {}
        self._indexes: dict[tuple[int, int], Index] = {}
        self._found: dict[tuple[int, int], _Search] = {}
        """By log and the first line of a chunk: one that grows keeps its lines."""
        self._lines: dict[Place, Line] = {}
        self._remembered = _GONE
        self._deadline, self._searched = inf, False
        self._failed: UsageError | None = None

    # --- pages --------------------------------------------------------------------------------------------------
    def tail(self, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The last lines."""
        return self._read_back(_END, rows, budget_s)

    def head(self, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The first lines that are kept."""
        return self._read_on(_BEGIN, rows, budget_s)

    def before(self, place: Place, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The lines right before a place; none when it was dropped."""
        self._update()
        return self._read_back(self._rank(place), rows, budget_s)

    def after(self, place: Place, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The lines right after a place; the first ones when it was dropped."""
        self._update()
        rank = self._rank(place)
        return self._read_on(rank if rank == _BEGIN else (*rank[:3], rank[3] + 1), rows, budget_s)

    def start(self, place: Place, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The lines from a place on."""
        self._update()
        return self._read_on(self._rank(place), rows, budget_s)

    def at(self, when: float, rows: int, budget_s: float = BUDGET_S) -> Page:
        """The lines from a time on, in seconds on the run's axis."""
        return self._read_on((when, -1, -1, -1), rows, budget_s)

    def find(self, name: str, number: int, text: str = "") -> Place | None:
        """Find the newest line of a log with that number: numbers start again when a log is rotated.

        `text`, if given, is the line as evidence shows it. None when the line is not kept.
        """
        self._update()
        source = next((index for index, known in self.book.names.items() if known == name), None)
        if source is None:
            return None
        for chunk in reversed(self._chunks.get(source, ())):
            for at in chunk.lines_numbered(number):
                if not text or self._reads(source, chunk, at, text):
                    return Place(source, chunk.first + at)
        return None

    def line(self, place: Place) -> Line | None:
        """A line, whatever the filter; None when it was dropped."""
        self._update()
        chunk = self._chunk(place)
        return None if chunk is None else self._read([(place, chunk)])[0]

    def fraction(self, place: Place) -> float:
        """Share of the kept lines before a place, 0 to 1, whatever the filter."""
        self._update()
        rank = self._rank(place)
        total = sum(chunks[-1].stop - chunks[0].first for chunks in self._chunks.values())
        before = sum(self._bound(source, rank) - chunks[0].first for source, chunks in self._chunks.items())
        return before / total if total else 0.0

    def tally(self, place: Place | None, budget_s: float = BUDGET_S) -> Tally:
        """Count the lines that fit, and which of them `place` is."""
        self._update()
        self._deadline, self._searched = time.perf_counter() + budget_s, False
        rank = _END if place is None else self._rank(place)
        before = total = 0
        held, complete = False, True
        for source in self._wanted():
            bound = self._bound(source, rank)
            for chunk in reversed(self._chunks[source]):
                try:
                    numbers = self._fitting(source, chunk)
                except _OutOfTimeError:
                    complete = False
                    break
                at = bisect_left(numbers, bound - chunk.first)
                before, total = before + at, total + len(numbers)
                if place is not None and source == place.source and chunk.first <= place.ordinal < chunk.stop:
                    held = at < len(numbers) and numbers[at] == place.ordinal - chunk.first
        return Tally(total, before + 1 if held else 0, complete)

    def folded(self, place: Place, budget_s: float = BUDGET_S) -> int:
        """Count the lines right after one that fits, in its chunk, that do not; 0 while time is not enough for that."""
        chunk = self._chunk(place)
        if self._filter is None or chunk is None:
            return 0
        self._deadline, self._searched = time.perf_counter() + budget_s, False
        try:
            numbers = self._fitting(place.source, chunk)
        except _OutOfTimeError:
            return 0
        own = place.ordinal - chunk.first
        at = bisect_right(numbers, own)
        return (numbers[at] if at < len(numbers) else chunk.count) - own - 1

    # --- the merge ----------------------------------------------------------------------------------------------
    def _read_on(self, rank: Rank, rows: int, budget_s: float) -> Page:
        self._update()
        self._deadline, self._searched = time.perf_counter() + budget_s, False
        return self._page(merge(*[self._forward(source, self._bound(source, rank)) for source in self._wanted()]), rows)

    def _read_back(self, rank: Rank, rows: int, budget_s: float) -> Page:
        self._update()
        self._deadline, self._searched = time.perf_counter() + budget_s, False
        page = self._page(self._merged_back([(source, self._bound(source, rank)) for source in self._wanted()]), rows)
        return Page(page.lines[::-1], page.complete)

    def _merged_back(self, bounds: Iterable[tuple[int, int]]) -> Iterator[Ranked]:
        """Merge logs from these ordinals back; a log whose last lines are too old is not looked into."""
        runs: list[tuple[float, int, Iterator[Ranked]]] = []
        for source, ordinal in bounds:
            if at := bisect_left(self._chunks[source], ordinal, key=_first):
                last = self._chunks[source][at - 1]
                end = last.end + (0.0 if last.free else self._shifts.get(source, 0.0))
                runs.append((end, source, self._backward(source, ordinal)))
        return merged_back(runs)

    def _page(self, ranks: Iterator[Ranked], rows: int) -> Page:
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

    def _forward(self, source: int, ordinal: int) -> Iterator[Ranked]:
        chunks = self._chunks[source]
        for chunk in chunks[bisect_right(chunks, ordinal, key=_stop) :]:
            numbers = self._fitting(source, chunk)
            yield from self._ranked(source, chunk, numbers[bisect_left(numbers, ordinal - chunk.first) :])

    def _backward(self, source: int, ordinal: int) -> Iterator[Ranked]:
        chunks = self._chunks[source]
        for chunk in reversed(chunks[: bisect_left(chunks, ordinal, key=_first)]):
            numbers = self._fitting(source, chunk)
            yield from self._ranked(source, chunk, reversed(numbers[: bisect_left(numbers, ordinal - chunk.first)]))

    def _ranked(self, source: int, chunk: Chunk, numbers: Iterable[int]) -> Iterator[Ranked]:
        index, first, mark = self._index(source, chunk), chunk.first, chunk.mark
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
        """Ordinal of the first line of a log that is not before `rank`."""
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
        return chunk.first + self._index(source, chunk).lines_before(when if chunk.free else when - shift, arrival)

    # --- what is remembered -------------------------------------------------------------------------------------
    def _update(self) -> None:
        """Take over the contents of the buffer."""
        if self._version == self.book.version:
            return
        epoch, readings = self.book.epoch, self.book.readings
        self._version, chunks, shifts = self.book.chunks()
        self._chunks, self._shifts = {source: held for source, held in chunks.items() if held}, dict(shifts)
        if epoch != self._epoch:
            self._epoch = epoch
            self._lines.clear()
        if readings != self._readings:
            self._readings = readings
            self._found.clear()
        if len(self._indexes) + len(self._found) > self._remembered:
            self._forget()
        if self._timer is None and self._chunks:
            self._timer = LineTimer(self.book.packs)

    def _forget(self) -> None:
        """Drop indexes and searches of chunks that were dropped: they hold their text."""
        begins = {(source, chunk.first) for source, chunks in self._chunks.items() for chunk in chunks}
        self._found = {key: found for key, found in self._found.items() if key in begins}
        self._indexes = {key: index for key, index in self._indexes.items() if key in begins}
        self._remembered = len(self._indexes) + len(self._found) + _GONE

    def _chunk(self, place: Place) -> Chunk | None:
        chunks = self._chunks.get(place.source, ())
        at = bisect_right(chunks, place.ordinal, key=_first) - 1
        return chunks[at] if at >= 0 and place.ordinal < chunks[at].stop else None

    def _index(self, source: int, chunk: Chunk) -> Index:
        index = before = self._indexes.get((source, chunk.first))
        if index is None or index.chunk.serial != chunk.serial:
            assert self._timer is not None  # noqa: S101
            while before is None and len(self._indexes) >= _KEPT_INDEXES:
                del self._indexes[next(iter(self._indexes))]
            index = self._indexes[source, chunk.first] = Index(chunk, self._timer, before)
        return index

    def _fitting(self, source: int, chunk: Chunk) -> Sequence[int]:
        """Numbers of the chunk's lines that fit the filter; the next call continues where this one's time ended."""
        if self._filter is None:
            return range(chunk.count)
        found = self._found.get((source, chunk.first))
        if found is None:
            found = self._found[source, chunk.first] = _Search()
        while found.slices is not None or found.size < len(chunk.data):
            if self._failed is not None:
                raise self._failed
            if self._spent():
                raise _OutOfTimeError
            if found.slices is None:
                found.rest = chunk.data[found.size :]
                above = chunk.data[chunk.data.rfind(b"\n", 0, max(0, found.size - 1)) + 1 : found.size]
                found.slices = self._filter.search(searchable(found.rest).removesuffix("\n"), searchable(above))
            try:
                more = next(found.slices, None)
            except UsageError as error:
                self._failed = error
                raise
            self._searched = True
            if more is None:
                found.size, found.begin = found.size + len(found.rest), found.begin + line_count(found.rest)
                found.slices, found.rest = None, b""
            else:
                found.lines += [found.begin + at for at in more] if found.begin else more
        return found.lines

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
            known.update({line.place: line for line in self._lines_at(fresh)})
        return tuple([known[place] for place, _ in found])

    def _lines_at(self, found: Sequence[tuple[Place, Chunk]]) -> Iterator[Line]:
        indexes = [(self._index(place.source, chunk), place.ordinal - chunk.first) for place, chunk in found]
        texts = cleaned([index.raw(at) for index, at in indexes])
        before = cleaned([index.raw(at - 1) if at else b"" for index, at in indexes])
        fit = shown(texts, before)
        for (place, chunk), (index, at), text, displayed in zip(found, indexes, texts, fit, strict=True):
            own = index.time(at)
            when = index.key(at) if own is None else own
            when += 0.0 if chunk.free else self._shifts.get(place.source, 0.0)
            yield Line(
                place,
                place.source,
                chunk.number(at),
                None if when == NEVER else when,
                own is not None,
                ticks(text),
                level_of(text),
                trace_of(text),
                displayed,
            )

    def _reads(self, source: int, chunk: Chunk, at: int, text: str) -> bool:
        return evidence_text(cleaned([self._index(source, chunk).raw(at)])[0])[:80].strip() == text[:80].strip()


# --- A piece of a log read back from its file: lines that were dropped ---

_CHUNK = 1 << 20
_LINE_CAP = 1 << 16
_BYTES_CAP = 1 << 20


def read_back(path: Path, number: int, around: int = 200, name: str = "") -> Block:
    """Read the line of that number, from 1, with up to `around` lines on both sides (blocking: reads up to there).

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
    """Offset of a line; None when the file has fewer."""
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
    """Read `needed` lines and up to `more` after them, the longest cut; None when there are fewer."""
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
