"""A host: processors, memory, load, pressure and network interfaces, and the processes of a run."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob

from perfmon.core import evidence_text, plain

from ...remote.discovery import ANY, process_kind
from ...shell import quoted
from ..base import Script, ScriptPoller
from ..reading import Area, DiskPaths, Machine, NotAvailableError, Poller, Reading, no_disk_paths

# --- What `/proc` shows of a host, read here or printed by one command there, as counters and levels ---

_FILES = (
    "/proc/stat", "/proc/meminfo", "/proc/loadavg", "/proc/net/dev",
    "/proc/pressure/cpu", "/proc/pressure/memory", "/proc/pressure/io",
)  # fmt: skip
_SPEEDS = "/sys/class/net/*/speed"
_WANTED = r"^(cpu|MemT|MemA|MemF|Buff|Cached|SwapT|SwapF|some|-?[0-9])|: *[0-9]+ +[0-9]"
SCRIPT = f"grep -sE '{_WANTED}' {' '.join(_FILES)} {_SPEEDS}"
"""Prints `FILE:LINE` for all that is read: one process a round."""
_MEMORY = frozenset(("MemTotal", "MemAvailable", "MemFree", "Buffers", "Cached", "SwapTotal", "SwapFree"))
_SHORT = {"cpu": "cpu", "memory": "mem", "io": "io"}
_AVERAGE = re.compile(r"\bavg10=(\d+(?:\.\d+)?)")
_PARTS = 8
"""user nice system idle iowait irq softirq steal; time of guests is in that of users."""
_IDLE, _WAIT = 3, 4
_MOST_CPUS, _MOST_NICS = 4096, 256
KIB_A_MIB = 1024.0


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Since the machine started, in ticks."""

    busy: float
    iowait: float
    total: float


@dataclass(frozen=True, slots=True)
class NicCounts:
    """Since the machine started."""

    rx_bytes: float
    tx_bytes: float
    errors: float
    drops: float


@dataclass(slots=True)
class HostFacts:
    """All of one round; what the machine does not report is missing."""

    cpus: dict[str, CpuTimes] = field(default_factory=dict)
    """`cpu` is all of them together."""
    levels: dict[str, float] = field(default_factory=dict)
    """load1 mem_used_mb mem_total_mb swap_used_mb psi_cpu_pct psi_mem_pct psi_io_pct."""
    nics: dict[str, NicCounts] = field(default_factory=dict)
    speeds: dict[str, float] = field(default_factory=dict)
    """MB/s, of interfaces that have a speed."""


def read_here() -> HostFacts:
    """The facts of this machine. Raises OSError where it has no `/proc`."""
    return facts_of(_lines_here())


def facts_of(lines: Iterator[tuple[str, str]]) -> HostFacts:
    """Read (file, line) pairs."""
    facts, memory = HostFacts(), dict[str, float]()
    for path, line in lines:
        if path == "/proc/stat":
            _cpu(line, facts)
        elif path == "/proc/meminfo":
            _memory(line, memory)
        elif path == "/proc/net/dev":
            _nic(line, facts)
        elif path.startswith("/proc/pressure/"):
            average = _AVERAGE.search(line) if line.startswith("some ") else None
            if average is not None:
                facts.levels[f"psi_{_SHORT.get(path[15:], 'other')}_pct"] = float(average[1])
        elif path == "/proc/loadavg":
            load = _numbers(line.split()[:1])
            facts.levels.update({"load1": load[0]} if load else {})
        elif path.endswith("/speed"):
            _speed(path, line, facts)
    facts.levels.update(_memory_levels(memory))
    return facts


def printed(text: str) -> Iterator[tuple[str, str]]:
    """Split the output of `SCRIPT` into (file, line)."""
    for line in text.split("\n"):
        path, found, rest = line.partition(":")
        if found:
            yield path, rest


def _lines_here() -> Iterator[tuple[str, str]]:
    for path in (*_FILES, *glob(_SPEEDS)):
        try:
            with open(path, encoding="ascii", errors="replace") as file:
                text = file.read()
        except OSError:
            if path == _FILES[0]:
                raise
            continue  # a kernel without pressure, an interface without a speed
        for line in text.split("\n"):
            yield path, line


def _cpu(line: str, facts: HostFacts) -> None:
    name, *rest = line.split()[: _PARTS + 1] or [""]
    if not name.startswith("cpu") or len(facts.cpus) > _MOST_CPUS:
        return
    parts = _numbers(rest)
    if len(parts) > _WAIT:
        total = sum(parts)
        facts.cpus[name] = CpuTimes(total - parts[_IDLE] - parts[_WAIT], parts[_WAIT], total)


