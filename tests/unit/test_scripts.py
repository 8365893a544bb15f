"""Appended stderr without a clock: each script's death is its run's; the last one's is what the file is about."""

from __future__ import annotations

import pytest

from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import diagnose_texts


def _death(script: str, error: str, before: str = "") -> str:
    return (
        f'Traceback (most recent call last):\n{before}  File "{script}", line 31, in <module>\n    main()\n'
        f'  File "{script}", line 12, in main\n    work()\n{error}'
    )


_PREPARE = _death("/home/u/prepare.py", "FileNotFoundError: [Errno 2] No such file or directory: '/data/a.parquet'")
_TRAIN = _death("/home/u/train.py", "ValueError: expected 4096 tokens, got 4097")
_EVALUATE = _death("/home/u/evaluate.py", "KeyError: 'accuracy'")
_CHAINED = "\n\nDuring handling of the above exception, another exception occurred:\n"
_RUNPY = '  File "<frozen runpy>", line 198, in _run_module_as_main\n  File "<frozen runpy>", line 88, in _run_code\n'


def _result_of(*texts: str) -> Diagnosis:
    return diagnose_texts({"stderr.txt": "\n".join(texts)})


@pytest.mark.parametrize(
    ("texts", "runs", "last"),
    [
        ([_PREPARE, _EVALUATE], 2, "KeyError"),
        ([_PREPARE, _TRAIN, _EVALUATE], 3, "KeyError"),
        ([_TRAIN, _PREPARE, _TRAIN], 3, "4097"),
        ([_PREPARE, _death("/home/u/eval.py", "RuntimeError: sizes differ", _RUNPY)], 2, "sizes differ"),
    ],
)
def test_the_last_script_s_death_is_told(texts: list[str], runs: int, last: str) -> None:
    snapshot = _result_of(*texts)
    assert snapshot.run.runs == runs
    assert snapshot.verdict is not None
    assert last in snapshot.verdict.sentence
    assert "echo" not in snapshot.verdict.sentence


@pytest.mark.parametrize(
    "text",
    [
        _CHAINED.join([_death("/home/u/model.py", "ModuleNotFoundError: No module named 'kernels'"), _TRAIN]),
        "\n".join([_TRAIN, _TRAIN, _TRAIN]),
        "\n".join([_TRAIN, _death("/opt/conda/bin/accelerate", "RuntimeError: the launched process failed")]),
        "\n".join([_TRAIN, _death("/home/u/client.py", "ConnectionRefusedError: [Errno 111] Connection refused")]),
        "\n".join(f"[rank{rank}]: {line}" for rank in (0, 1) for line in _TRAIN.splitlines()),
    ],
    ids=["chained", "ranks of one script", "its launcher", "a peer that was lost", "named ranks"],
)
def test_what_belongs_together_is_one_run(text: str) -> None:
    assert _result_of(text).run.runs == 1
