"""Asks Slurm for the user's own jobs, why they wait or how they ended, and how the nodes are that they run on.

It asks seldom, and for no more than it tells, for all users of a cluster share one controller.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from perfmon.text import plain

from ...remote.quoting import quoted
from ...remote.runner import Output, Runner, RunnerError
from ..poller import AbsentError, Machine, PollError
from ..reading import Reading
from .jobs import (
    ENDED_FORMAT,
    JOB_FORMAT,
    NODE_FORMAT,
    Job,
    ended_of_json,
    ended_of_lines,
    jobs_of_json,
    jobs_of_lines,
    nodes_of_json,
    nodes_of_lines,
)

EVERY_S = 30.0
TIMEOUT_S = 25.0
MOST_JOBS, MOST_NODES = 100, 64
JSON_SINCE = (23, 2)
"""Older ones tell all jobs of the cluster as JSON, by the megabyte, whatever they are asked for (seen in 22.05)."""
_MOST_BYTES = 1 << 20
_ENDED_EVERY = 4
"""Accounting is asked in every so many polls."""
_VERSION = re.compile(r"slurm\S* (\d+)\.(\d+)")
_MISSING = 127
_NO_CLUSTER = "configuration source"
"""What it says where Slurm is installed, and nothing more."""


class SlurmPoller:
    """Asks the scheduler that a machine belongs to."""

    name = "slurm"
    every_s = EVERY_S

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._runner: Runner | None = None
        self._version = (0, 0)
        self._json, self._accounting = False, True
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

    async def close(self) -> None:
        """Ends its shell."""
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.close()

    async def _jobs(self) -> list[Job]:
        if self._version == (0, 0):
            await self._look()
        if self._json:
            output = await self._run(f'squeue --json -u "$(id -un)" 2>/dev/null | head -c {_MOST_BYTES}; echo; id -un')
            text, _, user = output.text.rstrip("\n").rpartition("\n")
            try:
                return list(jobs_of_json(text, user, self._machine.now().timestamp()))
            except ValueError:
                self._json = False  # cut short, or of a version that has other names: lines are told by all
        output = await self._run(
            f'squeue -h -a -t all -u "$(id -un)" -o {quoted(JOB_FORMAT)} 2>&1; printf "\\n%s" "$?"'
        )
        text, _, code = output.text.rpartition("\n")
        if code.strip() != "0":
            raise (AbsentError if _NO_CLUSTER in text else PollError)(f"slurm: squeue: {_said(text)}")
        return list(jobs_of_lines(text))

    async def _look(self) -> None:
        output = await self._run("squeue --version 2>/dev/null")
        if output.code == _MISSING:
            raise AbsentError(f"slurm: no squeue on {self._machine.name}: not a login node?")
        match = _VERSION.search(output.text)
        self._version = (int(match[1]), int(match[2])) if match else (1, 0)
        self._json = self._version >= JSON_SINCE

    async def _ended(self) -> list[Job]:
        """Those of the last hour by the accounting, where there is one: `squeue` forgets them after minutes."""
        asked = "sacct -X -S now-1hour -s CD,F,TO,NF,OOM,CA,PR,DL -E now"
        if self._json:
            with suppress(ValueError):
                return list(ended_of_json(await self._told(f"{asked} --json")))
        output = await self._run(f"{asked} -n -P -o {ENDED_FORMAT} 2>/dev/null")
        self._accounting = output.code == 0
        return list(ended_of_lines(output.text)) if self._accounting else []

    async def _nodes(self, jobs: Sequence[Job]) -> list[Reading]:
        lists = sorted({job.on for job in jobs if job.on})
        if not lists:
            return []
        names = quoted(plain(",".join(lists), 4000))
        if self._json:
            with suppress(ValueError):
                return nodes_of_json(await self._told(f"scontrol show node {names} --json"))[:MOST_NODES]
        output = await self._run(f"sinfo -h -N -n {names} -o {quoted(NODE_FORMAT)} 2>/dev/null")
        return nodes_of_lines(output.text)[:MOST_NODES]

    async def _told(self, command: str) -> str:
        """What a command prints, up to a limit: cut short it is no JSON."""
        return (await self._run(f"{command} 2>/dev/null | head -c {_MOST_BYTES}")).text

    async def _run(self, script: str) -> Output:
        if self._runner is None or self._runner.closed:
            self._runner = await self._machine.runner()
        try:
            return await self._runner.run(script, timeout_s=TIMEOUT_S)
        except RunnerError as error:
            with suppress(RunnerError):
                await self.close()
            raise PollError(f"slurm: {error}") from None


def _by_age(job: Job) -> tuple[bool, int]:
    """Those that have ended first, then the older ones: what is left out for want of room."""
    number = re.match(r"\d+", job.id)
    return not job.reading.values["ended"], int(number[0]) if number else 0


def _said(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    return plain(lines[-1].strip().removeprefix("squeue:").strip() if lines else "nothing", 120)
