"""The ring: takes blocks of lines, forgets the oldest, and counts both. One thread fills it, others read it.

Appending looks at no line: it counts newlines, and remembers what the log's clock says. All else is found out by a
`View`, for the lines that somebody looks at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from perfmon.core import ESCAPES, Block

from .chunks import NEVER, Chunk, Mark, blocks, line_count, pieces

if TYPE_CHECKING:
    from perfmon.sources.formats import Pack

    from .filters import Filter
    from .line_times import Clock, LineTimer
    from .reader import View

BUDGET = 4 << 20
_PIECE = 1 << 18
_SMALL = 1 << 15
_LOOK_BYTES = 1 << 13
_HEAD_BYTES = 400
_ADRIFT_S = 5.0


@dataclass(frozen=True, slots=True)
class Totals:
    """What a book was given of one log, or of all, and how much of it the ring has forgotten."""

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


class _Shelf:
    """The chunks of one log, the oldest first."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path: Path | None = None
        self.chunks: deque[Chunk] = deque()
        self.lines = self.bytes = self.lost_lines = self.lost_bytes = 0
        self.near = NEVER
        """Its clock when a dated line was last seen."""
        self.adrift = False
        """Its lines have no dates any more: they stand where they arrive."""

    def totals(self) -> Totals:
        return Totals(self.lines, self.bytes, self.lost_lines, self.lost_bytes)


