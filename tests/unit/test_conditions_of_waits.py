"""Conditions that tell who waits for whom: several at once, nothing that overlaps, what was ready, what is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_conditions import ON_KV, condition, found, samples

ON_WAITS = '[[on]]\nspan = "checkpoint-wait"\n'
WAIT = """
10:00:01    INFO [ckpt] wait.start target_step=8
10:00:11    INFO [ckpt] wait.done target_step=8 wait_ms=10000.0
"""


def _write(ends: str, step: int = 8, took_ms: float = 1000.0) -> str:
    before = "09:59:00    INFO [ckpt] write.done step=1 write_ms=1.0"
    return f"{before}\n{ends}    INFO [ckpt] write.done step={step} write_ms={took_ms}"


def _fires(tmp_path: Path, toml: str, *logs: str) -> bool:
    return any(finding.state != "pending" for finding in found(tmp_path, toml, *logs))


@pytest.mark.parametrize(("ends", "was"), [("10:00:04", True), ("10:00:00", True), ("10:00:10", False)])
def test_ready(tmp_path: Path, ends: str, was: bool) -> None:
    toml = ON_WAITS + condition(type="overlap", span="checkpoint-write", ended_before=0.3)
    assert _fires(tmp_path, toml, WAIT, _write(ends)) is was
    toml = ON_WAITS + condition(type="overlap", span="checkpoint-write", ended_before=0.3, none=True)
    assert _fires(tmp_path, toml, WAIT, _write(ends)) is not was


def test_ready_is_not_known_of_another_step(tmp_path: Path) -> None:
    toml = ON_WAITS + condition(type="overlap", span="checkpoint-write", ended_before=0.3)
    assert not _fires(tmp_path, toml, WAIT, _write("10:00:04", step=7))


@pytest.mark.parametrize(("took_ms", "covers"), [(6000.0, True), (2000.0, False)])
def test_no_span_that_overlaps(tmp_path: Path, took_ms: float, covers: bool) -> None:
    toml = ON_WAITS + condition(type="overlap", span="checkpoint-write", none=True, least_share=0.5)
    assert _fires(tmp_path, toml, WAIT, _write("10:00:10", took_ms=took_ms)) is not covers
    assert _fires(tmp_path, toml, WAIT), "a run that tells of none has none"


@pytest.mark.parametrize(("kv", "held"), [(95, True), (70, False)])
def test_all(tmp_path: Path, kv: float, held: bool) -> None:
    above = '{{ type = "compare", metric = "kv_usage", above = {} }}'.format
    toml = f'{ON_KV}[[condition]]\ntype = "all"\nof = [{above(50)}, {above(90)}]\n'
    assert _fires(tmp_path, toml, samples("kv_usage", [kv])) is held


def test_share_of_the_most(tmp_path: Path) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", stat="of_max", window_s=600, below=25)
    assert not _fires(tmp_path, toml, samples("kv_usage", [80, 60, 21]))
    assert _fires(tmp_path, toml, samples("kv_usage", [80, 60, 19]))


def test_samples_of_a_window_that_is_both_short_and_new(tmp_path: Path) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", stat="min", window_n=3, window_s=60, least=3, above=90)
    assert _fires(tmp_path, toml, samples("kv_usage", [95, 95, 95]))
    assert not _fires(tmp_path, toml, samples("kv_usage", [95, 95, 95], every_s=50))


def test_what_its_conditions_look_back_on_is_lost_too(tmp_path: Path) -> None:
    toml = ON_KV + condition(type="compare", metric="kv_usage", stat="min", window_n=3, least=3, above=90)
    logs = samples("kv_usage", [10, 10, 95, 95, 95, 95, 10])
    (near,) = found(tmp_path, toml + '[lost]\nleg = "between"\n', logs)
    (far,) = found(tmp_path, toml + '[lost]\nleg = "between"\nback = 3\n', logs)
    assert (near.lost_s, far.lost_s) == (20.0, 40.0)
