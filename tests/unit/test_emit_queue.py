"""A queue monitor tells how full a queue is, warns when it runs dry, and counts whoever counts."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from collections.abc import Iterator
from fractions import Fraction

import pytest

from perfmon import emit


@pytest.fixture
def lines() -> Iterator[list[str]]:
    result: list[str] = []
    emit.configure(result.append)
    yield result
    emit.configure()


def test_a_line_tells_means_over_its_looks(lines: list[str]) -> None:
    full: queue.Queue[int] = queue.Queue(8)
    monitor = emit.QueueMonitor(full, "rollouts", looks=4)
    monitor.look()
    for number in range(3):
        full.put(number)
        full.put(number)
        monitor.produced(2)
        monitor.consumed()
        monitor.look()
    assert lines == ["rollouts utilization: 37.5% (3 items) empty=0.0% produced=6 consumed=3"]


def test_a_queue_without_an_end_tells_its_depth(lines: list[str]) -> None:
    waiting: asyncio.Queue[int] = asyncio.Queue()
    waiting.put_nowait(1)
    monitor = emit.QueueMonitor(waiting, looks=1)
    monitor.look()
    assert lines == ["queue depth: 1 items empty=0.0% produced=0 consumed=0"]


def test_below_30_percent_it_warns_at_first_and_then_seldom() -> None:
    message: list[str] = []
    warned: list[str] = []
    emit.configure(message.append, warned.append)
    depth = 3
    monitor = emit.QueueMonitor(lambda: depth, "Q1", 10, looks=1)
    monitor.look()
    assert warned == []
    depth = 2
    for _ in range(11):
        monitor.look()
    assert warned == ["Potential data starvation detected in Q1"] * 2
    depth = 9
    monitor.look()
    depth = 0
    monitor.look()
    emit.configure()
    assert len(warned) == 3
    assert message[0] == "Q1 utilization: 30.0% (3 items) empty=0.0% produced=0 consumed=0"


def test_a_queue_that_nobody_used_yet_is_not_starved(lines: list[str]) -> None:
    monitor = emit.QueueMonitor(lambda: 0, "Q1", 10, looks=1)
    monitor.look()
    monitor.produced()
    monitor.look()
    assert [line.split()[0] for line in lines] == ["Q1", "Q1", "Potential"]


def test_the_thread_looks_by_itself_and_stop_tells_the_rest() -> None:
    result: list[str] = []
    seen = threading.Event()

    def say(text: str) -> None:
        result.append(text)
        seen.set()

    emit.configure(say)
    with emit.QueueMonitor(lambda: 5, "Q1", 10, every_s=0.001, looks=3) as monitor:
        monitor.start()
        assert seen.wait(30)
        assert [thread.name for thread in threading.enumerate()].count("perfmon Q1") == 1
    emit.configure()
    assert result[0] == "Q1 utilization: 50.0% (5 items) empty=0.0% produced=0 consumed=0"
    assert "perfmon Q1" not in [thread.name for thread in threading.enumerate()]


def test_counts_of_many_threads_are_all_there(lines: list[str]) -> None:
    monitor = emit.QueueMonitor(lambda: 1, looks=1)

    def count() -> None:
        for _ in range(5000):
            monitor.produced()
            monitor.consumed(2)

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    monitor.look()
    assert lines[0].endswith("produced=20000 consumed=40000")


def test_counts_of_any_kind_of_number_leave_lines_that_can_be_read() -> None:
    lines: list[str] = []
    emit.configure(lines.append, json_lines=True)
    monitor = emit.QueueMonitor(lambda: 1, looks=1)
    for count in (Fraction(3), 1.0, float("nan"), float("inf"), "many", None, True):
        monitor.produced(count)  # type: ignore[arg-type]
        monitor.consumed(count)  # type: ignore[arg-type]
    monitor.look()
    emit.configure()
    result = json.loads(lines[0], parse_constant=pytest.fail)
    assert (result["produced"], result["consumed"]) == (5, 5)


def test_looks_that_are_no_number_cost_their_lines_alone(lines: list[str]) -> None:
    before = emit.lost()
    monitor = emit.QueueMonitor(lambda: 1, looks=None)  # type: ignore[arg-type]
    monitor.look()
    assert (lines, emit.lost()) == ([], before + 1)


@pytest.mark.parametrize("every_s", [0, -1, float("nan")])
def test_a_monitor_never_looks_without_a_pause(every_s: float) -> None:
    looked = threading.Event()
    looks = 0

    def depth() -> int:
        nonlocal looks
        looks += 1
        looked.set()
        return 1

    began = time.monotonic()
    with emit.QueueMonitor(depth, every_s=every_s):
        assert looked.wait(30)
    assert looks <= 1 + (time.monotonic() - began) / 0.1


class Gone:
    """A queue whose process has ended."""

    maxsize = "many"

    def qsize(self) -> int:
        raise ConnectionError


@pytest.mark.parametrize("deep", [Gone(), None, lambda: "deep", lambda: None, lambda: float("nan"), Gone])
def test_a_queue_that_tells_nothing_is_no_business_of_the_training(lines: list[str], deep: object) -> None:
    with emit.QueueMonitor(deep, object(), "much", every_s="x", looks=2) as monitor:  # type: ignore[arg-type]
        monitor.produced("many")  # type: ignore[arg-type]
        monitor.look()
        monitor.look()
    assert lines == []


@pytest.mark.parametrize("capacity", ["much", 0, -1, float("nan"), object()])
def test_a_capacity_that_is_none_is_left_out(lines: list[str], capacity: float) -> None:
    emit.QueueMonitor(lambda: 3, capacity=capacity, looks=1).look()
    assert lines == ["queue depth: 3 items empty=0.0% produced=0 consumed=0"]


def test_a_sink_may_stop_the_monitor(lines: list[str]) -> None:
    stopped = threading.Event()

    def stop(_: str) -> None:
        monitor.stop()
        stopped.set()

    emit.configure(stop)
    monitor = emit.QueueMonitor(lambda: 1, every_s=0.001, looks=1)
    monitor.start()
    assert stopped.wait(30)
