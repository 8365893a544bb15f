"""AMD GPUs, by the JSON of amd-smi or of rocm-smi."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from perfmon.core import evidence_text

from ...shell import Shell
from ..reading import NotAvailableError, PollError, Reading
from .gpu import GpuProcess, VisibleDevices, gpu_reading, readings_of, throttled
from .nvidia_smi import PATHS

# --- AMD's GPUs, by the JSON of amd-smi, or of rocm-smi where that is older: any key may be missing or `N/A` ---

_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_CARD = re.compile(r"card(\d{1,4})")
_SCALES = {"KB": 1 / 1024, "B": 1 / (1 << 20), "GB": 1024.0, "mW": 1e-3, "GHz": 1000.0, "kJ": 1000.0, "mJ": 1e-3}
"""To MB, W, MHz and J."""
_VIOLATIONS = {
    "prochot": "hw-slowdown",
    "ppt": "power-cap",
    "socket_thermal": "hw-thermal",
    "vr_thermal": "hw-thermal",
    "hbm_thermal": "hw-thermal",
}
"""MI300 and later report what they hold back for; `throttle_status` of others is known to cry wolf (Navi 31)."""
_ACTIVE = "ACTIVE"
_ANSWERS = (_ACTIVE, "NOT ACTIVE")
"""Cards that do not know it print `N/A`."""
_POWERS = ("socket_power", "current_socket_power", "average_socket_power")
_ROCM: Mapping[str, tuple[re.Pattern[str], float]] = {
    "util_pct": (re.compile(r"GPU use \(%\)", re.IGNORECASE), 1.0),
    "mem_util_pct": (re.compile(r"GPU memory (use|read/write activity) \(%\)", re.IGNORECASE), 1.0),
    "mem_used_mb": (re.compile(r"VRAM Total Used Memory \(B\)", re.IGNORECASE), 1 / (1 << 20)),
    "mem_total_mb": (re.compile(r"VRAM Total Memory \(B\)", re.IGNORECASE), 1 / (1 << 20)),
    "power_w": (re.compile(r"(Average|Current Socket) Graphics Package Power \(W\)", re.IGNORECASE), 1.0),
    "power_limit_w": (re.compile(r"Max Graphics Package Power \(W\)", re.IGNORECASE), 1.0),
    "temp_c": (re.compile(r"Temperature \(Sensor (junction|edge)\) \(C\)", re.IGNORECASE), 1.0),
    "fan_pct": (re.compile(r"Fan speed \(%\)", re.IGNORECASE), 1.0),
    "sm_mhz": (re.compile(r"sclk clock speed:?", re.IGNORECASE), 1.0),
    "mem_mhz": (re.compile(r"mclk clock speed:?", re.IGNORECASE), 1.0),
}
"""The keys vary between versions; the temperature of the junction is preferred by its order in the answer."""


def amd_readings(text: str, models: Mapping[str, str]) -> list[Reading]:
    """GPUs by `amd-smi metric --json`; ValueError for what is no such answer."""
    return [_amd_reading(gpu, models) for gpu in _gpus(text)]


def amd_models(text: str) -> dict[str, str]:
    """Names by index, by `amd-smi static --asic --json`."""
    return {str(gpu["gpu"]): str(_at(gpu, "asic", "market_name") or "") for gpu in _gpus(text)}


def amd_uses(text: str) -> list[GpuProcess]:
    """Processes by `amd-smi process --json`."""
    found = []
    for gpu in _gpus(text):
        entries = gpu.get("process_list")
        for entry in entries if isinstance(entries, list) else ():
            info = entry.get("process_info", entry) if isinstance(entry, dict) else None
            if isinstance(info, dict) and str(info.get("pid", "")).isdecimal():
                memory = _value(_at(info, "memory_usage", "vram_mem") or info.get("mem_usage"))
                found.append(GpuProcess(int(info["pid"]), str(gpu["gpu"]), memory, None, str(info.get("name", ""))))
    return found


def rocm_readings(text: str) -> list[Reading]:
    """GPUs by `rocm-smi --json`; ValueError for what is no such answer."""
    document = _loaded(text)
    cards = document.items() if isinstance(document, dict) else ()
    found = [(match[1], card) for key, card in cards if isinstance(card, dict) and (match := _CARD.fullmatch(key))]
    return [_rocm_reading(index, card) for index, card in sorted(found, key=lambda pair: int(pair[0]))]


def _amd_reading(gpu: Mapping[str, Any], models: Mapping[str, str]) -> Reading:
    clocks = _at(gpu, "clock", "gfx_0") or {}
    figures = {
        "util_pct": _value(_at(gpu, "usage", "gfx_activity")),
        "mem_util_pct": _value(_at(gpu, "usage", "umc_activity")),
        "mem_used_mb": _value(_at(gpu, "mem_usage", "used_vram")),
        "mem_total_mb": _value(_at(gpu, "mem_usage", "total_vram")),
        "power_w": _first(gpu, *(("power", name) for name in _POWERS)),
        "temp_c": _first(gpu, ("temperature", "hotspot"), ("temperature", "edge")),
        "fan_pct": _value(_at(gpu, "fan", "usage")),
        "sm_mhz": _value(_at(clocks, "clk")),
        "sm_max_mhz": _value(_at(clocks, "max_clk")),
        "mem_mhz": _value(_at(gpu, "clock", "mem_0", "clk")),
        "ecc_errors": _value(_at(gpu, "ecc", "total_uncorrectable_count")),
        "energy_j": _value(_at(gpu, "energy", "total_energy_consumption")),
    }
    index = str(gpu["gpu"])
    reading = gpu_reading(index, figures, {"model": models.get(index, "")})
    violations = {
        key: str(_at(gpu, "throttle", f"{key}_violation_status") or "").strip().upper() for key in _VIOLATIONS
    }
    if not set(_ANSWERS).intersection(violations.values()):
        return reading
    why = dict.fromkeys(word for key, word in _VIOLATIONS.items() if violations[key] == _ACTIVE)
    values = {**reading.values, "throttled": throttled(why, reading.values.get("util_pct"))}
    return replace(reading, values=values, words={**reading.words, "throttle": "+".join(why)})


def _rocm_reading(index: str, card: Mapping[str, Any]) -> Reading:
    figures: dict[str, float | None] = {}
    for key, cell in card.items():
        for name, (pattern, scale) in _ROCM.items():
            number = _value(cell)
            if number is not None and pattern.fullmatch(key) and (name not in figures or "junction" in key):
                figures[name] = number * scale
    texts = {key.casefold(): str(word) for key, word in card.items() if word != "N/A"}
    words = {"model": texts.get("card series") or texts.get("card model", ""), "uuid": texts.get("unique id", "")}
    return gpu_reading(index, figures, words)


def _gpus(text: str) -> list[Mapping[str, Any]]:
    """The entries of a list, or of `gpu_data` (ROCm 7); those that name their GPU."""
    document = _loaded(text)
    entries = document.get("gpu_data") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise ValueError("no list of GPUs")
    return [entry for entry in entries if isinstance(entry, dict) and str(entry.get("gpu", "")).isdecimal()]


def _loaded(text: str) -> Any:
    """JSON, behind warnings that are printed before it."""
    start = min((at for sign in "[{" if (at := text.find(sign)) >= 0), default=0)
    try:
        return json.loads(text[start:])
    except RecursionError:
        raise ValueError("too deep") from None


def _at(value: Any, *path: str) -> Any:
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _first(gpu: Mapping[str, Any], *paths: Sequence[str]) -> float | None:
    return next((value for path in paths if (value := _value(_at(gpu, *path))) is not None), None)


def _value(cell: Any) -> float | None:
    """A number, `{"value": 88, "unit": "W"}`, `"88 W"` or `"(1090Mhz)"`; None for `N/A`."""
    unit = ""
    if isinstance(cell, dict):
        unit, cell = str(cell.get("unit", "")), cell.get("value")
    if isinstance(cell, bool) or cell is None:
        return None
    if isinstance(cell, str):
        match = _NUMBER.search(cell) if cell[:1] in "(-0123456789" else None
        if match is None:
            return None
        cell = float(match[0])
    return float(cell) * _SCALES.get(unit, 1.0) if isinstance(cell, int | float) else None


# --- The GPUs of a machine through amd-smi or rocm-smi: programs that take a second to start, so they run rarely
# ---

_ROCM_SMI = (
    "rocm-smi --showuse --showmemuse --showpower --showmaxpower --showtemp --showfan --showclocks --showmeminfo vram "
    "--showproductname --showuniqueid --json"
)
_ASK_S = 40.0
_PROCESSES = 3
"""Polls from one query of processes to the next."""
_BIG = 1 << 17
"""An answer that is longer is read in a thread."""


class AmdBackend:
    """Runs one of AMD's tools, through a shell on the machine."""

    every_s = 5.0

    def __init__(self, runner: Shell, mine: VisibleDevices | None, tool: Literal["amd-smi", "rocm-smi"]) -> None:
        """`runner` is used by nothing else."""
        self.name: str = tool
        self._runner, self._mine = runner, mine
        self._models: dict[str, str] | None = None
        self._turn = 0

    async def poll(self) -> Sequence[Reading]:
        """All GPUs, and every few times what runs on them. Raises PollError, NotAvailableError."""
        found = [reading if self._mine is None else self._mine.mark(reading) for reading in await self._gpus()]
        if not found and not self._turn:
            raise NotAvailableError(f"{self.name} reports no GPU")
        if self.name == "amd-smi" and self._turn % _PROCESSES == 0:
            found += await self._processes()
        self._turn += 1
        return found

    async def close(self) -> None:
        """End the shell."""
        await self._runner.close()

    async def _gpus(self) -> list[Reading]:
        if self.name == "rocm-smi":
            text = await self._output(_ROCM_SMI)
            return await self._read(lambda: rocm_readings(text), text)
        if self._models is None:
            self._models = await self._named()
        models, text = self._models, await self._output("amd-smi metric --json")
        return await self._read(lambda: amd_readings(text, models), text)

    async def _named(self) -> dict[str, str]:
        try:
            return amd_models(await self._output("amd-smi static --asic --json"))
        except ValueError:
            return {}

    async def _processes(self) -> list[Reading]:
        try:
            return readings_of(amd_uses(await self._output("amd-smi process --json")))
        except ValueError:
            return []

    async def _output(self, command: str) -> str:
        return (await self._runner.run(PATHS + command, timeout_s=_ASK_S)).text

    async def _read(self, read: Callable[[], list[Reading]], text: str) -> list[Reading]:
        try:
            return await asyncio.to_thread(read) if len(text) > _BIG else read()
        except ValueError:
            first = evidence_text(next(filter(None, map(str.strip, text.splitlines())), "nothing"), 120)
            raise PollError(f"{self.name} on {self._runner.name} returned invalid JSON: {first}") from None
