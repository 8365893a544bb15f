"""How grave a slow checkpoint is: by the share of the time that it cost, where a run is long enough to have one."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from perfmon.core.model import Severity
from perfmon.pipeline.offline import diagnose_texts

_BEGIN = datetime(2026, 3, 2, 10)


def _severity(kind: str, save_s: float, steps: int) -> Severity | None:
    """Of saves after every twentieth step of 10 s; `kind` is a line that says what else the run does."""
    now, lines = _BEGIN, []
    for step in range(1, steps + 1):
        now += timedelta(seconds=10)
        lines.append(f"{now} INFO {kind.format(step=step)}")
        if step % 20 == 0:
            now += timedelta(seconds=save_s)
            lines.append(f"{now} INFO [ckpt] write.done step={step} write_ms={save_s * 1000:.0f}")
    found = diagnose_texts({"train.log": "\n".join(lines)}).findings
    return next((one.severity for one in found if one.signature == "slow-checkpoint-write"), None)


_TRAINING = "step={step} step_time=10.0 loss=2.1"
_FOR_ROLLOUTS = "[rollout] trunc_pct=2.0 current_step={step} ckpt_step={step} staleness=1"


@pytest.mark.parametrize("steps", [100, 2000], ids=["a quarter of an hour", "six hours"])
@pytest.mark.parametrize(
    ("save_s", "severity"),
    [(8, None), (15, Severity.WARNING), (30, Severity.WARNING), (80, Severity.CRITICAL)],
    ids=["4 %", "7 %", "13 %", "29 %"],
)
def test_a_training_by_itself(steps: int, save_s: float, severity: Severity | None) -> None:
    assert _severity(_TRAINING, save_s, steps) is severity


@pytest.mark.parametrize(
    ("steps", "save_s", "severity"),
    [(100, 15, Severity.CRITICAL), (2000, 15, Severity.WARNING), (2000, 80, Severity.CRITICAL)],
)
def test_where_inference_waits_for_the_weights(steps: int, save_s: float, severity: Severity) -> None:
    """Each counts; of a run of hours it is known what they cost."""
    assert _severity(_FOR_ROLLOUTS, save_s, steps) is severity
