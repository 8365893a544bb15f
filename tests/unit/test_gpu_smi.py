"""GPUs through nvidia-smi: a program of ours that behaves as the manual says, run by real shells."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.gpu.gpu import GpuPoller, GpuProcess
from perfmon.sources.pollers.gpu.nvidia_smi import (
    COLUMNS,
    Column,
    app_row,
    gpu_row,
    pmon_use,
    table,
    without,
)
from perfmon.sources.pollers.reading import Area, NotAvailableError, PollError, Reading, format_reading, parse_reading

FIELDS = [column.field for column in COLUMNS]
H100 = {
    "uuid": "GPU-{0}aaaa",
    "name": "NVIDIA H100 80GB HBM3",
    "utilization.gpu": "97",
    "utilization.memory": "41",
    "memory.used": "66560",
    "memory.total": "81559",
    "power.draw": "685.12",
    "enforced.power.limit": "700.00",
    "temperature.gpu": "71",
    "fan.speed": "38",
    "clocks.sm": "1755",
    "clocks.max.sm": "1980",
    "clocks.mem": "2619",
    "clocks_event_reasons.active": "0x0000000000000004",
    "clocks_throttle_reasons.active": "0x0000000000000004",
    "ecc.errors.uncorrected.volatile.total": "0",
    "mig.mode.current": "Disabled",
}
VALUES = {
    "util_pct": 97, "mem_util_pct": 41, "mem_used_mb": 66560, "mem_total_mb": 81559, "power_w": 685.12,
    "power_limit_w": 700, "temp_c": 71, "fan_pct": 38, "sm_mhz": 1755, "sm_max_mhz": 1980, "mem_mhz": 2619,
    "ecc_errors": 0, "throttled": 1,
}  # fmt: skip


class Smi:
    """What our nvidia-smi answers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fields(FIELDS)

    def fields(self, names: Sequence[str]) -> None:
        """Those that it knows."""
        self.write("fields", "\n".join(names))

    def gpu(self, index: int, **changes: str) -> None:
        """A GPU; `utilization_gpu` stands for utilization.gpu."""
        result = {name: value.format(index) for name, value in H100.items()} | {"index": str(index)}
        result |= {name.replace("_", ".", 1): value for name, value in changes.items()}
        self.write(f"gpu.{index}", "\n".join(f"{name} {value}" for name, value in result.items()))

    def write(self, name: str, text: str) -> None:
        """One of its files."""
        draft = self.folder / "draft"
        draft.write_text(text + "\n")
        draft.replace(self.folder / name)

    def runs(self, word: str) -> int:
        """How often it was started with this word."""
        return sum(word in line for line in (self.folder / "starts").read_text().splitlines())


@pytest.fixture
def smi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Smi:
    programs, folder = tmp_path / "bin", tmp_path / "smi"
    programs.mkdir()
    folder.mkdir()
    program = programs / "nvidia-smi"
    program.write_text(Path(__file__).parents[1].joinpath("nvidia_smi.sh").read_text())
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setenv("SMI", str(folder))
    for name in ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS"):
        monkeypatch.delenv(name, raising=False)
    return Smi(folder)


@pytest.fixture
async def poller() -> AsyncIterator[GpuPoller]:
    machine = LocalMachine()
    machine.here = False  # as another machine is asked: by its shell alone
    made = GpuPoller(machine)
    assert isinstance(made, GpuPoller)
    yield made
    await made.close()


async def until(poller: GpuPoller, wanted: Callable[[Sequence[Reading]], bool]) -> Sequence[Reading]:
    """The first answer that is wanted; errors meanwhile are passed over."""
    for _ in range(200):
        try:
            found = await poller.poll()
        except PollError:
            await asyncio.sleep(0.05)
            continue
        if wanted(found):
            return found
    raise AssertionError("it never came")


def command_of(pid: int) -> str:
    """By the kernel: how it begins."""
    return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ").strip()[:50]


async def trouble(poller: GpuPoller) -> str:
    """What the first error says."""
    for _ in range(200):
        try:
            await poller.poll()
        except PollError as error:
            return str(error)
    raise AssertionError("there was none")


def gpus(readings: Sequence[Reading]) -> dict[str, Reading]:
    return {reading.name: reading for reading in readings if reading.area is Area.GPU}


