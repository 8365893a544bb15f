"""An evaluation that runs, a start that loads, a silent server, and the end of a log without timestamps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.commands.status import plain_line
from perfmon.core.model import Progress
from perfmon.diagnosis.result import Assessment, RunInfo
from perfmon.sources.discovery import LogFile
from perfmon.sources.file_tree import LogGroup
from perfmon.status.run_rows import RunRow
from perfmon.status.state_file import state_of_picture
from perfmon.viewmodel import Freshness, MonitorState

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LOG = LogFile("run.log", Path("/run.log"))


def opened(*lines: str, written_s: float = 0.0) -> tuple[HandFed, MonitorState]:
    """A log that was there when the monitor was opened, and was last written to so many seconds before."""
    run = HandFed(NOW.timestamp())
    run.feed.caught_up, run.feed.of_past = False, True
    for line in lines:
        run.say(LOG, line)
    run.feed.changed_at = lambda _log: NOW.timestamp() - written_s  # type: ignore[assignment,method-assign]
    run.feed.caught_up, run.feed.of_past = True, False
    return run, run.look()


def run_of(picture: MonitorState) -> RunInfo:
    assert picture.snapshot is not None
    return picture.snapshot.run


def frame(done: int, total: int, each_s: float, label: str = "") -> str:
    took, left = int(done * each_s), int((total - done) * each_s)
    clock = f"{took // 60:02}:{took % 60:02}<{left // 60:02}:{left % 60:02}"
    return f"{label}{100 * done // total:3d}%|##    | {done}/{total} [{clock},  {each_s:.2f}s/it]"


def trained(steps: int, total: int) -> list[str]:
    lines = []
    for step in range(1, steps + 1):
        lines.append(frame(step, total, 5.0))
        if step % 10 == 0:
            lines.append(f"{{'loss': 1.2, 'grad_norm': 0.6, 'learning_rate': 1e-05, 'epoch': {step / total:.2f}}}")
    return lines


@pytest.mark.parametrize("label", ["", "Evaluating: "])
def test_a_bar_that_moves_after_steps_is_an_evaluation(label: str) -> None:
    run, picture = opened(*trained(60, 300), *(frame(done, 1000, 0.7, label) for done in range(1, 500)))
    now = run_of(picture)
    assert now.state is Progress.RUNNING
    assert now.phase is not None
    assert (now.phase.name, now.phase.total) == ("evaluating", 1000)
    assert now.phase.done == pytest.approx(499, abs=1)
    assert now.goal is not None
    assert (now.goal.done, now.goal.total) == (60, 300)
    for step in range(61, 64):
        run.feed.now += 5.0
        run.say(LOG, frame(step, 300, 5.0))
    assert run_of(run.look(2)).phase is None


def test_the_bar_of_the_steps_is_none() -> None:
    assert run_of(opened(*trained(60, 300))[1]).phase is None


def test_a_start_shows_how_much_is_loaded_and_ends_at_the_last_write() -> None:
    begun = NOW - timedelta(seconds=240)
    _, picture = opened(
        f"(APIServer pid=7) INFO {begun:%m-%d %H:%M:%S} [api_server.py:1896] vLLM API server version 0.11.0",
        f"(EngineCore_DP0 pid=9) INFO {begun:%m-%d %H:%M:%S} [runner.py:9] Starting to load model acme/big...",
        *(
            f"Loading safetensors checkpoint shards: {done}% Completed | {done}/90 [00:{done:02}<05:10,  3.8s/it]"
            for done in range(1, 40)
        ),
        written_s=65.0,
    )
    now = run_of(picture)
    assert now.state is Progress.STARTING
    assert now.phase is not None
    assert (now.phase.name, now.phase.total) == ("loading", 90)
    assert picture.stale_s is not None
    assert picture.stale_s == pytest.approx(65.0, abs=1.0)  # it had loaded one each 4 s
    assert picture.present - picture.stale_s - now.start == pytest.approx(240.0 - 65.0, abs=2.0)


def test_a_run_without_timestamps_ended_when_its_file_was_written_last() -> None:
    lines = trained(300, 300)[:-1]
    _, picture = opened(
        *lines[-30:],
        "{'train_runtime': 1500.2, 'train_samples_per_second': 21.2, 'train_loss': 1.1, 'epoch': 3.0}",
        frame(300, 300, 5.0),
        "***** train metrics *****",
        written_s=900.0,
    )
    now = run_of(picture)
    assert now.state is Progress.FINISHED
    assert now.since is not None
    assert picture.present - now.since == pytest.approx(900.0, abs=5.0)


def test_a_server_that_prints_nothing_without_requests_is_idle_or_hung() -> None:
    begin = NOW - timedelta(seconds=1500)
    lines = [
        f"[{begin + timedelta(seconds=2 * at):%Y-%m-%d %H:%M:%S} TP0] Decode batch, #running-req: 4, #token: 9000, "
        "token usage: 0.02, cuda graph: True, gen throughput (token/s): 480.1, #queue-req: 0, "
        for at in range(150)
    ]
    end = begin + timedelta(seconds=300)
    run, picture = opened(
        f"[{begin:%Y-%m-%d %H:%M:%S}] The server is fired up and ready to roll!",
        *lines,
        f'[{end:%Y-%m-%d %H:%M:%S}] INFO:     10.0.0.4:50122 - "POST /generate HTTP/1.1" 200 OK',
        written_s=1200.0,
    )
    assert picture.unused_since == pytest.approx(end.timestamp(), abs=1.0)
    assert picture.overdue_s is None
    state = state_of_picture(("sglang",), picture)
    assert state.unused_s == pytest.approx(1200.0, abs=2.0)
    row = RunRow(LogGroup("sglang", ("run.log",), ("/run.log",)), NOW.timestamp() - 1200.0, state)
    assert (row.word, row.verdict) == ("idle", "idle or hung for 20m 00s: no output since then")
    run.feed.now += 1.0
    run.say(LOG, lines[-1].replace(f"{end - timedelta(seconds=2):%H:%M:%S}", f"{NOW + timedelta(seconds=1):%H:%M:%S}"))
    assert run.look(2).unused_since is None


def test_two_lines_are_too_few_for_unreadable_logs() -> None:
    begun = NOW - timedelta(seconds=70)
    _, picture = opened(
        f"{begun:%Y-%m-%d %H:%M:%S} INFO building model giant-70b",
        f"{begun + timedelta(seconds=9):%Y-%m-%d %H:%M:%S} INFO compiling the first step, this may take a while",
        written_s=61.0,
    )
    assert picture.snapshot is not None
    assert picture.snapshot.assessment is Assessment.LEARNING
    assert picture.snapshot.run.state is Progress.STARTING
    assert "2 lines so far, none about a step" in picture.snapshot.summary
    assert picture.stale_s is None


def load(clock: datetime, running: int, waiting: int) -> str:
    return (
        f"[{clock:%Y-%m-%d %H:%M:%S} TP0] Decode batch. #running-req: {running}, #token: 402113, token usage: 0.97, "
        f"cuda graph: True, gen throughput (token/s): 1510.3, #queue-req: {waiting}, "
    )


@pytest.mark.parametrize("silent_s", [90.0, 660.0])
def test_a_server_that_falls_silent_with_requests_waiting_is_hung_or_dead(silent_s: float) -> None:
    end = NOW - timedelta(seconds=silent_s)
    lines = [load(end - timedelta(seconds=4 * at), 48, 320 - at) for at in range(200, -1, -1)]
    run, picture = opened(*lines, written_s=silent_s)
    assert [one.freshness for one in picture.sources] == [Freshness.STALE]
    assert picture.dropped == "48 requests running, 320 waiting"
    state = state_of_picture(("sglang",), picture)
    assert state.stale_s == pytest.approx(silent_s, abs=2.0)
    assert "SILENT" in plain_line(state)
    assert "with 48 requests running, 320 waiting, before: KV-CACHE-PRESSURE" in plain_line(state)
    row = RunRow(LogGroup("sglang", ("run.log",), ("/run.log",)), end.timestamp(), state)
    assert (row.word, row.verdict) == ("silent", "hung or dead with 48 requests running, 320 waiting")
    run.feed.now += 1.0
    run.say(LOG, load(NOW + timedelta(seconds=1), 48, 10))
    assert not run.look(2).dropped


def test_a_server_whose_last_report_had_no_requests_waiting_has_dropped_none() -> None:
    end = NOW - timedelta(seconds=300)
    lines = [load(end - timedelta(seconds=4 * at), 3, 0) for at in range(200, -1, -1)]
    assert not opened(*lines, written_s=300.0)[1].dropped
