"""Which files of a folder are taken for logs, by their names."""

from __future__ import annotations

import pytest

from perfmon.sources.spec import is_log_name


@pytest.mark.parametrize("name", ["job.o9931", "lsf.o220114", "job.e9931", "train.log", "run.out.1"])
def test_is_log_name_knows_outputs_of_schedulers(name: str) -> None:
    assert is_log_name(name)


@pytest.mark.parametrize("name", ["model.o1", "main.o", "weights.e12"])
def test_is_log_name_passes_over_object_files(name: str) -> None:
    assert not is_log_name(name)
