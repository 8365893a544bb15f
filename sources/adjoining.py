"""Puts blocks that adjoin together: one large block costs far less to read than many small ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from .blocks import Block, Notice

TimedItem = tuple[float, str, Block | Notice]
"""(seconds since the start, name of the log, what its source handed over)."""


class _Run:
    """Blocks of one log that follow each other."""

    def __init__(self, at_s: float, block: Block) -> None:
        self._at_s, self._first = at_s, block
        self._parts: list[bytes] = []
        self._put(block)

    def take(self, block: Block) -> bool:
        """Adds the block that follows; False when it does not."""
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
