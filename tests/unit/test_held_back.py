"""A symptom is not told before the cause that is about to be proven: what is told first is right."""

from __future__ import annotations

import json

import pytest
from feeding import feed

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session

_FULL_FROM_S = 100
_ENGINE = (
    "INFO 08-21 {} [loggers.py:127] Engine 000: Avg prompt throughput: 100.0 tokens/s, Avg generation throughput: "
    "900.0 tokens/s, Running: 12 reqs, Waiting: {} reqs, GPU KV cache usage: {:.1f}%, Prefix cache hit rate: 0.0%"
)


def _clock(second: float) -> str:
    return f"10:{int(second) // 60:02d}:{int(second) % 60:02d}"


def _snapshot(now_s: int, kv_usage: float, *, watched: bool = True) -> Diagnosis:
    """Quick steps; then the cache fills, and the trainer waits for most of each step."""
    engine, trainer = list[str](), list[str]()
    for at in range(0, now_s, 2):
        full = at >= _FULL_FROM_S
        engine.append(_ENGINE.format(_clock(at), 30 if full else 0, kv_usage if full else 40.0))
    for at in range(0, now_s - 3, 4):
        wait_s = 3.0 if at >= _FULL_FROM_S else 0.2
        result = f"2026-08-21 {_clock(at + wait_s)} DEBUG Waited for batch to arrive for {wait_s:.2f} seconds"
        step = f"2026-08-21 {_clock(at + 4)} SUCCESS Step {at // 4} |    4.0s | Loss 0.1"
        trainer += [f"2026-08-21 {_clock(at)} INFO Waiting for training batch to arrive", result, step]
    session = Session(Config())
    for name, lines in (("inference.log", engine), ("trainer.log", trainer)):
        session.feed(session.add_source(name), Block("\n".join([*lines, ""]).encode(), 0, 1))
    if not watched:
        return session.snapshot()
    now = max(state.last or 0.0 for state in session.store.sources)
    return session.present((now - 600, now), align(session.store), now)


def _result_of(snapshot: Diagnosis) -> dict[str, str]:
    return {finding.signature: finding.state for finding in snapshot.findings}


@pytest.mark.parametrize("later_s", [12, 16, 20])
def test_a_symptom_waits_while_its_cause_is_being_proven(later_s: int) -> None:
    snapshot = _snapshot(_FULL_FROM_S + later_s, 97.0)
    assert _result_of(snapshot) == {"kv-cache-pressure": "pending", "inference-bound": "pending"}
    assert snapshot.verdict is None
    assert {entry.cause for entry in snapshot.ledger} == {"productive", "unaccounted"}


def test_both_are_told_once_it_is() -> None:
    snapshot = _snapshot(_FULL_FROM_S + 28, 97.0)
    assert _result_of(snapshot) == {"kv-cache-pressure": "firing", "inference-bound": "firing"}
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "kv-cache-pressure"


@pytest.mark.parametrize("later_s", [16, 28])
def test_nothing_waits_where_there_is_no_such_cause(later_s: int) -> None:
    snapshot = _snapshot(_FULL_FROM_S + later_s, 60.0)
    assert _result_of(snapshot) == {"inference-bound": "firing"}


def test_nothing_waits_where_nothing_more_is_to_come() -> None:
    snapshot = _snapshot(_FULL_FROM_S + 16, 97.0, watched=False)
    assert _result_of(snapshot)["inference-bound"] == "firing"
    assert snapshot.verdict is not None


def _rewarded(steps: int, scoring_s: float) -> Diagnosis:
    """Steps of 20 s, of which from the third on the trainer waits for 15, and rewards take `scoring_s`."""
    rows = list[str]()
    for step in range(1, steps + 1):
        at, slow = 1787300000.0 + 20.0 * step, step > 2
        figures = {
            "time/wait_for_policy": 0.0,
            "train/agg/all/timing/agent/model/mean": 6.0,
            "train/agg/all/timing/scoring/mean": scoring_s if slow else 0.5,
        }
        rows.append(json.dumps({"step": step, "time": at, "time/step": 20.0, **figures}))
        waited = {"time/wait_for_batch": 15.0 if slow else 1.0}
        rows.append(json.dumps({"step": step, "time": at + 3.0, "time/step": 20.0, **waited}))
    session = Session(Config())
    feed(session, "metrics.jsonl", ["\n".join([*rows, ""])])
    now = max(state.last or 0.0 for state in session.store.sources)
    return session.present((now - 600, now), align(session.store), now)


