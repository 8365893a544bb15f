"""GPUs that are not there: our stand-in for NVML is compiled, and a process that loads it polls for a test.

It is another process because a library that was loaded stays: tests after this one would find a GPU, too.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import pytest

SOURCE = Path(__file__).with_name("nvml_stub.c")
H100 = """\
name NVIDIA H100 80GB HBM3
util 97
mem_util 41
mem_total 85520809984
mem_used 69793218560
power 685123
power_limit 700000
energy 123456789
temp 71
sm 1755
max_sm 1980
mem_clock 2619
reasons 0x4
ecc_uncorrected 0
mig 0
pcie_tx 120000
pcie_rx 24500000
"""
"""A GPU at work, as an H100 answers."""


@dataclass(frozen=True)
class GpuReading:
    """A reading, as the process told it."""

    area: str
    name: str
    values: dict[str, float]
    words: dict[str, str]


@dataclass(frozen=True)
class Answer:
    """What came of one poll."""

    readings: tuple[GpuReading, ...] = ()
    error: str = ""
    """The name of the error's class and what it says."""
    timeout: bool = False

    def gpus(self) -> dict[str, GpuReading]:
        """By index."""
        return {result.name: result for result in self.readings if result.area == "gpu"}

    def processes(self) -> dict[str, GpuReading]:
        """By pid."""
        return {result.name: result for result in self.readings if result.area == "process"}


def compiled(folder: Path, *options: str) -> Path:
    """The folder with the library. Skips the test where there is no compiler."""
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("needs gcc")
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / "libnvidia-ml.so.1"
    flags = ("-shared", "-fPIC", "-O1", "-pthread", "-Wl,-soname,libnvidia-ml.so.1", *options)
    subprocess.run((gcc, *flags, "-o", str(target), str(SOURCE)), check=True)
    return folder


class Polled:
    """A process that polls the GPUs of this machine, one poll for each `poll`."""

    def __init__(self, folder: Path, library: Path | None, environment: Mapping[str, str] | None = None) -> None:
        self.state = folder / "nvml.state"
        self.state.write_text("")
        hidden = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS")
        env = {name: value for name, value in os.environ.items() if name not in hidden}
        env |= {"NVML_STUB": str(self.state), **(environment or {})}
        if library is not None:
            env["LD_LIBRARY_PATH"] = str(library)
        self.process = subprocess.Popen(
            (sys.executable, __file__), env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Polled:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(30) == 0
        assert self.process.stdout is not None
        self.process.stdout.close()

    def set(self, *lines: str, count: int = 1, base: str = H100) -> None:
        """What the driver answers from now on."""
        text = f"count {count}\n{base}" + "".join(f"{line}\n" for line in lines)
        draft = self.state.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self.state)

    def poll(self, timeout_s: float = 30.0) -> Answer:
        """Polls once; it is taken back after `timeout_s`."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{timeout_s}\n")
        self.process.stdin.flush()
        result = json.loads(self.process.stdout.readline())
        readings = tuple(GpuReading(*reading) for reading in result.get("readings", ()))
        return Answer(readings, result.get("error", ""), result.get("timeout", False))

    def polls(self, times: int) -> Answer:
        """The last of some polls."""
        for _ in range(times - 1):
            self.poll()
        return self.poll()


async def _serve() -> None:
    from perfmon.sources.pollers.base import LocalMachine
    from perfmon.sources.pollers.gpu.gpu import GpuPoller

    poller = GpuPoller(LocalMachine())
    while line := await asyncio.to_thread(sys.stdin.readline):
        result: dict[str, object] = {}
        try:
            readings = await asyncio.wait_for(poller.poll(), float(line))
            result["readings"] = [(r.area, r.name, dict(r.values), dict(r.words)) for r in readings]
        except TimeoutError:
            result["timeout"] = True
        except Exception as error:
            result["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(result), flush=True)
    await poller.close()


if __name__ == "__main__":
    asyncio.run(_serve())
