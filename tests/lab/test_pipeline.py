"""The pipeline of the lab: real processes, whose journal and logs agree with the fault that is on."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from lab.conductor import Lab, LabError
from lab.gpu import BusyTime
from lab.network import Link
from lab.plan import Plan
from lab.truth import read_journal

pytestmark = pytest.mark.slow

AT_ONCE: dict[str, object] = {"queue_items": 1, "item_mib": 0.25, "first_batch_s": 0.0}
"""Little is stored on the way: what is slow is missed at once."""


def run(out: Path, *faults: str, seconds: float = 6.0) -> dict[str, Any]:
    """The truth about a short run, whose fault is there from its start."""
    with Lab(Plan(out=str(out), faults=faults, seconds=seconds, turns=AT_ONCE)) as lab:
        lab.run()
    truth: dict[str, Any] = json.loads((out / "truth.json").read_text("utf-8"))
    return truth


def logs_of(out: Path) -> dict[str, str]:
    return {path.stem: path.read_text("utf-8") for path in (out / "logs").iterdir()}


@pytest.mark.parametrize("fault", ["slow-producer", "slow-parse", "slow-queue", "slow-serialise"])
def test_the_consumer_waits_for_what_is_slow(tmp_path: Path, fault: str) -> None:
    """Of the time of a starved consumer what it does not compute is lost."""
    out = tmp_path / "run"
    truth, journal = run(out, fault), read_journal(out / "journal")
    computed = sum(end - start for start, end in journal["batch"])
    streamed = max(end for stretches in journal.values() for _, end in stretches) - journal["first"][-1][1]
    assert 0.0 < truth["lost_s"] <= streamed - computed
    assert truth["lost_s"] > 0.5 * (streamed - computed)
    assert truth["batches"] == len(journal["batch"])


def test_logs_agree_with_the_journal(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(out, "slow-parse")
    logs, journal = logs_of(out), read_journal(out / "journal")
    loads = [float(took) for took in re.findall(r"np\.load took ([\d.]+)s", logs["producer"])]
    converted = [float(took) for took in re.findall(r"tensor conversion took ([\d.]+)s", logs["producer"])]
    parsed = [end - start for start, end in journal["parse"]]
    for load, conversion, whole in zip(loads, converted, parsed, strict=False):
        assert load + conversion == pytest.approx(whole, abs=0.02)
    assert logs["producer"].count("Successfully pushed") in (len(journal["push"]), len(journal["push"]) - 1)
    assert "Q1 utilization" in logs["producer"]
    assert "Q1 utilization" in logs["consumer"]
    assert "[poll] gpu host=node-0" in logs["polls"]
    assert "[poll] socket host=node-0" in logs["polls"]
    sizes = [int(size) for size in re.findall(r"'size': (\d+)", logs["streamer"])]
    assert sizes == [(number + 1) << 18 for number in range(len(sizes))]


def test_a_consumer_that_dies_leaves_the_others(tmp_path: Path) -> None:
    out = tmp_path / "run"
    truth, journal = run(out, "dead-consumer"), read_journal(out / "journal")
    assert "Traceback" not in logs_of(out)["consumer"]
    assert truth["batches"] == 1
    assert truth["lost_s"] == pytest.approx(truth["observed_s"] - journal["batch"][-1][1], abs=0.01)
    assert max(end for _, end in journal["push"]) > journal["died"][0][0]


@pytest.mark.system
def test_a_link_of_its_own_carries_what_it_may(tmp_path: Path) -> None:
    if not Link.available():
        pytest.skip("network namespaces need root, and ip, tc, unshare, nsenter")
    out = tmp_path / "run"
    run(out, "throttled-link", seconds=8.0)
    logs = logs_of(out)
    assert "[poll] socket host=streamer-0" in logs["polls-streamer"]
    rates = [float(rate) for rate in re.findall(r"rate_mb_s=([\d.]+)", logs["polls-streamer"])]
    assert rates
    assert max(rates) <= 1.2 * 2.5 * 1.048576


@pytest.mark.system
def test_the_queue_may_be_an_actor_of_ray(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="ray is not installed")
    out = tmp_path / "run"
    truth = run(out, "ray-queue", "slow-serialise", seconds=30.0)
    logs = logs_of(out)
    assert truth["batches"] > 1
    assert truth["lost_s"] > 0.0
    assert "name=ray/peaknet_q1" in logs["polls"]
    assert "Q1 utilization" in logs["producer"]
    assert "Q1 utilization" in logs["consumer"]
    assert "Traceback" not in "".join(logs.values())


def test_without_ray_its_queue_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.conductor.find_spec", lambda name: None)
    with pytest.raises(LabError, match="ray is not installed: pip install"):
        run(tmp_path / "run", "ray-queue")


def test_a_gpu_is_busy_while_it_computes(tmp_path: Path) -> None:
    counted, seen = BusyTime(tmp_path / "gpu"), BusyTime(tmp_path / "gpu")
    assert seen.total_s() == 0.0
    with counted.busy():
        during = seen.total_s()
        assert during > 0.0
    assert seen.total_s() >= during
    assert seen.total_s() == counted.total_s() == seen.total_s()


def test_namespaces_need_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert not Link.available()
