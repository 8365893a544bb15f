"""Lines out of the chunks that a command prints."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ..blocks import Cutter, Notice

MAX_LINE = 1 << 20
"""Bytes of a line that are kept; what a longer one holds beyond that is left out."""


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines, without newlines; the last one also where it has none."""
    cutter = Cutter(MAX_LINE, counted=False)
    async for chunk in chunks:
        for item in cutter.feed(chunk):
            if not isinstance(item, Notice):
                for line in item.data.splitlines():
                    yield line
    for item in cutter.finish():
        if not isinstance(item, Notice):
            yield item.data
