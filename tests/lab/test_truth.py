"""What the lab says it lost, from its own journal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lab.engine import Engine, Sequence
from lab.faults import FAULTS, knobs
from lab.inference import exposition
from lab.journal import Journal
from lab.plan import Plan
from lab.settings import Knobs
from lab.truth import truth
from perfmon.rules.signatures import load_signatures

pytestmark = pytest.mark.slow


def _truth(folder: Path, fault: str, *stretches: tuple[str, float, float], **plan: Any) -> dict[str, Any]:
    (folder / "journal").mkdir()
    rows = (json.dumps({"kind": kind, "start": start, "end": end}) for kind, start, end in stretches)
    (folder / "journal" / "all.jsonl").write_text("\n".join(rows))
    result = truth(Plan(out=str(folder), faults=tuple(fault.split("+")), begins_s=20.0, **plan), 60.0)
    written: dict[str, Any] = json.loads(json.dumps(result))
    return written


def test_only_what_is_beyond_good_is_lost(tmp_path: Path) -> None:
    result = _truth(tmp_path, "shared-pool", ("queue", 25.0, 30.1), ("queue", 40.0, 40.05), ("queue", 5.0, 9.0))
    assert result["lost_s"] == pytest.approx(5.0)
    assert result["faults"][0]["bites_s"] == pytest.approx(25.1)


def test_no_second_of_two_faults_is_lost_twice(tmp_path: Path) -> None:
    result = _truth(tmp_path, "shared-pool+slow-disk", ("queue", 25.0, 30.1), ("write", 24.1, 30.1))
    assert [fault["lost_s"] for fault in result["faults"]] == pytest.approx([5.0, 5.0])
    assert result["lost_s"] == pytest.approx(5.0)


def test_a_wait_counts_while_an_evaluation_runs(tmp_path: Path) -> None:
    result = _truth(tmp_path, "blocking-eval", ("evaluation", 30.0, 45.0), ("batch-wait", 32.0, 50.0))
    assert result["lost_s"] == pytest.approx(13.0)


def test_a_hang_costs_from_when_the_others_have_done_what_they_could(tmp_path: Path) -> None:
    result = _truth(tmp_path, "hung-trainer", ("hang", 22.0, 60.0), ("batch", 20.0, 25.0), ("busy", 0.5, 29.0))
    assert (result["lost_s"], result["faults"][0]["bites_s"]) == (pytest.approx(31.0), 29.0)


def test_a_consumer_is_starved_by_what_it_waits_beyond_its_usual_wait(tmp_path: Path) -> None:
    waits = (("get", 5.0, 5.01), ("get", 10.0, 10.01), ("get", 25.0, 25.02), ("get", 30.0, 31.01), ("get", 40.0, 40.51))
    result = _truth(tmp_path, "slow-producer", *waits)
    assert (result["lost_s"], result["faults"][0]["bites_s"]) == (pytest.approx(1.5), pytest.approx(30.01))


def test_a_consumer_that_is_gone_costs_the_time_since_its_last_batch(tmp_path: Path) -> None:
    result = _truth(tmp_path, "dead-consumer", ("batch", 21.0, 21.25), ("batch", 21.25, 21.5), ("died", 21.5, 21.5))
    assert (result["lost_s"], result["faults"][0]["bites_s"]) == (pytest.approx(38.5), 21.5)


def test_a_death_bites_when_the_process_ends(tmp_path: Path) -> None:
    result = _truth(tmp_path, "dead-trainer", ("died", 23.5, 23.5))
    assert (result["lost_s"], result["faults"][0]["bites_s"]) == (0.0, 23.5)


def test_a_restart_costs_until_it_has_begun_again_and_the_steps_made_again(tmp_path: Path) -> None:
    stretches = (("died", 23.0, 23.0), ("began", 38.0, 38.0), ("again", 38.5, 40.5), ("again", 40.5, 42.5))
    result = _truth(tmp_path, "restart", *stretches)
    assert (result["lost_s"], result["faults"][0]["bites_s"]) == (pytest.approx(19.5), 23.0)


def test_what_is_never_started_again_costs_the_rest_of_the_run(tmp_path: Path) -> None:
    assert _truth(tmp_path, "restart", ("died", 23.0, 23.0))["lost_s"] == pytest.approx(37.0)


def test_memory_is_full_when_the_pace_of_its_leak_says(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    rows = [{"kind": "memory", "start": at, "end": at, "used_pct": max(20.0, at)} for at in range(0, 58, 2)]
    (tmp_path / "journal" / "host.jsonl").write_text("\n".join(map(json.dumps, rows)))
    result = truth(Plan(out=str(tmp_path), faults=("memory-leak",), begins_s=20.0), 60.0)
    assert (result["full_in_s"], result["lost_s"]) == (pytest.approx(97.0 - 60.0), 0)


def test_what_costs_no_time_bites_when_it_is_first_missed(tmp_path: Path) -> None:
    result = _truth(tmp_path, "no-updates", ("missed", 23.5, 23.5), ("missed", 27.0, 27.0))
    assert (result["lost_s"], result["faults"][0]["bites_s"]) == (0.0, 23.5)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_turns_knobs_that_there_are_and_has_a_name(name: str) -> None:
    fault = FAULTS[name]
    assert (knobs([name]) != Knobs()) == bool(fault.turns)
    known = {signature.id for signature in load_signatures()}
    assert {signature for signature in (fault.signature, *fault.also) if signature is not None} <= known


def test_a_server_says_what_its_engine_holds(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "inference", 0.0)
    engine = Engine(Knobs, journal)
    journal.close()
    for _ in range(3):
        engine.add(Sequence(prompt=10, wanted=50, most=100))
    result = exposition(engine)
    assert 'vllm:num_requests_waiting{model_name="lab",engine="0"} 3\n' in result
    assert result.count("# TYPE vllm:request_success_total counter") == 1
    engine.abort(engine.waiting[0])
    assert 'finished_reason="abort"} 1\n' in exposition(engine)
