"""A GPU of which only the memory is there, and the time that it is busy: it is taken, given back, and runs out."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .clocks import true_monotonic

_TOTAL_GIB = 79.15
_CONTEXT_GIB = 0.55
"""What the driver's context takes."""


class OutOfMemoryError(RuntimeError):
    """More is wanted than is free; named and worded as torch does."""


OutOfMemoryError.__module__ = "torch"


class AcceleratorError(RuntimeError):
    """The driver says that a kernel failed; named as torch does."""


AcceleratorError.__module__ = "torch"


class Gpu:
    """Memory of one GPU, in GiB."""

    def __init__(self) -> None:
        self._used = 0.0
        self.peak_gib = 0.0
        """The most that was taken at once."""

    def allocate(self, gib: float) -> None:
        """Takes some; raises OutOfMemoryError."""
        free = _TOTAL_GIB - _CONTEXT_GIB - self._used
        if gib > free:
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {gib:.2f} GiB. GPU 0 has a total capacity of "
                f"{_TOTAL_GIB:.2f} GiB of which {free:.2f} GiB is free. Including non-PyTorch memory, this process has "
                f"{_CONTEXT_GIB + self._used:.2f} GiB memory in use. Of the allocated memory {self._used:.2f} GiB is "
                "allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated. If reserved but unallocated "
                "memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  "
                "See documentation for Memory Management  "
                "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
            )
        self._used += gib
        self.peak_gib = max(self.peak_gib, self._used)

    def free(self, gib: float) -> None:
        """Gives some back."""
        self._used -= gib


_BUSY = struct.Struct("dd")


class BusyTime:
    """How long a GPU has been busy: one process counts, in a file that another one looks at."""

    def __init__(self, path: Path) -> None:
        """The file is made where there is none."""
        with path.open("a+b") as file:
            file.truncate(_BUSY.size)
            self._shared = mmap.mmap(file.fileno(), _BUSY.size)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """It computes."""
        busy_s, _ = _BUSY.unpack(self._shared[:])
        began = true_monotonic()
        self._shared[:] = _BUSY.pack(busy_s, began)
        try:
            yield
        finally:
            self._shared[:] = _BUSY.pack(busy_s + true_monotonic() - began, 0.0)

    def total_s(self) -> float:
        """Seconds so far, those of what it computes now among them."""
        busy_s, began = _BUSY.unpack(self._shared[:])
        return float(busy_s + (true_monotonic() - began if began else 0.0))
