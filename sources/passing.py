"""What processes that scan hand to the one that takes what they found."""

from __future__ import annotations

import marshal
from typing import IO, Any

from .scan import Scanned

Values = tuple[Any, ...]
"""What `Scanned(*values)` is made of: plain values, which marshal takes."""


def values(scanned: Scanned) -> Values:
    """What a block holds, to be handed over."""
    return scanned.records, scanned.lines, scanned.size, scanned.recognised, scanned.problems


def packed(what: Any) -> bytes:
    """Plain values, for a pipe between processes of one perfmon."""
    return marshal.dumps(what)


def unpacked(told: bytes) -> Any:
    """What was packed; only for bytes of a process that this one started."""
    return marshal.loads(told)  # noqa: S302


def write_all(pipe: IO[bytes], data: bytes) -> None:
    """Writes to a pipe without a buffer, however little it takes at once."""
    left = memoryview(data)
    while left:
        left = left[pipe.write(left) :]
