"""Slurm: jobs and nodes as its commands print them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfmon.core import plain

from ..shell import quoted
from .base import Script, ScriptPoller
from .reading import Area, Machine, NotAvailableError, PollError, Reading

# --- Jobs and nodes as Slurm's commands print them: lines of `|`, which every version prints ---

JOB_FORMAT = "%i|%T|%r|%M|%D|%N|%j"
"""For `squeue -o`: id, state, reason, time used, nodes, their names, and the name, which may hold anything, at last."""
NODE_FORMAT = "%N|%T|%E"
"""For `sinfo -N -o`: name, state, reason, which may hold anything."""
ENDED_FORMAT = "JobIDRaw,State,ExitCode,ElapsedRaw,NNodes,JobName"
"""For `sacct -P -o`."""
_USED = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")
_BY = re.compile(r"[ +].*")
_DONE = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE"}
)


@dataclass(frozen=True, slots=True)
class Job:
    """One job of the scheduler."""

    id: str
    state: str
    """As Slurm names it: RUNNING, PENDING, …"""
    reason: str
    """Reason for waiting, or for the end; "" for none."""
    title: str
    used_s: float | None
    nodes: float | None
    on: str = ""
    """Names of its nodes, as a list of Slurm's: `gpu[01-04]`."""

    @property
    def reading(self) -> Reading:
        """The reading of this job."""
        values = {"uptime_s": self.used_s, "nodes": self.nodes, "ended": float(self.state.partition("+")[0] in _DONE)}
        words = {"state": self.state, "reason": self.reason, "title": self.title}
        return Reading(Area.JOB, self.id, {k: v for k, v in values.items() if v is not None}, words)


def jobs_of_lines(text: str) -> Iterator[Job]:
    """Those of `squeue`; a line that is none is passed over."""
    for line in text.splitlines():
        parts = line.split("|", 6)
        if len(parts) == 7 and parts[0].strip() and parts[1].isupper():
            job, state, reason, used, nodes, on, title = (part.strip() for part in parts)
            yield Job(job, state, _reason(reason), title, seconds(used), _number(nodes), on)


def ended_of_lines(text: str) -> Iterator[Job]:
    """Those of `sacct`."""
    for line in text.splitlines():
        parts = line.split("|", 5)
        if len(parts) == 6 and parts[0].strip():
            job, state, code, used, nodes, title = (part.strip() for part in parts)
            reason = "" if code in ("", "0:0") else f"exit_{code}"
            yield Job(job, _BY.sub("", state), reason, title, _number(used), _number(nodes))


def nodes_of_lines(text: str) -> list[Reading]:
    """Readings of `sinfo`'s nodes; one in several partitions is listed once."""
    found: dict[str, Reading] = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|", 2)]
        if len(parts) == 3 and parts[0] and parts[1]:
            name, state, reason = parts
            well = {"unwell": float(is_unwell(state))}
            found[name] = Reading(Area.NODE, name, well, {"state": state, "reason": _reason(reason)})
    return list(found.values())


def is_unwell(state: str) -> bool:
    """True if a node does not respond (`*`), is down, failing, or taken out of use."""
    return state.endswith("*") or state.startswith(("down", "drain", "fail", "error", "unknown", "inval", "not_resp"))


def seconds(text: str) -> float | None:
    """`1-02:03:04`, `02:03:04` or `3:04`."""
    match = _USED.fullmatch(text.strip())
    if match is None:
        return None
    days, hours, minutes, rest = (int(part or 0) for part in match.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + rest)


def _number(text: str) -> float | None:
    return float(text) if text.isascii() and text.isdigit() else None


def _reason(text: str) -> str:
    """ "" where the text means that there is none."""
    return "" if text.lower() in ("none", "(null)", "n/a") else text


# --- Queries Slurm for the user's own jobs, why they wait or how they ended, and how the nodes are that they run on ---
#
# It queries rarely, and no more than it reports, as all users of a cluster share one controller.

EVERY_S = 30.0
TIMEOUT_S = 25.0
MOST_JOBS, MOST_NODES = 100, 64
_ENDED_EVERY = 4
"""Polls from one query of the accounting to the next."""
_MISSING = "127"
_NO_CLUSTER = "configuration source"
"""Part of the error message of Slurm where it is installed but not configured."""


class SlurmPoller(ScriptPoller):
    """Polls the scheduler of a machine."""

    name = "slurm"
    every_s = EVERY_S

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine, Script(machine, "slurm: ", TIMEOUT_S))
        self._accounting = True
        self._polls = 0

    async def poll(self) -> Sequence[Reading]:
        """A reading for each of the user's jobs, those that ended lately too, and for each of their nodes."""
        jobs = {job.id: job for job in await self._jobs()}
        if self._accounting and self._polls % _ENDED_EVERY == 0:
            jobs = {job.id: job for job in await self._ended()} | jobs
        self._polls += 1
        newest = sorted(jobs.values(), key=_by_age)[-MOST_JOBS:]
        nodes = await self._nodes([job for job in newest if job.state.startswith("RUNNING")])
        return [*[job.reading for job in newest], *nodes]

    async def _jobs(self) -> list[Job]:
        output = await self._shell.run(
            f'squeue -h -a -t all -u "$(id -un)" -o {quoted(JOB_FORMAT)} 2>&1; printf "\\n%s" "$?"'
        )
        text, _, code = output.text.rpartition("\n")
        if code.strip() == _MISSING:
            raise NotAvailableError(f"slurm: no squeue on {self._machine.name}: not a login node?")
        if code.strip() != "0":
            raise (NotAvailableError if _NO_CLUSTER in text else PollError)(f"slurm: squeue: {_last_line(text)}")
        return list(jobs_of_lines(text))

    async def _ended(self) -> list[Job]:
        """Those of the last hour by the accounting, where there is one: `squeue` forgets them after minutes."""
        command = f"sacct -X -S now-1hour -s CD,F,TO,NF,OOM,CA,PR,DL -E now -n -P -o {ENDED_FORMAT} 2>/dev/null"
        output = await self._shell.run(command)
        self._accounting = output.code == 0
        return list(ended_of_lines(output.text)) if self._accounting else []

    async def _nodes(self, jobs: Sequence[Job]) -> list[Reading]:
        lists = sorted({job.on for job in jobs if job.on})
        if not lists:
            return []
        names = quoted(plain(",".join(lists), 4000))
        output = await self._shell.run(f"sinfo -h -N -n {names} -o {quoted(NODE_FORMAT)} 2>/dev/null")
        return nodes_of_lines(output.text)[:MOST_NODES]


def _by_age(job: Job) -> tuple[bool, int]:
    """Those that have ended first, then the older ones: what is left out for want of room."""
    number = re.match(r"\d+", job.id)
    return not job.reading.values["ended"], int(number[0]) if number else 0


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return plain(lines[-1].strip().removeprefix("squeue:").strip() if lines else "nothing", 120)
