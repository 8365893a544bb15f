"""The disks that hold a run's logs and checkpoints: how full they are, when they will be, and what they carry."""

from __future__ import annotations

import posixpath
import re
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...shell import quoted
from ..base import ScriptPoller
from ..reading import Area, DiskPaths, Machine, NotAvailableError, Reading, no_disk_paths

EVERY_S = 10.0
_PLACES_S = 60.0
"""Seconds between searches for the disks of these paths: folders for checkpoints appear late."""
_CHECKPOINTS = ("checkpoints", "checkpoint", "ckpt", "ckpts", "weights")
_MOST_PATHS, _MOST_DISKS = 60, 12
_DF = re.compile(r"^\S.*?\s+(\d+)\s+(\d+)\s+(\d+)\s+(?:\d+%|-)\s+(/.*)$")
_MOUNT = re.compile(r"^\d+ \d+ (\d+:\d+) \S+ (\S+) ")
_MOUNTED = re.compile(r"device .* mounted on (\S+) with fstype ")
_OF_MOUNTS = "grep -sE '^device|^[[:space:]]*bytes:' /proc/self/mountstats"
_OCTAL = re.compile(r"\\([0-7]{3})")
_SECTOR, _MB, _KB_A_GB = 512.0, 1e6, 1e6 / 1.024
_LONGEST_S = 7 * 86400.0
"""Forecasts beyond that are none."""
_SPAN_S, _REMEMBERED_S = 300.0, 1800.0
"""Shortest and longest time that a forecast is made from: checkpoints come in bursts."""


@dataclass(frozen=True, slots=True)
class Space:
    """Of a file system, in KiB."""

    total: float
    used: float
    left: float


@dataclass(frozen=True, slots=True)
class IoCounts:
    """Of a block device since the machine started, of a network file system since it was mounted."""

    read_sectors: float
    written_sectors: float
    busy_ms: float | None
    """None where it is not counted."""


class DiskPoller(ScriptPoller):
    """Reads `df`, `/proc/diskstats` and, of NFS, `/proc/self/mountstats`.

    It has a shell of its own: a disk that is gone lets `df` hang.
    """

    name = "disks"
    every_s = EVERY_S

    def __init__(self, machine: Machine, places: DiskPaths = no_disk_paths) -> None:
        super().__init__(machine)
        self._places = places
        self._holds: dict[str, str] = {}
        self._devices: dict[str, str] = {}
        self._looked_at = float("-inf")
        self._io: dict[str, IoCounts] = {}
        self._at = 0.0
        self._left: dict[str, deque[tuple[float, float]]] = {}

    async def poll(self) -> Sequence[Reading]:
        """One round. Raises NotAvailableError where there is no `df`, and what `Script` raises."""
        now = time.monotonic()
        if now - self._looked_at >= _PLACES_S:
            await self._look()
            self._looked_at = now
        mounts = " ".join(map(quoted, self._holds))
        output = await self._shell.run(f"df -P -k {mounts}; echo; cat /proc/diskstats; echo; {_OF_MOUNTS}")
        space, stats, mounted = [*output.text.split("\n\n", 2), "", ""][:3]
        spaces, at = spaces_of(space), time.monotonic()
        if not spaces:
            raise NotAvailableError(f"{self._machine.name}: df reports no disk usage")
        flows = self._flows(counts_of(stats) | mounted_counts(mounted), at)
        return [self._reading(mount, spaces[mount], flows, at) for mount in self._holds if mount in spaces]

    async def _look(self) -> None:
        """Find out which file systems hold what."""
        wanted = wanted_places(self._places())
        words = " ".join(quoted(path) for path in wanted)
        script = f'for p in {words}; do echo "P"; [ -e "$p" ] && df -P -k "$p" | tail -n 1; done; echo M; '
        output = await self._shell.run(f"{script}cat /proc/self/mountinfo")
        found, _, mounts = output.text.partition("\nM\n")
        held: dict[str, set[str]] = {}
        for what, line in zip(wanted.values(), re.split(r"(?m)^P$", found)[1:], strict=False):
            for mount in list(spaces_of(line))[-1:]:
                held.setdefault(mount, set()).update({what} - {""})
        self._holds = {mount: "+".join(sorted(what)) for mount, what in list(held.items())[:_MOST_DISKS]} or {"/": ""}
        self._devices = devices_of(mounts)

    def _flows(self, counts: dict[str, IoCounts], at: float) -> dict[str, dict[str, float]]:
        """Throughput of block devices since the last poll."""
        since, last, self._at, self._io = at - self._at, self._io, at, counts
        return {name: _flow(last[name], now, since) for name, now in counts.items() if name in last and since > 0}

    def _reading(self, mount: str, space: Space, flows: Mapping[str, Mapping[str, float]], at: float) -> Reading:
        room = space.used + space.left  # less than all: some is kept for root
        values = {
            "used_pct": 100.0 * space.used / room if room else 0.0,
            "free_gb": space.left / _KB_A_GB,
            "total_gb": space.total / _KB_A_GB,
            **flows.get(mount, flows.get(self._devices.get(mount, ""), {})),
        }
        left = self._left.setdefault(mount, deque())
        left.append((at, space.left))
        while at - left[0][0] > _REMEMBERED_S:
            left.popleft()
        full_in_s = forecast(left)
        if full_in_s is not None:
            values["full_in_s"] = full_in_s
        return Reading(Area.DISK, mount, values, {"holds": self._holds[mount]})


