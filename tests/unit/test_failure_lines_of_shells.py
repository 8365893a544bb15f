"""A command that is not there ends a script where nothing follows it, or where the shell exits with 127."""

from __future__ import annotations

import pytest

from perfmon.pipeline.offline import diagnose_texts

_MISSING = "/srv/jobs/start.sh: line 4: llama-server: command not found\n"
_STEPS = "".join(f"step {n} loss {4 / n:.4f} step_time 1.5s\n" for n in range(1, 30))


def _causes(text: str) -> list[str]:
    return [found.identity.get("cause", found.signature) for found in diagnose_texts({"run.log": text}).findings]


@pytest.mark.parametrize(
    "text",
    [
        _MISSING,
        "Preparing the environment\n" + _MISSING,
        _MISSING + "start.sh: line 5: curl: command not found\n",
        "bash: torchrun: command not found\n",
        "/bin/sh: 1: nvcc: not found\n",
        _MISSING + 5 * "cleaning up\n" + "srun: error: node7: task 0: Exited with exit code 127\n",
    ],
)
def test_a_command_that_is_not_there_is_the_cause(text: str) -> None:
    assert _causes(text) == ["missing-command"]


@pytest.mark.parametrize(
    "text",
    [_MISSING + _STEPS, _STEPS + _MISSING, _MISSING + 5 * "Loading the data\n", "start.sh: config: not found\n"],
)
def test_a_script_that_goes_on_without_a_command_has_not_failed(text: str) -> None:
    assert _causes(text) == []


def test_an_exception_behind_a_command_that_is_not_there_is_the_cause() -> None:
    trace = 'Traceback (most recent call last):\n  File "/srv/train.py", line 7, in <module>\n    main()\n'
    assert _causes(_MISSING + trace + "ModuleNotFoundError: No module named 'flash_attn'\n") != ["missing-command"]