def test_a_symptom_waits_for_a_cause_that_lacks_one_occurrence() -> None:
    assert _result_of(_rewarded(4, 20.0)) == {"environment-bound": "pending", "inference-bound": "pending"}
    snapshot = _rewarded(5, 20.0)
    assert _result_of(snapshot) == {"environment-bound": "firing", "inference-bound": "firing"}
    assert snapshot.verdict is not None
    assert snapshot.verdict.chain == ("inference-bound", "environment-bound")


def test_it_does_not_where_no_cause_shows() -> None:
    assert _result_of(_rewarded(4, 0.5)) == {"inference-bound": "firing"}


def _capped(now_s: int, waiting_from_s: int, until_s: int = 10_000) -> Diagnosis:
    """The engine runs 16 as ever, and 20 wait; the trainer waits for most of each step."""
    engine, trainer = list[str](), list[str]()
    for at in range(0, now_s, 5):
        waiting = 20 if waiting_from_s <= at < until_s else 0
        engine.append(_ENGINE.format(_clock(at), waiting, 12.0).replace("Running: 12", "Running: 16"))
    for at in range(0, now_s - 6, 6):
        wait_s = 4.0 if at >= waiting_from_s else 0.5
        result = f"2026-08-21 {_clock(at + wait_s)} DEBUG Waited for batch to arrive for {wait_s:.2f} seconds"
        step = f"2026-08-21 {_clock(at + 6)} SUCCESS Step {at // 6} |    6.0s | Loss 0.1"
        trainer += [f"2026-08-21 {_clock(at)} INFO Waiting for training batch to arrive", result, step]
    session = Session(Config())
    for name, lines in (("inference.log", engine), ("trainer.log", trainer)):
        feed(session, name, ["\n".join([*lines, ""])])
    now = max(state.last or 0.0 for state in session.store.sources)
    return session.present((now - 600, now), align(session.store), now)


@pytest.mark.parametrize("later_s", [25, 40, 55])
def test_a_symptom_waits_while_its_cause_goes_on_and_is_not_long_enough_yet(later_s: int) -> None:
    snapshot = _capped(60 + later_s, 60)
    assert _result_of(snapshot) == {"request-cap": "pending", "inference-bound": "pending"}
    assert snapshot.verdict is None


def test_both_are_told_once_it_has_gone_on_for_long_enough() -> None:
    snapshot = _capped(60 + 70, 60)
    assert _result_of(snapshot) == {"request-cap": "firing", "inference-bound": "firing"}
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "request-cap"


def test_nothing_waits_for_what_ended_before_it_was_long_enough() -> None:
    assert _result_of(_capped(60 + 60, 60, 90)) == {"inference-bound": "firing"}


def test_a_finding_that_is_not_sure_yet_is_no_bottleneck_and_not_healthy_either() -> None:
    line = (
        "INFO 03-02 10:{:02d}:{:02d} [loggers.py:336] Engine 000: Avg prompt throughput: 900.0 tokens/s, Avg generation"
        " throughput: 2000.0 tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {}%, Prefix cache hit"
        " rate: 41.0%\n"
    )

    def shown(full: int) -> tuple[str, str]:
        rows = [(40, 0, 52.0)] * 20 + [(100, 90, 98.9)] * full
        text = "".join(line.format(at // 6, at % 6 * 10, *row) for at, row in enumerate(rows))
        session = Session(Config())
        session.feed(session.add_source("inference.log"), Block(text.encode(), 0, 1))
        now = session.store.sources[0].last or 0.0
        diagnosis = session.present((now - 600, now), align(session.store), now)
        return str(diagnosis.assessment), diagnosis.summary.partition(":")[0]

    assert shown(0) == ("healthy", "No bottleneck found")
    assert shown(2) == ("watch", "KV cache pressure, not for long enough to be sure")
    assert shown(6) == ("finding", "KV cache pressure")
