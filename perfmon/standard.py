"""The standard streams of the program, whatever the shell made of them."""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer

_STDERR = 2


def settle_streams() -> None:
    """To be called first: no other file takes the place of a closed stream, and what is said is never an error.

    stdout carries data: where that cannot be written the program says so. stderr is narration: it gets lost.
    """
    for stream in range(3):
        try:
            os.fstat(stream)
        except OSError:  # closed by the shell (`2>&-`)
            # It is the first that is free. What is closed cannot be read: an empty input would be another thing.
            os.open(os.devnull, os.O_WRONLY)
    raw = _Forgiving(_STDERR, "w", closefd=False)
    known = sys.stderr.encoding if sys.stderr is not None else "utf-8"
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(raw), known, "backslashreplace", line_buffering=True)


class _Forgiving(io.FileIO):
    """Takes everything, also what a full disk or a closed terminal has no room for."""

    def write(self, data: Buffer, /) -> int:
        """Says that all of it was written."""
        try:
            return super().write(data) or 0
        except OSError:
            return memoryview(data).nbytes
