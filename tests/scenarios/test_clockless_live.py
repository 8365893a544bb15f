"""A run whose lines tell no time, while it is watched: what is judged is the last while, not all that ever came."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from terminals import wait
from test_clocks_live import BEGIN, CHANGED_S, OPENED_S, Line, alert, at, lines_of, verdicts, watched

from perfmon.core.config import Config
from perfmon.core.model import TimeBase
from perfmon.monitor.feeds import FollowFeed
from perfmon.monitor.monitor import Monitor
from perfmon.viewmodel import AlertState

pytestmark = pytest.mark.slow

_QUEUED = "[weights][w{0}] client.done wall_ms={1} rpc_ms=1000 queue_ms={2}\n"
_STEP = "[ckpt] write.done step={0} write_ms=80.0\n"


def _updates(from_s: int, until_s: int, queue_ms: int) -> list[Line]:
    return [
        (float(s), "orchestrator.log", _QUEUED.format(s, queue_ms + 1000, queue_ms)) for s in range(from_s, until_s, 60)
    ]


def _steps(from_s: int, until_s: int) -> list[Line]:
    return [(float(s), "trainer.log", _STEP.format(s)) for s in range(from_s, until_s, 20)]


def test_a_trouble_that_is_over_is_not_told_for_ever() -> None:
    lines = [*_updates(0, 700, 20_000), *_updates(700, 1500, 20), *_steps(0, 1500)]
    pictures = list(watched(lines))
    assert verdicts(pictures[:12]) == {"frontend-queue"}
    assert verdicts(pictures, 720.0) == {None}
    assert alert(pictures[-1], "frontend-queue").state is not AlertState.FIRING
    assert pictures[-1].time_base is TimeBase.WALL
    notes = [note for source in pictures[-1].sources for note in source.notes]
    assert any("using arrival times" in note for note in notes)


def test_a_run_that_stands_still_is_told_though_no_line_has_a_clock() -> None:
    trained: list[Line] = [(float(s), "trainer.log", f"step={s // 20} loss=1.5\n") for s in range(0, 1000, 20)]
    pictures = list(watched([*_updates(0, 1000, 20), *trained]))
    assert verdicts(pictures[:30]) == {None}
    assert verdicts(pictures[-5:]) == {"stall"}


def test_a_log_without_a_clock_lies_beside_those_that_have_one() -> None:
    dated = lines_of("healthy", lambda _, s: at(2.0, s), ("trainer.log",))
    pictures = list(watched([*_updates(0, 1500, 20_000), *dated]))
    assert verdicts(pictures) == {"frontend-queue"}
    result, trainer = sorted(pictures[-1].sources, key=lambda source: source.name)
    assert result.last == pytest.approx(trainer.last, abs=60.0)
    assert trainer.last == pytest.approx(BEGIN.timestamp() + 7200.0 + 1480.0, abs=30.0)


def test_a_clock_that_comes_later_is_believed() -> None:
    lines = [*_updates(0, 900, 20_000), *lines_of("frontend-queue", lambda _, s: at(2.0, s), ("orchestrator.log",))]
    late = [line for line in lines if line[0] > CHANGED_S or not line[2][:4].isdigit()]
    pictures = list(watched(late))
    assert verdicts(pictures) == {"frontend-queue"}
    assert pictures[-1].now == pytest.approx(BEGIN.timestamp() + 7200.0 + 1490.0, abs=30.0)
    assert OPENED_S < CHANGED_S


def test_what_fires_is_an_alert_from_the_first_picture_on(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(text for _, _, text in _updates(0, 12_000, 20_000)))
    os.utime(log, (BEGIN.timestamp(), BEGIN.timestamp()))
    monitor = Monitor(lambda: FollowFeed([str(log)]), Config())
    monitor.start()
    try:
        wait(lambda: monitor.picture.snapshot is not None and monitor.picture.snapshot.findings)
        first = monitor.picture.number
        wait(lambda: monitor.picture.number >= first + 4)
        assert [one.finding.signature for one in monitor.picture.alerts] == ["frontend-queue"]
    finally:
        monitor.stop()
