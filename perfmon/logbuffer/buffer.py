"""The ring: takes blocks of lines, drops the oldest, and counts both. One thread fills it, others read it.

Appending reads no line: it counts newlines and keeps the time of the log's clock. Everything else is derived by a
`View`, for the lines that are displayed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock

from perfmon.core import ESCAPES, Block
from perfmon.sources import SourceClock
from perfmon.sources.formats import Pack

from .chunks import NEVER, Bookmark, Chunk, LineTimer, blocks, line_count, pieces
from .levels import LevelCounts

BUDGET = 4 << 20
_PIECE = 1 << 18
_SMALL = 1 << 15
_LOOK_BYTES = 1 << 13
_HEAD_BYTES = 400
_ADRIFT_S = 5.0


@dataclass(frozen=True, slots=True)
class Totals:
    """Lines and bytes appended of one log, or of all, and how many of them were dropped."""

    lines: int = 0
    bytes: int = 0
    lost_lines: int = 0
    lost_bytes: int = 0

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.lines + other.lines,
            self.bytes + other.bytes,
            self.lost_lines + other.lost_lines,
            self.lost_bytes + other.lost_bytes,
        )


class _SourceBuffer:
    """The chunks of one log, the oldest first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path: Path | None = None
        self.chunks: deque[Chunk] = deque()
        self.totals = Totals()
        self.levels = LevelCounts()
        self.near = NEVER
        """Its clock at the last dated line."""
        self.adrift = False
        """Its lines have no dates any more: they are placed where they arrive."""

    def count(self, *counts: int) -> None:
        self.totals += Totals(*counts)


