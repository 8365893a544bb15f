"""Jobs whose logs are in one folder: their waits and links must not be compared with each other.

Processes of a job are connected by the communicators that they share. Groups of processes without a common one are
different jobs where one ended well before the other began, or where they are in folders of different Slurm jobs. Those
of one Slurm job are runs of it: it was restarted. Others may be parts of one job whose common communicator has no
records, such as pipeline stages: that is not decided here.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from perfmon.core import InputError, counted, plain

from .files import InspectorFile

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FOLDER = re.compile(r"nccl-inspector-(\d[\w.+-]{0,30})")
"""The folder into which the plugin writes without NCCL_INSPECTOR_DUMP_DIR."""
_PROCESS = re.compile(r"(.+)-pid(\d+)\.(?:log|jsonl)")
_PAUSE_US, _PAUSE_ON_HOST_US = 60_000_000, 10_000_000
"""Time between two jobs: more than an interval between dumps and than clocks of hosts differ, unless one is in both."""
_SHOWN = 4
_HOSTS = 2

Process = tuple[str, int | None]
"""Host and pid."""


@dataclass(slots=True)
class _Group:
    """Processes that share communicators, directly or through others."""

    processes: set[Process] = field(default_factory=set)
    comms: set[str] = field(default_factory=set)
    first_us: int = 0
    last_us: int = 0
    slurm: frozenset[str] = frozenset()

    @property
    def label(self) -> str:
        """The group in words."""
        hosts = sorted({host for host, _ in self.processes})
        names = ", ".join(plain(host, 60) or "no host name" for host in hosts[:_HOSTS])
        more = f" and {len(hosts) - _HOSTS} more" if len(hosts) > _HOSTS else ""
        begin, end = (
            f"{datetime.fromtimestamp(at / 1e6, UTC):%Y-%m-%d %H:%M:%S}" for at in (self.first_us, self.last_us)
        )
        job = f"Slurm job {', '.join(sorted(self.slurm))}: " if self.slurm else ""
        count = counted(len(self.processes), "process", "processes")
        return f"{job}{count} on {names}{more}, {begin} to {end} UTC"


def check_one_job(
    connection: DuckDBPyConnection, files: Sequence[InspectorFile], slurm_job: str | None = None
) -> list[str]:
    """Return notes about groups of processes that may be different jobs. Raises InputError if they certainly are.

    `slurm_job`: number of the job that all files are known to be of.
    """
    groups = _groups(connection)
    if len(groups) < 2:
        return []
    slurm = {} if slurm_job is not None else _slurm_jobs(files)
    for group in groups:
        known = slurm_job and frozenset((slurm_job,))
        group.slurm = known or frozenset().union(*(slurm.get(process, set()) for process in group.processes))
    runs = _distinct(groups)
    if len(runs) > 1:
        shown = "; ".join(run.label for run in runs[:_SHOWN]) + ("; …" if len(runs) > _SHOWN else "")
        raise InputError(f"logs of {len(runs)} jobs: {shown} (name the folder or the files of one job)")
    later = [group for at, group in enumerate(groups) if all(_is_later(group, one) for one in groups[:at])]
    if len(later) > 1:
        return [f"{len(later)} runs of this Slurm job, one after another: the figures are those of all of them"]
    return [
        f"{len(groups)} groups of processes have no communicator in common: if they are several jobs, read each alone"
    ]


def _groups(connection: DuckDBPyConnection) -> list[_Group]:
    """Groups in order of time. Processes with communicators of one rank only belong to no group."""
    rows = connection.execute(
        """
        SELECT id, coalesce(host, ''), pid, min(first_us), max(last_us) FROM members
        WHERE coll IS NOT NULL AND n_ranks > 1 GROUP BY ALL ORDER BY ALL
        """
    ).fetchall()
    of: dict[str | Process, _Group] = {}
    for comm, host, pid, first, last in rows:
        held = [group for group in (of.get(comm), of.get((host, pid))) if group is not None]
        group = max(held, key=lambda one: len(one.processes)) if held else _Group(first_us=first, last_us=last)
        for other in held:
            if other is not group:
                group.processes |= other.processes
                group.comms |= other.comms
                first, last = min(first, other.first_us), max(last, other.last_us)  # noqa: PLW2901
                of |= dict.fromkeys((*other.processes, *other.comms), group)
        group.processes.add((host, pid))
        group.comms.add(comm)
        group.first_us, group.last_us = min(group.first_us, first), max(group.last_us, last)
        of[comm] = of[host, pid] = group
    return sorted({id(group): group for group in of.values()}.values(), key=lambda one: (one.first_us, one.last_us))


def _distinct(groups: Sequence[_Group]) -> list[_Group]:
    """Put together groups that may be one job: of one Slurm job, or overlapping in time and not of different ones."""
    runs: list[_Group] = []
    for group in groups:
        for run in runs:
            if group.slurm & run.slurm or (not (group.slurm and run.slurm) and not _is_later(group, run)):
                run.processes |= group.processes
                run.last_us = max(run.last_us, group.last_us)
                run.slurm |= group.slurm
                break
        else:
            runs.append(_Group(set(group.processes), set(), group.first_us, group.last_us, group.slurm))
    return runs


def _is_later(group: _Group, run: _Group) -> bool:
    shared = {host for host, _ in group.processes} & {host for host, _ in run.processes}
    return group.first_us - run.last_us > (_PAUSE_ON_HOST_US if shared else _PAUSE_US)


def _slurm_jobs(files: Sequence[InspectorFile]) -> dict[Process, set[str]]:
    """Numbers of the Slurm jobs by process, where the plugin chose the names of folders and files."""
    found: dict[Process, set[str]] = defaultdict(set)
    for file in files:
        process = _PROCESS.match(file.path.name)
        jobs = [folder[1] for part in file.path.parent.parts if (folder := _FOLDER.fullmatch(part))]
        if process and jobs:
            found[process[1], int(process[2])].add(jobs[-1])
    return found
