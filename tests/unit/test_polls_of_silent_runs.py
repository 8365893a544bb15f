"""What pollers say of the present is heeded while the logs of the run say nothing, or have ended long ago."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

from exporting import page
from handfed import HandFed

from perfmon.exporters.metrics_page import Known
from perfmon.reports.sections import machine_sections
from perfmon.sources.discovery import LogFile
from perfmon.sources.pollers.scheduler import poll_log
from perfmon.themes.loader import load_themes
from perfmon.tui.render.alerts import state_words, waterfall
from perfmon.tui.theme import ThemeStyles
from perfmon.viewmodel import Alert, AlertState, MonitorState
from perfmon.viewmodel.hosts import HostOverview

BEGIN = datetime(2026, 3, 2, 12)
UTC_S = 1772452800.0
LOG = LogFile("trainer.log", Path("/trainer.log"))
DISK = "[poll] disk host=a name=/data used_pct={} free_gb=1 total_gb=700 holds=checkpoints+logs"
HOURS = 8 * 3600
SKIN = ThemeStyles(load_themes()["midnight"])


class Run(HandFed):
    """A log that ends after a minute, and a disk that is polled every ten seconds."""

    def __init__(self) -> None:
        super().__init__(UTC_S)
        self.second = 0

    def go_on(self, seconds: int, *, log: bool = False, used_pct: float | None = None) -> MonitorState:
        for _ in range(seconds):
            self.second += 1
            self.feed.now += 1.0
            result = f"{BEGIN + timedelta(seconds=self.second):%Y-%m-%d %H:%M:%S}.118"
            if log:
                self.say(LOG, f"{result} step={self.second} step_time=1.0 loss=1.5")
            if used_pct is not None and self.second % 10 == 0:
                self.say(poll_log("a", "disks"), f"{result} {DISK.format(used_pct)}")
            if not log or self.second % 10 == 0:
                picture = self.look(self.second)
        return picture

    def read_back(self) -> None:
        """The log was there already, and was written to for the last time when it was a minute old."""
        self.feed.caught_up = False
        self.go_on(60, log=True)
        self.feed.changed_at = lambda log: UTC_S + 60.0 if log == LOG else None  # type: ignore[assignment,method-assign]
        self.feed.now, self.second, self.feed.caught_up = UTC_S + HOURS, HOURS, True


def full(picture: MonitorState) -> Alert | None:
    """The alert of the disk."""
    return next((alert for alert in picture.alerts if alert.finding.signature == "disk-full"), None)


def fires(picture: MonitorState) -> bool:
    alert = full(picture)
    return alert is not None and alert.state is AlertState.FIRING


def test_a_disk_that_fills_while_the_logs_are_silent_is_told() -> None:
    run = Run()
    run.go_on(60, log=True, used_pct=50.0)
    assert not fires(run.go_on(60, used_pct=50.0))
    assert fires(run.go_on(90, used_pct=99.0))  # the logs are silent, not the poller: nothing of it is unknown


def test_it_is_told_however_long_they_are_silent_and_when_it_is_over() -> None:
    run = Run()
    run.go_on(60, log=True, used_pct=50.0)
    run.go_on(900, used_pct=50.0)
    picture = run.go_on(120, used_pct=99.0)
    assert fires(picture)
    alert = full(picture)
    assert alert is not None
    assert 60 < alert.held_until(picture.now) - alert.since < 125
    assert alert.lost_s == 0.0
    agos = [row[1][0].partition(" ago")[0].strip() for row in waterfall(alert, picture, SKIN, 100)]
    assert {"10.0 s", "20.0 s", "30.0 s"} <= set(agos[:4])  # the newest sample may not have been judged yet
    assert picture.snapshot is not None
    assert picture.snapshot.run.start < UTC_S + 10  # what the run ended with stays in view
    assert picture.snapshot.verdict is not None
    assert picture.snapshot.verdict.signature == "stall"
    again = full(run.go_on(200, used_pct=50.0))
    assert again is not None
    assert again.state is AlertState.RESOLVED


def test_a_run_that_ended_hours_ago_because_its_disk_is_full() -> None:
    run = Run()
    run.read_back()
    picture = run.go_on(120, used_pct=99.5)
    assert fires(picture)
    assert picture.snapshot is not None
    assert picture.snapshot.verdict is not None
    assert picture.snapshot.verdict.signature == "disk-full"
    assert "disk-full" in [finding.signature for finding in picture.snapshot.findings]
    assert picture.snapshot.run.end - picture.snapshot.run.start < 70


def test_once_the_run_goes_on_all_is_judged_together_again() -> None:
    run = Run()
    run.go_on(60, log=True, used_pct=50.0)
    before = full(run.go_on(900, used_pct=99.0))
    picture = run.go_on(60, log=True, used_pct=99.0)
    after = full(picture)
    assert before is not None
    assert after is not None
    assert after.state is AlertState.FIRING
    assert (after.number, after.since) == (before.number, before.since)
    assert after.count >= before.count
    assert abs(picture.now - run.feed.now) < 1.0


def test_what_is_polled_grows_old_while_the_logs_are_silent() -> None:
    run = Run()
    run.go_on(60, log=True, used_pct=50.0)
    picture = run.go_on(900, used_pct=50.0)
    [seen] = picture.seen
    assert HostOverview.at(picture).age_s(seen) < 11
    assert not HostOverview.at(picture).stale(seen)
    picture = run.go_on(400)
    assert 399 < HostOverview.at(picture).age_s(seen) < 411
    assert HostOverview.at(picture).stale(seen)


def test_so_it_does_beside_a_run_that_ended_hours_ago() -> None:
    run = Run()
    run.read_back()
    [seen] = run.go_on(20, used_pct=50.0).seen
    picture = run.go_on(400)
    assert 399 < HostOverview.at(picture).age_s(seen) < 411
    assert HostOverview.at(picture).stale(seen)
    assert picture.snapshot is not None
    assert "6m" in str(list(machine_sections(picture.snapshot, picture)))
    result = page(Known(picture))
    assert 'perfmon_reading_age_seconds{area="disk",host="a",name="/data"} 4' in result
    assert "perfmon_disk_used_ratio" not in result  # an old value must not be taken for a new one


def test_what_a_poller_that_does_not_answer_proved_is_unknown_and_not_over() -> None:
    run = Run()
    assert fires(run.go_on(60, log=True, used_pct=99.0))
    for after in range(30, 300, 30):
        result = f"{BEGIN + timedelta(seconds=run.second):%Y-%m-%d %H:%M:%S}.118"
        trouble = f"[poll] poller host=a name=disks age_s={after} state=stale why=no_answer_for_{after}_s"
        run.say(poll_log("a", "disks"), f"{result} {trouble}")
        picture = run.go_on(30, log=True)
    alert = full(picture)
    assert alert is not None
    assert alert.state is AlertState.UNKNOWN
    assert state_words(alert, picture.time_base) == "unknown: no response"
    assert abs(alert.held_until(picture.now) - (UTC_S + 60)) < 31  # its last answer
    result = f"{BEGIN + timedelta(seconds=run.second):%Y-%m-%d %H:%M:%S}.118"
    run.say(poll_log("a", "disks"), f"{result} [poll] poller host=a name=disks took_ms=3 age_s=0 state=ok")
    again = full(run.go_on(60, log=True, used_pct=50.0))
    assert again is not None
    assert again.state is AlertState.RESOLVED