class LogBuffer:
    """The newest lines of all logs.

    `append`, `align` and `clear` are for one thread, all else for any. No lock is held while lines are looked at.
    """

    def __init__(self, budget: int = BUDGET, packs: Sequence[Pack] | None = None) -> None:
        self.budget = budget
        """Bytes that the ring may take."""
        self.version = 0
        """Grows with everything that changes what readers see."""
        self.epoch = 0
        """Grows when times that were known already change."""
        self.heard: Callable[[], None] | None = None
        """Called after lines were appended, in the thread that appends; it must not block."""
        self._packs = packs
        self._dater: LineTimer | None = None
        self._shelves: dict[int, _Shelf] = {}
        self._shifts: dict[int, float] = {}
        self._order: deque[int] = deque()
        """Logs of all chunks, in the order in which those arrived."""
        self._held = 0
        self._arrivals = 0
        self._serial = 0
        self._latest = NEVER
        """The latest time that any log has told, on the run's axis."""
        self._lock = Lock()

    @property
    def packs(self) -> Sequence[Pack]:
        """Whose headers date lines; read from the data files when none were given."""
        if self._packs is None:
            from perfmon.sources.formats import load_packs

            self._packs = load_packs(())
        return self._packs

    @packs.setter
    def packs(self, packs: Sequence[Pack]) -> None:
        self._packs, self._dater = packs, None

    # --- filling ------------------------------------------------------------------------------------------------
    def append(
        self, source: int, name: str, block: Block, clock: Clock, path: Path | None = None, *, live: bool = False
    ) -> None:
        """The next lines of log number `source`, after its clock has seen them.

        `path` where it is a plain local file, from which lines can be read that the ring has forgotten. `live` when
        they were only just printed: then lines without a date, in a log that prints no dates any more, stand where
        they arrived.
        """
        if not block.data:
            return
        with self._lock:
            shelf = self._shelves.setdefault(source, _Shelf(name))
            shelf.name, shelf.path = name, path or shelf.path
        line, offset = block.line, block.offset
        parts = pieces(block.data, _PIECE)
        for at, data in enumerate(parts, 1):
            self._arrivals += 1
            mark = Mark(0, line, self._arrivals, NEVER, offset)
            chunk = self._chunk(source, shelf, data, mark, clock, last=at == len(parts), live=live)
            self._put(source, shelf, chunk)
            line, offset = line and line + chunk.count, offset + len(data)
        self.version += 1
        if self.heard is not None:
            self.heard()

    def keeps(self, source: int) -> bool:
        """Whether some line of a log is kept: from then on what is kept of it stays in one piece."""
        shelf = self._shelves.get(source)
        return shelf is not None and bool(shelf.chunks)

    def passed(self, source: int, name: str, lines: int, size: int, path: Path | None = None) -> None:
        """Counts the next lines of a log, of `size` bytes, that would be forgotten before anybody could read them."""
        with self._lock:
            shelf = self._shelves.setdefault(source, _Shelf(name))
            shelf.name, shelf.path = name, path or shelf.path
            shelf.lines += lines
            shelf.lost_lines += lines
            shelf.bytes += size
            shelf.lost_bytes += size

    def align(self, shifts: Mapping[int, float]) -> None:
        """Seconds to add to the axis of each log to get the run's, as `perfmon.clocks.alignment` found them."""
        kept = {source: shift for source, shift in shifts.items() if shift}
        if kept == self._shifts:
            return
        with self._lock:
            self._shifts = kept
            ends = [(source, shelf.chunks[-1]) for source, shelf in self._shelves.items() if shelf.chunks]
            told = [chunk.end + kept.get(source, 0.0) for source, chunk in ends if not chunk.free]
            self._latest = max(told, default=self._latest)
            self.version += 1
            self.epoch += 1

    def clear(self) -> None:
        """Forgets everything: what comes next is another reading of the logs."""
        with self._lock:
            self._shelves, self._shifts = {}, {}
            self._order.clear()
            self._held, self._latest = 0, NEVER
            self.version += 1
            self.epoch += 1

    def _chunk(
        self, source: int, shelf: _Shelf, data: bytes, mark: Mark, clock: Clock, *, last: bool, live: bool
    ) -> Chunk:
        """A chunk for `data`; its times lie after those of the chunks before it."""
        before = shelf.chunks[-1] if shelf.chunks else None
        count, near = line_count(data), clock.last
        if near is None:
            now = self._latest if before is None else max(self._latest, before.end)
            marks = (mark._replace(time=now),)
            return Chunk(0, data, shelf.lines, count, marks, now, now, 0.0, None, None, True, self._arrivals)
        mono = clock.mono_to_wall if clock.kind is not None else 0.0
        chunk = Chunk(
            0, data, shelf.lines, count, (mark,), NEVER, near, near, clock.kind, mono, False, self._arrivals
        )  # fmt: skip
        if not last:
            told = self._told(chunk, data[-_LOOK_BYTES:].split(b"\n")[:0:-1])
            rest = before.end if before is not None and not before.free else near
            chunk.end = rest if told is None else told
        self._base(shelf, chunk)
        if live:
            self._drift(source, shelf, chunk)
        return chunk

    def _drift(self, source: int, shelf: _Shelf, chunk: Chunk) -> None:
        """A log that prints no dates any more speaks now all the same."""
        now = self._latest - self._shifts.get(source, 0.0)
        if chunk.near != shelf.near:
            shelf.near, shelf.adrift = chunk.near, False
        elif shelf.adrift or now - chunk.end > _ADRIFT_S:
            shelf.adrift = True
            if now > chunk.end:
                chunk.base, chunk.end, chunk.marks = now, now, (chunk.marks[0]._replace(time=now),)

    def _base(self, shelf: _Shelf, chunk: Chunk) -> None:
        """Gives a new chunk its lower bound, after those before it were moved out of its way."""
        before = shelf.chunks[-1] if shelf.chunks else None
        if before is None or before.free:
            told = self._told(chunk, chunk.data[:_LOOK_BYTES].split(b"\n"))
            base = chunk.end if told is None else min(told, chunk.end)
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
            # The clock went back: what was said before stands before, and the present remains the present.
            self._change(shelf, lambda old: replace(old, base=min(old.base, chunk.end), end=min(old.end, chunk.end)))
            chunk.base = chunk.end
            return
        chunk.base, chunk.end = before.end, max(before.end, chunk.end)

    def _told(self, chunk: Chunk, raws: Sequence[bytes]) -> float | None:
        """The time of the first of these lines that has one."""
        if self._dater is None:
            from .line_times import LineTimer

            self._dater = LineTimer(self.packs)
        for raw in raws:
            text = raw[:_HEAD_BYTES].decode("utf-8", "replace")
            told = self._dater.time(chunk, ESCAPES.sub("", text) if "\x1b" in text else text)
            if told is not None:
                return told
        return None

    def _change(self, shelf: _Shelf, change: Callable[[Chunk], Chunk]) -> None:
        """Changes chunks, the newest first, as far back as it changes anything."""
        chunks = shelf.chunks
        with self._lock:
            for at in range(len(chunks) - 1, -1, -1):
                changed = change(chunks[at])
                if _bounds(changed) == _bounds(chunks[at]):
                    break
                self._serial += 1
                chunks[at] = replace(changed, serial=self._serial)
            self.epoch += 1

    def _put(self, source: int, shelf: _Shelf, chunk: Chunk) -> None:
        chunks = shelf.chunks
        before = chunks[-1] if chunks and _joins(chunks[-1], chunk) else None
        lines, size = chunk.count, len(chunk.data)
        if before is not None:
            _join(before, chunk)
        with self._lock:
            self._serial += 1
            chunk.serial = self._serial
            shelf.lines += lines
            shelf.bytes += size
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
        """Lets the oldest chunks go, but never the newest one."""
        while self._held > self.budget and len(self._order) > 1:
            shelf = self._shelves[self._order.popleft()]
            chunk = shelf.chunks.popleft()
            self._held -= chunk.cost
            shelf.lost_lines += chunk.count
            shelf.lost_bytes += len(chunk.data)

    # --- reading ------------------------------------------------------------------------------------------------
    def view(self, wanted: Filter | None = None) -> View:
        """A reader of its own, for one thread. Raises UsageError for a filter with a wrong expression."""
        from .filters import EVERYTHING
        from .reader import View

        return View(self, EVERYTHING if wanted is None else wanted)

    def chunks(self) -> tuple[int, dict[int, tuple[Chunk, ...]], Mapping[int, float]]:
        """The version, the chunks that the ring holds of every log, and what to add to the axis of each."""
        with self._lock:
            held = {source: tuple(shelf.chunks) for source, shelf in self._shelves.items()}
            return self.version, held, self._shifts

    def held(self) -> list[tuple[str, Block]]:
        """All lines that the ring holds, each with the name of its log, in the order in which they arrived."""
        with self._lock:
            chunks = [(chunk, shelf.name) for shelf in self._shelves.values() for chunk in shelf.chunks]
        chunks.sort(key=lambda held: held[0].arrived)
        return [(name, block) for chunk, name in chunks for block in blocks(chunk)]

    @property
    def names(self) -> dict[int, str]:
        """Names of the logs, by index."""
        with self._lock:
            return {source: shelf.name for source, shelf in self._shelves.items()}

    @property
    def dated(self) -> bool:
        """The run's axis is that of the clocks on walls: some log has stamps."""
        with self._lock:
            return any(shelf.chunks[-1].kind is not None for shelf in self._shelves.values() if shelf.chunks)

    def path(self, source: int) -> Path | None:
        """The local file that a log is, if it is one."""
        shelf = self._shelves.get(source)
        return None if shelf is None else shelf.path

    def totals(self, source: int | None = None) -> Totals:
        """Counts of one log, or of all together."""
        with self._lock:
            shelves = [shelf for index, shelf in self._shelves.items() if source in (None, index)]
        return sum((shelf.totals() for shelf in shelves), Totals())

    @property
    def held_bytes(self) -> int:
        """What the ring takes now."""
        return self._held