def wanted_places(places: Mapping[str, str]) -> dict[str, str]:
    """Paths → what lies there: those that are given, the usual places of checkpoints next to logs, and the root."""
    wanted = {path: what for path, what in places.items() if path.startswith("/") and not set("\n\0") & set(path)}
    for path in [path for path, what in wanted.items() if what == "logs"]:
        for base in (path, posixpath.dirname(path), posixpath.dirname(posixpath.dirname(path))):
            for name in _CHECKPOINTS if base != "/" else ():
                wanted.setdefault(posixpath.join(base, name), "checkpoints")
    wanted.setdefault("/", "")
    return dict(list(wanted.items())[-_MOST_PATHS:])


def spaces_of(text: str) -> dict[str, Space]:
    """Parse the output of `df -P -k`, by mount point; file systems without blocks are left out."""
    found = (_DF.match(line) for line in text.split("\n"))
    return {one[4]: Space(float(one[1]), float(one[2]), float(one[3])) for one in found if one and float(one[1])}


def devices_of(mountinfo: str) -> dict[str, str]:
    """Mount point → `major:minor` of its device."""
    found = (_MOUNT.match(line) for line in mountinfo.split("\n"))
    return {_unescaped(one[2]): one[1] for one in found if one}


def _unescaped(mount: str) -> str:
    return _OCTAL.sub(lambda octal: chr(int(octal[1], 8)), mount)


def counts_of(diskstats: str) -> dict[str, IoCounts]:
    """`major:minor` → counts."""
    counts = {}
    for line in diskstats.split("\n"):
        words = line.split()
        if len(words) >= 14 and all(word.isdigit() for word in (*words[:2], words[5], words[9], words[12])):
            counts[f"{words[0]}:{words[1]}"] = IoCounts(float(words[5]), float(words[9]), float(words[12]))
    return counts


def mounted_counts(mountstats: str) -> dict[str, IoCounts]:
    """Mount point of each NFS → what went to its server and came from there."""
    counts, mount = dict[str, IoCounts](), ""
    for line in mountstats.split("\n"):
        device = _MOUNTED.match(line)
        if device is not None:
            mount = _unescaped(device[1])
            continue
        words = line.split()
        if mount and words[:1] == ["bytes:"] and len(words) > 6 and words[5].isdigit() and words[6].isdigit():
            counts[mount] = IoCounts(float(words[5]) / _SECTOR, float(words[6]) / _SECTOR, None)
    return counts


def forecast(left: Sequence[tuple[float, float]]) -> float | None:
    """Seconds until nothing is left, if it continues as over all of (seconds, left); None where it need not."""
    if len(left) < 3 or left[-1][0] - left[0][0] < _SPAN_S:
        return None
    mean_at, mean = (sum(pair[of] for pair in left) / len(left) for of in (0, 1))
    spread = sum((at - mean_at) ** 2 for at, _ in left)
    slope = sum((at - mean_at) * (room - mean) for at, room in left) / spread
    if slope >= 0.0 or left[-1][1] >= left[0][1]:
        return None
    full_in_s = left[-1][1] / -slope
    return full_in_s if full_in_s <= _LONGEST_S else None


def _flow(before: IoCounts, now: IoCounts, seconds: float) -> dict[str, float]:
    read, written = now.read_sectors - before.read_sectors, now.written_sectors - before.written_sectors
    flow = {
        "read_mb_s": max(0.0, read) * _SECTOR / _MB / seconds,
        "write_mb_s": max(0.0, written) * _SECTOR / _MB / seconds,
    }
    if now.busy_ms is not None and before.busy_ms is not None:
        flow["busy_pct"] = min(100.0, max(0.0, 0.1 * (now.busy_ms - before.busy_ms) / seconds))
    return flow
