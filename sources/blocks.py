"""Blocks of whole lines: cut out of chunks of any size, merged where they adjoin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from perfmon.core import Block, Notice, masked

# --- Whether this installation and this processor have the compiled search (`_scanning.c`) ---
#
# PERFMON_NATIVE=0 does without it, and so does an installation without a compiler: all is then the same, but slower.

try:
    from . import _scanning as scanning
except ImportError:  # no compiler when this was installed, or a processor without AVX2
    scanning = None  # type: ignore[assignment]
_TIME = re.compile(r"\d:\d\d:|\d{9}|\d\.\d\d\.\d{3}\.\d{3} ")


def in_use() -> bool:
    """True if new scanners use the compiled search."""
    return scanning is not None and os.environ.get("PERFMON_NATIVE") != "0"


def newlines(data: bytes) -> int:
    """Count the newlines; with short lines `bytes.count` takes six times as long as the compiled search."""
    return data.count(b"\n") if scanning is None else scanning.newlines(data)


def may_hold_time(text: str, start: int) -> bool:
    """True if a time (`0:00:`, nine digits, `0.00.000.000 `) may follow after `start`, or text that is not ASCII."""
    if scanning is None:
        return not text.isascii() or _TIME.search(text, start) is not None
    return scanning.may_hold_time(text, start)


# --- Whole lines of a log: chunks of any size go in, blocks that end at a line's end come out ---
#
# How the chunks were cut leaves no trace: every chunking gives the same lines with the same offsets and line numbers.

MAX_LINE = 1 << 20
"""Bytes of a line that are read; the rest of a longer line is counted and skipped."""
UNFINISHED_S = 3.0
"""Seconds after which a line that does not grow is read without its end: more may never come."""
_REMEMBERED = 4096
"""Bytes of a line read without its end by which a credential in its rest is known."""
_PAGE = 4096
"""Buffers are written out in multiples of this, wherever that is in a line."""


class LineSplitter:
    """Turns the chunks of one stream into blocks.

    A line longer than `limit` bytes is cut after its last `\\r` frame within the limit, where it has one (progress
    bars, and records glued to them); leading NUL bytes of it (the hole that a truncated file is left with) are
    dropped; else its first `limit` bytes stand for it and the rest is skipped, unbuffered, with a "capped" notice.
    Offsets and line numbers stay those of the stream, so blocks after a cut do not adjoin.

    With `frames`, complete `\\r` frames are released before their line has ended: a live progress bar may last for
    hours. A released frame ends with a newline in place of its `\\r`, and the next block continues the same line.

    Without `counted`, `Block.line` is 0 and no time goes into counting newlines.

    `release` puts an unfinished line out before its end: a process that died may have left it so. What comes of it
    later is a piece of its own, of the same line, with stars for the rest of a credential that is cut so; an end that
    comes alone is no line.
    """

    def __init__(
        self, limit: int = MAX_LINE, *, offset: int = 0, line: int = 1, frames: bool = False, counted: bool = True
    ) -> None:
        self.offset = offset
        """Offset of the first byte that is in no block yet."""
        self.line = line if counted else 0
        self._limit = limit
        self._frames = frames
        self._counted = counted
        self._held: list[bytes] = []
        self._held_size = 0
        self._skipped = 0
        self._released: bytes | None = None
        """After a release what there is of the line's end: nothing, or a `\\r`."""
        self._before = b""
        """The last bytes that were released of the line that continues: a credential may continue, too."""
        self._out: list[Block | Notice] = []

    @property
    def held(self) -> int:
        """Bytes of the unfinished last line that wait for the rest of it."""
        return self._held_size

    @property
    def unfinished(self) -> bool:
        """A line waits for its end that may be whole: no half of a JSON record, nor where a page of a buffer ends."""
        if not self._held or (self.offset + self._held_size) % _PAGE == 0:
            return False
        return not self._held[0].startswith(b"{") or self._held[-1].rstrip().endswith(b"}")

    def feed(self, chunk: bytes) -> list[Block | Notice]:
        """The lines that end in `chunk`."""
        if self._released is not None:
            chunk = self._end_released(chunk)
        if self._skipped:
            chunk = self._skip(chunk)
        end = chunk.rfind(b"\n") + 1
        if end:
            self._cut(self._joined(chunk, end))
            self._hold(chunk[end:])
        else:
            self._hold(chunk)
        if self._held_size > self._limit:
            data = self._joined(b"", 0)
            self._hold(data[self._cut(data) :])
        if self._frames and self._held_size:
            self._release_frames()
        return self._taken()

    def release(self) -> list[Block | Notice]:
        """Return the unfinished last line, without waiting for its end any longer."""
        if self._held:
            data = self._joined(b"", 0)
            self._out.append(Block(data + b"\n", self.offset, self.line))
            self.offset += len(data)
            self._released = b""
            before, out = self._before + data, self._taken()
            self._before = before[-_REMEMBERED:]
            return out
        return self._taken()

    def _end_released(self, chunk: bytes) -> bytes:
        """Take the end of a line that was released, or of a frame; what of `chunk` stands after it."""
        chunk = (self._released or b"") + chunk
        if chunk in (b"", b"\r"):
            self._released = chunk
            return b""
        self._released = None
        end = 2 if chunk.startswith(b"\r\n") else int(chunk[:1] in (b"\r", b"\n"))
        if end:
            self._before = b""
        self.offset += end
        self.line += self._counted and chunk[:end].endswith(b"\n")
        return chunk[end:]

    def finish(self) -> list[Block | Notice]:
        """Return the unfinished last line when the stream has ended."""
        if self._skipped:
            self._report_capped()
        elif self._held:
            data = self._joined(b"", 0)
            self._out.append(Block(data, self.offset, self.line, final=True))
            self.offset += len(data)
        return self._taken()

    def _taken(self) -> list[Block | Notice]:
        out, self._out = self._out, []
        if self._before and out and isinstance(out[0], Block):
            out[0] = self._continued(out[0])
        return out

    def _continued(self, block: Block) -> Block:
        """A block whose first line continues a released one: with stars for what is of a credential in that."""
        before, self._before = self._before, b""
        line, end, rest = block.data.partition(b"\n")
        return replace(block, data=masked(before + line)[len(before) :] + end + rest)

    def _joined(self, chunk: bytes, end: int) -> bytes:
        """Return what is held and the first `end` bytes of `chunk`, and hold nothing."""
        held, self._held, self._held_size = self._held, [], 0
        if not held:
            return chunk[:end]
        return b"".join((*held, memoryview(chunk)[:end])) if end or len(held) > 1 else held[0]

    def _hold(self, rest: bytes) -> None:
        if rest:
            self._held.append(rest)
            self._held_size += len(rest)

    def _cut(self, data: bytes) -> int:
        """Put the lines of `data` out; return the end of the last whole line."""
        begin = at = 0
        limit = self._limit
        while len(data) - at > limit:
            stop = data.rfind(b"\n", at, at + limit + 1) + 1
            if stop:
                at = stop
                continue
            self._put(data, begin, at)
            begin = at = self._shorten(data, at)
        if not data.endswith(b"\n"):
            return begin
        self._put(data, begin, len(data))
        return len(data)

    def _put(self, data: bytes, begin: int, end: int) -> None:
        if begin == end:
            return
        block = Block(data[begin:end], self.offset, self.line)
        self._out.append(block)
        self.offset += end - begin
        if self._counted:
            self.line += newlines(block.data)

    def _shorten(self, data: bytes, at: int) -> int:
        """Shorten the line that starts at `at`; return the start of the next line or piece."""
        stop = at + self._limit
        if not data[at : at + 1].strip(b"\0") and not data[at:stop].strip(b"\0"):
            self.offset += stop - at
            return stop
        frame = data.rfind(b"\r", at, stop) + 1
        if frame:
            self._put_frame(data[at : frame - 1])
            return frame
        self._out.append(Block(data[at:stop] + b"\n", self.offset, self.line))
        self._skipped = self._limit
        self.offset += self._limit
        return len(data) - len(self._skip(data[stop:]))

    def _put_frame(self, data: bytes) -> None:
        self._out.append(Block(data + b"\n", self.offset, self.line))
        self.offset += len(data) + 1

    def _skip(self, chunk: bytes) -> bytes:
        """Skip the rest of an over-long line; what of `chunk` stands after it."""
        end = chunk.find(b"\n") + 1
        size = end or len(chunk)
        self.offset += size
        self._skipped += size
        if end:
            self._skipped -= 1
            self._report_capped()
        return chunk[size:]

    def _report_capped(self) -> None:
        where = f"line {self.line}" if self._counted else f"byte {self.offset - self._skipped}"
        text = f"{where} is {self._skipped} bytes long: only its first {self._limit} are read"
        self._out.append(Notice(text, "capped"))
        self._skipped = 0
        if self._counted:
            self.line += 1

    def _release_frames(self) -> None:
        """Put out the frames of the held line; a `\\r` at its very end may yet be half of a line's end."""
        if b"\r" not in self._held[-1] and not b"".join(self._held[-2:-1]).endswith(b"\r"):
            return
        data = self._joined(b"", 0)
        frame = data.rfind(b"\r", 0, len(data) - 1) + 1
        if frame:
            self._put_frame(data[: frame - 1])
        self._hold(data[frame:])


