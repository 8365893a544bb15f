"""What sources hand over: blocks of whole lines, and notices of what is lost or odd."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

NoticeKind = Literal[
    "lost", "capped", "rotated", "truncated", "gone", "appeared", "decoded", "unopened", "history", "written", "present"
]
MARKS = ("history", "written", "present")
"""Kinds of notices that tell nobody anything, but what of a recording was there when it began (`monitor.marked`)."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of one log."""

    data: bytes
    """Ends with a newline, unless `final`."""
    offset: int
    """Byte offset of `data` in the (decompressed) stream."""
    line: int
    """Number of the first line, from 1; 0 when lines are not counted."""
    final: bool = False
    """The input ended within a line: `data` is that unfinished line."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about an input that its reader must be told."""

    text: str
    kind: NoticeKind
    count: int = 1