def _joins(before: Chunk, chunk: Chunk) -> bool:
    return (
        len(before.data) + len(chunk.data) <= _SMALL
        and before.free == chunk.free
        and before.kind == chunk.kind
        and before.data.endswith(b"\n")
    )


def _join(before: Chunk, chunk: Chunk) -> None:
    """Makes a new chunk, which is small, one with the small one before it.

    A mark is needed only where numbers jump, or other logs spoke in between.
    """
    last, mark = before.marks[-1], chunk.marks[0]
    goes_on = mark.line == (last.line and last.line + before.count - last.at) and mark.time == last.time
    marks = before.marks
    if not goes_on or mark.arrival != before.arrived + 1:
        marks = (*marks, mark._replace(at=before.count))
    chunk.data, chunk.first, chunk.count = before.data + chunk.data, before.first, before.count + chunk.count
    chunk.marks, chunk.base = marks, before.base


def _undated(marks: tuple[Mark, ...]) -> tuple[Mark, ...]:
    return tuple(mark._replace(time=NEVER) for mark in marks)


def _moved(old: Chunk, by: float, kind: int | None) -> Chunk:
    """A chunk of a monotonic log on the axis that its first date gave it."""
    return replace(
        old, base=old.base + by, end=old.end + by, near=old.near + by, kind=kind, mono=by, marks=_undated(old.marks)
    )


def _bounds(chunk: Chunk) -> tuple[float, float, int | None, bool]:
    return chunk.base, chunk.end, chunk.kind, chunk.free
