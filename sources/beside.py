"""A process that scans blocks beside this one, where somebody waits for a long history (Linux).

Scanning a block depends on its bytes alone (`perfmon.sources.scan`), so it does not matter who does it. The bytes go
over in memory that both share, what they hold comes back in order through a pipe.
"""

from __future__ import annotations

import gc
import mmap
import os
import pickle
import select
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import perfmon

from .blocks import Block
from .passing import packed, unpacked, values, write_all
from .scan import Scanned, Scanner

_SLOTS = 4
_SLOT_BYTES = 1 << 20
_ORDER = struct.Struct("=BIQQ")
"""Which slot, how many bytes are in it, their offset in the file, the number of their first line."""
_SIZE = struct.Struct("=Q")
_PATIENCE_S = 10.0
_NICE = 5
"""What is watched has the cores first."""
_ROOT = Path(perfmon.__file__).resolve().parents[1]
_CODE = "import sys; sys.path[:] = sys.argv[2:]; from perfmon.sources.beside import serve; serve(int(sys.argv[1]))"
"""It finds modules where this process does: what lies in the folder from which somebody started it is none of ours."""
_DIES_WITH_PARENT = 1
"""The number that prctl gives it."""


def available() -> bool:
    """Whether such a process can be had and has a core for itself."""
    if not sys.platform.startswith("linux") or not sys.executable:
        return False
    return len(os.sched_getaffinity(0)) > 1 and hasattr(os, "memfd_create")


class Beside:
    """The process, and what is on its way there and back."""

    def __init__(self, scanner: Scanner) -> None:
        """Starts it; raises OSError. It is of use as soon as `offer` takes something."""
        shared = os.memfd_create("perfmon-blocks")
        try:
            os.ftruncate(shared, _SLOTS * _SLOT_BYTES)
            self._memory = mmap.mmap(shared, _SLOTS * _SLOT_BYTES)
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _CODE, str(shared), *filter(None, sys.path), str(_ROOT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                pass_fds=(shared,),
                start_new_session=True,  # a signal of the terminal is for whoever watches, who ends this one too
                bufsize=0,
            )
        finally:
            os.close(shared)
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        assert self._process.stdout is not None  # noqa: S101
        self._orders, self._results = self._process.stdin, self._process.stdout
        self._poll = select.poll()
        self._poll.register(self._results, select.POLLIN)
        self._ready = self._given = self._taken = 0
        try:
            told = pickle.dumps((scanner.packs, scanner.calm))
            self._memory[: len(told)] = told  # more than a pipe takes before it is read
            write_all(self._orders, _SIZE.pack(len(told)))
        except (OSError, IndexError) as error:
            self.close()
            raise OSError(str(error)) from error

    @property
    def pending(self) -> int:
        """Blocks that were offered and are not taken back."""
        return self._given - self._taken

    def offer(self, block: Block) -> bool:
        """Has a block scanned; False when the process has enough to do, is not up yet, or cannot take this one."""
        size = len(block.data)
        if self.pending == _SLOTS or size > _SLOT_BYTES or not self._up():
            return False
        slot = self._given % _SLOTS
        self._memory[slot * _SLOT_BYTES : slot * _SLOT_BYTES + size] = block.data
        try:
            write_all(self._orders, _ORDER.pack(slot, size, block.offset, max(block.line, 1)))
        except OSError:
            return False  # it has ended, which `take` tells
        self._given += 1
        return True

    def done(self) -> bool:
        """Whether `take` returns at once."""
        return bool(self.pending) and self._told(0.0)

    def take(self) -> Scanned | None:
        """What the block holds that was offered first; None, and nothing comes any more, when the process has died."""
        self._taken += 1
        told = self._result()
        return None if not told else Scanned(*unpacked(told))

    def close(self) -> None:
        """Ends it, whatever it is doing."""
        self._process.kill()
        for pipe in (self._orders, self._results):
            with suppress(OSError):
                pipe.close()
        self._process.wait()
        self._memory.close()

    def _up(self) -> bool:
        """It says so once, when it has all that it needs."""
        if not self._ready and self._told(0.0):
            self._ready = 1 if self._result() == b"" else -1
        return self._ready > 0

    def _told(self, patience_s: float) -> bool:
        return bool(self._poll.poll(patience_s * 1e3))

    def _result(self) -> bytes | None:
        """What it says next; None when it does not."""
        head = self._read(_SIZE.size)
        return None if head is None else self._read(_SIZE.unpack(head)[0])

    def _read(self, size: int) -> bytes | None:
        parts = []
        while size:
            part = os.read(self._results.fileno(), size) if self._told(_PATIENCE_S) else b""
            if not part:
                return None
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def serve(shared: int) -> None:
    """What the process does: as it is told on standard input, until that ends."""
    _end_with_parent()
    with suppress(OSError):
        os.nice(_NICE)
    orders, results = open(0, "rb", closefd=False), open(1, "wb", buffering=0, closefd=False)  # noqa: SIM115
    with orders, results:
        memory = mmap.mmap(shared, _SLOTS * _SLOT_BYTES)
        (size,) = _SIZE.unpack(orders.read(_SIZE.size))
        packs, calm = pickle.loads(memory[:size])  # noqa: S301 - from whoever started us
        scanner = Scanner(packs, calm)
        gc.disable()  # records have no cycles, and looking for them costs more than scanning
        write_all(results, _SIZE.pack(0))
        while len(order := orders.read(_ORDER.size)) == _ORDER.size:
            slot, size, offset, line = _ORDER.unpack(order)
            begin = slot * _SLOT_BYTES
            found = scanner.scan(memory[begin : begin + size], offset, line)
            told = packed(values(found))
            write_all(results, _SIZE.pack(len(told)) + told)


def _end_with_parent() -> None:
    """Whoever started it may be killed while somebody has stopped this process, which then hears of nothing."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
