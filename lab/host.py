"""The host of the lab: its memory, and what the processes truly hold of it, told as perfmon's poller tells it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from .journal import Journal
from .settings import MIB

TOTAL_MIB = 640.0
"""Little: what leaks is real memory of the machine that the lab runs on."""
FULL_PCT = 97.0
"""The kernel begins to kill before nothing is left at all."""
POLLS_S = 2.0
_KEEPS_S = 0.5


def leak(mib_s: Callable[[], float]) -> None:
    """Takes memory and never gives it back, for ever."""
    held = list[bytearray]()
    while True:
        time.sleep(_KEEPS_S)
        size = int(mib_s() * _KEEPS_S * MIB)
        if size:
            held.append(bytearray(b"\x01") * size)


class Host:
    """Looks at processes of the machine as if they had a host of their own."""

    def __init__(self, log: Path, journal: Journal) -> None:
        self._log, self._journal = log, journal

    def poll(self, pids: Iterable[int]) -> None:
        """Writes down what they hold now."""
        used_mib = sum(_resident_mib(pid) for pid in pids)
        now = self._journal.now()
        self._journal.stretch("memory", now, now, used_pct=round(100.0 * used_mib / TOTAL_MIB, 3))
        when = datetime.now().isoformat(" ", "milliseconds")
        with self._log.open("a", encoding="utf-8") as file:
            memory = f"mem_used_mb={used_mib:.1f} mem_total_mb={TOTAL_MIB:.0f}"
            file.write(f"{when} [poll] host host=lab-0 name=all cores=2 {memory}\n")


def _resident_mib(pid: int) -> float:
    """Memory of a process; 0 where it is gone."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text("utf-8").splitlines():
            if line.startswith("VmRSS:"):
                return float(line.split()[1]) / 1024.0
    return 0.0
