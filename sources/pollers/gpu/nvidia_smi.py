"""The GPUs of a machine through its nvidia-smi: one that goes on printing, so that it is started once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial

from perfmon.errors import PerfmonError
from perfmon.text import plain, without_secrets

from ...ending import end
from ...remote.runner import Runner
from ..poller import AbsentError, Machine, PollError
from ..reading import Area, Reading
from .mine import Mine
from .processes import Use, readings_of
from .smi_tables import (
    APPS,
    COLUMNS,
    REFUSED,
    Column,
    app_row,
    dmon_reading,
    gpu_row,
    links_of,
    pmon_use,
    table,
    without,
)
from .stream import Stream

PATHS = 'PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/cuda/bin:/usr/lib/wsl/lib:/opt/rocm/bin"; export PATH; '
_FORM = "--format=csv,noheader,nounits"
_PROCESSES = 10
"""Every so many polls it is asked what runs on them, and goes over their links: programs start for that."""
_START_S, _ASK_S = 40.0, 20.0
"""A driver that is not held open takes seconds to begin."""
_MARK = "# pmon"


class SmiRoad:
    """Asks nvidia-smi, through a shell on the machine."""

    every_s = 1.0

    def __init__(self, machine: Machine, runner: Runner, mine: Mine | None, buffered: str) -> None:
        """`runner` is this road's own; `buffered` is what makes a command print line by line, where there is such."""
        self._machine, self._runner, self._mine, self._buffered = machine, runner, mine, buffered
        self._stream: Stream | None = None
        self._known: dict[str, Reading] = {}
        """The last reading by UUID, or by index where there is none."""
        self._turn = 0
        self._asking: asyncio.Task[list[Reading]] | None = None
        self._commands: dict[int, tuple[str, float | None]] = {}
        self._links: dict[str, Mapping[str, float]] = {}
        """By index."""

    async def poll(self) -> Sequence[Reading]:
        """A round of all GPUs, and every few times what runs on them. Raises PollError, AbsentError."""
        if self._stream is None:
            self._stream = await self._opened()
        found = [self._told(reading) for reading in await self._stream.newest()]
        found += self._missing(found)
        if self._turn % _PROCESSES == 0 and self._asking is None:
            self._asking = asyncio.create_task(self._processes())
        self._turn += 1
        if self._asking is not None and self._asking.done():
            asked, self._asking = self._asking, None
            found += asked.result()
        return found

    async def close(self) -> None:
        """Ends what it started."""
        async with AsyncExitStack() as ending:
            ending.push_async_callback(self._runner.close)
            if self._stream is not None:
                ending.push_async_callback(self._stream.close)
            if self._asking is not None:
                await end(self._asking)

    # --- finding out what it can tell ---------------------------------------------------------------------------
    async def _opened(self) -> Stream:
        columns: Sequence[Column] = COLUMNS
        for _ in range(2 * len(COLUMNS)):
            fields = ",".join(column.field for column in columns)
            output = await self._runner.run(f"{PATHS}nvidia-smi --query-gpu={fields} {_FORM} 2>&1", timeout_s=_START_S)
            rows = [row for line in output.text.splitlines() if (row := gpu_row(line, columns)) is not None]
            if rows:
                command = f"{PATHS}exec {self._buffered}nvidia-smi --query-gpu={fields} {_FORM} -lms 1000 2>&1"
                return Stream(self._machine, "nvidia-smi", command, partial(gpu_row, columns=columns), len(rows))
            refused = REFUSED.search(output.text)
            if refused is None or refused[1] == columns[0].field:
                return await self._table(output.text)
            columns = without(columns, refused[1])
        raise PollError(f"nvidia-smi on {self._machine.name} rejects every requested field")

    async def _table(self, said: str) -> Stream:
        """`dmon`, for a driver that answers no query; AbsentError where that says nothing either."""
        output = await self._runner.run(f"{PATHS}nvidia-smi dmon -c 1 -s pucm 2>&1", timeout_s=_START_S)
        rows = list(table(output.text.splitlines()))
        if not rows:
            told = plain(without_secrets(next(filter(None, map(str.strip, said.splitlines())), "nothing")), 120)
            raise AbsentError(f"nvidia-smi: {told}")
        header: list[str] = []

        def read(line: str) -> Reading | None:
            if line.startswith("#"):
                header[:] = [line] if "gpu" in line.split()[:2] else header
                return None
            return next(map(dmon_reading, table([*header, line])), None)

        command = f"{PATHS}exec {self._buffered}nvidia-smi dmon -s pucm -d 1 2>&1"
        return Stream(self._machine, "nvidia-smi dmon", command, read, len(rows))

    # --- putting it together ------------------------------------------------------------------------------------
    def _told(self, reading: Reading) -> Reading:
        uuid, links = reading.words.get("uuid", ""), self._links.get(reading.name)
        if links and reading.values:
            reading = Reading(reading.area, reading.name, {**links, **reading.values}, reading.words)
        if self._mine is not None:
            word = self._mine.word(reading.name, uuid, "", len(self._known))
            reading = Reading(reading.area, reading.name, reading.values, {**reading.words, "mine": word})
        self._known[uuid or reading.name] = reading
        return reading

    def _missing(self, found: Sequence[Reading]) -> list[Reading]:
        """Those that were there before: what is lost is not printed any more, or under another UUID."""
        here = {reading.words.get("uuid") or reading.name for reading in found}
        taken = {reading.name for reading in found}
        gone = (one for uuid, one in self._known.items() if uuid not in here and one.name not in taken)
        return [Reading(Area.GPU, one.name, {}, {**one.words, "state": "lost", "throttle": ""}) for one in gone]

    # --- what runs there ----------------------------------------------------------------------------------------
    async def _processes(self) -> list[Reading]:
        apps = f"nvidia-smi --query-compute-apps={','.join(APPS)} {_FORM}"
        query = f"{apps}; echo; echo '{_MARK}'; nvidia-smi pmon -c 1 -s um; nvidia-smi dmon -c 1 -s t"
        try:
            output = await self._runner.run(PATHS + query, timeout_s=_ASK_S)
            rows = list(table(output.text.partition(_MARK)[2].splitlines()))
            self._links = {row["gpu"]: told for row in rows if (told := links_of(row))}
            uses = self._uses(output.text)
            await self._look_up({use.pid for use in uses})
        except PerfmonError:
            return []  # the GPUs are told all the same
        return readings_of(uses, self._commands)

    def _uses(self, text: str) -> list[Use]:
        indices = {uuid: reading.name for uuid, reading in self._known.items()}
        apps, _, monitored = text.partition(_MARK)
        busy = [use for row in table(monitored.splitlines()) if (use := pmon_use(row)) is not None]
        uses = [use for line in apps.splitlines() if (use := app_row(line, indices)) is not None]
        shares = {(use.pid, use.gpu): use.util_pct for use in busy}
        return [Use(u.pid, u.gpu, u.mem_mb, shares.get((u.pid, u.gpu)), u.command) for u in uses] or busy

    async def _look_up(self, pids: set[int]) -> None:
        """Command lines: nvidia-smi tells the program only."""
        self._commands = {pid: known for pid, known in self._commands.items() if pid in pids}
        unknown = sorted(pids - self._commands.keys())
        if unknown:
            listed = ",".join(map(str, unknown))
            output = await self._runner.run(f"ps -ww -o pid=,args= -p {listed}", timeout_s=_ASK_S)
            for line in output.text.splitlines():
                pid, _, command = line.strip().partition(" ")
                if pid.isdecimal():
                    self._commands[int(pid)] = (command.strip(), None)
