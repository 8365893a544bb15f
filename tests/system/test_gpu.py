"""The GPUs of this machine, through its own driver: what polling them tells and takes. `make test-gpu` runs this.

With PERFMON_GPU_PAGE it writes the figures into that page, between its marks.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import platform
import re
import statistics
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.gpu.gpu import GpuPoller
from perfmon.sources.pollers.gpu.nvml import CLOSELY, LIBRARY, NvmlBackend
from perfmon.sources.pollers.reading import Area, NotAvailableError, Reading

pytestmark = pytest.mark.slow

_BLOCK = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)


def _driver() -> bool:
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True


# It is no component that could be installed, so it is not marked `system`, which must not be skipped where all is.
if not _driver():
    pytest.skip("this machine has no GPU with a driver of NVIDIA", allow_module_level=True)


@pytest.fixture
async def road() -> AsyncIterator[NvmlBackend]:
    made = NvmlBackend()
    try:
        await made.poll()
    except NotAvailableError as error:
        pytest.skip(str(error))
    yield made
    await made.close()


def gpus(readings: object) -> list[Reading]:
    assert isinstance(readings, list)
    return [reading for reading in readings if reading.area is Area.GPU]


async def test_a_real_driver_tells_what_can_be_meant(road: NvmlBackend) -> None:
    found = gpus(await road.poll())
    assert found
    for result in found:
        assert result.words["state"] in ("ok", "unsupported", "lost")
        limits = {"util_pct": 100, "mem_util_pct": 100, "temp_c": 130, "power_w": 3000, "throttled": 1}
        assert all(0 <= result.values[name] <= most for name, most in limits.items() if name in result.values)
        if "mem_used_mb" in result.values:
            assert 0 <= result.values["mem_used_mb"] <= result.values["mem_total_mb"]


async def test_nvidia_smi_tells_the_same(road: NvmlBackend) -> None:
    machine = LocalMachine()
    machine.here = False
    other = GpuPoller(machine)
    try:
        theirs = {result.name: result for result in gpus(await other.poll())}
    except NotAvailableError as error:
        pytest.skip(str(error))
    finally:
        await other.close()
    for result in gpus(await road.poll()):
        if ":" not in result.name and result.words["state"] == "ok":
            assert theirs[result.name].words["uuid"] == result.words["uuid"]
            assert theirs[result.name].values.get("mem_total_mb") == pytest.approx(
                result.values.get("mem_total_mb"), abs=1
            )


@pytest.mark.skipif("PERFMON_GPU_PAGE" not in os.environ, reason="measures only for a page: make test-gpu")
async def test_what_it_takes_is_written_down(road: NvmlBackend) -> None:
    rounds: dict[bool, list[float]] = {False: [], True: []}
    found: list[Reading] = []
    began, cpu = time.monotonic(), time.process_time()
    for turn in range(6 * CLOSELY):
        at = time.perf_counter()
        result = gpus(await road.poll())
        rounds[(turn + 1) % CLOSELY == 0].append(1e3 * (time.perf_counter() - at))
        found = result or found
        await asyncio.sleep(max(0.0, began + turn + 1 - time.monotonic()))
    cpu_pct = 100 * (time.process_time() - cpu) / (time.monotonic() - began)
    assert all(rounds.values())
    lines = [
        f"Measured by `make test-gpu` on {platform.system()} with {platform.processor() or platform.machine()}:",
        "",
        "| what | figure |",
        "| --- | --- |",
        f"| GPUs | {len(found)} x {found[0].words.get('model', '?')} |",
        f"| values of each | {len(found[0].values)} |",
        f"| a round of what is cheap, p50, max | {_result_of(rounds[False])} |",
        f"| a round with processes, temperature, links | {_result_of(rounds[True])} |",
        f"| processor time, a round a second | {cpu_pct:.2f} % of a core |",
    ]
    _write(Path(os.environ["PERFMON_GPU_PAGE"]), "\n".join(lines))


def _result_of(took_ms: list[float]) -> str:
    return f"{statistics.median(took_ms):.1f} ms, {max(took_ms):.1f} ms"


def _write(page: Path, text: str) -> None:
    page.write_text(_BLOCK.sub(lambda match: f"{match[1]}{text}\n{match[2]}", page.read_text()))
