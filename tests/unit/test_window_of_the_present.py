"""The window while a run hangs, is over, has diverged, or was copied from elsewhere."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isnan
from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.core.config import Config
from perfmon.core.model import EPOCH, LOCAL, YEARLESS, Progress, Severity, TimeBase
from perfmon.diagnosis.result import Assessment, Diagnosis
from perfmon.monitor.headless import glance, observe
from perfmon.monitor.scheduling import day_known, judged_s
from perfmon.pipeline.offline import diagnose_texts
from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import Freshness, Level, MonitorState

BEGIN = datetime(2026, 3, 2, 12, tzinfo=UTC)
LOG, SERVER = LogFile("trainer.log", Path("/trainer.log")), LogFile("vllm.log", Path("/vllm.log"))


class Run(HandFed):
    """A log with a line whenever a second has one."""

    def __init__(self, begin: datetime = BEGIN) -> None:
        super().__init__(begin.timestamp())
        self.begin, self.second = begin, 0

    def go_on(self, seconds: int, line: str = "", log: LogFile = LOG, every: int = 1) -> MonitorState:
        for _ in range(seconds // every):
            self.second += every
            self.feed.now += every
            if line:
                clock = f"{self.begin + timedelta(seconds=self.second):%Y-%m-%d %H:%M:%S}.118"
                self.say(log, f"{clock} {line.format(n=self.second)}")
            picture = self.look(self.second)
        return picture


def judged(picture: MonitorState) -> Diagnosis:
    assert picture.snapshot is not None
    return picture.snapshot


STEP = "step={n} step_time=1.0 loss=1.5"


def test_a_hang_is_judged_as_long_as_it_lasts_and_what_came_before_stays_in_view() -> None:
    run = Run()
    run.go_on(600, STEP, every=10)
    for silent_s in (1200, 2400):
        now = judged(run.go_on(1200, every=60))
        assert now.run.state is Progress.STALLED
        assert now.verdict is not None
        assert now.verdict.lost_s == pytest.approx(silent_s, abs=12.0)
        assert silent_s + 300.0 <= now.run.wall_s <= silent_s + 600.0
        assert now.metrics["loss"].summary.count >= 29
    again = judged(run.go_on(900, STEP, every=10))
    assert again.run.state is Progress.RUNNING
    assert again.run.wall_s == pytest.approx(600.0, abs=1.0)


def test_a_run_that_failed_is_judged_whole_and_no_longer_than_its_lines() -> None:
    run = Run()
    run.go_on(1500, STEP, every=10)
    run.go_on(5, "RuntimeError: CUDA error: an illegal memory access was encountered", every=5)
    for _ in range(2):
        now = judged(run.go_on(1800, every=60))
        assert now.run.state is Progress.FAILED
        assert now.run.wall_s == pytest.approx(1495.0, abs=6.0)


def test_a_loss_that_diverged_is_the_verdict_long_after_its_begin() -> None:
    run = Run()
    run.go_on(600, STEP, every=10)
    now = judged(run.go_on(2400, "step={n} step_time=1.0 loss=48.5", every=10))
    assert now.verdict is not None
    assert now.verdict.signature == "loss-diverged"
    assert now.verdict.lost_s > 2000.0


def test_a_window_holds_what_was_requested_and_grows_in_steps() -> None:
    assert judged_s(60.0, 33.0, 0.0) == 60.0
    assert judged_s(600.0, 200.0, 0.0) == 1200.0
    assert judged_s(600.0, 1.0, 299.0) == 600.0
    assert {judged_s(600.0, 1.0, float(back)) for back in range(301, 600)} == {900.0}


@pytest.mark.parametrize(("hours", "watched"), [(2, True), (200, False)])
def test_a_copy_is_dated_by_its_lines(hours: int, watched: bool) -> None:
    run = Run()
    run.feed.caught_up = False
    run.go_on(120, STEP, every=5)
    copied = run.feed.now + hours * 3600.0
    run.feed.changed_at = lambda log: copied  # type: ignore[assignment,method-assign]
    run.feed.now, run.feed.caught_up = copied + 5.0, True
    run.second += 1
    picture = run.look(run.second)
    assert (picture.actual is None) is watched
    assert (picture.stale_s or 0.0) == pytest.approx(0.0 if watched else hours * 3600.0 + 5.0, abs=1.0)


def test_days_other_than_this_one_are_known() -> None:
    today = datetime.now().astimezone().replace(tzinfo=UTC, hour=12)
    earlier = today - timedelta(days=9)
    for kind in (EPOCH, LOCAL):
        assert day_known(today.timestamp(), TimeBase.WALL, {kind}) == (False, False)
        assert day_known(earlier.timestamp(), TimeBase.WALL, {kind}) == (True, False)
    day = datetime(1972, earlier.month, earlier.day, 12, tzinfo=UTC) - datetime(1972, 1, 1, tzinfo=UTC)
    assert day_known(day.total_seconds(), TimeBase.WALL, {YEARLESS}) == (True, True)
    assert day_known(earlier.timestamp(), TimeBase.MONOTONIC, {LOCAL}) == (False, False)
    assert day_known(8.28, TimeBase.WALL, {EPOCH}) == (False, False)  # a count of seconds


def test_a_server_without_requests_is_idle_and_neither_fresh_nor_stale() -> None:
    run = Run()
    engine = (
        "[loggers.py:123] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, "
    )
    engine += "Running: 0 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.0%, Prefix cache hit rate: 0.0%"
    for second in range(0, 60, 10):
        run.say(SERVER, f"INFO 03-02 12:00:{second:02d} {engine}")
    assert [one.freshness for one in run.go_on(600, every=10).sources] == [Freshness.IDLE]


@pytest.mark.parametrize(("steps", "early"), [(500, True), (9700, False)])
def test_a_run_that_ends_far_before_its_goal_has_ended_early(steps: int, early: bool) -> None:
    lines = [
        f"2026-03-02 10:{at // 60:02d}:{at % 60:02d},100 INFO step {steps * at // 50}/10000 | loss 2.9 | 0.52 s/step"
        for at in range(1, 51)
    ]
    lines.append("2026-03-02 10:00:52,100 INFO Training completed. Total time 52 s")
    run = diagnose_texts({"train.log": "\n".join(lines) + "\n"}).run
    assert run.state is Progress.FINISHED
    assert run.goal is not None
    assert run.goal.early is early


def test_a_stall_shows_what_each_log_stopped_at_and_the_process_to_look_at() -> None:
    run = Run()
    run.go_on(600, STEP, every=10)
    step = "(TrainWorker pid=4242) 2026-03-02 12:10:00.200 step=599 step_time=1.0 loss=1.5"
    run.say(LogFile("rank1.log", Path("/rank1.log")), step)
    picture = run.go_on(600, every=60)
    assert picture.verdict_finding is not None
    last = {line.source: line.text for line in picture.verdict_finding.evidence[:2]}
    assert "step=600" in last["trainer.log"]
    assert "step=599" in last["rank1.log"]
    assert picture.verdict_finding.commands[0] == "py-spy dump --pid 4242"


_BAR = "".join(
    f"{at / 2:.0f}%|###| {at}/200 [0{at * 3 // 60}:{at * 3 % 60:02d}<00:00,  3.00s/it]\r" for at in range(201)
)
_RAISED = (
    "ValueError while uploading\nError in sys.excepthook:\nTraceback (most recent call last):\n"
    '  File "train.py", line 81, in main\n    upload(result)\nValueError: no such project\n'
)


@pytest.mark.parametrize("unfinished", [False, True])
def test_a_traceback_behind_a_bar_without_a_clock_is_judged_live_as_offline(tmp_path: Path, unfinished: bool) -> None:
    path = tmp_path / "train.log"
    head = "".join(
        f"[2026-03-02 12:00:{at:02d},449] [INFO] [launch.py:163:main] loading part {at}\n" for at in range(30)
    )
    path.write_bytes((head + _BAR + "\n" + _RAISED).removesuffix(" project\n" * unfinished).encode())
    os.utime(path, (BEGIN.timestamp() + 9 * 86400.0,) * 2)
    offline = observe([str(path)], Config()).snapshot
    live = observe([str(path)], Config(), window="10m", for_s=0.0)
    for snapshot in (offline, live.snapshot):
        assert snapshot.run.state is Progress.FAILED
        assert snapshot.run.wall_s == pytest.approx(629.0, abs=2.0)
    assert (live.snapshot.run.state, live.snapshot.summary) == (offline.run.state, offline.summary)
    assert live.snapshot.run.wall_s == pytest.approx(offline.run.wall_s)


@pytest.mark.parametrize("stamp", ["%m-%d %H:%M:%S", ""])
def test_the_age_of_a_silent_run_and_its_date_are_those_of_one_moment(tmp_path: Path, stamp: str) -> None:
    path, now = tmp_path / "vllm.log", datetime.now().astimezone().replace(tzinfo=UTC)
    ended = now - timedelta(days=40)
    rows = [ended - timedelta(seconds=at) for at in range(300, -1, -10)]
    text = "[loggers.py:123] Engine 000: Avg generation throughput: 0.0 tokens/s, Running: 0 reqs, Waiting: 0 reqs"
    path.write_text("".join(f"INFO {at:{stamp}} {text}\n" if stamp else "step=1 loss=2.5\n" for at in rows))
    if stamp:
        os.utime(path, ((now - timedelta(days=2)).timestamp(),) * 2)  # a copy
    else:
        os.utime(path, (datetime.now().timestamp() - 40 * 86400.0,) * 2)
    picture = observe([str(path)], Config(), window="10m", for_s=0.0, columns=80).picture
    assert picture is not None
    assert picture.stale_s is not None
    assert picture.stale_s == pytest.approx(40 * 86400.0, abs=3700.0)
    assert picture.present - picture.stale_s == pytest.approx(picture.now, abs=1.0)
    assert [one.freshness for one in picture.sources] == [Freshness.STALE]


def test_lines_that_have_all_one_time_are_counted_live_as_offline_and_at_a_glance(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_text("".join(f"Epoch:[1/1]({at}/400) loss:0.{at:03d} lr:0.001\n" for at in range(1, 401)))
    os.utime(path, (BEGIN.timestamp(),) * 2)
    offline = observe([str(path)], Config()).snapshot
    live = observe([str(path)], Config(), window="10m", for_s=0.0).snapshot
    seen = glance([str(path)], Config(), "600s").picture.snapshot
    assert seen is not None
    assert offline.assessment is Assessment.HEALTHY
    for one in (live, seen):
        assert (one.assessment, one.run.state) == (offline.assessment, offline.run.state)


def test_a_glance_counts_the_lines_of_a_log_as_a_whole_reading_does(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    text = "import torch\n" * 200 + "".join(
        f"step:{at}/100 train_loss:2.5 train_time:{500 * at}ms step_avg:500.0ms\n" for at in range(1, 101)
    )
    path.write_text(text.rstrip())  # the last line is a block of its own
    offline, seen = observe([str(path)], Config()).snapshot, glance([str(path)], Config(), "600s").picture.snapshot
    assert seen is not None
    assert (seen.run.state, seen.run.goal) == (offline.run.state, offline.run.goal)


def test_a_loss_that_is_nan_is_marked_in_its_lane() -> None:
    run = Run()
    picture = run.go_on(300, STEP, every=10)
    assert [one.now for one in picture.board.metrics if one.name == "loss"] == [1.5]
    picture = run.go_on(100, "step={n} step_time=1.0 loss=nan", every=10)
    (loss,) = [one for one in picture.board.metrics if one.name == "loss"]
    assert loss.now is not None
    assert isnan(loss.now)
    assert loss.now_level is Level.CRITICAL


@pytest.mark.parametrize(("server_goes_on", "pid"), [(True, "PID"), (False, "4243")])
def test_a_stall_does_not_name_the_process_of_a_log_that_goes_on(server_goes_on: bool, pid: str) -> None:
    run = Run()
    run.go_on(600, STEP, every=10)
    served = (
        "(APIServer pid=4243) INFO 03-02 12:10:00 [loggers.py:127] Engine 000: Avg prompt throughput: 10.0 tokens/s, "
        "Avg generation throughput: 90.0 tokens/s, Running: 4 reqs, Waiting: 0 reqs, GPU KV cache usage: 9.0%"
    )
    run.say(SERVER, served)
    for _ in range(20):
        picture = run.go_on(30, every=10)
        if server_goes_on:
            run.say(SERVER, '(APIServer pid=4243) INFO:     127.0.0.1:47764 - "GET /health HTTP/1.1" 200')
    assert picture.verdict_finding is not None
    assert picture.verdict_finding.signature == "stall"
    assert any(line.source == "vllm.log" for line in picture.verdict_finding.evidence)
    assert picture.verdict_finding.commands[0] == f"py-spy dump --pid {pid}"


def test_a_pause_is_counted_up_to_what_was_judged() -> None:
    run = Run()
    run.go_on(600, STEP, every=10)
    picture = run.go_on(30, every=10)
    assert picture.pause_since is not None
    behind = replace(picture, judged_until=picture.pause_since + 5)  # lines came since then that were not judged yet
    assert behind.pause_since is None


def test_a_few_quick_steps_do_not_make_a_run_healthy_and_a_pause_is_known_from_its_pace() -> None:
    run = Run()
    picture = run.go_on(12, STEP)
    assert judged(picture).assessment is Assessment.LEARNING
    picture = run.go_on(40, STEP)
    assert judged(picture).assessment is Assessment.HEALTHY
    pace = judged(picture).run.pace
    assert pace is not None
    assert (pace.of_steps, pace.limit_s) == (True, 31.0)
    assert pace.step_s == pytest.approx(1.0)
    assert picture.present - pace.last <= 2.0
    assert judged(run.go_on(33)).run.state is Progress.STALLED


def test_a_start_of_a_few_lines_is_not_called_unreadable_and_more_lines_are() -> None:
    run = Run()
    run.go_on(1, "- root - INFO - Starting job: Llama 3 8B training")
    picture = run.go_on(11, "frobnicating chunk {n}")
    assert judged(picture).assessment is Assessment.LEARNING
    assert judged(run.go_on(30, "frobnicating chunk {n}")).assessment is Assessment.UNREADABLE


def test_a_server_that_goes_silent_with_requests_in_flight_is_silent_and_an_idle_one_is_not() -> None:
    line = "INFO [loggers.py:123] Engine 000: Avg prompt throughput: 9.0 tokens/s, Avg generation throughput: {tps} "
    line += "tokens/s, Running: {ran} reqs, Waiting: 0 reqs, GPU KV cache usage: 12.0%, Prefix cache hit rate: 0.0%"
    for tps, ran, freshness in (("812.0", "4", Freshness.STALE), ("0.0", "0", Freshness.IDLE)):
        run, text = Run(), line.replace("{tps}", tps).replace("{ran}", ran)
        run.go_on(200, text, SERVER, every=10)
        picture = run.go_on(120, every=10)
        assert [one.freshness for one in picture.sources] == [freshness]
        assert (picture.stale_s is not None) == (freshness is Freshness.STALE)


def test_a_run_whose_loss_was_nan_before_it_stood_still_keeps_that_headline_however_long_it_hangs() -> None:
    run = Run()
    run.go_on(600, STEP, every=10)
    run.go_on(200, "step={n} step_time=1.0 loss=nan", every=10)
    for _ in range(2):
        now = judged(run.go_on(300, every=60))
        assert now.run.state is Progress.STALLED
        assert now.verdict is not None
        assert now.verdict.signature == "loss-diverged"
        assert now.verdict.severity is Severity.CRITICAL
        assert "stall" in [one.signature for one in now.findings]


def test_the_age_of_the_last_checkpoint_is_that_of_the_scripts_own_words() -> None:
    run = Run()
    run.go_on(300, STEP, every=10)
    run.go_on(1, "INFO train: saved checkpoint to ckpt/step_{n} in 3.9s")
    now = judged(run.go_on(120, STEP, every=10))
    assert now.run.saved == pytest.approx(now.run.end - 120.0, abs=1.0)
    assert not any("checkpoint" in missing for missing in now.unseen)


def _opened(*lines: str, ago_s: float, clock: str) -> tuple[Run, MonitorState]:
    """A log whose one timestamp is so many seconds before the last write to its file, which was just now."""
    run = Run()
    run.feed.caught_up = False
    run.say(LOG, f"{BEGIN - timedelta(seconds=ago_s):{clock}} INFO Running training")
    for line in lines:
        run.say(LOG, line)
    run.feed.changed_at = lambda _log: BEGIN.timestamp()  # type: ignore[assignment,method-assign]
    run.feed.now, run.feed.caught_up = BEGIN.timestamp() + 1.0, True
    return run, run.look(1)


LOSS = "{{'loss': {loss:.4f}, 'grad_norm': 0.8, 'learning_rate': 1e-05, 'epoch': {epoch:.2f}}}"


@pytest.mark.parametrize(
    "clock", ["%Y-%m-%d %H:%M:%S.000", "%Y-%m-%dT%H:%M:%SZ", "INFO %m-%d %H:%M:%S [main.py:1]", "%H:%M:%S"]
)
def test_lines_without_a_clock_lie_between_the_last_timestamp_and_the_last_write(clock: str) -> None:
    lines = [LOSS.format(loss=2 - at / 1000, epoch=at / 100) for at in range(300)]
    run, picture = _opened(*lines, ago_s=600.0, clock=clock)
    loss = judged(picture).metrics["loss"]
    times = [time for time, _ in loss.series]
    assert judged(picture).run.state is Progress.RUNNING
    assert times[-1] - times[0] == pytest.approx(598.0, abs=4.0)
    assert picture.stale_s is None
    for number in range(300, 330):
        run.feed.now += 2.0
        run.say(LOG, LOSS.format(loss=2 - number / 1000, epoch=number / 100))
        picture = run.look(number)
    last = [time for time, _ in judged(picture).metrics["loss"].series][-20:]
    assert last[-1] - last[0] == pytest.approx(2.0 * 19, abs=1.0)


def test_a_copy_that_ends_without_a_clock_is_dated_by_its_timestamps() -> None:
    run = Run()
    run.feed.caught_up = False
    for number in range(60):
        run.say(
            LOG, f"{BEGIN - timedelta(hours=9, seconds=300 - 5 * number):%Y-%m-%d %H:%M:%S} INFO step={number} loss=1.5"
        )
    run.say(LOG, "all done")
    run.feed.changed_at = lambda _log: BEGIN.timestamp()  # type: ignore[assignment,method-assign]
    run.feed.now, run.feed.caught_up = BEGIN.timestamp() + 1.0, True
    assert judged(run.look(1)).run.wall_s == pytest.approx(295.0, abs=6.0)
