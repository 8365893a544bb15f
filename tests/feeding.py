"""Feeds a session a log, block after block, as whoever reads it would."""

from __future__ import annotations

from collections.abc import Iterable

from perfmon.core.model import Block
from perfmon.pipeline.session import Session
from perfmon.store.source_state import SourceState


def feed(session: Session, name: str, blocks: Iterable[str | bytes]) -> SourceState:
    """Blocks of whole lines that follow one another."""
    state, offset, number = session.add_source(name), 0, 1
    for block in blocks:
        data = block.encode() if isinstance(block, str) else block
        session.feed(state, Block(data, offset, number))
        offset, number = offset + len(data), number + data.count(b"\n")
    return state