class LogBuffer:
    """The newest lines of all logs.

    `append`, `align` and `clear` are for one thread, all else for any. No lock is held while lines are read.
    """

    def __init__(self, budget: int = BUDGET, packs: Sequence[Pack] | None = None) -> None:
        self.budget = budget
        """Bytes that the ring may take."""
        self.version = 0
        """Grows with every change that readers can observe."""
        self.epoch = 0
        """Grows when times that were known already change."""
        self.readings = 0
        """Grows when everything is dropped: lines are counted from the first one again."""
        self._packs = packs
        self._timer: LineTimer | None = None
        self._sources: dict[int, _SourceBuffer] = {}
        self._shifts: dict[int, float] = {}
        self._order: deque[int] = deque()
        """Logs of all chunks, in the order in which those arrived."""
        self._held = 0
        self._arrivals = 0
        self._serial = 0
        self._latest = NEVER
        """The latest time of any log, on the run's axis."""
        self._lock = Lock()

    @property
    def packs(self) -> Sequence[Pack]:
        """Format packs whose headers date lines; the built-in ones when none were given."""
        if self._packs is None:
            from perfmon.sources.formats import load_packs

            self._packs = load_packs(())
        return self._packs

    @packs.setter
    def packs(self, packs: Sequence[Pack]) -> None:
        self._packs, self._timer = packs, None

    # --- filling ------------------------------------------------------------------------------------------------
    def append(
        self, source: int, name: str, block: Block, clock: SourceClock, path: Path | None = None, *, live: bool = False
    ) -> None:
        """Append the next lines of log number `source`, after its clock has read them.

        `path` if it is a plain local file, from which dropped lines can be read. `live` if they were only just
        printed: then lines without a date, in a log that prints no dates any more, are placed where they arrived.
        """
        if not block.data:
            return
        with self._lock:
            shelf = self._shelf(source, name, path)
        line, offset = block.line, block.offset
        parts = pieces(block.data, _PIECE)
        for at, data in enumerate(parts, 1):
            self._arrivals += 1
            mark = Bookmark(0, line, self._arrivals, NEVER, offset)
            chunk = self._chunk(source, shelf, data, mark, clock, last=at == len(parts), live=live)
            self._count_levels(shelf, chunk, live)
            self._put(source, shelf, chunk)
            line, offset = line and line + chunk.count, offset + len(data)
        self.version += 1

    def _shelf(self, source: int, name: str, path: Path | None) -> _SourceBuffer:
        shelf = self._sources.setdefault(source, _SourceBuffer(name))
        shelf.name, shelf.path = name, path or shelf.path
        return shelf

    def keeps(self, source: int) -> bool:
        """Return True once a line of a log is kept: from then on no line of it is skipped."""
        shelf = self._sources.get(source)
        return shelf is not None and bool(shelf.chunks)

    def skipped(self, source: int, name: str, lines: int, size: int, path: Path | None = None) -> None:
        """Count the next lines of a log, of `size` bytes, which would be dropped before anyone could read them."""
        with self._lock:
            shelf = self._shelf(source, name, path)
            shelf.count(lines, size, lines, size)
            shelf.levels.exact = False

    def align(self, shifts: Mapping[int, float]) -> None:
        """Set the seconds to add to the axis of each log to get the run's: see `perfmon.clocks.alignment`."""
        kept = {source: shift for source, shift in shifts.items() if shift}
        if kept == self._shifts:
            return
        with self._lock:
            self._shifts = kept
            ends = [(source, shelf.chunks[-1]) for source, shelf in self._sources.items() if shelf.chunks]
            times = [chunk.end + kept.get(source, 0.0) for source, chunk in ends if not chunk.free]
            self._latest = max(times, default=self._latest)
            self.version += 1
            self.epoch += 1

    def clear(self) -> None:
        """Drop everything: the logs are read again from the start."""
        with self._lock:
            self._sources, self._shifts = {}, {}
            self._order.clear()
            self._held, self._latest = 0, NEVER
            self.version += 1
            self.epoch += 1
            self.readings += 1

    def _chunk(
        self, source: int, shelf: _SourceBuffer, data: bytes, mark: Bookmark, clock: SourceClock, *, last: bool,
        live: bool,
    ) -> Chunk:  # fmt: skip
        """Make a chunk of `data`, whose times follow those of the chunks before it."""
        before = shelf.chunks[-1] if shelf.chunks else None
        count, near = line_count(data), clock.last
        if near is None:
            now = self._latest if before is None else max(self._latest, before.end)
            marks = (mark._replace(time=now),)
            return Chunk(0, data, shelf.totals.lines, count, marks, now, now, 0.0, None, None, True, self._arrivals)
        mono = clock.mono_to_wall if clock.kind is not None else 0.0
        chunk = Chunk(
            0, data, shelf.totals.lines, count, (mark,), NEVER, near, near, clock.kind, mono, False, self._arrivals
        )  # fmt: skip
        if not last:
            time = self._first_time(chunk, data[-_LOOK_BYTES:].split(b"\n")[:0:-1])
            rest = before.end if before is not None and not before.free else near
            chunk.end = rest if time is None else time
        self._base(shelf, chunk)
        if live:
            self._drift(source, shelf, chunk)
        return chunk

    def _count_levels(self, shelf: _SourceBuffer, chunk: Chunk, live: bool) -> None:
        """Count the levels of a chunk that has just been made, before it joins others."""
        if self._timer is None:
            self._timer = LineTimer(self.packs)
        timer, begin = self._timer, max(chunk.base, chunk.marks[0].time)
        with self._lock:
            shelf.levels.add(chunk.data, chunk.count, begin, chunk.end, live, lambda text: timer.time(chunk, text))

    def _drift(self, source: int, shelf: _SourceBuffer, chunk: Chunk) -> None:
        """Place the lines of a log that prints no dates any more at the present."""
        now = self._latest - self._shifts.get(source, 0.0)
        if chunk.near != shelf.near:
            shelf.near, shelf.adrift = chunk.near, False
        elif shelf.adrift or now - chunk.end > _ADRIFT_S:
            shelf.adrift = True
            if now > chunk.end:
                chunk.base, chunk.end, chunk.marks = now, now, (chunk.marks[0]._replace(time=now),)

    def _base(self, shelf: _SourceBuffer, chunk: Chunk) -> None:
        """Set the lower bound of a new chunk, after those before it were moved out of its way."""
        before = shelf.chunks[-1] if shelf.chunks else None
        if before is None or before.free:
            time = self._first_time(chunk, chunk.data[:_LOOK_BYTES].split(b"\n"))
            base = chunk.end if time is None else min(time, chunk.end)
            self._change(shelf, lambda old: replace(old, base=base, end=base, free=False, marks=_undated(old.marks)))
            chunk.base = base
            return
        if before.kind is None and chunk.kind is not None:
            # Times were monotonic until the first date came.
            by = chunk.end - before.end if chunk.mono is None else chunk.mono
            self._change(shelf, lambda old: _moved(old, by, chunk.kind))
            before = shelf.chunks[-1]
        adrift = shelf.adrift and chunk.near == shelf.near
        if chunk.end < before.end and not adrift:
            # The clock went back: earlier lines stay before this one, and the present remains the present.
            self._change(shelf, lambda old: replace(old, base=min(old.base, chunk.end), end=min(old.end, chunk.end)))
            chunk.base = chunk.end
            return
        chunk.base, chunk.end = before.end, max(before.end, chunk.end)

    def _first_time(self, chunk: Chunk, raws: Sequence[bytes]) -> float | None:
        """Return the time of the first of these lines that has one."""
        if self._timer is None:
            self._timer = LineTimer(self.packs)
        texts = (ESCAPES.sub("", raw[:_HEAD_BYTES].decode("utf-8", "replace")) for raw in raws)
        times = (self._timer.time(chunk, text) for text in texts)
        return next((time for time in times if time is not None), None)

    def _change(self, shelf: _SourceBuffer, change: Callable[[Chunk], Chunk]) -> None:
        """Replace chunks, the newest first, as far back as that changes their bounds."""
        chunks = shelf.chunks
        with self._lock:
            for at in range(len(chunks) - 1, -1, -1):
                changed = change(chunks[at])
                if _bounds(changed) == _bounds(chunks[at]):
                    break
                self._serial += 1
                chunks[at] = replace(changed, serial=self._serial)
            self.epoch += 1

    def _put(self, source: int, shelf: _SourceBuffer, chunk: Chunk) -> None:
        chunks = shelf.chunks
        before = chunks[-1] if chunks and _joins(chunks[-1], chunk) else None
        lines, size = chunk.count, len(chunk.data)
        if before is not None:
            _join(before, chunk)
        with self._lock:
            self._serial += 1
            chunk.serial = self._serial
            shelf.count(lines, size)
            if before is None:
                self._order.append(source)
            else:
                chunks.pop()
                self._held -= before.cost
            chunks.append(chunk)
            self._held += chunk.cost
            if not chunk.free:
                self._latest = max(self._latest, chunk.end + self._shifts.get(source, 0.0))
            self._forget()

    def _forget(self) -> None:
        """Drop the oldest chunks, but never the newest one."""
        while self._held > self.budget and len(self._order) > 1:
            shelf = self._sources[self._order.popleft()]
            chunk = shelf.chunks.popleft()
            self._held -= chunk.cost
            shelf.count(0, 0, chunk.count, len(chunk.data))

    # --- reading ------------------------------------------------------------------------------------------------
    def chunks(self) -> tuple[int, dict[int, tuple[Chunk, ...]], Mapping[int, float]]:
        """Return the version, the chunks of every log, and the seconds to add to the axis of each."""
        with self._lock:
            held = {source: tuple(shelf.chunks) for source, shelf in self._sources.items()}
            return self.version, held, self._shifts

    def held(self) -> list[tuple[str, Block]]:
        """Return all lines that are kept, each with the name of its log, in the order in which they arrived."""
        with self._lock:
            chunks = [(chunk, shelf.name) for shelf in self._sources.values() for chunk in shelf.chunks]
        chunks.sort(key=lambda held: held[0].arrived)
        return [(name, block) for chunk, name in chunks for block in blocks(chunk)]

    @property
    def names(self) -> dict[int, str]:
        """Names of the logs, by index."""
        with self._lock:
            return {source: shelf.name for source, shelf in self._sources.items()}

    @property
    def dated(self) -> bool:
        """True if the run's axis is wall-clock time: some log has timestamps."""
        with self._lock:
            return any(shelf.chunks[-1].kind is not None for shelf in self._sources.values() if shelf.chunks)

    def levels(self, source: int) -> tuple[int, int, bool]:
        """Return the number of warnings and errors of a log (a traceback is one), and if all lines were counted."""
        shelf = self._sources.get(source)
        return (0, 0, True) if shelf is None else (shelf.levels.warnings, shelf.levels.errors, shelf.levels.exact)

    def histogram(self, begin: float, column_s: float, columns: int) -> list[list[float]]:
        """Return the lines, warnings and errors of all logs in each of some columns of time, on the run's axis."""
        counts = [[0.0, 0.0, 0.0] for _ in range(columns)]
        with self._lock:
            for source, shelf in self._sources.items():
                shelf.levels.add_to(counts, begin - self._shifts.get(source, 0.0), column_s)
        return counts

    def path(self, source: int) -> Path | None:
        """Path of a log that is a local file."""
        shelf = self._sources.get(source)
        return None if shelf is None else shelf.path

    def totals(self, source: int | None = None) -> Totals:
        """Counts of one log, or of all together."""
        with self._lock:
            return sum((shelf.totals for index, shelf in self._sources.items() if source in (None, index)), Totals())