# --- the program ------------------------------------------------------------------------------------------------
async def test_one_program_goes_on_telling_all_gpus(smi: Smi, poller: GpuPoller) -> None:
    for index in range(8):
        smi.gpu(index, utilization_gpu=str(10 * index))
    found = gpus(await poller.poll())
    assert [found[str(at)].values["util_pct"] for at in range(8)] == [10 * at for at in range(8)]
    smi.gpu(3, utilization_gpu="99")
    await until(poller, lambda result: gpus(result)["3"].values["util_pct"] == 99)
    assert smi.runs("--query-gpu") == 2  # to probe, and the one that goes on


async def test_all_values_and_words(smi: Smi, poller: GpuPoller) -> None:
    smi.gpu(0)
    result = gpus(await poller.poll())["0"]
    assert result.values == VALUES
    words = {name: word for name, word in result.words.items() if word}
    assert words == {"model": "NVIDIA H100 80GB HBM3", "uuid": "GPU-0aaaa", "throttle": "power-cap", "state": "ok"}


async def test_fields_that_a_driver_refuses_are_dropped_or_asked_by_their_older_name(
    smi: Smi, poller: GpuPoller
) -> None:
    refused = {"clocks_event_reasons.active", "mig.mode.current", "ecc.errors.uncorrected.volatile.total"}
    smi.fields([*sorted(set(FIELDS) - refused), "clocks_throttle_reasons.active"])
    smi.gpu(0)
    result = gpus(await poller.poll())["0"]
    assert result.values == {name: value for name, value in VALUES.items() if name != "ecc_errors"}
    assert result.words["throttle"] == "power-cap"


async def test_a_program_that_ends_is_started_again_and_a_lost_gpu_stays_in_sight(smi: Smi, poller: GpuPoller) -> None:
    for index in range(3):
        smi.gpu(index)
    await poller.poll()
    (smi.folder / "gpu.1").unlink()
    smi.write("ends", "")
    message = await trouble(poller)
    assert "nvidia-smi ended (Unable" in message
    assert "GPU is lost" in message
    found = gpus(await until(poller, lambda result: gpus(result)["1"].words["state"] == "lost"))
    assert (found["1"].values, found["1"].words["uuid"]) == ({}, "GPU-1aaaa")
    assert [found[name].values["util_pct"] for name in "02"] == [97, 97]
    smi.gpu(1)
    await until(poller, lambda result: gpus(result)["1"].words["state"] == "ok")


async def test_processes_with_memory_share_and_command(smi: Smi, poller: GpuPoller) -> None:
    smi.gpu(0)
    smi.gpu(1)
    smi.write(
        "apps", "GPU-0aaaa, 1, 65000, /usr/bin/python3, really\nGPU-1aaaa, 1, 500, x\nGPU-0aaaa, 4194301, [N/A], y"
    )
    smi.write(
        "pmon", "# gpu pid type sm mem command\n# Idx # C/G % % name\n    0 1 C 90 40 python3\n    1 1 C 50 - python3"
    )
    found = await until(poller, lambda result: any(reading.area is Area.PROCESS for reading in result))
    result = {reading.name: reading for reading in found if reading.area is Area.PROCESS}
    assert result["1"].values == {"gpu_mem_mb": 65500, "gpu_util_pct": 70}
    assert result["1"].words["gpu"] == "0+1"
    assert result["1"].words["command"][:50] == command_of(1)
    assert (result["4194301"].values, result["4194301"].words["command"]) == ({}, "y")


async def test_what_goes_over_pcie_is_told_where_dmon_tells_it(smi: Smi, poller: GpuPoller) -> None:
    smi.gpu(0)
    smi.gpu(1)
    smi.write("pmon", "# gpu pid type sm mem command\n# Idx # C/G % % name\n    0 1 C 90 40 python3")
    smi.write("dmon", "# gpu  rxpci  txpci\n# Idx   MB/s   MB/s\n    0  24500    120\n    1      -      -")
    found = gpus(await until(poller, lambda result: "pcie_rx_mb_s" in gpus(result)["0"].values))
    assert found["0"].values == {**VALUES, "pcie_rx_mb_s": 24500, "pcie_tx_mb_s": 120}
    assert found["1"].values == VALUES


