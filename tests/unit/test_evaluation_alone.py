"""An evaluation holds up a trainer whose steps the logs show, and nothing else; bar and summary are one interval."""

from __future__ import annotations

import pytest

from perfmon.diagnosis import Diagnosis
from perfmon.pipeline.offline import diagnose_texts

_BAR = "100%|██████████| 625/625 [01:18<00:00,  7.98it/s]\n"
_EVALUATED = (
    "{'eval_loss': 0.31, 'eval_runtime': 78.27, 'eval_samples_per_second': 127.7, 'eval_steps_per_second': 7.98}\n"
)


def _diagnosis(text: str) -> tuple[Diagnosis, dict[str, float]]:
    found = diagnose_texts({"run.log": text})
    return found, {entry.cause: entry.lost_s for entry in found.ledger if entry.lost_s > 0}


@pytest.mark.parametrize("text", [_EVALUATED, 2 * _EVALUATED, _BAR + _EVALUATED])
def test_a_log_of_evaluations_alone_blocks_no_trainer(text: str) -> None:
    found, ledger = _diagnosis(text)
    assert [finding.signature for finding in found.findings] == []
    assert "blocking-eval" not in ledger


def test_a_bar_and_the_summary_behind_it_are_one_interval() -> None:
    assert sum(_diagnosis(_BAR + _EVALUATED)[1].values()) == pytest.approx(78.3, abs=1.0)


def test_a_bar_of_another_duration_is_another_interval() -> None:
    text = _BAR.replace("01:18", "00:40") + _EVALUATED
    assert sum(_diagnosis(text)[1].values()) == pytest.approx(118.3, abs=1.0)


def test_an_evaluation_between_steps_blocks_them() -> None:
    steps = [f"step {n} loss {4 / n:.4f} step_time 1.5s\n" for n in range(1, 59)]
    found, ledger = _diagnosis("".join((*steps[:29], _EVALUATED, *steps[29:])))
    assert [finding.signature for finding in found.findings] == ["blocking-eval"]
    assert ledger["blocking-eval"] == pytest.approx(78.3, abs=1.0)
