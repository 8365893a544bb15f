"""Logs of which only the first lines have timestamps: the present is now, however long ago they were written to."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.core.config import Config
from perfmon.core.model import Block, Progress
from perfmon.monitor.headless import observe
from perfmon.sources.discovery import LogFile
from perfmon.tui.render.progress import ceased
from perfmon.viewmodel import Freshness, MonitorState

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LOG, OTHER = LogFile("run.log", Path("/run.log")), LogFile("other.log", Path("/other.log"))
EACH_S = 118.0


def opened(lines: list[str], written_s: float, others: list[str] | None = None) -> tuple[HandFed, MonitorState]:
    """Logs that were there when the monitor was opened, and were last written to so many seconds before."""
    run = HandFed(NOW.timestamp())
    run.feed.caught_up, run.feed.of_past = False, True
    for log, text in ((LOG, lines), (OTHER, others or [])):
        for line in text:
            run.say(log, line)
    run.feed.changed_at = lambda _log: NOW.timestamp() - written_s  # type: ignore[assignment,method-assign]
    run.feed.caught_up, run.feed.of_past = True, False
    for _ in range(2):  # the first judgement shows how long the logs may be silent
        picture = run.look()
        run.feed.now += 1.0
    return run, picture


def progress_of(picture: MonitorState) -> Progress:
    assert picture.snapshot is not None
    return picture.snapshot.run.state


def verl(steps: int, ended: datetime, stated: bool = True) -> list[str]:
    """A step each two minutes behind the one timestamp of the log, the last at `ended`."""
    begun = ended - timedelta(seconds=EACH_S * steps + 120.0)
    took = f" - timing_s/gen:90.2 - timing_s/step:{EACH_S} - perf/time_per_step:{EACH_S}" if stated else ""
    rows = [
        f"(TaskRunner pid=482) step:{at} - actor/pg_loss:0.01 - training/global_step:{at}{took}"
        if stated
        else f"step {at}/20000 loss 2.5"
        for at in range(1, steps + 1)
    ]
    return [f"{begun:%Y-%m-%d %H:%M:%S},112\tINFO worker.py:1841 -- Started a local Ray instance.", *rows]


@pytest.mark.parametrize("stated", [True, False])
@pytest.mark.parametrize(("quiet_s", "state"), [(60.0, Progress.RUNNING), (125.0, Progress.RUNNING),
    (240.0, Progress.RUNNING), (420.0, Progress.STALLED)])  # fmt: skip
def test_steps_lie_before_the_last_write_and_a_stall_takes_three_of_them(
    quiet_s: float, state: Progress, stated: bool
) -> None:
    run, picture = opened(verl(28, NOW - timedelta(seconds=quiet_s), stated), quiet_s)
    assert progress_of(picture) is state
    assert picture.present == pytest.approx(NOW.timestamp(), abs=2.0)
    assert picture.snapshot is not None
    pace = picture.snapshot.run.pace
    assert pace is not None
    assert pace.step_s == pytest.approx(EACH_S, abs=5.0)
    assert pace.last == pytest.approx(NOW.timestamp() - quiet_s, abs=1.0)
    assert picture.stale_s is None  # five steps
    for at in range(29, 32):
        run.feed.now += EACH_S
        run.say(LOG, verl(at, NOW, stated)[-1])
        picture = run.look(at)
    assert progress_of(picture) is Progress.RUNNING
    assert picture.present == pytest.approx(run.feed.now, abs=2.0)


def trained(steps: int, ended: datetime, each_s: float = 4.4, saved: int = 250) -> list[str]:
    """Bars of a trainer that dates its first line, and those of its checkpoints."""
    begun, lines = ended - timedelta(seconds=each_s * steps), []
    for at in range(1, steps + 1):
        took = int(each_s * at)
        clock = f"{took // 60:02}:{took % 60:02}<3:05:01"
        lines.append(f" {100 * at // 3000}%|#         | {at}/3000 [{clock},  {each_s:.2f}s/it]")
        if at % 10 == 0:
            lines.append(f"{{'loss': 1.5, 'grad_norm': 0.8, 'learning_rate': 1.2e-05, 'epoch': {at / 1000:.2f}}}")
        if at % saved == 0:
            clock = f"{begun + timedelta(seconds=took):%Y-%m-%d %H:%M:%S},101"
            lines.append(f"[INFO|trainer.py:3503] {clock} >> Saving model checkpoint to out/checkpoint-{at}")
    return [f"[INFO|trainer.py:2409] {begun:%Y-%m-%d %H:%M:%S},212 >> ***** Running training *****", *lines]


@pytest.mark.parametrize("quiet_s", [5.0, 180.0, 420.0, 900.0])
def test_a_trainer_that_hangs_behind_undated_bars_stands_still_since_the_last_write(quiet_s: float) -> None:
    _, picture = opened(trained(477, NOW - timedelta(seconds=quiet_s)), quiet_s)
    assert picture.present == pytest.approx(NOW.timestamp(), abs=3.0)
    if quiet_s < 10.0:
        assert progress_of(picture) is Progress.RUNNING
        assert picture.stale_s is None
        return
    assert picture.stale_s == pytest.approx(quiet_s, abs=3.0)
    assert [one.freshness for one in picture.sources] == [Freshness.STALE]
    if quiet_s < 600.0:
        assert progress_of(picture) is Progress.STALLED
        assert picture.snapshot is not None
        assert picture.snapshot.run.since == pytest.approx(NOW.timestamp() - quiet_s, abs=5.0)
        assert picture.verdict_finding is not None
        assert "no log output and no finished step" in picture.verdict_finding.sentence


def test_a_trainer_that_hangs_after_it_was_watched_is_silent_since_its_last_bar() -> None:
    run, picture = opened(trained(477, NOW), 0.0)
    for line in trained(520, NOW)[-80:]:
        if " 1" in line[:4] and int(line.partition("| ")[2].partition("/")[0]) > 477:
            run.feed.now += 4.4
            run.say(LOG, line)
            picture = run.look(2)
    assert picture.stale_s is None
    for _ in range(15):
        run.feed.now += 20.0
        picture = run.look(3)
    assert progress_of(picture) is Progress.STALLED
    assert picture.stale_s == pytest.approx(300.0, abs=8.0)
    assert picture.present == pytest.approx(run.feed.now, abs=8.0)


def test_lines_without_a_time_behind_the_last_bar_keep_a_watched_log_up_to_date() -> None:
    run, _ = opened(trained(477, NOW), 0.0)
    for at in range(478, 490):
        run.feed.now += 4.4
        took = int(4.4 * at)
        run.say(LOG, f" 16%|#         | {at}/3000 [{took // 60:02}:{took % 60:02}<3:05:01,  4.40s/it]")
        run.look(2)
    for _ in range(30):
        run.feed.now += 10.0
        run.say(LOG, "copying shard to the bucket")
        picture = run.look(3)
    assert picture.stale_s is None or picture.stale_s < 30.0
    for _ in range(15):
        run.feed.now += 20.0
        picture = run.look(4)
    assert picture.stale_s == pytest.approx(300.0, abs=8.0)


def test_bars_that_are_read_in_two_blocks_have_the_same_times() -> None:
    data = "".join(line + "\n" for line in trained(300, NOW)).encode()
    times = []
    for cut in (len(data), data.rindex(b" 9%|#         | 299/")):
        run = HandFed(NOW.timestamp())
        run.feed.caught_up = False
        run.watch.take(LOG, Block(data[:cut], 0, 1))
        if data[cut:]:
            run.watch.take(LOG, Block(data[cut:], cut, 1 + data[:cut].count(b"\n")))
        times.append(list(run.watch.session.store.steps["trainer"].times))
    assert times[0] == times[1]


def served(ended: datetime, idle_s: float, health: bool) -> list[str]:
    """A server that prints its statistics while it has requests, and undated health checks all the time."""
    stamp, lines = "%m-%d %H:%M:%S", []
    text = "[loggers.py:118] Engine 000: Avg prompt throughput: {0}.0 tokens/s, Avg generation throughput: {0}.0 "
    text += "tokens/s, Running: {1} reqs, Waiting: 0 reqs, GPU KV cache usage: 2.7%, Prefix cache hit rate: 24.0%"
    for at in range(60):
        clock, busy = ended - timedelta(seconds=idle_s + 10 * (59 - at)), int(at < 59)
        lines.append(f"INFO {clock:{stamp}} {text.format(250 * busy, 3 * busy)}")
    checks = int(idle_s / 10) if health else 0
    return lines + ['INFO:     10.0.3.17:53412 - "GET /health HTTP/1.1" 200 OK'] * checks


@pytest.mark.parametrize("health", [True, False])
@pytest.mark.parametrize("quiet_s", [5.0, 360.0])
def test_a_server_is_idle_since_its_last_request(quiet_s: float, health: bool) -> None:
    ended = NOW - timedelta(seconds=quiet_s)
    run, picture = opened(served(ended, 3000.0, health), quiet_s if health else quiet_s + 3000.0)
    assert picture.idle_since is not None
    assert picture.present - picture.idle_since == pytest.approx(3000.0 + quiet_s, abs=15.0)
    assert [one.freshness for one in picture.sources] != [Freshness.STALE]
    assert ceased(picture) == ("no output for 6m" if health and quiet_s > 60.0 else "")
    run.feed.now += 20.0
    run.say(LOG, 'INFO:     10.0.3.17:53412 - "GET /health HTTP/1.1" 200 OK')
    picture = run.look(2)
    assert picture.idle_since is not None
    assert picture.present - picture.idle_since == pytest.approx(3000.0 + quiet_s + 21.0, abs=15.0)


@pytest.mark.parametrize("copied_s", [0.0, 9 * 86400.0])
def test_a_complete_log_is_dated_alike(tmp_path: Path, copied_s: float) -> None:
    path, written = tmp_path / "verl.log", NOW.timestamp() + copied_s
    path.write_text("\n".join(verl(28, NOW)) + "\n")
    os.utime(path, (written, written))
    run = observe([str(path)], Config()).snapshot.run
    assert run.wall_s == pytest.approx(28 * EACH_S + (0.0 if copied_s else 120.0), abs=3.0)
    assert run.pace is not None
    assert run.pace.step_s == pytest.approx(EACH_S, abs=1.0)


def test_steps_of_a_copy_follow_the_timestamp_by_what_they_state() -> None:
    _, picture = opened(verl(28, NOW - timedelta(days=2)), 5.0)
    assert picture.snapshot is not None
    (loss,) = [one for one in picture.snapshot.metrics.values() if one.name == "loss"]
    assert {round(b - a) for (a, _), (b, _) in pairwise(loss.series)} == {round(EACH_S)}


def test_steps_next_to_a_log_that_was_copied_are_not_spread_up_to_the_time_of_the_copy() -> None:
    ended = NOW - timedelta(hours=5)
    dated = [f"{ended - timedelta(seconds=at):%Y-%m-%d %H:%M:%S} INFO writing part {at}" for at in range(60, -1, -1)]
    run, _ = opened(verl(28, ended, stated=False), 300.0, dated)
    loss = run.watch.session.store.series["loss", ""]
    assert loss.times[-1] - loss.times[0] < 60.0
