"""NVIDIA GPUs of a machine through nvidia-smi."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, replace
from functools import partial

from perfmon.core import PerfmonError, evidence_text

from ...follow.wakeups import end
from ...shell import Shell
from ..reading import Area, Machine, NotAvailableError, PollError, Reading
from .gpu import GpuProcess, VisibleDevices, gpu_reading, read_mask, readings_of

# --- What nvidia-smi prints: rows of comma-separated values, and the tables of `dmon` and `pmon` ---

REFUSED = re.compile(r'[Ff]ield "([^"]+)" is not a valid field')
_LOST = re.compile(r"GPU is lost|requires? reset", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MASK, _MODEL, _MIG, _INDEX, _UUID = "mask", "model", "mig", "index", "uuid"


@dataclass(frozen=True, slots=True)
class Column:
    """A field of `--query-gpu`, and the value in it."""

    field: str
    name: str
    older: str = ""
    """Name of the field in older drivers."""


COLUMNS = (
    Column("index", _INDEX),
    Column("uuid", _UUID, "gpu_uuid"),
    Column("utilization.gpu", "util_pct"),
    Column("utilization.memory", "mem_util_pct"),
    Column("memory.used", "mem_used_mb"),
    Column("memory.total", "mem_total_mb"),
    Column("power.draw", "power_w"),
    Column("enforced.power.limit", "power_limit_w", "power.limit"),
    Column("temperature.gpu", "temp_c"),
    Column("fan.speed", "fan_pct"),
    Column("clocks.sm", "sm_mhz"),
    Column("clocks.max.sm", "sm_max_mhz"),
    Column("clocks.mem", "mem_mhz"),
    Column("clocks_event_reasons.active", _MASK, "clocks_throttle_reasons.active"),
    Column("ecc.errors.uncorrected.volatile.total", "ecc_errors"),
    Column("mig.mode.current", _MIG),
    Column("name", _MODEL, "gpu_name"),
)
"""The name comes last: it alone is free text."""
APPS = ("gpu_uuid", "pid", "used_gpu_memory", "process_name")
_LINKS = {"rxpci": "pcie_rx_mb_s", "txpci": "pcie_tx_mb_s"}
"""Columns of `dmon -s t`."""


def without(columns: Sequence[Column], refused: str) -> list[Column]:
    """Without a field that the driver does not know, or with its older name."""
    found = []
    for column in columns:
        if column.field != refused:
            found.append(column)
        elif column.older:
            found.append(Column(column.older, column.name))
    return found


def gpu_row(line: str, columns: Sequence[Column]) -> Reading | None:
    """The GPU that a row of `--query-gpu` is about; None for any other line."""
    cells = [cell.strip() for cell in line.split(",", len(columns) - 1)]
    if len(cells) != len(columns):
        return None
    texts = {column.name: cell for column, cell in zip(columns, cells, strict=True)}
    if not texts.get(_INDEX, "").isdecimal():
        return None
    words = {"model": _known(texts.get(_MODEL, "")), "uuid": _known(texts.get(_UUID, ""))}
    if _LOST.search(line):
        return Reading(Area.GPU, texts[_INDEX], {}, {**words, "state": "lost"})
    figures = {name: _number(cell) for name, cell in texts.items() if name not in _TEXTS}
    mig = "on" if texts.get(_MIG, "").casefold() == "enabled" else ""
    return gpu_reading(texts[_INDEX], figures, {**words, "mig": mig}, read_mask(texts.get(_MASK, "")))


_TEXTS = frozenset({_INDEX, _UUID, _MASK, _MIG, _MODEL})


def app_row(line: str, indices: Mapping[str, str]) -> GpuProcess | None:
    """The process that a row of `--query-compute-apps` is about; `indices` are those of GPUs by UUID."""
    cells = [cell.strip() for cell in line.split(",", len(APPS) - 1)]
    if len(cells) != len(APPS) or not cells[1].isdecimal() or not cells[0].startswith(("GPU-", "MIG-")):
        return None
    uuid, pid, memory, command = cells
    return GpuProcess(int(pid), indices.get(uuid, ""), _number(memory), None, _known(command))


def table(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """Rows of `dmon` or `pmon` by the names in their headers: which columns there are differs between drivers."""
    names: list[str] = []
    for line in lines:
        words = line.split()
        if words[:2] == ["#", "gpu"]:
            names = words[1:]
        elif words and words[0].isdecimal() and names and len(words) >= len(names):
            # A command may have blanks; it comes last.
            yield dict(zip(names, [*words[: len(names) - 1], " ".join(words[len(names) - 1 :])], strict=True))


def links_of(row: Mapping[str, str]) -> Mapping[str, float]:
    """PCIe throughput of a row of `dmon -s t`; empty for a row of another table."""
    found = {name: _number(row[key]) for key, name in _LINKS.items() if key in row}
    return {name: value for name, value in found.items() if value is not None}


def pmon_use(row: Mapping[str, str]) -> GpuProcess | None:
    """The process that a row of `pmon` is about; a GPU without any has a row of dashes."""
    if not row.get("pid", "").isdecimal() or "C" not in row.get("type", "C"):
        return None
    return GpuProcess(
        int(row["pid"]), row["gpu"], _number(row.get("fb", "-")), _number(row.get("sm", "-")), row["command"]
    )


def _number(cell: str) -> float | None:
    """None for `[N/A]`, `-`, `[Not Supported]`, `ERR!` and other texts of drivers."""
    return float(cell) if _NUMBER.fullmatch(cell) else None


def _known(cell: str) -> str:
    return "" if cell.startswith("[") or cell in ("N/A", "-") else cell


# --- A command that prints a row for each GPU periodically; it is restarted when it ends ---

_LONGEST_S = 30.0
_ERROR_TEXT = 120


class Stream:
    """The newest rows of all GPUs."""

    def __init__(self, machine: Machine, command: str, read: Callable[[str], Reading | None], gpus: int) -> None:
        """`gpus` is how many rows make up a round; `read` gives None for lines that are no rows."""
        self._machine, self._command, self._read, self._gpus = machine, command, read, gpus
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self._rows: dict[str, Reading] = {}
        self._round: Sequence[Reading] | None = None
        self._last_line = self._trouble = ""

    async def newest(self) -> Sequence[Reading]:
        """The last whole round that was not given yet; waits for one. Raises PollError when the command has ended."""
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        while self._round is None:
            if self._trouble:
                why, self._trouble = self._trouble, ""
                raise PollError(why)
            self._news.clear()
            await self._news.wait()
        found, self._round = self._round, None
        return found

    async def close(self) -> None:
        """End the command."""
        task, self._task = self._task, None
        if task is not None:
            await end(task)

    async def _run(self) -> None:
        wait_s = 1.0
        while True:
            self._rows, self._last_line, rounds = {}, "", 0
            why = "nvidia-smi ended"
            try:
                async with aclosing(self._machine.lines(self._command)) as lines:  # type: ignore[type-var]
                    async for line in lines:
                        rounds += self._take(line.decode("utf-8", "replace"))
            except PerfmonError as error:
                why = str(error)
            wait_s = 1.0 if rounds else wait_s
            last = f" ({self._last_line})" if self._last_line else ""
            self._trouble = f"{why}{last}; restarting in {wait_s:.0f} s"
            self._news.set()
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_S)

    def _take(self, line: str) -> bool:
        """Take a line; True if a round is complete: all GPUs have a row, or one has its second."""
        reading = self._read(line)
        if reading is None:
            if line.strip():
                self._last_line = evidence_text(line.strip(), _ERROR_TEXT)
            return False
        whole = reading.name in self._rows
        if whole:
            self._give()
        self._rows[reading.name] = reading
        if len(self._rows) >= self._gpus:
            self._give()
            whole = True
        return whole

    def _give(self) -> None:
        self._round, self._rows = list(self._rows.values()), {}
        self._trouble = ""
        self._news.set()


# --- The GPUs of a machine through its nvidia-smi: one that goes on printing, so that it is started once ---

PATHS = 'PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/cuda/bin:/usr/lib/wsl/lib:/opt/rocm/bin"; export PATH; '
_FORM = "--format=csv,noheader,nounits"
_PROCESSES = 10
"""Polls from one query of processes and links to the next: programs start for that."""
_START_S, _ASK_S = 40.0, 20.0
"""A driver that is not held open takes seconds to begin."""
_MARK = "# pmon"


class NvidiaSmiBackend:
    """Runs nvidia-smi, through a shell on the machine."""

    name = "nvidia-smi"
    every_s = 1.0

    def __init__(self, machine: Machine, runner: Shell, mine: VisibleDevices | None, buffered: str) -> None:
        """`runner` is this road's own; `buffered` is what makes a command print line by line, where there is such."""
        self._machine, self._runner, self._mine, self._buffered = machine, runner, mine, buffered
        self._stream: Stream | None = None
        self._known: dict[str, Reading] = {}
        """The last reading by UUID, or by index where there is none."""
        self._turn = 0
        self._query: asyncio.Task[list[Reading]] | None = None
        self._commands: dict[int, tuple[str, float | None]] = {}
        self._links: dict[str, Mapping[str, float]] = {}
        """By index."""

    async def poll(self) -> Sequence[Reading]:
        """A round of all GPUs, and every few times what runs on them. Raises PollError, NotAvailableError."""
        if self._stream is None:
            self._stream = await self._opened()
        found = [self._complete(reading) for reading in await self._stream.newest()]
        found += self._missing(found)
        if self._turn % _PROCESSES == 0 and self._query is None:
            self._query = asyncio.create_task(self._processes())
        self._turn += 1
        if self._query is not None and self._query.done():
            done, self._query = self._query, None
            found += done.result()
        return found

    async def close(self) -> None:
        """End what it started."""
        async with AsyncExitStack() as ending:
            ending.push_async_callback(self._runner.close)
            if self._stream is not None:
                ending.push_async_callback(self._stream.close)
            if self._query is not None:
                await end(self._query)

    # --- finding out what it reports ----------------------------------------------------------------------------------
    async def _opened(self) -> Stream:
        columns: Sequence[Column] = COLUMNS
        for _ in range(2 * len(COLUMNS)):
            fields = ",".join(column.field for column in columns)
            output = await self._runner.run(f"{PATHS}nvidia-smi --query-gpu={fields} {_FORM} 2>&1", timeout_s=_START_S)
            rows = [row for line in output.text.splitlines() if (row := gpu_row(line, columns)) is not None]
            if rows:
                command = f"{PATHS}exec {self._buffered}nvidia-smi --query-gpu={fields} {_FORM} -lms 1000 2>&1"
                return Stream(self._machine, command, partial(gpu_row, columns=columns), len(rows))
            refused = REFUSED.search(output.text)
            if refused is None or refused[1] == columns[0].field:
                line = next(filter(None, map(str.strip, output.text.splitlines())), "nothing")
                raise NotAvailableError(f"nvidia-smi: {evidence_text(line, 120)}")
            columns = without(columns, refused[1])
        raise PollError(f"nvidia-smi on {self._machine.name} rejects every requested field")

    # --- putting it together ------------------------------------------------------------------------------------
    def _complete(self, reading: Reading) -> Reading:
        uuid, links = reading.words.get("uuid", ""), self._links.get(reading.name)
        if links and reading.values:
            reading = replace(reading, values={**links, **reading.values})
        if self._mine is not None:
            reading = self._mine.mark(reading, len(self._known))
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
            self._links = {row["gpu"]: links for row in rows if (links := links_of(row))}
            uses = self._uses(output.text)
            await self._look_up({use.pid for use in uses})
        except PerfmonError:
            return []  # the GPUs are reported all the same
        return readings_of(uses, self._commands)

    def _uses(self, text: str) -> list[GpuProcess]:
        indices = {uuid: reading.name for uuid, reading in self._known.items()}
        apps, _, monitored = text.partition(_MARK)
        busy = [use for row in table(monitored.splitlines()) if (use := pmon_use(row)) is not None]
        uses = [use for line in apps.splitlines() if (use := app_row(line, indices)) is not None]
        shares = {(use.pid, use.gpu): use.util_pct for use in busy}
        return [GpuProcess(u.pid, u.gpu, u.mem_mb, shares.get((u.pid, u.gpu)), u.command) for u in uses] or busy

    async def _look_up(self, pids: set[int]) -> None:
        """Read command lines: nvidia-smi lists the program only."""
        self._commands = {pid: known for pid, known in self._commands.items() if pid in pids}
        unknown = sorted(pids - self._commands.keys())
        if unknown:
            listed = ",".join(map(str, unknown))
            output = await self._runner.run(f"ps -ww -o pid=,args= -p {listed}", timeout_s=_ASK_S)
            for line in output.text.splitlines():
                pid, _, command = line.strip().partition(" ")
                if pid.isdecimal():
                    self._commands[int(pid)] = (command.strip(), None)