@pytest.mark.parametrize(
    "message",
    [
        "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that it is running.",
        "No devices were found",
        "",
    ],
)
async def test_a_program_without_a_driver_is_absence(smi: Smi, poller: GpuPoller, message: str) -> None:
    smi.write("says", message)
    with pytest.raises(NotAvailableError, match=f"no GPU on .*{message[:20]}"):
        await poller.poll()
    (smi.folder / "says").unlink()
    smi.gpu(0)
    assert gpus(await poller.poll())["0"].values == VALUES


async def test_what_a_login_is_given_is_told(smi: Smi, poller: GpuPoller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    smi.gpu(0)
    smi.gpu(1)
    assert [result.words["mine"] for result in gpus(await poller.poll()).values()] == ["no", "yes"]


async def test_nothing_goes_on_when_it_is_closed(smi: Smi, poller: GpuPoller) -> None:
    smi.gpu(0)
    await poller.poll()
    await poller.close()
    before = smi.runs("")
    await asyncio.sleep(0.3)
    assert smi.runs("") == before


# --- what it prints ---------------------------------------------------------------------------------------------
def row(**changes: str) -> str:
    """A row of all fields."""
    cells = {"index": "0", **{name: value.format(0) for name, value in H100.items()}, **changes}
    return ", ".join(cells[column.field] for column in COLUMNS)


@pytest.mark.parametrize(
    "nothing", ["N/A", "[N/A]", "[Not Supported]", "[Unknown Error]", "", "Requested functionality has been deprecated"]
)
def test_cells_without_a_value_are_left_out(nothing: str) -> None:
    result = gpu_row(row(**{column.field: nothing for column in COLUMNS[2:14]}), COLUMNS)
    assert result is not None
    assert result.values == {"ecc_errors": 0}


@pytest.mark.parametrize("message", ["[GPU is lost]", "[GPU requires reset]"])
def test_a_row_may_say_that_its_gpu_is_lost(message: str) -> None:
    result = gpu_row(row(**{"utilization.gpu": message}), COLUMNS)
    assert result is not None
    assert (result.values, result.words["state"]) == ({}, "lost")


@pytest.mark.parametrize(
    "line", ["", "0", "No devices were found", "Unable to determine the device handle for GPU 0000:01:00.0", ", " * 20]
)
def test_other_lines_are_no_rows(line: str) -> None:
    assert gpu_row(line, COLUMNS) is None


def test_a_model_may_say_anything_and_stays_one_word_of_the_line() -> None:
    result = gpu_row(row(name="Evil, state=lost\x1b[31m [poll] gpu"), COLUMNS)
    assert result is not None
    line = format_reading(result, "here", "2026-03-02 08:15:07.118").decode()
    again = parse_reading(line.strip())
    assert again is not None
    assert (again[1].words["state"], again[1].values["util_pct"]) == ("ok", 97)


def test_every_field_can_be_dropped() -> None:
    columns: Sequence[Column] = COLUMNS
    for _ in range(2 * len(COLUMNS)):
        if columns:
            columns = without(columns, columns[0].field)
    assert not columns


PMON = """\
# gpu         pid   type     sm    mem    enc    dec    jpg    ofa     fb   ccpm    command
# Idx           #    C/G      %      %      %      %      %      %     MB     MB    name
    0       4242     C     96     40      -      -      -      -  66280      0    python3 -m vllm
    0       1234     G      1      0      -      -      -      -      8      0    Xorg
    1          -     -      -      -      -      -      -      -      -      -    -
# gpu        pid  type    sm   mem   enc   dec   command
# Idx          #   C/G     %     %     %     %   name
    1       4243   C+G     7     1     -     -   ray::Actor
"""


def test_tables_are_read_by_their_headers() -> None:
    uses = [use for one in table(PMON.splitlines()) if (use := pmon_use(one)) is not None]
    assert uses == [
        GpuProcess(4242, "0", 66280.0, 96.0, "python3 -m vllm"),
        GpuProcess(4243, "1", None, 7.0, "ray::Actor"),
    ]


@pytest.mark.parametrize(
    "line", ["No running processes found", "GPU-0aaaa, x, 1, y", "GPU-0aaaa, 1, 2", "\x1b, 1, 2, 3"]
)
def test_other_lines_are_no_processes(line: str) -> None:
    assert app_row(line, {}) is None