def _joins(before: Chunk, chunk: Chunk) -> bool:
    return (
        len(before.data) + len(chunk.data) <= _SMALL
        and before.free == chunk.free
        and before.kind == chunk.kind
        and before.data.endswith(b"\n")
    )


def _join(before: Chunk, chunk: Chunk) -> None:
    """Prepend the small chunk before it to a new, small chunk.

    A bookmark is needed only if line numbers jump, or lines of other logs came in between.
    """
    last, mark = before.marks[-1], chunk.marks[0]
    goes_on = mark.line == (last.line and last.line + before.count - last.at) and mark.time == last.time
    marks = before.marks
    if not goes_on or mark.arrival != before.arrived + 1:
        marks = (*marks, mark._replace(at=before.count))
    chunk.data, chunk.first, chunk.count = before.data + chunk.data, before.first, before.count + chunk.count
    chunk.marks, chunk.base = marks, before.base


def _undated(marks: tuple[Bookmark, ...]) -> tuple[Bookmark, ...]:
    return tuple(mark._replace(time=NEVER) for mark in marks)


def _moved(old: Chunk, by: float, kind: int | None) -> Chunk:
    """Move a chunk of a monotonic log to the axis that its first date set."""
    return replace(
        old, base=old.base + by, end=old.end + by, near=old.near + by, kind=kind, mono=by, marks=_undated(old.marks)
    )


def _bounds(chunk: Chunk) -> tuple[float, float, int | None, bool]:
    return chunk.base, chunk.end, chunk.kind, chunk.free
