"""GPUs through NVML: a real binding calls a library of ours that answers, refuses, loses GPUs or hangs."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nvml import Polled, compiled

AFRESH = 30
LONE = "NotAvailableError: no GPU on "


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def polled(library: Path, tmp_path: Path) -> Iterator[Polled]:
    with Polled(tmp_path, library) as process:
        yield process


def test_a_gpu_tells_all_in_the_units_of_its_names(polled: Polled) -> None:
    polled.set("fan 43")
    [result] = polled.poll().readings
    assert (result.area, result.name) == ("gpu", "0")
    assert result.values == {
        "util_pct": 97, "mem_util_pct": 41, "mem_used_mb": 66560, "mem_total_mb": 81559, "power_w": 685.123,
        "power_limit_w": 700, "temp_c": 71, "fan_pct": 43, "sm_mhz": 1755, "sm_max_mhz": 1980, "mem_mhz": 2619,
        "pcie_rx_mb_s": 24500, "pcie_tx_mb_s": 120, "ecc_errors": 0, "energy_j": pytest.approx(123456.789),
        "throttled": 1,
    }  # fmt: skip
    words = {name: word for name, word in result.words.items() if word}
    model = "NVIDIA H100 80GB HBM3"
    assert words == {"model": model, "uuid": "GPU-00000000-0000", "throttle": "power-cap", "state": "ok"}


def test_what_is_dear_is_asked_rarely_but_always_told(polled: Polled) -> None:
    polled.set("temp 60", "fan 30")
    polled.poll()
    polled.set("temp 80", "fan 70", "util 5")
    soon = polled.poll().gpus()["0"].values
    assert (soon["temp_c"], soon["fan_pct"], soon["util_pct"]) == (60, 30, 5)
    later = polled.polls(4).gpus()["0"].values
    assert (later["temp_c"], later["fan_pct"]) == (80, 70)


def test_eight_gpus_each_with_its_own_figures(polled: Polled) -> None:
    polled.set(*(f"{at}.util {10 * at}" for at in range(8)), count=8)
    gpus = polled.poll().gpus()
    assert [gpus[str(at)].values["util_pct"] for at in range(8)] == [10 * at for at in range(8)]


@pytest.mark.parametrize("code", [3, *(pytest.param(code, marks=pytest.mark.slow) for code in (4, 10, 13, 999))])
@pytest.mark.parametrize(
    ("call", "value"), [("util", "util_pct"), ("power", "power_w"), ("temp", "temp_c"), ("reasons", "throttled")]
)
def test_what_a_driver_does_not_tell_is_left_out(polled: Polled, call: str, value: str, code: int) -> None:
    polled.set(f"{call} error {code}")
    result = polled.poll().gpus()["0"]
    assert value not in result.values
    assert result.words["state"] == "ok"
    assert result.values["mem_used_mb"] == 66560


def test_a_gpu_that_tells_nothing_is_unsupported(polled: Polled) -> None:
    polled.set(base="name NVIDIA GeForce GT 710\n")
    result = polled.poll().gpus()["0"]
    assert (result.values, result.words["state"]) == ({}, "unsupported")


def test_a_lost_gpu_stays_in_sight_and_a_found_one_is_seen(polled: Polled) -> None:
    polled.set("mig 0", count=3)
    polled.poll()
    polled.set("1.all error 15", count=3)
    gone = [polled.poll() for _ in range(2)][-1]
    lost = gone.gpus()["1"]
    assert (lost.values, lost.words["state"], lost.words["uuid"]) == ({}, "lost", "GPU-00000001-0000")
    assert [gone.gpus()[name].words["state"] for name in "02"] == ["ok", "ok"]
    polled.set(count=3)
    assert polled.polls(AFRESH).gpus()["1"].values["util_pct"] == 97


def test_a_gpu_that_is_lost_before_it_was_ever_seen(polled: Polled) -> None:
    polled.set("1.open error 15", count=2)
    gpus = polled.poll().gpus()
    assert (gpus["0"].words["state"], gpus["1"].words["state"]) == ("ok", "lost")


def test_a_gpu_that_the_driver_counts_no_more_is_lost(polled: Polled) -> None:
    polled.set(count=2)
    polled.poll()
    polled.set("1.all error 16", count=1)
    polled.poll()
    polled.set(count=1)
    assert polled.polls(AFRESH).gpus()["1"].words["state"] == "lost"


def test_a_driver_that_is_loaded_anew_is_opened_anew(polled: Polled) -> None:
    polled.set(count=2)
    polled.poll()
    polled.set("0.all error 1", "1.all error 1", count=2)
    assert {result.words["state"] for result in polled.poll().readings} == {"lost"}
    polled.set(count=2)
    assert {result.words["state"] for result in polled.polls(AFRESH).gpus().values()} == {"ok"}


def test_a_call_that_hangs_is_taken_back_and_never_doubled(polled: Polled) -> None:
    polled.set()
    polled.poll()
    polled.set("delay_ms 700")
    assert polled.poll(0.05).timeout
    assert polled.poll(0.05).timeout
    polled.set("util 12")
    assert polled.poll().gpus()["0"].values["util_pct"] == 97  # the answer of the call that hung
    assert polled.poll().gpus()["0"].values["util_pct"] == 12


def test_processes_of_all_gpus_are_told_once_each(polled: Polled) -> None:
    me = os.getpid()
    polled.set(
        f"0.procs {me}:1048576000 4194301:2097152", f"1.procs {me}:1048576000 4194301:-",
        f"0.proc_util {me}:90", f"1.proc_util {me}:70", count=2,
    )  # fmt: skip
    result = polled.poll().processes()
    assert result[str(me)].values.pop("uptime_s") >= 0
    assert result[str(me)].values == {"gpu_mem_mb": 2000, "gpu_util_pct": 80}
    assert "python" in result[str(me)].words["command"]
    assert result[str(me)].words["gpu"] == "0+1"
    assert (result["4194301"].values, result["4194301"].words["command"]) == ({"gpu_mem_mb": 2}, "")
    assert not polled.poll().processes()
    assert set(polled.polls(4).processes()) == set(result)


def test_instances_of_a_gpu_that_is_split(polled: Polled) -> None:
    polled.set(
        "0.mig 1", "0.mig_most 7", "0.util error 3", "0.mem_util error 3", "0.reasons 0",
        "0:0.name NVIDIA H100 80GB HBM3 MIG 1g.10gb", "0:0.uuid MIG-aaaa", "0:0.mem_total 10468982784",
        "0:0.mem_used 1048576000", "0:3.name NVIDIA H100 80GB HBM3 MIG 3g.40gb", "0:3.uuid MIG-bbbb",
        "0:3.mem_total 42949672960", "0:3.mem_used 0",
    )  # fmt: skip
    gpus = polled.poll().gpus()
    assert list(gpus) == ["0", "0:0", "0:3"]
    assert [result.words["mig"] for result in gpus.values()] == ["on", "1g.10gb", "3g.40gb"]
    assert gpus["0:0"].values == {"mem_used_mb": 1000, "mem_total_mb": 9984}
    assert "util_pct" not in gpus["0"].values
    polled.set("0.mig 0")
    assert list(polled.polls(5).gpus()) == ["0"]


def test_counters_of_links_become_rates(polled: Polled) -> None:
    polled.set("field_138 0", "field_139 0", "field_197 0", "field_198 0")
    first = polled.poll().gpus()["0"].values
    assert not {"nvlink_rx_mb_s", "pcie_rx_mb_s"} & set(first)
    polled.set("field_138 9000000", "field_139 18000000", "field_197 9000000000", "field_198 0")
    then = polled.polls(5).gpus()["0"].values
    assert then["nvlink_rx_mb_s"] == pytest.approx(2 * then["nvlink_tx_mb_s"])
    assert then["pcie_tx_mb_s"] > 0 == then["pcie_rx_mb_s"]
    polled.set("field_138 5", "field_139 5", "field_197 5", "field_198 0")
    assert "nvlink_rx_mb_s" not in polled.polls(5).gpus()["0"].values  # it began anew


@pytest.mark.parametrize(
    ("environment", "mine"),
    [
        ({}, [None, None, None]),
        ({"CUDA_VISIBLE_DEVICES": "1,2"}, ["no", "yes", "yes"]),
        ({"CUDA_VISIBLE_DEVICES": "GPU-00000002"}, ["no", "no", "yes"]),
        ({"CUDA_VISIBLE_DEVICES": "", "SLURM_JOB_GPUS": "0"}, ["no", "no", "no"]),
        ({"SLURM_JOB_GPUS": "0-2", "SLURM_STEP_GPUS": "2"}, ["no", "no", "yes"]),
        ({"SLURM_JOB_GPUS": "3,5-6"}, ["yes", "yes", "yes"]),
    ],
)
def test_whose_gpus_they_are(
    library: Path, tmp_path: Path, environment: dict[str, str], mine: list[str | None]
) -> None:
    with Polled(tmp_path, library, environment) as polled:
        polled.set(count=3)
        assert [result.words.get("mine") for result in polled.poll().gpus().values()] == mine


def test_whose_a_gpu_is_that_was_lost_before_it_was_ever_seen(library: Path, tmp_path: Path) -> None:
    with Polled(tmp_path, library, {"CUDA_VISIBLE_DEVICES": "0,1"}) as polled:
        polled.set("1.all error 15", "3.all error 15", count=4)
        gpus = polled.poll().gpus()
        assert [(gpus[at].words["state"], gpus[at].words["mine"]) for at in "13"] == [("lost", "yes"), ("lost", "no")]


def test_an_instance_is_given_by_its_own_name(library: Path, tmp_path: Path) -> None:
    with Polled(tmp_path, library, {"CUDA_VISIBLE_DEVICES": "MIG-bbbb"}) as polled:
        polled.set(
            "mig 1", "mig_most 2", "0:0.name X MIG 1g", "0:0.uuid MIG-aaaa", "0:1.name X MIG 1g", "0:1.uuid MIG-bbbb"
        )
        assert [result.words["mine"] for result in polled.poll().gpus().values()] == ["no", "no", "yes"]


def test_an_old_driver_without_newer_functions(tmp_path: Path) -> None:
    with Polled(tmp_path, compiled(tmp_path / "old", "-DOLD")) as polled:
        polled.set("procs 4194301:2097152")
        result = polled.poll()
        assert result.gpus()["0"].values["temp_c"] == 71
        assert result.gpus()["0"].values["mem_used_mb"] == 66560
        assert result.gpus()["0"].words["throttle"] == "power-cap"
        assert result.processes()["4194301"].values == {"gpu_mem_mb": 2}


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("init error 9", f"{LONE}.*driver is loaded"),
        ("init error 18", "PollError: the NVIDIA driver and its library .*reboot"),
        ("init error 999", "PollError: NVML cannot be opened"),
        ("count error 999", "PollError: NVML cannot count the GPUs"),
        ("count 0", f"{LONE}.*reports no GPU"),
    ],
)
def test_a_driver_that_does_not_open(polled: Polled, state: str, message: str) -> None:
    polled.set(state)
    assert re.search(message, polled.poll().error)
    polled.set()
    assert polled.poll().gpus()["0"].values["util_pct"] == 97


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="this machine has a driver")
def test_no_driver_at_all_is_one_calm_line(tmp_path: Path) -> None:
    with Polled(tmp_path, None) as polled:
        error = polled.poll().error
        assert error.startswith(LONE)
        assert "\n" not in error
