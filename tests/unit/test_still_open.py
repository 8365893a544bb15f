"""An evaluation that runs is seen while it does: it explains the silence, and what it costs is told at once."""

from __future__ import annotations

import pytest

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Assessment, Diagnosis
from perfmon.pipeline.session import Session

_STEP_S = 20
_EVAL = "INFO Starting evals in aime24 (64 total rollouts)"


def _clock(second: int) -> str:
    return f"10:{second // 60:02d}:{second % 60:02d}"


def _watched(silent_s: int, last: str, steps: int = 12) -> Diagnosis:
    """A run of quick steps whose logs end with a line, and somebody who has waited since."""
    session, end = Session(Config()), _STEP_S * steps
    orchestrator = [
        f"{_clock(_STEP_S * step)} INFO [rollout] trunc_pct=2.0 current_step={step} ckpt_step={step - 1} staleness=1"
        for step in range(1, steps + 1)
    ]
    trainer = [
        line
        for step in range(steps)
        for line in (
            f"{_clock(_STEP_S * step)} INFO Waiting for training batch to arrive",
            f"{_clock(_STEP_S * step + 1)} DEBUG Waited for batch to arrive for 1.00 seconds",
        )
    ]
    orchestrator.append(f"{_clock(end)} {last}")
    trainer.append(f"{_clock(end)} INFO Waiting for training batch to arrive")
    for name, lines in (("orchestrator.log", orchestrator), ("trainer.log", trainer)):
        session.feed(session.add_source(name), Block("\n".join([*lines, ""]).encode(), 0, 1))
    now = (session.store.sources[0].last or 0.0) + silent_s
    return session.present((now - 600, now), align(session.store), now)


def _found(snapshot: Diagnosis) -> set[str]:
    return {finding.signature for finding in snapshot.findings if finding.state != "pending"}


@pytest.mark.parametrize("silent_s", [60, 150, 290])
def test_a_silent_evaluation_is_no_stall(silent_s: int) -> None:
    snapshot = _watched(silent_s, _EVAL)
    assert "stall" not in _found(snapshot)
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "blocking-eval"
    assert snapshot.verdict.lost_s == pytest.approx(silent_s, abs=1.5)


def test_the_same_silence_without_an_evaluation_is_one() -> None:
    assert "stall" in _found(_watched(150, "INFO Train batch 3/32 (9.4%); 32 inflight episodes (train=32, eval=0)"))


def test_an_evaluation_does_not_go_on_for_ever() -> None:
    assert "blocking-eval" not in _found(_watched(3000, _EVAL))


def test_nor_does_one_of_a_log_that_was_read_to_its_end() -> None:
    session = Session(Config())
    session.feed(session.add_source("orchestrator.log"), Block(f"{_clock(5)} {_EVAL}\n".encode(), 0, 1))
    assert not session.snapshot().findings


def _batches(open_s: float, took_s: float = 3.3, count: int = 20) -> Diagnosis:
    """A run of generation batches, of which the last has been open for so long."""
    session, lines = Session(Config()), []
    for number in range(count):
        start = _clock(4 * number)
        lines += [f"{start} INFO [gen] batch.start inflight=64 target_batch=32"]
        lines += [f"{_clock(4 * number + 3)} INFO [gen] batch.done dur_ms={1000 * took_s:.1f} inflight=64"]
    begin = 4 * count
    lines += [f"{_clock(begin)} INFO [gen] batch.start inflight=64 target_batch=32"]
    # Something is still written: whether nothing is, is another question.
    lines += [f"{_clock(begin + at)} INFO still collecting" for at in range(1, int(open_s), 3)]
    session.feed(session.add_source("orchestrator.log"), Block("\n".join([*lines, ""]).encode(), 0, 1))
    now = (session.store.sources[0].first or 0.0) + begin + open_s
    return session.present((now - 600, now), align(session.store), now)


def test_what_is_open_for_longer_than_ever_is_not_healthy() -> None:
    snapshot = _batches(11.0)
    assert snapshot.assessment is Assessment.WATCH
    head = "A generation batch is open for 11.0 s, at most 3.3 s before"
    assert snapshot.summary.startswith(head)


@pytest.mark.parametrize(("open_s", "count"), [(9.0, 20), (11.0, 2)])
def test_within_limits_or_too_early_it_is(open_s: float, count: int) -> None:
    assert _batches(open_s, count=count).assessment is not Assessment.WATCH
