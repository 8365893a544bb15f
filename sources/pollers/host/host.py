"""A host: its processors, memory, load, pressure and network interfaces, in one round; its disks and the run's
processes in rounds of their own."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence

from ..poller import AbsentError, Machine, Places, Poller, nowhere
from ..reading import Area, Reading
from ..script import Script
from .procfs import SCRIPT, CpuTimes, HostFacts, facts_of, printed, read_here

EVERY_S = 5.0
"""Also while nothing happens a monitor must cost next to nothing; so the last ten minutes are remembered."""
MOST_SIGNS = 128


def host_pollers(machine: Machine, places: Places = nowhere) -> list[Poller]:
    """All that is asked of a host itself; `places` are paths whose disks matter to the run."""
    from .disk import DiskPoller
    from .process import ProcessPoller

    shell = Script(machine)
    return [HostPoller(machine, shell), ProcessPoller(machine, shell), DiskPoller(machine, places)]


class HostPoller:
    """Asks for all of `procfs.HostFacts`, and tells what came of it since the last time."""

    name = "host"
    every_s = EVERY_S

    def __init__(self, machine: Machine, shell: Script | None = None) -> None:
        from .nic import NicRates

        self._machine, self._shell = machine, shell or Script(machine)
        self._cpus: Mapping[str, CpuTimes] = {}
        self._nics = NicRates()

    async def poll(self) -> Sequence[Reading]:
        """One round. Raises AbsentError where there is no `/proc`, and what `Script` raises."""
        facts = await self._facts()
        shares, words = self._cpu_shares(facts.cpus)
        values = {**shares, **facts.levels}
        return [Reading(Area.HOST, "all", values, words), *self._nics.take(facts.nics, facts.speeds, time.monotonic())]

    async def close(self) -> None:
        """Ends the shell that it shares."""
        await self._shell.close()

    async def _facts(self) -> HostFacts:
        if self._machine.here:
            return _here()
        facts = facts_of(printed((await self._shell.run(SCRIPT)).text))
        if not facts.cpus:
            raise AbsentError(f"{self._machine.name}: /proc/stat cannot be read (not Linux?)")
        return facts

    def _cpu_shares(self, cpus: Mapping[str, CpuTimes]) -> tuple[dict[str, float], dict[str, str]]:
        """What processors did since the last time: all together, the extreme ones, and each."""
        last, self._cpus = self._cpus, cpus
        cores = [name for name in cpus if name != "cpu"]
        values = {"cores": float(len(cores))} if cores else {}
        whole = _busy(last.get("cpu"), cpus.get("cpu"))
        if whole is None:
            return values, {}
        busy, wait = whole
        each = [_busy(last.get(name), cpus[name]) for name in cores]
        # In whole ticks all cores together may come out busier than the busiest of them.
        most = max([busy, *[share[0] for share in each if share]])
        waits = max([wait, *[share[1] for share in each if share]])
        told = {"cpu_pct": busy, "cpu_max_pct": most, "iowait_pct": wait, "iowait_max_pct": waits, **values}
        words = {"cores_busy": signs([share and share[0] for share in each])}
        return told, {**words, "cores_iowait": signs([share and share[1] for share in each])}


def signs(shares: Sequence[float | None]) -> str:
    """A digit a core, tenths of its time; `-` for one that was off. Of more than MOST_SIGNS the most of neighbours."""
    together = -(-len(shares) // MOST_SIGNS) or 1
    groups = [shares[at : at + together] for at in range(0, len(shares), together)]
    most = [max((share for share in group if share is not None), default=None) for group in groups]
    return "".join("-" if share is None else str(min(9, int(share // 10))) for share in most)


def _here() -> HostFacts:
    if sys.platform.startswith("linux"):
        return read_here()
    from .elsewhere import read_psutil

    return read_psutil()


def _busy(before: CpuTimes | None, now: CpuTimes | None) -> tuple[float, float] | None:
    """Percent of the time between that was busy, and that was waiting for disks; None where none has passed."""
    if before is None or now is None or now.total <= before.total:
        return None
    passed = now.total - before.total
    busy, wait = 100.0 * (now.busy - before.busy) / passed, 100.0 * (now.iowait - before.iowait) / passed
    return min(100.0, max(0.0, busy)), min(100.0, max(0.0, wait))