def _memory(line: str, memory: dict[str, float]) -> None:
    key, _, rest = line.partition(":")
    value = _numbers(rest.split()[:1]) if key in _MEMORY else None
    if value:
        memory[key] = value[0] / KIB_A_MIB


def _memory_levels(memory: Mapping[str, float]) -> dict[str, float]:
    levels: dict[str, float] = {}
    total = memory.get("MemTotal")
    left = memory.get("MemAvailable")
    if left is None and "MemFree" in memory:  # kernels before 3.14
        left = memory["MemFree"] + memory.get("Buffers", 0.0) + memory.get("Cached", 0.0)
    if total and left is not None:
        levels["mem_used_mb"], levels["mem_total_mb"] = max(0.0, total - left), total
    if memory.get("SwapTotal"):
        levels["swap_used_mb"] = max(0.0, memory["SwapTotal"] - memory.get("SwapFree", 0.0))
    return levels


def _nic(line: str, facts: HostFacts) -> None:
    name, found, rest = line.partition(":")
    counts = _numbers(rest.split())
    if found and len(counts) >= 12 and len(facts.nics) < _MOST_NICS:
        # Received: bytes packets errs drop fifo frame compressed multicast; sent: bytes packets errs drop ...
        facts.nics[name.strip()] = NicCounts(counts[0], counts[8], counts[2] + counts[10], counts[3] + counts[11])


def _speed(path: str, line: str, facts: HostFacts) -> None:
    speed = _numbers(line.split()[:1])
    if speed and 0 < speed[0] < 1e7:  # -1 where there is no link
        facts.speeds[path.split("/")[4]] = speed[0] / 8.0


def _numbers(words: list[str]) -> list[float]:
    try:
        return [float(word) for word in words]
    except ValueError:
        return []


# --- A host: its processors, memory, load, pressure and network interfaces, in one round; its disks and the run's
# processes in rounds of their own ---

EVERY_S = 5.0
"""Also while nothing happens a monitor must cost next to nothing; so the last ten minutes are remembered."""
MOST_SIGNS = 128


def host_pollers(machine: Machine, places: DiskPaths = no_disk_paths) -> list[Poller]:
    """The pollers of a host; `places` are paths whose disks matter to the run."""
    from .disk import DiskPoller

    shell = Script(machine)
    return [HostPoller(machine, shell), ProcessPoller(machine, shell), DiskPoller(machine, places)]


class HostPoller(ScriptPoller):
    """Reads `HostFacts`, and reports what has changed since the last poll."""

    name = "host"
    every_s = EVERY_S

    def __init__(self, machine: Machine, shell: Script | None = None) -> None:
        super().__init__(machine, shell)
        self._cpus: Mapping[str, CpuTimes] = {}
        self._nics = NicRates()

    async def poll(self) -> Sequence[Reading]:
        """One round. Raises NotAvailableError where there is no `/proc`, and what `Script` raises."""
        facts = await self._facts()
        shares, words = self._cpu_shares(facts.cpus)
        values = {**shares, **facts.levels}
        return [Reading(Area.HOST, "all", values, words), *self._nics.take(facts.nics, facts.speeds, time.monotonic())]

    async def _facts(self) -> HostFacts:
        if self._machine.here:
            return _here()
        facts = facts_of(printed((await self._shell.run(SCRIPT)).text))
        if not facts.cpus:
            raise NotAvailableError(f"{self._machine.name}: /proc/stat cannot be read (not Linux?)")
        return facts

    def _cpu_shares(self, cpus: Mapping[str, CpuTimes]) -> tuple[dict[str, float], dict[str, str]]:
        """Use of the processors since the last poll: all together, the extreme ones, and each."""
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
        shares = {"cpu_pct": busy, "cpu_max_pct": most, "iowait_pct": wait, "iowait_max_pct": waits, **values}
        words = {"cores_busy": signs([share and share[0] for share in each])}
        return shares, {**words, "cores_iowait": signs([share and share[1] for share in each])}


