"""The processes of a run: what of a core they take, their memory, and for how long they have been there."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from perfmon.core import evidence_text

from ...remote.discovery import ANY, process_kind
from ...shell import quoted
from ..base import Machine, Script, ScriptPoller
from ..reading import Area, Reading

EVERY_S = 10.0
_MOST = 32
_LIST = (
    f"for p in $(grep -lsE {quoted(ANY)} /proc/[0-9]*/cmdline | head -n 300); do d=${{p%/cmdline}}; "
    'IFS= read -r s <"$d/stat" && printf "%s\\n" "$s"; done; '
    "echo U; cat /proc/uptime; getconf CLK_TCK; getconf PAGESIZE"
)
_COMMANDS = "for p in %s; do echo \"P $p\"; tr '\\0\\n' '  ' <\"/proc/$p/cmdline\"; echo; done"
_STAT = re.compile(r"^(\d{1,9}) \(.*\) \S (.*)$")
_TICKS_A_S, _PAGE = 100.0, 4096.0
_MIB = float(1 << 20)
Known = tuple[str, str]


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """Fields of `/proc/PID/stat`."""

    pid: int
    cpu_ticks: float
    started_ticks: float
    """Since the machine started."""
    pages: float


class ProcessPoller(ScriptPoller):
    """Looks for them by the rules of the discovery; whether a process is one of the run is asked once of each."""

    name = "processes"
    every_s = EVERY_S

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
            role, command = known
            readings.append(Reading(Area.PROCESS, str(one.pid), values, {"role": role, "command": command}))
        readings.sort(key=lambda reading: -reading.values.get("cpu_pct", 0.0) - reading.values["rss_mb"] / 1e9)
        return readings[:_MOST]

    async def _learn(self, found: Sequence[ProcessStat]) -> None:
        """Find out the kind of new processes, and forget those that are gone."""
        fresh = [one for one in found if _key(one) not in self._known]
        commands: Mapping[int, str] = {}
        if fresh:
            commands = commands_of((await self._shell.run(_COMMANDS % " ".join(str(one.pid) for one in fresh))).text)
        for one in fresh:
            command = commands.get(one.pid, "")
            kind = process_kind(command)
            self._known[_key(one)] = None if kind in (None, "tee") else (str(kind), evidence_text(command))
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


def commands_of(text: str) -> dict[int, str]:
    """pid → command line."""
    parts = re.split(r"(?m)^P (\d{1,9})$", text)
    return {int(pid): command.strip() for pid, command in zip(parts[1::2], parts[2::2], strict=False)}


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None
