"""A run whose steps are slow, and whose log has no timestamps, is silent by the rhythm of its steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.core.model import Progress
from perfmon.rules.bands import load_bands
from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import Freshness, Level, MonitorState

LOG, NOW = LogFile("rl.log", Path("/rl.log")), 1_780_000_000.0
STEP = (
    "(TaskRunner pid=88) step:{n} - actor/pg_loss:0.012 - critic/rewards/mean:0.4 - response_length/clip_ratio:0.02"
    " - timing_s/gen:41.5 - timing_s/update_actor:31.0 - timing_s/step:90.0 - perf/throughput:512.0"
)


def opened(steps: int) -> tuple[HandFed, MonitorState]:
    """A history of steps of 90 s, the last of which was written just now."""
    run = HandFed(NOW)
    run.feed.caught_up = False
    for number in range(1, steps + 1):
        run.say(LOG, STEP.format(n=number))
    run.feed.changed_at = lambda _log: NOW  # type: ignore[assignment,method-assign]
    run.feed.caught_up = True
    return run, run.look()


@pytest.mark.parametrize("late_s", [60.0, 85.0, 120.0])
def test_the_time_of_a_step_is_no_silence(late_s: float) -> None:
    run, _ = opened(30)
    run.feed.now = NOW + late_s
    picture = run.look(2)
    assert picture.snapshot is not None
    assert picture.snapshot.run.state is Progress.RUNNING
    assert picture.sources[0].freshness is not Freshness.STALE
    assert picture.stale_s is None


def test_several_steps_are_one() -> None:
    run, _ = opened(30)
    run.feed.now = NOW + 480.0
    picture = run.look(2)
    assert picture.sources[0].freshness is Freshness.STALE
    assert picture.stale_s == pytest.approx(480.0, abs=2.0)


def test_the_rollout_of_a_step_has_no_limit_that_is_meant_for_one_batch_of_a_server() -> None:
    _, picture = opened(30)
    lane = next(lane for lane in picture.board.spans if lane.kind == "generation-batch")
    assert {bar.level for bar in lane.bars} == {Level.NONE}
    run = HandFed(NOW)
    for second in range(0, 240, 40):
        run.feed.now = NOW + second
        run.say(
            LOG,
            f"2026-03-02 12:{second // 60:02}:{second % 60:02} [gen] batch.done completions=64 dur_ms=41500.0",
        )
    lane = next(lane for lane in run.look().board.spans if lane.kind == "generation-batch")
    assert {bar.level for bar in lane.bars} == {Level.CRITICAL}
    assert load_bands().holding(lambda _names: False, lambda _metric: 0.0).get("dur_ms") is None
