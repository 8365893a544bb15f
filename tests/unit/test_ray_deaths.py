"""What Ray says of how a worker ended is told whole; its list of what may have been is no cause."""

from __future__ import annotations

import pytest

from perfmon.pipeline.offline import diagnose_texts

_STEPS = "\n".join(f"2026-03-02 10:00:{at}0 step={at} loss=2.0" for at in range(1, 6))
_POD = (
    "Worker exits unexpectedly. Worker exits with an exit code None. The worker may have exceeded K8s pod memory "
    "limits."
)
_LIST = (
    "Worker unexpectedly exits with a connection error code 2. End of file. There are some potential root causes. (1) "
    "The process is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called."
)
_RAYLET = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error. To troubleshoot the "
    f"problem, check the logs for the dead worker. RayTask ID: {'f' * 40} Worker ID: {'0' * 56} Node ID: {'1' * 56} "
    "Worker IP address: 10.0.0.3 Worker port: 10014 Worker PID: 4711 Worker exit type: SYSTEM_ERROR Worker "
    "exit detail: "
)
_ACTOR = (
    "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.\n\tclass_name: Rollout\n"
    "\tpid: 4711\n\tip: 10.0.0.3\nThe actor is dead because its worker process has died. Worker exit type: "
    "SYSTEM_ERROR Worker exit detail: "
)


def _sentence(text: str) -> str:
    verdict = diagnose_texts({"run.log": f"{_STEPS}\n{text}"}).verdict
    return "" if verdict is None else verdict.sentence


@pytest.mark.parametrize("line", [_RAYLET, _ACTOR], ids=["raylet", "actor"])
def test_the_hint_at_a_pod_s_memory_is_told(line: str) -> None:
    sentence = _sentence(line + _POD)
    assert "may have exceeded K8s pod memory limits" in sentence
    assert "10.0.0.3" in sentence
    assert "4711" in sentence


@pytest.mark.parametrize("line", [_RAYLET, _ACTOR], ids=["raylet", "actor"])
def test_a_list_of_guesses_is_not(line: str) -> None:
    sentence = _sentence(line + _LIST)
    assert "connection error code 2" in sentence
    assert "OOM" not in sentence
