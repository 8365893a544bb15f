"""AMD's GPUs: answers in the shapes that versions of amd-smi and rocm-smi give, printed by programs of ours."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.gpu.amd import amd_models, amd_readings, amd_uses, rocm_readings
from perfmon.sources.pollers.gpu.gpu import GpuPoller, GpuProcess
from perfmon.sources.pollers.reading import Area, NotAvailableError, PollError


def unit(value: float | str, name: str) -> dict[str, object]:
    """As amd-smi writes a quantity."""
    return {"value": value, "unit": name}


MI300: dict[str, Any] = {
    "gpu": 0,
    "usage": {"gfx_activity": unit(98, "%"), "umc_activity": unit(37, "%"), "vcn_activity": ["N/A", "N/A"]},
    "power": {"socket_power": unit(742, "W"), "gfx_voltage": "N/A", "throttle_status": "N/A"},
    "clock": {
        "gfx_0": {"clk": unit(1650, "MHz"), "min_clk": unit(500, "MHz"), "max_clk": unit(2100, "MHz")},
        "mem_0": {"clk": unit(1300, "MHz"), "max_clk": unit(1300, "MHz")},
    },
    "temperature": {"edge": "N/A", "hotspot": unit(83, "C"), "mem": unit(71, "C")},
    "ecc": {"total_correctable_count": 3, "total_uncorrectable_count": 0},
    "fan": {"speed": 127, "max": 255, "rpm": 2570, "usage": unit(49.8, "%")},
    "energy": {"total_energy_consumption": unit(1234567.5, "J")},
    "mem_usage": {"total_vram": unit(196592, "MB"), "used_vram": unit(150000, "MB")},
    "throttle": {
        "ppt_violation_status": "ACTIVE",
        "socket_thermal_violation_status": "NOT ACTIVE",
        "hbm_thermal_violation_status": "NOT ACTIVE",
        "prochot_violation_status": "NOT ACTIVE",
    },
}
VALUES = {
    "util_pct": 98, "mem_util_pct": 37, "mem_used_mb": 150000, "mem_total_mb": 196592, "power_w": 742, "temp_c": 83,
    "fan_pct": 49.8, "sm_mhz": 1650, "sm_max_mhz": 2100, "mem_mhz": 1300, "ecc_errors": 0, "energy_j": 1234567.5,
    "throttled": 1,
}  # fmt: skip
ROCM_5 = {
    "card0": {
        "Unique ID": "0xf6fa8cb00a2d7c81", "Temperature (Sensor edge) (C)": "41.0",
        "Temperature (Sensor junction) (C)": "44.0", "sclk clock speed:": "(1090Mhz)", "sclk clock level:": "1",
        "mclk clock speed:": "(1600Mhz)", "Max Graphics Package Power (W)": "560.0",
        "Average Graphics Package Power (W)": "128.0", "GPU use (%)": "100", "GPU memory use (%)": "12",
        "Fan speed (level)": "127", "Fan speed (%)": "50",
        "VRAM Total Memory (B)": "68702699520", "VRAM Total Used Memory (B)": "11534336", "Card series": "AMD INSTINCT",
    },
    "system": {"Driver version": "5.15"},
}  # fmt: skip
ROCM_6 = {
    "card0": {
        "Current Socket Graphics Package Power (W)": "131.0", "Temperature (Sensor edge) (C)": "N/A",
        "Temperature (Sensor junction) (C)": "39.0", "GPU use (%)": "0", "GPU Memory Read/Write Activity (%)": "1",
        "GPU Memory Allocated (VRAM%)": "3", "VRAM Total Memory (B)": "206141652992", "Card Series": "N/A",
        "VRAM Total Used Memory (B)": "297549824", "Card Model": "0x74a1", "Unique ID": "N/A",
    },
    "card10": {"GPU use (%)": "7"},
    "card2": {"GPU use (%)": "N/A"},
}  # fmt: skip


@pytest.mark.parametrize("shape", [[MI300], {"gpu_data": [MI300]}])
def test_a_list_or_gpu_data(shape: object) -> None:
    [result] = amd_readings(json.dumps(shape), {"0": "AMD Instinct MI300X"})
    assert (result.area, result.name, result.values) == (Area.GPU, "0", VALUES)
    assert result.words == {"model": "AMD Instinct MI300X", "throttle": "power-cap", "state": "ok"}


def test_one_that_does_not_say_why_its_clocks_are_low_is_not_said_to_be_free() -> None:
    """As a Radeon answers: what it does not know is not no."""
    untold = dict.fromkeys(MI300["throttle"], "N/A")
    [result] = amd_readings(json.dumps([{**MI300, "throttle": untold}]), {})
    assert "throttled" not in result.values


@pytest.mark.parametrize("lost", sorted(MI300.keys() - {"gpu"}))
@pytest.mark.parametrize("instead", [None, "N/A", [], {}, 7, {"gfx_activity": "N/A"}])
def test_any_part_may_be_missing_or_something_else(lost: str, instead: object) -> None:
    [result] = amd_readings(json.dumps([{**MI300, lost: instead}]), {})
    assert result.words["state"] == "ok"
    assert len(result.values) < len(VALUES)
    assert result.values.items() <= VALUES.items()


def test_a_flag_that_cries_wolf_is_not_believed() -> None:
    navi = {"gpu": 1, "usage": {"gfx_activity": unit(90, "%")}, "power": {"throttle_status": "THROTTLED"}}
    [result] = amd_readings(json.dumps([navi]), {})
    assert result.values == {"util_pct": 90}


@pytest.mark.parametrize(
    ("violations", "words", "throttled"),
    [
        ({"socket_thermal_violation_status": "ACTIVE", "vr_thermal_violation_status": "ACTIVE"}, "hw-thermal", 1.0),
        ({"prochot_violation_status": "ACTIVE", "ppt_violation_status": "ACTIVE"}, "hw-slowdown+power-cap", 1.0),
        ({"ppt_violation_status": "NOT ACTIVE"}, "", 0.0),
        ({"ppt_accumulated": 17}, "", None),
    ],
)
def test_what_they_are_held_back_by(violations: dict[str, object], words: str, throttled: float | None) -> None:
    [result] = amd_readings(json.dumps([{**MI300, "throttle": violations}]), {})
    assert (result.words["throttle"], result.values.get("throttled")) == (words, throttled)


def test_names_and_processes() -> None:
    static = {"gpu_data": [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI300X"}}, {"gpu": 1, "asic": "N/A"}]}
    assert amd_models(json.dumps(static)) == {"0": "AMD Instinct MI300X", "1": ""}
    entries = [
        {"process_info": {"pid": 42, "name": "python", "memory_usage": {"vram_mem": unit(1048576, "B")}}},
        {"process_info": "No running processes detected"},
        "N/A",
    ]
    assert amd_uses(json.dumps([{"gpu": 3, "process_list": entries}])) == [GpuProcess(42, "3", 1.0, None, "python")]


def test_keys_of_rocm_smi_differ_between_versions() -> None:
    [result] = rocm_readings(json.dumps(ROCM_5))
    assert result.values == {
        "util_pct": 100, "mem_util_pct": 12, "mem_used_mb": 11, "mem_total_mb": 65520, "power_w": 128,
        "power_limit_w": 560, "temp_c": 44, "fan_pct": 50, "sm_mhz": 1090, "mem_mhz": 1600,
    }  # fmt: skip
    assert result.words == {"model": "AMD INSTINCT", "uuid": "0xf6fa8cb00a2d7c81", "throttle": "", "state": "ok"}
    result, *others = rocm_readings("WARNING: AMD GPU device(s) is/are in a low-power state.\n" + json.dumps(ROCM_6))
    assert (result.values["power_w"], result.values["temp_c"], result.values["mem_util_pct"]) == (131, 39, 1)
    assert result.words == {"model": "0x74a1", "uuid": "", "throttle": "", "state": "ok"}
    assert [(one.name, one.words["state"]) for one in others] == [("2", "unsupported"), ("10", "ok")]


@pytest.mark.parametrize("text", ["", "not supported", "{", "[" * 100_000, '{"gpu_data": 3}', '"x"', "null", "17"])
def test_what_is_no_answer_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        amd_readings(text, {})


# --- the programs -------------------------------------------------------------------------------------------------
@pytest.fixture
async def poller() -> AsyncIterator[GpuPoller]:
    machine = LocalMachine()
    machine.here = False
    made = GpuPoller(machine)
    yield made
    await made.close()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def program(folder: Path, name: str, **answers: object) -> None:
    """A program that prints one of its answers, by its first argument."""
    for word, answer in answers.items():
        (folder / f"{name}.{word}").write_text(answer if isinstance(answer, str) else json.dumps(answer))
    (folder / name).write_text(f'#!/bin/sh\nexec cat "{folder}/{name}.${{1#--}}"\n')
    (folder / name).chmod(0o755)


async def test_amd_smi(programs: Path, poller: GpuPoller) -> None:
    process = {"process_info": {"pid": 42, "memory_usage": {"vram_mem": unit(2048, "KB")}}}
    program(
        programs, "amd-smi", metric=[MI300], static=[{"gpu": 0, "asic": {"market_name": "MI300X"}}],
        process=[{"gpu": 0, "process_list": [process]}],
    )  # fmt: skip
    gpu, ran = await poller.poll()
    assert (gpu.values, gpu.words["model"]) == (VALUES, "MI300X")
    assert (ran.area, ran.name, ran.values, ran.words["gpu"]) == (Area.PROCESS, "42", {"gpu_mem_mb": 2.0}, "0")
    assert poller.every_s == 5
    program(programs, "amd-smi", metric="amdgpu module not found")
    with pytest.raises(PollError, match="returned invalid JSON: amdgpu module not found"):
        await poller.poll()


async def test_rocm_smi_where_there_is_nothing_newer(programs: Path, poller: GpuPoller) -> None:
    program(programs, "rocm-smi", showuse=ROCM_5)
    [result] = await poller.poll()
    assert result.values["util_pct"] == 100


async def test_a_tool_without_gpus_is_absence(programs: Path, poller: GpuPoller) -> None:
    program(programs, "amd-smi", metric=[])
    with pytest.raises(NotAvailableError, match="amd-smi reports no GPU"):
        await poller.poll()
