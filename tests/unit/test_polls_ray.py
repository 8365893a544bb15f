"""What Ray's metrics and files say, as they are told by its versions; a real head is asked in tests/system."""

from __future__ import annotations

import json
import shlex

import pytest

from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.metrics_page import Sample, read_samples
from perfmon.sources.pollers.ray.attach import AttachedPoller, Queues
from perfmon.sources.pollers.ray.poller import MOST_TARGETS, NAMES, Cluster, RayWaits, targets_of
from perfmon.sources.pollers.request import PollRequest
from perfmon.sources.pollers.scheduler import make_pollers


def tasks(name: str, state: str, value: float, source: str = "executor") -> str:
    """A line as Ray 2.60 tells it; without a source as older ones do."""
    result = f'Source="{source}",' if source else ""
    return f'ray_tasks{{Component="core_worker",IsRetry="0",Name="{name}",{result}State="{state}"}} {value}'


def samples(*lines: str) -> tuple[Sample, ...]:
    """What is read of a page."""
    return read_samples("\n".join(lines).encode(), NAMES).found


@pytest.mark.parametrize("source", ["executor", ""])
def test_who_waits_at_a_queue(source: str) -> None:
    page = samples(
        tasks("_QueueActor.get", "RUNNING", 2.0, source),
        tasks("_QueueActor.get", "RUNNING", 1.0, source),
        tasks("_QueueActor.put", "RUNNING", 0.0, source),
        tasks("_QueueActor.get", "SUBMITTED_TO_WORKER", -3.0, source),
        tasks("lab:_QueueActor.__init__", "FINISHED", 1.0, "owner"),
        tasks("consume", "RUNNING", 3.0, source),
    )
    (reading,) = RayWaits().take(page, 0.0)
    assert reading.name == "ray/_QueueActor"
    assert reading.values == {"consumers_waiting": 3.0, "producers_waiting": 0.0}


def test_rates_and_shares_of_time() -> None:
    waits = RayWaits()
    for poll in range(6):
        page = samples(
            tasks("RayQueue.put", "FINISHED", 100.0 + 20 * poll, "owner"),
            tasks("RayQueue.put", "FINISHED", 100.0 + 20 * poll, "executor"),
            tasks("RayQueue.get", "RUNNING", float(poll % 3 == 0)),
        )
        (reading,) = waits.take(page, 10.0 * poll)
        assert ("empty_pct" in reading.values) is (poll == 5)
    assert reading.values["put_per_s"] == 2.0
    assert reading.values["empty_pct"] == pytest.approx(100 / 3)


def data(blocked: float, user: float, first: float) -> tuple[Sample, ...]:
    """Of one dataset's reader."""
    labels = '{dataset="train_1",split="0"}'
    return samples(
        f"ray_data_iter_total_blocked_seconds{labels} {blocked}",
        f"ray_data_iter_user_seconds{labels} {user}",
        f"ray_data_iter_time_to_first_batch_seconds{labels} {first}",
        'ray_data_num_external_inqueue_blocks{dataset="train_1",operator="map"} 20',
    )


def test_the_first_batch_is_no_starvation() -> None:
    waits = RayWaits()
    assert "data_share_pct" not in waits.take(data(0.0, 0.0, 0.0), 0.0)[0].values
    (reading,) = waits.take(data(0.709, 20.507, 0.7065), 30.0)
    assert reading.values["data_share_pct"] == pytest.approx(0.0122, abs=0.001)
    (reading,) = waits.take(data(9.709, 21.507, 0.7065), 40.0)
    assert reading.values["data_share_pct"] == pytest.approx(90.0)
    assert reading.values["in_blocks"] == 20.0
    (reading,) = waits.take(data(9.8, 21.6, 0.7065), 50.0)
    assert "data_share_pct" not in reading.values, "it was hardly read"


def test_the_object_store_of_all_nodes() -> None:
    waits = RayWaits()

    def page(spilled: float) -> tuple[Sample, ...]:
        return samples(
            'ray_object_store_used_memory{NodeAddress="a"} 9e9',
            'ray_object_store_available_memory{NodeAddress="a"} 1e9',
            'ray_object_store_used_memory{NodeAddress="b"} 0',
            'ray_object_store_available_memory{NodeAddress="b"} 1e10',
            f'ray_spill_manager_objects_bytes{{State="Spilled"}} {spilled}',
            'ray_spill_manager_objects_bytes{State="Restored"} 7',
        )

    waits.take(page(1e9), 0.0)
    (reading,) = waits.take(page(3e9), 10.0)
    assert reading.values == {"store_fill_pct": 45.0, "spilled_mb": 3000.0, "spill_mb_s": 200.0}


@pytest.mark.parametrize(
    ("text", "targets"),
    [
        ('[{"labels": {"job": "ray"}, "targets": ["10.0.0.1:1", "10.0.0.1:1", "n-2:65000", "[::1]:7"]}]', 3),
        ('[{"targets": ["http://evil/", "a b:1", "x:1\\r\\nHost: y", 3, null, "10.0.0.1"]}]', 0),
        ('[{"targets": "10.0.0.1:1"}, 7, null]', 0),
        ("{}", 0),
        ("", 0),
        ("[" + ",".join(f'{{"targets": ["n{n}:1"]}}' for n in range(100)) + "]", MOST_TARGETS),
    ],
)
def test_targets_are_addresses_only(text: str, targets: int) -> None:
    assert len(targets_of(text)) == targets


def test_what_is_attached_to_is_no_word_of_a_shell() -> None:
    queues = Queues("lab", ("q'; touch owned; '",))
    first = AttachedPoller(LocalMachine(), queues).command(Cluster("/opt/my ray/python", gcs="h:1")).splitlines()[0]
    result, usage, *run = shlex.split(first)
    requests = json.loads(result.removeprefix("PERFMON_QUEUES="))
    assert (requests["names"], requests["namespace"], requests["address"]) == (list(queues.names), "lab", "h:1")
    assert (usage, run[:4]) == ("RAY_USAGE_STATS_ENABLED=0", ["exec", "/opt/my ray/python", "-u", "-"])


def test_the_name_says_where() -> None:
    for argument, name in (("", "ray"), ("/tmp/x", "ray /tmp/x"), ("gpu-1:8265", "ray http://gpu-1:8265/")):
        assert make_pollers(LocalMachine(), PollRequest("ray", argument))[0].name == name
    assert make_pollers(LocalMachine(), PollRequest("ray", "#lab/q1,q2"))[1].name == "ray lab/q1,q2"
