"""A process that scans stretches beside this one, where somebody waits for a long history (Linux).

Scanning a block depends on its bytes alone (`perfmon.sources.scan`), so it does not matter who does it. What is to be
scanned goes over as places in an open file, what it holds comes back in order through a pipe.
"""

from __future__ import annotations

import gc
import os
import pickle
import select
import signal
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import perfmon

from .passing import packed, unpacked, values, write_all
from .scan import Scanned, Scanner
from .unread import Stretch, Unread, read_stretch

_MOST_PENDING = 8
_AHEAD = 1 << 20
"""Bytes of results that may wait in the pipe."""
_ORDER = struct.Struct("=QQ")
"""Offset and size of a stretch; its last bytes follow, and with the first one of a file comes that."""
_MOST_ORDER = 1 << 10
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
        told = _in_memory(pickle.dumps(scanner.packs))  # more than a pipe takes before it is read
        try:
            self._orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _CODE, str(told), *filter(None, sys.path), str(_ROOT)],
                    stdin=theirs.fileno(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=(told,),
                    start_new_session=True,  # a signal of the terminal is for whoever watches, who ends this one too
                    bufsize=0,
                )
        finally:
            os.close(told)
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        self._results = self._process.stdout
        self._poll = select.poll()
        self._poll.register(self._results, select.POLLIN)
        self._ready = self._given = self._taken = 0
        self._file: Unread | None = None
        """The one that it reads."""

    @property
    def pending(self) -> int:
        """Stretches that were offered and are not taken back."""
        return self._given - self._taken

    def offer(self, stretch: Stretch) -> bool:
        """Has a stretch scanned; False when the process has enough to do, or is not up yet."""
        if self.pending == _MOST_PENDING or not self._up():
            return False
        files = [] if stretch.unread is self._file else [stretch.unread.fd]
        try:
            socket.send_fds(self._orders, [_ORDER.pack(stretch.offset, stretch.size) + stretch.tail], files)
        except OSError:
            return False  # it has ended, which `take` tells
        self._file = stretch.unread
        self._given += 1
        return True

    def done(self) -> bool:
        """Whether `take` returns at once."""
        return bool(self.pending) and self._told(0.0)

    def take(self) -> Scanned | None:
        """What the stretch holds that was offered first, its first line being number 0; None, and nothing comes any
        more, when the process has died."""
        self._taken += 1
        told = self._result()
        return None if not told else Scanned(*unpacked(told))

    def close(self) -> None:
        """Ends it, whatever it is doing."""
        self._process.kill()
        self._orders.close()
        with suppress(OSError):
            self._results.close()
        self._process.wait()

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


def _in_memory(data: bytes) -> int:
    """A file that is nowhere but in memory, and holds `data`; raises OSError."""
    fd = os.memfd_create("perfmon-formats")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    return fd


def serve(told: int) -> None:
    """What the process does: as it is told on standard input, until that ends."""
    _end_with_parent()
    with suppress(OSError):
        os.nice(_NICE)
    with socket.socket(fileno=0) as orders, open(1, "wb", buffering=0, closefd=False) as results:
        _hold_more(1)
        with open(told, "rb") as known:
            known.seek(0)
            packs = pickle.load(known)  # noqa: S301 - from whoever started us
        scanner, file = Scanner(packs), -1
        gc.disable()  # records have no cycles, and looking for them costs more than scanning
        write_all(results, _SIZE.pack(0))
        while True:
            order, files, _, _ = socket.recv_fds(orders, _MOST_ORDER, 1)
            if not order:
                return
            if files:
                with suppress(OSError):
                    os.close(file)
                file = files[0]
            offset, size = _ORDER.unpack_from(order)
            data = read_stretch(file, offset, size, order[_ORDER.size :])
            found = packed(values(scanner.scan(data, offset, 0)))
            write_all(results, _SIZE.pack(len(found)) + found)


def _hold_more(pipe: int) -> None:
    """Results wait in the pipe while whoever takes them does something else."""
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _AHEAD)


def _end_with_parent() -> None:
    """Whoever started it may be killed while somebody has stopped this process, which then hears of nothing."""
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
