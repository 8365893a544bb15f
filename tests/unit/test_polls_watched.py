"""What pollers say is judged, recorded, replayed and analysed on the road of logs, and is no line of the run."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import chain, count
from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.cli import main
from perfmon.core.config import Config
from perfmon.monitor.composite_feeds import PollingFeed
from perfmon.monitor.feeds import FollowFeed, PlayerFeed
from perfmon.monitor.monitor import Monitor
from perfmon.pipeline.offline import Options, examine
from perfmon.sources.discovery import LogFile
from perfmon.sources.pollers.reading import Area
from perfmon.sources.pollers.request import PollRequest, parse_request
from perfmon.sources.pollers.scheduler import poll_log
from perfmon.sources.replay import Player, timeline_of
from perfmon.store.latest_readings import Seen
from perfmon.viewmodel import Freshness, MonitorState

BEGIN = datetime(2026, 3, 2, 12)
UTC_S = 1772452800.0
"""The same where clocks show UTC."""
STEP = "[ckpt] write.done step={} write_ms=80.0"
HOST = "[poll] host host=a name=all cpu_pct={} mem_used_mb=10 mem_total_mb=40"


class Run(HandFed):
    """A log and a poller that are watched, second by second."""

    def __init__(self) -> None:
        super().__init__(UTC_S)
        self.second = 0

    def go_on(
        self, seconds: int, *, log: bool = True, polls: bool = True, ahead: timedelta = timedelta(), dated: bool = True
    ) -> MonitorState:
        """As many seconds of it; the poller's clock is `ahead` of the log's, whose lines may tell no date."""
        for _ in range(seconds):
            self.second += 1
            self.feed.now += 1.0
            now = BEGIN + timedelta(seconds=self.second)
            if log:
                result = now.strftime("%Y-%m-%d %H:%M:%S" if dated else "%H:%M:%S")
                self.say(LogFile("trainer.log", Path("/trainer.log")), f"{result}.118 {STEP.format(self.second)}")
            if polls and self.second % 2 == 0:
                result = (now + ahead).strftime("%Y-%m-%d %H:%M:%S")
                self.say(poll_log("a", "host"), f"{result}.118 {HOST.format(self.second % 100)}")
            picture = self.look(self.second)
        return picture


def test_polls_are_seen_and_are_no_log() -> None:
    run = Run()
    picture = run.go_on(30)
    assert [source.name for source in picture.sources] == ["trainer.log"]
    assert picture.lines == 30
    assert [(seen.host, seen.reading.area, seen.reading.name) for seen in picture.seen] == [("a", Area.HOST, "all")]
    assert picture.seen[0].reading.values["cpu_pct"] == 30
    assert picture.seen[0].history["cpu_pct"][-3:] == (26.0, 28.0, 30.0)
    assert abs(picture.now - picture.seen[0].at) < 0.01
    assert picture.snapshot is not None
    assert picture.snapshot.metrics["host_cpu_pct"].summary.count >= 10
    assert [source.spec for source in picture.snapshot.run.sources] == ["trainer.log"]
    assert [lane.name for lane in picture.board.metrics if "cpu" in lane.name] == []
    assert "poll:/a/host" not in str(run.watch._logbook.names)


def test_a_silent_run_is_not_kept_alive_by_its_pollers() -> None:
    run = Run()
    run.go_on(60)
    picture = run.go_on(120, log=False)
    assert picture.sources[0].freshness is Freshness.STALE
    assert picture.stale_s is not None
    assert 100 < picture.stale_s <= 125
    alone = Run()
    alone.go_on(60, polls=False)
    without = alone.go_on(120, log=False, polls=False)
    assert without.stale_s == picture.stale_s
    assert without.now == picture.now


def test_a_watch_with_a_clock_of_its_own_does_not_depend_on_how_busy_the_machine_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = chain(range(100), count(100.0, 1e-3))  # at first everything takes a second, then no time
    monkeypatch.setattr(time, "monotonic", lambda: next(readings))
    run = Run()
    run.go_on(60)
    assert run.go_on(120, log=False).sources[0].freshness is Freshness.STALE


@pytest.mark.parametrize("hours", [2, -7, 5.5])
def test_a_poller_whose_clock_shows_another_zone_is_laid_beside_the_run(hours: float) -> None:
    picture = Run().go_on(60, ahead=timedelta(hours=hours))
    assert abs(picture.now - picture.seen[0].at) < 1.0
    assert picture.snapshot is not None
    assert picture.snapshot.metrics["host_cpu_pct"].summary.count >= 20
    assert picture.snapshot.run.wall_s < 70


def test_without_logs_pollers_tell_the_present() -> None:
    picture = Run().go_on(60, log=False)
    assert picture.sources == ()
    assert picture.snapshot is not None
    assert picture.snapshot.metrics["mem_used_pct"].last == 25.0
    assert abs(picture.now - picture.seen[0].at) < 2.0


@pytest.mark.parametrize("dated", [True, False])
def test_a_run_that_begins_after_its_pollers_is_judged_by_its_own_time(dated: bool) -> None:
    run = Run()
    run.go_on(20, log=False)
    for _ in range(20):
        picture = run.go_on(1, dated=dated)
        snapshot = picture.snapshot
        assert snapshot is not None
        assert picture.alerts == ()
        assert snapshot.run.wall_s < 45
    assert picture.stale_s is None
    assert abs(picture.now - picture.seen[0].at) < 1.0
    assert snapshot is not None
    assert snapshot.metrics["write_ms"].summary.count >= 16  # the last lines need not be judged yet


def test_a_log_that_says_what_pollers_say_is_a_log(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    log.write_text(f"2026-03-02 12:00:00.118 {HOST.format(5)}\n")
    assert examine(Options(specs=(str(log),)))[0].seen == ()


def _followed(folder: Path, requests: tuple[PollRequest, ...], seconds: float, recording: Path) -> MonitorState:
    """A run that goes on while this machine is polled, recorded."""
    monitor = Monitor(lambda: PollingFeed(FollowFeed([str(folder)]), requests, lambda: {str(folder): "logs"}), Config())
    monitor.record(str(recording))
    monitor.start()
    end = time.monotonic() + seconds
    try:
        with (folder / "run.log").open("a") as log:
            step = 0
            while time.monotonic() < end or not _complete(monitor.picture):
                step += 1
                log.write(f"{datetime.now():%Y-%m-%d %H:%M:%S.%f} {STEP.format(step)}\n")
                log.flush()
                time.sleep(0.2)
                assert monitor.failed is None
                assert time.monotonic() < end + 60
        monitor.stop_recording()
        _until(lambda: monitor.picture.recording is None)
        return monitor.picture
    finally:
        monitor.stop()


def _complete(picture: MonitorState) -> bool:
    result = {seen.reading.area: seen for seen in picture.seen}
    return Area.DISK in result and "cpu_pct" in getattr(result.get(Area.HOST), "history", ())


def _until(what: object) -> None:
    end = time.monotonic() + 20
    while not what():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def _timeless(seen: tuple[Seen, ...]) -> list[Seen]:
    return [replace(one, at=round(one.at, 2), every_s=None) for one in seen]


@pytest.mark.slow
def test_a_recording_gives_the_same_replayed_and_analysed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder, file = tmp_path / "logs", tmp_path / "run.pmrec"
    folder.mkdir()
    (folder / "run.log").touch()
    live = _followed(folder, (PollRequest("host"),), 5.0, file)
    from perfmon.recording.format import open_recording

    recording = open_recording(file)
    assert any(name.startswith("poll:/") for name in recording.logs)
    analysed = examine(Options(specs=(str(file),)))[0]
    assert {one.reading.area for one in analysed.seen} >= {Area.HOST, Area.DISK, Area.POLLER}
    assert [one.spec for one in analysed.run.sources] == [str(folder / "run.log")]
    player = Monitor(lambda: PlayerFeed(Player(timeline_of(recording), speed=float("inf"), linger=True)), Config())
    player.start()
    try:
        _until(lambda: player.feed is not None and player.feed.player is not None and player.feed.player.ended)
        _until(lambda: len(player.picture.seen) == len(analysed.seen))
        replayed = player.picture
    finally:
        player.stop()
    assert _timeless(replayed.seen) == _timeless(analysed.seen)
    of_host = next(one for one in live.seen if one.reading.area is Area.HOST)
    again = next(one for one in analysed.seen if one.reading.area is Area.HOST)
    assert set(of_host.reading.values) == set(again.reading.values)
    assert main(["analyze", str(file), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["metrics"]["mem_used_pct"]["count"] >= 2


@pytest.mark.slow
def test_a_snapshot_asks_this_machine(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["snapshot", "host", "--for", "5s", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["mem_used_pct"]["count"] >= 1


def test_status_asks_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "host", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["from"] == "logs"


@pytest.mark.parametrize(
    ("argv", "result"),
    [
        (["analyze", "gpu"], "'gpu': pollers are supported by watch"),
        (["snapshot", "gpu"], "gpu: pollers need a duration"),
        (["record", "net:70000"], "'net:70000': expected a port from 1 to 65535"),
        (["record", "command:"], "expected a one-line shell command"),
        (["record", "vllm=ftp://x"], "expected http://HOST:PORT"),
        (["record", "vllm=tcp://h:80"], "expected vllm=http://HOST:PORT"),
        (["watch", "prometheus=http://h:1#bad name"], "prometheus=…#bad name: expected comma-separated metric names"),
        (["record", "ray=h:1#noslash"], "'ray=…#noslash': expected #NAMESPACE/QUEUE"),
        (["watch", "ray=h"], "'ray=h': expected the metrics port or the dashboard"),
        (["ssh", "a", "--poll", "ray=http://ops:hun/ter22@h:1"], "expected the metrics port or the dashboard"),
        (["watch", "ray="], "expected ray=HOST:PORT, ray=/TEMP/DIR or ray=#NAMESPACE/QUEUE"),
        (["watch", "vllm=http://ops:hun/ter22@h:1"], "expected http://HOST:PORT"),
        (["watch", "vllm=http://ops:99999/hunter22@h:1"], "expected http://HOST:PORT"),
        (["record", "prometheus=http://ops:hunter22@h:1/" + "x" * 200], "expected http://HOST:PORT"),
        (["record", "vllm=http://ops:" + "x" * 170 + "hunter22@h:1"], "expected http://HOST:PORT"),
        (["ssh", "a", "--check", "http://ops:99999/hunter22@h:1"], "expected a port from 1 to 65535"),
        (["watch", "http://ops:hun/ter22@h:1"], "this version reads files only"),
        (["analyze", "ssh://ops:hun/ter22@h:1"], "not a valid port"),
        (["watch", "gpu", "--no-polls"], "--no-polls: gpu conflicts with it"),
        (["ssh", "a", "--poll", "gpus"], "--poll gpus: expected one of gpu, host, net:PORT"),
        (["ssh", "a", "--no-polls", "--poll", "gpu"], "--no-polls conflicts with --poll"),
    ],
)
def test_what_cannot_be_asked_is_told_in_a_line(
    argv: list[str], result: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(argv) == 2
    message = capsys.readouterr().err
    assert result in message
    assert message.count("\n") == 1
    assert "ter22" not in message


def test_a_file_of_that_name_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("gpu").write_text(f"2026-03-02 12:00:00 {STEP.format(1)}\n")
    assert [source.spec for source in examine(Options(specs=("gpu",)))[0].run.sources] == ["gpu"]


def test_specs_of_pollers_are_read() -> None:
    assert parse_request("net:12321") == PollRequest("net", "12321")
    assert parse_request("ray") == PollRequest("ray")
    assert parse_request("ray=10.0.0.1:6379") == PollRequest("ray", "10.0.0.1:6379")
    assert parse_request("command:wc -l < x") == PollRequest("command", "wc -l < x")
    assert parse_request("logs/run.log") is None
    assert parse_request("gpus") is None
    requests = parse_request("prometheus=http://h:9090/metrics?token=abcdefgh12345")
    assert requests is not None
    assert "abcdefgh12345" not in requests.shown
