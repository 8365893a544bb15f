"""What nvidia-smi prints: rows of comma-separated values, and the tables of `dmon` and `pmon`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..reading import Area, Reading
from .processes import Use
from .reasons import idle, read_mask, reasons, throttled

REFUSED = re.compile(r'[Ff]ield "([^"]+)" is not a valid field')
_LOST = re.compile(r"GPU is lost|requires? reset", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MASK, _MODEL, _MIG, _INDEX, _UUID = "mask", "model", "mig", "index", "uuid"


@dataclass(frozen=True, slots=True)
class Column:
    """A field of `--query-gpu`, and what it tells."""

    field: str
    name: str
    older: str = ""
    """What older drivers call it."""


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
_DMON = {
    "sm": "util_pct", "mem": "mem_util_pct", "fb": "mem_used_mb", "pwr": "power_w", "gtemp": "temp_c", "temp": "temp_c",
    "pclk": "sm_mhz", "mclk": "mem_mhz", "rxpci": "pcie_rx_mb_s", "txpci": "pcie_tx_mb_s",
}  # fmt: skip


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
    told = {column.name: cell for column, cell in zip(columns, cells, strict=True)}
    if not told.get(_INDEX, "").isdecimal():
        return None
    words = {"model": _known(told.get(_MODEL, "")), "uuid": _known(told.get(_UUID, ""))}
    if _LOST.search(line):
        return Reading(Area.GPU, told[_INDEX], {}, {**words, "state": "lost"})
    values = {c.name: number for c in columns if c.name not in _TEXTS and (number := _number(told[c.name])) is not None}
    mask = read_mask(told.get(_MASK, ""))
    why = () if mask is None else reasons(mask)
    if mask is not None:
        nothing_runs = "util_pct" not in values and idle(mask)
        values["throttled"] = throttled(why, 0.0 if nothing_runs else values.get("util_pct"))
    mig = "on" if told.get(_MIG, "").casefold() == "enabled" else ""
    state = "ok" if values else "unsupported"
    return Reading(Area.GPU, told[_INDEX], values, {**words, "throttle": "+".join(why), "state": state, "mig": mig})


_TEXTS = frozenset({_INDEX, _UUID, _MASK, _MIG, _MODEL})


def app_row(line: str, indices: Mapping[str, str]) -> Use | None:
    """The process that a row of `--query-compute-apps` is about; `indices` are those of GPUs by UUID."""
    cells = [cell.strip() for cell in line.split(",", len(APPS) - 1)]
    if len(cells) != len(APPS) or not cells[1].isdecimal() or not cells[0].startswith(("GPU-", "MIG-")):
        return None
    uuid, pid, memory, command = cells
    return Use(int(pid), indices.get(uuid, ""), _number(memory), None, _known(command))


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


def dmon_reading(row: Mapping[str, str]) -> Reading:
    """The GPU that a row of `dmon` is about."""
    told = ((name, _number(row[key])) for key, name in _DMON.items() if key in row)
    values = {name: value for name, value in told if value is not None}
    return Reading(Area.GPU, row["gpu"], values, {"state": "ok" if values else "unsupported"})


def links_of(row: Mapping[str, str]) -> Mapping[str, float]:
    """What goes over PCIe, of a row of `dmon -s t`; a row of another table has none."""
    return {name: value for name, value in dmon_reading(row).values.items() if name.startswith("pcie_")}


def pmon_use(row: Mapping[str, str]) -> Use | None:
    """The process that a row of `pmon` is about; a GPU without any has a row of dashes."""
    if not row.get("pid", "").isdecimal() or "C" not in row.get("type", "C"):
        return None
    return Use(int(row["pid"]), row["gpu"], _number(row.get("fb", "-")), _number(row.get("sm", "-")), row["command"])


def _number(cell: str) -> float | None:
    """None for `[N/A]`, `-`, `[Not Supported]`, `ERR!` and whatever else drivers have said there."""
    return float(cell) if _NUMBER.fullmatch(cell) else None


def _known(cell: str) -> str:
    return "" if cell.startswith("[") or cell in ("N/A", "-") else cell
