"""Since when a fault lasts that began long before the monitor was opened."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.diagnosis.result import Assessment
from perfmon.sources.discovery import LogFile
from perfmon.sources.pollers.scheduler import poll_log
from perfmon.viewmodel import Alert, MonitorState

BEGIN = datetime(2026, 3, 2, 12, tzinfo=UTC)
LOG = LogFile("train.log", Path("/train.log"))


def line(second: int, loading_s: float) -> str:
    at = f"{BEGIN + timedelta(seconds=second):%Y-%m-%d %H:%M:%S}.000"
    return f"{at} INFO step={second // 2} loss=1.5 step_time=2.0 data_time={loading_s}"


def opened(seconds: int, *starved: tuple[int, int]) -> tuple[HandFed, MonitorState]:
    """A monitor that is opened so many seconds after the start of a run, which waits for its data for some ranges."""
    run = HandFed((BEGIN + timedelta(seconds=seconds)).timestamp())
    run.feed.caught_up = False
    for second in range(0, seconds, 2):
        run.say(LOG, line(second, 1.5 if any(low <= second < high for low, high in starved) else 0.01))
    run.feed.changed_at = lambda _log: run.feed.now  # type: ignore[assignment,method-assign]
    run.feed.caught_up = True
    return run, run.look()


def starvation(picture: MonitorState) -> Alert:
    return next(alert for alert in picture.alerts if alert.finding.signature == "data-starved")


@pytest.mark.parametrize("seconds", [1500, 3000, 5400])
def test_it_began_where_it_began_whenever_the_monitor_is_opened(seconds: int) -> None:
    run, picture = opened(seconds, (600, 10**6))
    alert = starvation(picture)
    assert alert.began == alert.since == pytest.approx(BEGIN.timestamp() + 600.0, abs=10.0)
    assert alert.lost_s == pytest.approx(0.7 * (seconds - 600), rel=0.15)
    for second in range(seconds, seconds + 60, 2):
        run.feed.now += 2.0
        run.say(LOG, line(second, 1.5))
        assert starvation(run.look(second)).began == alert.began
    assert picture.snapshot is not None
    assert picture.snapshot.run.wall_s == pytest.approx(600.0, abs=10.0)


def test_what_paused_for_longer_than_it_is_kept_began_again() -> None:
    _, picture = opened(5400, (300, 600), (4000, 10**6))
    alert = starvation(picture)
    assert alert.since == pytest.approx(BEGIN.timestamp() + 4000.0, abs=10.0)


def test_what_pollers_measured_proves_nothing_of_a_run_that_has_logs() -> None:
    run = HandFed(BEGIN.timestamp())
    run.say(LOG, f"{BEGIN:%Y-%m-%d %H:%M:%S}.000 INFO loading the model")
    for _ in range(60):
        run.feed.now += 2.0
        text = f"{run.feed.now:.1f} [poll] disk host=here name=/data used_pct=41 free_gb=90 total_gb=700 holds=logs"
        run.say(poll_log("here", "disks"), text)
    snapshot = run.look().snapshot
    assert snapshot is not None
    assert snapshot.assessment is Assessment.LEARNING
    assert snapshot.metrics["disk_used_pct"].summary.count > 3
    assert snapshot.summary == "Too little to judge yet: 1 line so far, none about a step"
