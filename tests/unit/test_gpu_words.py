"""Words about GPUs: why their clocks are low, and whose they are."""

from __future__ import annotations

import pytest

from perfmon.sources.pollers.gpu.gpu import read_mask, reasons, throttled, visible_devices


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0x0, ""),
        (0x1, ""),
        (0x2, "app-clocks"),
        (0x4, "power-cap"),
        (0x8, "hw-slowdown"),
        (0x10, "sync-boost"),
        (0x20, "sw-thermal"),
        (0x48, "hw-thermal"),
        (0x88, "power-brake"),
        (0x6C, "hw-thermal+sw-thermal+power-cap"),
        (0x101, "display-clocks"),
        (0x800, ""),
    ],
)
def test_reasons_in_words(mask: int, words: str) -> None:
    assert "+".join(reasons(mask)) == words


@pytest.mark.parametrize(
    ("words", "util_pct", "held_back"),
    [
        (("power-cap",), 97, 1),
        (("power-cap",), 3, 0),
        (("hw-thermal",), None, 1),
        (("app-clocks", "sync-boost", "display-clocks"), 97, 0),
        ((), 97, 0),
        (("app-clocks", "sw-thermal"), 20, 1),
    ],
)
def test_only_power_heat_and_hardware_hold_back_a_gpu_that_works(
    words: tuple[str, ...], util_pct: float | None, held_back: float
) -> None:
    assert throttled(words, util_pct) == held_back


@pytest.mark.parametrize(
    ("text", "mask"),
    [("0x0000000000000004", 4), ("0X48", 0x48), ("4", 4), ("N/A", None), ("[N/A]", None), ("", None), ("0x", None)],
)
def test_masks_as_they_are_printed(text: str, mask: int | None) -> None:
    assert read_mask(text) == mask


UUIDS = ("GPU-aa11", "GPU-aa22", "GPU-bb33")


@pytest.mark.parametrize(
    ("environment", "given"),
    [
        ({"CUDA_VISIBLE_DEVICES": "0"}, "100"),
        ({"CUDA_VISIBLE_DEVICES": " 0 , 2 "}, "101"),
        ({"CUDA_VISIBLE_DEVICES": "0,-1,2"}, "100"),
        ({"CUDA_VISIBLE_DEVICES": "NoDevFiles"}, "000"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-aa"}, "110"),
        ({"CUDA_VISIBLE_DEVICES": "GPU-bb33,0"}, "101"),
        ({"HIP_VISIBLE_DEVICES": "1", "SLURM_JOB_GPUS": "0"}, "010"),
        ({"SLURM_JOB_GPUS": "0-1"}, "110"),
        ({"SLURM_JOB_GPUS": "0,2"}, "101"),
        ({"SLURM_JOB_GPUS": "4-6"}, "111"),
        ({"CUDA_VISIBLE_DEVICES": "x" * 10_000}, "000"),
        ({"SLURM_JOB_GPUS": "0-9999"}, "111"),
    ],
)
def test_what_was_given(environment: dict[str, str], given: str) -> None:
    owner = visible_devices(environment)
    assert owner is not None
    words = [owner.word(str(index), uuid, "", len(UUIDS)) for index, uuid in enumerate(UUIDS)]
    assert words == [{"1": "yes", "0": "no"}[sign] for sign in given]


@pytest.mark.parametrize("environment", [{}, {"SLURM_JOB_GPUS": ""}, {"CUDA_HOME": "/usr"}])
def test_nothing_in_particular(environment: dict[str, str]) -> None:
    assert visible_devices(environment) is None


def test_an_instance_by_its_older_name() -> None:
    owner = visible_devices({"CUDA_VISIBLE_DEVICES": "MIG-GPU-aa11/1/0"})
    assert owner is not None
    requests = (("0", "GPU-aa11", ""), ("0:0", "MIG-x", "GPU-aa11"), ("1:0", "MIG-y", "GPU-aa22"))
    assert [owner.word(*one) for one in requests] == ["no", "yes", "no"]
