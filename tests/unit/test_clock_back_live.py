"""A clock that is set back while somebody watches: the lines go on, and so does the run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.diagnosis.result import LedgerEntry
from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import MonitorState

_BEGIN = datetime(2026, 3, 2, 12, tzinfo=UTC)
_BEGIN_S = _BEGIN.timestamp()
_ROLLOUT = "[rollout] trunc_pct=2.0 current_step={0} ckpt_step={0} staleness=0"
_STEP = "[ckpt] write.done step={0} write_ms=80.0"


class Run(HandFed):
    """Logs that are watched, with a line every five seconds."""

    def __init__(self, *names: str) -> None:
        super().__init__(_BEGIN_S)
        self._logs = {name: LogFile(name, Path(name)) for name in names}

    def go_on(self, seconds: int, steps: dict[str, float], *, by_turns: bool = False) -> MonitorState:
        """As many seconds of it, by clocks that are set so far ahead, or at every second line."""
        for count in range(seconds // 5):
            self.feed.now += 5.0
            for name, log in self._logs.items():
                step_s = 0.0 if by_turns and count % 2 else steps.get(name, 0.0)
                when = _BEGIN + timedelta(seconds=self.feed.now - 0.4 + step_s - _BEGIN_S)
                message = (_STEP if "trainer" in name else _ROLLOUT).format(self.lines_of(log) + 1)
                self.say(log, f"{when.strftime('%Y-%m-%d %H:%M:%S,%f')[:-3]} INFO {message}")
            picture = self.look()
        return picture


def shares(picture: MonitorState) -> dict[str, float]:
    """What the window went to."""
    ledger: tuple[LedgerEntry, ...] = picture.snapshot.ledger if picture.snapshot else ()
    return {entry.cause: entry.share for entry in ledger}


def busy(picture: MonitorState) -> float:
    """The share of the time that is proven to be work; a checkpoint holds the trainer up, which is not lost unseen."""
    result = shares(picture)
    return result["productive"] + result.get("checkpoint", 0.0)


@pytest.mark.parametrize("names", [("orchestrator.log",), ("orchestrator.log", "trainer.log")])
@pytest.mark.parametrize("step_s", [-3600.0, -412.0])
@pytest.mark.parametrize("after_s", [20, 120])
def test_the_window_stays_where_it_is_and_the_step_is_told(names: tuple[str, ...], step_s: float, after_s: int) -> None:
    run = Run(*names)
    run.go_on(900, {})
    picture = run.go_on(after_s, dict.fromkeys(names, step_s))
    assert picture.now == pytest.approx(run.feed.now, abs=6.0)
    assert shares(picture).get("unknown", 0.0) < 0.1
    assert not picture.alerts
    if after_s > 60:
        assert busy(picture) > 0.99
        result = [notice for notice in picture.notices if "clock set back by" in notice]
        assert len(result) == len(names)
        assert all(any("set back" in note for note in source.notes) for source in picture.sources)
        assert all(source.last == pytest.approx(run.feed.now, abs=6.0) for source in picture.sources)


def test_a_clock_may_be_set_back_again_and_again() -> None:
    run = Run("orchestrator.log")
    run.go_on(300, {})
    for at in (1, 2, 3):
        picture = run.go_on(300, {"orchestrator.log": -3600.0 * at})
    assert picture.now == pytest.approx(run.feed.now, abs=6.0)
    assert busy(picture) > 0.99


def test_one_of_two_logs_that_steps_back_is_set_right() -> None:
    run = Run("orchestrator.log", "trainer.log")
    run.go_on(900, {})
    picture = run.go_on(120, {"trainer.log": -3600.0})
    assert busy(picture) > 0.99
    assert [source.last for source in picture.sources] == pytest.approx([run.feed.now] * 2, abs=6.0)


def test_lines_of_two_clocks_by_turns_are_no_step_but_said_once() -> None:
    run = Run("orchestrator.log")
    run.go_on(300, {})
    picture = run.go_on(300, {"orchestrator.log": -3600.0}, by_turns=True)
    assert picture.now == pytest.approx(run.feed.now, abs=11.0)
    assert not any("set back" in note for source in picture.sources for note in source.notes)
    assert sum("went back" in notice for notice in picture.notices) == 1


def test_old_lines_that_come_late_are_no_step() -> None:
    run = Run("orchestrator.log")
    run.go_on(600, {})
    for late_s in range(3600, 600, -300):  # a buffer of another process, flushed within a minute
        picture = run.go_on(5, {"orchestrator.log": -float(late_s)})
    picture = run.go_on(120, {})
    assert not any("set back" in note for source in picture.sources for note in source.notes)
    assert picture.now == pytest.approx(run.feed.now, abs=6.0)
