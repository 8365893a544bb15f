"""A clock that was set while the others went on is no silence, and what came after it lies where it belongs."""

from __future__ import annotations

import pytest
from feeding import feed

from perfmon.clocks.adjustments import Step, remove_clock_step
from perfmon.core.config import Config
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session

_STEP = "[ckpt] write.done step={0} write_ms=80.0"
_ROLLOUT = "[rollout] trunc_pct=2.0 current_step={0} ckpt_step={0} staleness=0"
_UPDATE = "[weights][w{0}] client.send url=http://x t={1}"
_UPDATED = "[weights][w{0}] client.done wall_ms=1020 rpc_ms=1000 queue_ms=20"
_BEGIN_S = 12 * 3600


def _clock(seconds: float) -> str:
    whole = _BEGIN_S + int(seconds)
    return f"2026-03-02 {whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d} INFO"


def _log(text: str, until_s: int = 1200, step_s: float = 0.0, from_s: int = 600, silent: range = range(0)) -> str:
    """A line every ten seconds, by a clock that is set `step_s` ahead at `from_s`."""
    result = []
    for s in range(0, until_s, 10):
        clock = _clock(s + (step_s if s >= from_s else 0.0))
        if s not in silent:
            at = s - sum(other < s for other in silent)  # a run that stands still counts no steps
            result += [f"{clock} {line.format(at // 10, 5000 + s)}" for line in text.split("\n")]
    return "".join(f"{line}\n" for line in result)


def _result_of(logs: dict[str, str], size: int = 1 << 20) -> Diagnosis:
    session = Session(Config())
    for name, text in logs.items():
        feed(session, name, _cut(text, size))
    return session.snapshot()


def _cut(text: str, size: int) -> list[bytes]:
    blocks: list[bytes] = [b""]
    for line in text.encode().splitlines(keepends=True):
        if len(blocks[-1]) + len(line) > size:
            blocks.append(b"")
        blocks[-1] += line
    return [block for block in blocks if block]


@pytest.mark.parametrize("size", [100, 3000, 1 << 20])
@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_an_hour_is_taken_out_where_another_log_goes_on(step_s: float, size: int) -> None:
    snapshot = _result_of({"orchestrator.log": _log(_ROLLOUT, step_s=step_s), "trainer.log": _log(_STEP)}, size)
    assert not snapshot.findings
    assert snapshot.skew_detected
    assert [source.last_s for source in snapshot.run.sources] == pytest.approx([1190.0] * 2, abs=0.1)
    assert snapshot.run.wall_s == pytest.approx(1190.0, abs=2.0)
    (note,) = [note for note in snapshot.run.sources[0].notes if "corrected" in note]
    assert ("forward" if step_s > 0 else "back") in note


@pytest.mark.parametrize("step_s", [417.0, -417.0, 3600.0])
def test_any_step_is_taken_out_that_monotonic_times_prove(step_s: float) -> None:
    client = _log(f"{_UPDATE}\n{_UPDATED}", step_s=step_s)
    snapshot = _result_of({"orchestrator.log": client, "trainer.log": _log(_STEP)})
    assert not snapshot.findings
    assert snapshot.run.wall_s == pytest.approx(1190.0, abs=2.0)
    assert snapshot.skew_detected


def test_monotonic_times_prove_an_hour_of_a_single_log() -> None:
    snapshot = _result_of({"orchestrator.log": _log(f"{_UPDATE}\n{_UPDATED}", step_s=3600.0)})
    assert not snapshot.findings
    assert snapshot.run.wall_s == pytest.approx(1190.0, abs=2.0)


def test_an_hour_in_which_one_log_was_silent_stays() -> None:
    logs = {
        "orchestrator.log": _log(_ROLLOUT, 6000, silent=range(600, 4200)),
        "trainer.log": _log(_STEP, 6000),
    }
    snapshot = _result_of(logs)
    assert [finding.signature for finding in snapshot.findings] == ["source-silent"]
    assert not snapshot.skew_detected


def test_an_hour_in_which_all_logs_were_silent_stays() -> None:
    for late in (600, 620):
        logs = {
            "orchestrator.log": _log(_ROLLOUT, 4800, silent=range(600, 4200)),
            "trainer.log": _log(_STEP, 4800, silent=range(late, 4200)),
        }
        snapshot = _result_of(logs)
        assert [finding.signature for finding in snapshot.findings] == ["stall"]
        assert not snapshot.skew_detected


def test_a_log_that_ended_before_an_hour_of_silence_proves_nothing() -> None:
    logs = {"orchestrator.log": _log(_ROLLOUT, 4220, silent=range(600, 4200)), "trainer.log": _log(_STEP, 620)}
    assert not _result_of(logs).skew_detected


@pytest.mark.parametrize("size", [100, 3000, 1 << 20])
@pytest.mark.parametrize("set_s", [300, 605, 900])
@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
def test_an_hour_within_an_update_leaves_the_start_of_the_log(step_s: float, set_s: int, size: int) -> None:
    result = []
    for at in range(40):
        sent, done = (at * 30 + more + (step_s if at * 30 + more >= set_s else 0.0) for more in (0, 12))
        result.append(f"{_clock(sent)} [weights][w{at}] client.send url=http://x t={5000 + at * 30}\n")
        result.append(f"{_clock(done)} [weights][w{at}] client.done wall_ms=12000 rpc_ms=1000 queue_ms=11000\n")
    snapshot = _result_of({"orchestrator.log": "".join(result)}, size)
    assert snapshot.run.wall_s == pytest.approx(1182.0, abs=2.0)
    assert snapshot.verdict is not None
    assert snapshot.verdict.lost_share == pytest.approx(0.37, abs=0.01)


def test_a_log_does_not_end_before_it_begins() -> None:
    """Where a clock was set both ways, the latest line may be one before the step that is taken out."""
    session = Session(Config())
    feed(session, "trainer.log", _cut(_log(_STEP), 1 << 20))
    (state,) = session.store.sources
    assert state.first is not None
    step = Step(state.index, seconds=86_400.0, since=state.first + 600.0)
    remove_clock_step(session.store, session._clocks[state.index], step)
    assert state.last is not None
    assert state.first <= state.last
