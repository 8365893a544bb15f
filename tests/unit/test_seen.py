"""What is remembered of machines: a process that two pollers tell of has what both say."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from perfmon.pipeline.session import _polled_pid
from perfmon.sources.pollers.gpu.gpu import GpuProcess, readings_of
from perfmon.sources.pollers.reading import Area, Reading, polled_block
from perfmon.store.latest_readings import LatestReadings, Seen

BEGIN = 1_772_439_300.0


def of_gpu(pid: int = 48123, mem_mb: float = 71_000.0, uptime_s: float = 600.0) -> Reading:
    """As the poller of GPUs says it."""
    (made,) = readings_of([GpuProcess(pid, "0", mem_mb, 93.0)], {pid: ("vllm serve", None)})
    return Reading(made.area, made.name, {**made.values, "uptime_s": uptime_s}, made.words)


def of_host(pid: int = 48123, cpu_pct: float = 212.0, uptime_s: float = 602.0) -> Reading:
    """As the poller of the host says it."""
    values = {"cpu_pct": cpu_pct, "rss_mb": 9200.0, "uptime_s": uptime_s}
    return Reading(Area.PROCESS, str(pid), values, {"role": "inference", "command": "vllm serve Qwen/Qwen3-8B"})


def received(*result: tuple[float, Reading]) -> tuple[Seen, ...]:
    """What is known after these; the two pollers have logs of their own."""
    machines = LatestReadings()
    for at, reading in result:
        now = datetime.fromtimestamp(BEGIN + at, UTC)
        machines.ingest(polled_block([reading], "a100-0", now, 0, 1), 1 if "gpu" in reading.words else 2)
    return machines.seen(Area.PROCESS)


def test_memory_on_the_gpu_and_use_of_the_processor_are_both_known_whoever_spoke_last() -> None:
    for result in (((0.0, of_gpu()), (0.3, of_host())), ((0.0, of_host()), (0.3, of_gpu()))):
        (seen,) = received(*result)
        values, words = seen.reading.values, seen.reading.words
        assert (values["gpu_mem_mb"], values["gpu_util_pct"]) == (71_000, 93)
        assert (values["cpu_pct"], values["rss_mb"]) == (212, 9200)
        assert words == {"gpu": "0", "role": "inference", "command": "vllm_serve_Qwen/Qwen3-8B"}
        assert seen.at == BEGIN + 0.3


def test_each_value_has_its_own_course_and_the_pace_is_that_of_the_quicker_poller() -> None:
    (seen,) = received(
        (0.0, of_gpu(mem_mb=70_000)), (1.0, of_host(cpu_pct=90)), (5.0, of_gpu()), (10.0, of_gpu()), (11.0, of_host())
    )
    assert seen.history["gpu_mem_mb"] == (70_000, 71_000, 71_000)
    assert seen.history["cpu_pct"] == (90, 212)
    assert seen.every_s == 5.0


def test_one_that_has_left_the_gpu_is_shown_there_for_a_minute_at_most() -> None:
    result = [(0.0, of_gpu()), *((float(at), of_host(uptime_s=602.0 + at)) for at in range(1, 90, 10))]
    (soon,) = received(*result[:6])
    (later,) = received(*result)
    assert "gpu_mem_mb" in soon.reading.values
    assert "gpu_mem_mb" not in later.reading.values
    assert "gpu" not in later.reading.words


def test_another_process_with_its_number_has_nothing_of_it() -> None:
    (seen,) = received((0.0, of_gpu()), (1.0, of_host()), (11.0, of_host(cpu_pct=7.0, uptime_s=3.0)))
    assert "gpu_mem_mb" not in seen.reading.values
    assert seen.history["cpu_pct"] == (7.0,)


def test_a_gpu_that_is_told_of_again_has_what_was_said_last() -> None:
    machines = LatestReadings()
    for at, words in enumerate(({"state": "ok", "throttle": "power"}, {"state": "lost"})):
        machines.take("a", Reading(Area.GPU, "0", {"util_pct": 9.0} if at == 0 else {}, words), float(at))
    (seen,) = machines.seen()
    assert (seen.reading.values, seen.reading.words) == ({}, {"state": "lost"})


@pytest.mark.parametrize(
    ("folder", "own"),
    [
        ("/data/runs/a", True),
        ("/data/runs", True),
        ("/data/runs/b", False),
        ("/data", False),
        ("/", False),
        ("", False),
    ],
)
def test_the_process_of_a_run_is_one_that_works_where_its_logs_are(folder: str, own: bool) -> None:
    words = {"role": "trainer", "folder": folder}
    seen = [Seen("here", Reading(Area.PROCESS, "977", {}, words), 0.0, {})]
    assert _polled_pid(seen, ["/data/runs/a/logs/train.log"]) == ("977" if own else "")