def signs(shares: Sequence[float | None]) -> str:
    """A digit a core, tenths of its time; `-` for one that was off. Of more than MOST_SIGNS the most of neighbours."""
    together = -(-len(shares) // MOST_SIGNS) or 1
    groups = [shares[at : at + together] for at in range(0, len(shares), together)]
    most = [max((share for share in group if share is not None), default=None) for group in groups]
    return "".join("-" if share is None else str(min(9, int(share // 10))) for share in most)


def _here() -> HostFacts:
    if sys.platform.startswith("linux"):
        return read_here()

    return read_psutil()


def _busy(before: CpuTimes | None, now: CpuTimes | None) -> tuple[float, float] | None:
    """Percent of the time between that was busy, and that was waiting for disks; None where none has passed."""
    if before is None or now is None or now.total <= before.total:
        return None
    passed = now.total - before.total
    busy, wait = 100.0 * (now.busy - before.busy) / passed, 100.0 * (now.iowait - before.iowait) / passed
    return min(100.0, max(0.0, busy)), min(100.0, max(0.0, wait))


# --- A host without `/proc` (macOS, BSD), through psutil ---

_MIB = float(1 << 20)


def read_psutil() -> HostFacts:
    """The facts of this machine."""
    import psutil

    facts = HostFacts()
    everywhere = psutil.cpu_times(percpu=False)
    for name, times in (("cpu", everywhere), *((f"cpu{at}", one) for at, one in enumerate(psutil.cpu_times(True)))):
        wait = float(getattr(times, "iowait", 0.0))
        total = sum(times) - getattr(times, "guest", 0.0) - getattr(times, "guest_nice", 0.0)
        facts.cpus[name] = CpuTimes(total - times.idle - wait, wait, total)
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    facts.levels = {
        "load1": psutil.getloadavg()[0],
        "mem_used_mb": (memory.total - memory.available) / _MIB,
        "mem_total_mb": memory.total / _MIB,
        **({"swap_used_mb": swap.used / _MIB} if swap.total else {}),
    }
    for name, nic in psutil.net_io_counters(pernic=True).items():
        facts.nics[name] = NicCounts(nic.bytes_recv, nic.bytes_sent, nic.errin + nic.errout, nic.dropin + nic.dropout)
    facts.speeds = {name: state.speed / 8.0 for name, state in psutil.net_if_stats().items() if state.speed > 0}
    return facts


# --- Rates of network interfaces, out of what they have counted ---

_INNER = re.compile(r"lo\d*$|veth|docker|br-|virbr|cali|cni|flannel|vnet|ifb|dummy|tun|tap|kube|cilium|lxc|nerdctl")
"""Interfaces through which nothing leaves the machine, or what passes another one as well."""
_MOST = 16
_MB = 1e6


class NicRates:
    """Remembers the last counts."""

    def __init__(self) -> None:
        self._last: dict[str, NicCounts] = {}
        self._at = 0.0

    def take(self, nics: Mapping[str, NicCounts], speeds: Mapping[str, float], at: float) -> list[Reading]:
        """The rates since the last time, at `at` seconds of a steady clock; of those that ever carried something."""
        since, last, self._at, self._last = at - self._at, self._last, at, dict(nics)
        used = [name for name, counts in nics.items() if counts.rx_bytes + counts.tx_bytes and not _INNER.match(name)]
        used.sort(key=lambda name: -(nics[name].rx_bytes + nics[name].tx_bytes))
        readings = []
        for name in sorted(used[:_MOST]):
            values = {"speed_mb_s": speeds[name]} if name in speeds else {}
            before, now = last.get(name), nics[name]
            if before is not None and since > 0:
                values = {
                    "rx_mb_s": _rate(now.rx_bytes, before.rx_bytes, since) / _MB,
                    "tx_mb_s": _rate(now.tx_bytes, before.tx_bytes, since) / _MB,
                    **values,
                    "errors_per_s": _rate(now.errors, before.errors, since),
                    "drops_per_s": _rate(now.drops, before.drops, since),
                }
            if values:
                readings.append(Reading(Area.NIC, name, values))
        return readings


def _rate(now: float, before: float, seconds: float) -> float:
    """A counter that fell was reset."""
    return (now - before if now >= before else now) / seconds


# --- The processes of a run: what of a core they take, their memory, and for how long they have been there ---

_PROCESSES_EVERY_S = 10.0
_MOST_PROCESSES = 32
_LONGEST_FOLDER = 1000
_LIST = (
    f"for p in $(grep -lsE {quoted(ANY)} /proc/[0-9]*/cmdline | head -n 300); do d=${{p%/cmdline}}; "
    'IFS= read -r s <"$d/stat" && printf "%s\\n" "$s"; done; '
    "echo U; cat /proc/uptime; getconf CLK_TCK; getconf PAGESIZE"
)
_COMMANDS = (
    'for p in %s; do echo "P $p"; readlink "/proc/$p/cwd" || echo; tr \'\\0\\n\' \'  \' <"/proc/$p/cmdline"; echo; done'
)
_STAT = re.compile(r"^(\d{1,9}) \(.*\) \S (.*)$")
_TICKS_A_S, _PAGE = 100.0, 4096.0
Known = dict[str, str]
"""The words of a reading."""


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Fields of `/proc/PID/stat`."""

    pid: int
    cpu_ticks: float
    started_ticks: float
    """Since the machine started."""
    pages: float


class ProcessPoller(ScriptPoller):
    """Finds them by the rules of the discovery; each process is classified once."""

    name = "processes"
    every_s = _PROCESSES_EVERY_S

    def __init__(self, machine: Machine, shell: Script | None = None) -> None:
        super().__init__(machine, shell)
        self._known: dict[tuple[int, float], Known | None] = {}
        self._last: dict[tuple[int, float], float] = {}
        self._at = 0.0

    async def poll(self) -> Sequence[Reading]:
        """One round: those that take most come first. Raises what `Script` raises."""
        found, uptime_s, ticks, page = parsed((await self._shell.run(_LIST)).text)
        now = time.monotonic()
        await self._learn(found)
        since, self._at = now - self._at, now
        last, self._last = self._last, {_key(one): one.cpu_ticks for one in found}
        readings = []
        for one in found:
            known = self._known[_key(one)]
            if known is None:
                continue
            values = {"rss_mb": one.pages * page / _MIB, "uptime_s": max(0.0, uptime_s - one.started_ticks / ticks)}
            if _key(one) in last:
                values = {"cpu_pct": 100.0 * max(0.0, one.cpu_ticks - last[_key(one)]) / ticks / since, **values}
            readings.append(Reading(Area.PROCESS, str(one.pid), values, known))
        readings.sort(key=lambda reading: -reading.values.get("cpu_pct", 0.0) - reading.values["rss_mb"] / 1e9)
        return readings[:_MOST_PROCESSES]

    async def _learn(self, found: Sequence[ProcessStat]) -> None:
        """Find out the kind of new processes, and forget those that are gone."""
        fresh = [one for one in found if _key(one) not in self._known]
        commands: Mapping[int, tuple[str, str]] = {}
        if fresh:
            commands = commands_of((await self._shell.run(_COMMANDS % " ".join(str(one.pid) for one in fresh))).text)
        for one in fresh:
            folder, command = commands.get(one.pid, ("", ""))
            kind = process_kind(command)
            words = {"role": str(kind), "command": evidence_text(command), "folder": plain(folder, _LONGEST_FOLDER)}
            self._known[_key(one)] = None if kind in (None, "tee") else words
        alive = {_key(one) for one in found}
        self._known = {key: known for key, known in self._known.items() if key in alive}


def _key(one: ProcessStat) -> tuple[int, float]:
    return one.pid, one.started_ticks


def parsed(text: str) -> tuple[list[ProcessStat], float, float, float]:
    """(processes, seconds since the machine started, ticks a second, bytes a page)."""
    stats, _, rest = text.partition("U\n") if text.startswith("U\n") else text.partition("\nU\n")
    numbers = [_number(line.partition(" ")[0]) for line in rest.split("\n")]
    uptime_s, ticks, page = [*numbers, None, None, None][:3]
    found = []
    for line in stats.split("\n"):
        match = _STAT.match(line)
        words = match[2].split() if match else []
        parts = [_number(words[at]) for at in (10, 11, 18, 20)] if len(words) > 20 else []
        if match and all(part is not None for part in parts) and parts:
            user, system, started, pages = (part or 0.0 for part in parts)
            found.append(ProcessStat(int(match[1]), user + system, started, pages))
    return found, uptime_s or 0.0, ticks or _TICKS_A_S, page or _PAGE


def commands_of(text: str) -> dict[int, tuple[str, str]]:
    """pid → (working directory, "" if it is unknown; command line)."""
    parts = re.split(r"(?m)^P (\d{1,9})\n", text)
    found = {}
    for pid, shown in zip(parts[1::2], parts[2::2], strict=False):
        folder, _, command = shown.partition("\n")
        found[int(pid)] = (folder.strip(), command.strip())
    return found


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
