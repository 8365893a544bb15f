"""A real Ray head: who waits at its queues, without joining it; and their depth, by a driver for who asks for it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

import psutil
import pytest
import ray_head

from perfmon.core import Config
from perfmon.pipeline import Session
from perfmon.sources.pollers.base import LocalMachine, Script
from perfmon.sources.pollers.ray.poller import cluster_on
from perfmon.sources.pollers.reading import NotAvailableError, Poller, PollError, Reading, polled_block
from perfmon.sources.pollers.request import PollRequest
from perfmon.sources.pollers.scheduler import make_pollers

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not ray_head.AVAILABLE, reason="ray is not installed"),
]


async def test_a_real_head() -> None:
    """One after the other: a head needs most of a small machine."""
    with ray_head.head() as head:
        await who_waits_is_known_from_the_metrics_alone(head)
        await producers_before_a_full_queue_and_its_depth(head)
        await the_shards_of_a_queue_are_one(head)
        await those_that_do_not_answer_say_why(head)
        await a_queue_that_is_not_there(head)
        await a_starved_queue_is_a_finding_a_full_one_is_none(head)
        await the_cluster_is_found_by_its_process(head)


async def until(poller: Poller, wanted: Callable[[dict[str, Reading]], bool]) -> dict[str, Reading]:
    """Polls until what it tells is wanted: Ray's own figures come late."""
    async with asyncio.timeout(120):
        while True:
            result: Sequence[Reading] = ()
            with suppress(PollError):  # not yet
                result = await poller.poll()
            named = {reading.name: reading for reading in result}
            if wanted(named):
                return named
            await asyncio.sleep(0.5)


async def forever(poller: Poller) -> None:
    """Polls until that fails."""
    async with asyncio.timeout(120):
        while True:
            await poller.poll()


def waiting(side: str, count: float) -> Callable[[dict[str, Reading]], bool]:
    """Whether so many wait at a queue."""
    return lambda result: (
        "ray/_QueueActor" in result and result["ray/_QueueActor"].values.get(f"{side}_waiting") == count
    )


async def who_waits_is_known_from_the_metrics_alone(head: ray_head.Head) -> None:
    (poller,) = make_pollers(LocalMachine(), PollRequest("ray", str(head.folder)))
    with head.queue("starved", producers=1, pause_s=1.0, consumers=2):
        result = await until(poller, waiting("consumers", 2.0))
        assert result["ray/_QueueActor"].values["producers_waiting"] == 0.0
        assert "store_fill_pct" in result["ray/object-store"].values
        result = await until(poller, lambda result: result["ray/_QueueActor"].values.get("put_per_s", 0.0) > 0)
    await poller.close()


async def a_starved_queue_is_a_finding_a_full_one_is_none(head: ray_head.Head) -> None:
    """Both rates are the same in either; which side waits decides."""
    for producers, pause_s, consumers, starved in ((2, 0.0, 1, False), (1, 1.0, 2, True)):
        (poller,) = make_pollers(LocalMachine(), PollRequest("ray", str(head.folder)))
        session = Session(Config())
        state = session.add_source("poll:/ray")
        with head.queue(f"lab-{starved}", producers=producers, pause_s=pause_s, consumers=consumers):
            found: set[str] = set()
            async with asyncio.timeout(120):
                for line in range(1, 120):  # it is judged from 45 s on
                    with suppress(PollError):  # not yet
                        block = polled_block(await poller.poll(), "head", datetime.now(), 0, line)
                        session.feed(state, block)
                    found = {one.signature for one in session.snapshot().findings if one.state != "pending"}
                    if "data-starved" in found:
                        break
                    await asyncio.sleep(0.5)
        await poller.close()
        assert ("data-starved" in found) == starved


async def the_shards_of_a_queue_are_one(head: ray_head.Head) -> None:
    """Actors named NAME_shard_0 and so on with `size`, in a namespace: the queues of PeakNet's pipeline."""
    _, attached = make_pollers(LocalMachine(), PollRequest("ray", f"{head.folder}#lab/q1-sharded"))
    with head.queue("q1", producers=0, pause_s=0.0, consumers=0):
        queues = await until(attached, lambda queues: "ray/q1-sharded" in queues)
        assert queues["ray/q1-sharded"].values["depth"] == 0 + 1 + 2 + 3
        await attached.close()


async def producers_before_a_full_queue_and_its_depth(head: ray_head.Head) -> None:
    (by_dashboard,) = make_pollers(LocalMachine(), PollRequest("ray", f"127.0.0.1:{head.dashboard}"))
    _, attached = make_pollers(LocalMachine(), PollRequest("ray", f"{head.folder}#lab/full"))
    with head.queue("full", producers=1, pause_s=0.0, consumers=0):
        result = await until(by_dashboard, waiting("producers", 1.0))
        result = await until(attached, lambda result: "ray/full" in result)
        values = result["ray/full"].values
        assert (values["depth"], values["empty_pct"]) == (8.0, 0.0)
        assert values["answer_ms"] > 0
        drivers = _drivers()
        assert drivers
        await attached.close()
        gone, alive = psutil.wait_procs(drivers, timeout=20)
        assert gone
        assert not alive
        assert await until(by_dashboard, waiting("producers", 1.0)), "the cluster goes on"
    await by_dashboard.close()


async def those_that_do_not_answer_say_why(head: ray_head.Head) -> None:
    _, attached = make_pollers(LocalMachine(), PollRequest("ray", f"{head.folder}#lab/some,some-mute,some-busy"))
    with head.queue("some", producers=0, pause_s=0.0, consumers=0):
        result = await until(
            attached, lambda result: len(result) == 3 and "busy" in result["ray/some-busy"].words["why"]
        )
        assert result["ray/some"].values["depth"] == 0.0
        assert result["ray/some"].words["why"] == ""
        assert result["ray/some-mute"].words["why"] == "has neither qsize nor size"
        assert result["ray/some-mute"].values["silent_pct"] == 100.0
        await attached.close()


async def a_queue_that_is_not_there(head: ray_head.Head) -> None:
    _, attached = make_pollers(LocalMachine(), PollRequest("ray", f"{head.folder}#lab/nobody"))
    with pytest.raises(NotAvailableError, match="no such actors in that namespace"):
        await forever(attached)
    await attached.close()


async def the_cluster_is_found_by_its_process(head: ray_head.Head) -> None:
    shell = Script(LocalMachine())
    cluster = await cluster_on(shell, str(head.folder))
    elsewhere = await cluster_on(shell, "/nowhere")
    await shell.close()
    assert (cluster.folder, cluster.python) == (str(head.folder), sys.executable)
    assert cluster.gcs == head.environment["RAY_ADDRESS"]
    assert (elsewhere.python, elsewhere.folder) == ("", "/nowhere")


def _drivers() -> list[psutil.Process]:
    """Processes that perfmon attached to Ray."""
    mine = psutil.Process().children(recursive=True)
    return [process for process in mine if process.cmdline()[-2:] == ["-u", "-"]]
