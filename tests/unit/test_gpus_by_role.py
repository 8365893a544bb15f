"""GPU-seconds by role: only where it is known which GPUs a role has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfmon.diagnosis.result import Diagnosis, goodput_of
from perfmon.pipeline.offline import diagnose_texts
from perfmon.sources.pollers.reading import Area, Reading
from perfmon.store.latest_readings import Seen

_STEPS = "\n".join(f"2026-03-02 10:0{at // 6}:{at % 6}0 INFO step={at} step_time=10.0 loss=2.1" for at in range(1, 30))


def _process(host: str, pid: int, **words: str) -> Seen:
    return Seen(host, Reading(Area.PROCESS, str(pid), {}, words), 0.0, {})


def _run(*seen: Seen, first: str = "") -> Diagnosis:
    return replace(diagnose_texts({"run.log": f"{first}{_STEPS}"}), seen=seen)


def _gpus(snapshot: Diagnosis) -> dict[str, int]:
    return {role: use.gpus for role, use in goodput_of(snapshot).roles.items()}


def test_processes_tell_their_roles_and_gpus() -> None:
    seen = [
        _process("a", 1, gpu="0+1", role="trainer"),
        _process("a", 2, gpu="2", role="inference"),
        _process("b", 1, gpu="0+1+2", role="inference"),
        _process("b", 2, gpu="3"),
        _process("b", 3, role="orchestrator"),
    ]
    snapshot = _run(*seen)
    assert _gpus(snapshot) == {"trainer": 2, "inference": 4}
    assert goodput_of(snapshot).roles["trainer"].gpu_s == pytest.approx(2 * snapshot.run.wall_s)


def test_two_pollers_may_tell_of_one_process() -> None:
    assert _gpus(_run(_process("a", 1, gpu="0+1"), _process("a", 1, role="trainer"))) == {"trainer": 2}


def test_a_gpu_that_two_roles_share_is_neither_s() -> None:
    seen = [_process("a", 1, gpu="0", role="trainer"), _process("a", 2, gpu="0", role="inference")]
    assert _gpus(_run(*seen)) == {"inference+trainer": 1}


def test_a_launcher_may_name_them() -> None:
    lines = (
        "2026-03-02 10:00:02 INFO Starting inference on GPU(s) 0,1\n"
        + "2026-03-02 10:00:03 INFO Starting trainer on GPU(s) 4,5,6,7\n"
    )
    assert _gpus(_run(first=lines)) == {"inference": 2, "trainer": 4}


def test_nothing_is_guessed() -> None:
    assert _gpus(_run()) == {}
    assert _gpus(_run(_process("a", 1, gpu="0"))) == {}