# --- Puts blocks that adjoin together: one large block costs far less to read than many small ones ---

TimedItem = tuple[float, str, Block | Notice]
"""(seconds since the start, name of the log, what its source handed over)."""


class _Run:
    """Blocks of one log that follow each other."""

    def __init__(self, at_s: float, block: Block) -> None:
        self._at_s, self._first = at_s, block
        self._parts: list[bytes] = []
        self._put(block)

    def take(self, block: Block) -> bool:
        """Add the block that follows; False when it does not."""
        if self._final or (block.offset, block.line) != (self._offset, self._line):
            return False
        self._put(block)
        return True

    def item(self, log: str) -> TimedItem:
        """All of it as one block."""
        first = self._first
        return self._at_s, log, Block(b"".join(self._parts), first.offset, first.line, self._final)

    def _put(self, block: Block) -> None:
        self._parts.append(block.data)
        self._final = block.final or not block.data.endswith(b"\n")
        self._offset = block.offset + len(block.data)
        self._line = block.line + block.data.count(b"\n") if block.line else 0


def in_goes(items: Iterable[TimedItem], size: int) -> Iterator[TimedItem]:
    """`items`, those of about `size` bytes at a time put together."""
    batch: list[TimedItem] = []
    held = 0
    for timed in items:
        batch.append(timed)
        held += len(timed[2].data) if isinstance(timed[2], Block) else 0
        if held >= size:
            yield from together(batch)
            batch, held = [], 0
    yield from together(batch)


def together(items: Iterable[TimedItem]) -> Iterator[TimedItem]:
    """`items` with the blocks of each log joined where they adjoin.

    Those of one log stay in order; between logs a joined block has the place, and the moment, of its first part.
    """
    done: list[TimedItem | _Run] = []
    names: list[str] = []
    open_runs: dict[str, _Run] = {}
    for at_s, log, item in items:
        if isinstance(item, Notice):
            open_runs.pop(log, None)
            done.append((at_s, log, item))
        elif log in open_runs and open_runs[log].take(item):
            continue
        else:
            done.append(run := _Run(at_s, item))
            open_runs[log] = run
        names.append(log)
    for entry, log in zip(done, names, strict=True):
        yield entry.item(log) if isinstance(entry, _Run) else entry


__all__ = ["MAX_LINE", "UNFINISHED_S", "LineSplitter", "in_use", "may_hold_time", "newlines", "scanning"]
