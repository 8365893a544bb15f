"""Pauses that the counters of a log explain, runs that they divide, and what a run died of behind them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import perfmon
from perfmon import Diagnosis
from perfmon.clocks import align
from perfmon.core import Block
from perfmon.core.config import Config
from perfmon.pipeline.session import Session

START = datetime(2026, 3, 2, 10, tzinfo=UTC)


class Log:
    """A log that is written line by line."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.now = START

    def say(self, text: str, after_s: float = 0.0) -> None:
        """A dated line, so many seconds after the one before."""
        self.now += timedelta(seconds=after_s)
        self.lines.append(f"{self.now:%Y-%m-%d %H:%M:%S} INFO {text}")

    def steps(
        self, first: int, last: int, total: int | None = None, every_s: float = 10.0, pause_s: float = 0.0
    ) -> None:
        """Steps, the first of them after a pause."""
        of = f"/{total}" if total else ""
        for step in range(first, last + 1):
            self.say(f"step {step}{of} | loss {4 - step / 1000:.4f} | lr 1e-4", every_s + pause_s * (step == first))

    def diagnosis(self, folder: Path) -> Diagnosis:
        """What perfmon finds in it."""
        path = folder / "train.log"
        path.write_text("\n".join([*self.lines, ""]))
        return perfmon.analyze(path)


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Log:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    return Log()


def findings(diagnosis: Diagnosis) -> set[str]:
    return {finding.signature for finding in diagnosis.findings}


def lost(diagnosis: Diagnosis, cause: str) -> float:
    return sum(entry.lost_s for entry in diagnosis.ledger if entry.cause == cause)


def test_a_pause_within_a_count_is_a_stall(log: Log, tmp_path: Path) -> None:
    log.steps(1, 30)
    log.steps(31, 60, pause_s=400)
    assert findings(log.diagnosis(tmp_path)) == {"stall"}


@pytest.mark.parametrize(("pause_s", "severity"), [(90, "warning"), (110, "warning"), (200, "critical")])
def test_a_short_stall_that_is_over_is_a_warning(log: Log, tmp_path: Path, pause_s: float, severity: str) -> None:
    log.steps(1, 30)
    log.steps(31, 60, pause_s=pause_s)
    (finding,) = log.diagnosis(tmp_path).findings
    assert (finding.signature, finding.severity) == ("stall", severity)


def test_a_counter_that_starts_again_behind_a_pause_makes_it_no_stall(log: Log, tmp_path: Path) -> None:
    for _ in range(3):
        log.steps(1, 60, pause_s=400)
    diagnosis = log.diagnosis(tmp_path)
    assert findings(diagnosis) == set()
    assert diagnosis.run.runs == 1
    assert lost(diagnosis, "unaccounted") > 700


def test_a_run_that_starts_again_before_its_total_is_another_run(log: Log, tmp_path: Path) -> None:
    for _ in range(3):
        log.steps(1, 60, total=500, pause_s=400)
    diagnosis = log.diagnosis(tmp_path)
    assert findings(diagnosis) == set()
    assert diagnosis.run.runs == 3
    assert diagnosis.run.goal is not None
    assert (diagnosis.run.goal.done, diagnosis.run.goal.total) == (60, 500)


def test_epochs_with_a_pause_between_them_are_one_run(log: Log, tmp_path: Path) -> None:
    for _ in range(4):
        log.steps(1, 60, total=60, pause_s=200)
    diagnosis = log.diagnosis(tmp_path)
    assert findings(diagnosis) == set()
    assert diagnosis.run.runs == 1


def test_a_run_that_is_resumed_makes_steps_again(log: Log, tmp_path: Path) -> None:
    log.steps(1, 60)
    log.steps(41, 100, pause_s=400)
    diagnosis = log.diagnosis(tmp_path)
    assert findings(diagnosis) == set()
    assert diagnosis.run.runs == 2
    assert lost(diagnosis, "downtime") == pytest.approx(410, abs=15)
    assert lost(diagnosis, "wasted-progress") == pytest.approx(190, abs=15)
    restart = diagnosis.run.restart
    assert restart is not None
    assert (restart.step, restart.again, restart.unit, restart.cause) == (41, 20, "step", "")
    assert restart.down_s == pytest.approx(410, abs=15)


def test_lines_that_are_missing_are_no_stall(log: Log, tmp_path: Path) -> None:
    log.steps(1, 60)
    log.steps(180, 220, pause_s=1200)
    assert findings(log.diagnosis(tmp_path)) == set()


def test_what_remains_is_told_by_the_clock_of_a_bar(log: Log, tmp_path: Path) -> None:
    log.say("loading")
    bars = [
        f"Training:  3%|▎  | {n}/4854 [{n * 5 // 3 // 60:02}:{n * 5 // 3 % 60:02}<2:11:00,  1.67s/it]"
        for n in range(156)
    ]
    log.lines.append("\r".join(bars))
    goal = log.diagnosis(tmp_path).run.goal
    assert goal is not None
    assert goal.remaining_s == pytest.approx((4854 - 155) * 5 / 3, rel=0.05)


def test_a_bar_between_two_dated_lines_is_no_stall(log: Log, tmp_path: Path) -> None:
    log.say("training")
    for part in range(6):
        counts = range(50 * part + 1, 50 * part + 51)
        bars = [f"Train:  5%|▎  | {n}/1000 [{n * 9 // 600:02}:{n * 9 // 10 % 60:02}<15:00,  1.11it/s]" for n in counts]
        log.lines.append("\r".join(["", *bars]))
        log.say(f"Step {50 * part + 50}: eval loss 0.9", 45)
    assert findings(log.diagnosis(tmp_path)) == set()


def test_a_scheduler_ends_a_run_that_goes_on_within_its_grace(log: Log, tmp_path: Path) -> None:
    log.steps(1, 60)
    log.lines += [
        f"slurmstepd: error: *** STEP 7.0 ON node3 CANCELLED AT {log.now:%Y-%m-%dT%H:%M:%S} DUE TO TIME LIMIT ***",
        "srun: Job step aborted: Waiting up to 32 seconds for job step to finish.",
    ]
    log.steps(61, 63)
    diagnosis = log.diagnosis(tmp_path)
    assert diagnosis.run.state == "failed"
    assert "time limit" in diagnosis.summary


def test_a_start_that_failed_half_a_minute_before_another_one_is_not_its_cause(log: Log, tmp_path: Path) -> None:
    for place, error in (("53, in load", "KeyError: 'data'"), ("82, in fit", "RuntimeError: matmul precision")):
        log.say("Printing config", 200)
        log.say("Instantiating model", 1)
        log.lines += [
            "Traceback (most recent call last):",
            f'  File "/home/u/train.py", line {place}',
            "    run()",
            error,
        ]
    diagnosis = log.diagnosis(tmp_path)
    assert "matmul precision" in diagnosis.summary
    assert "echo" not in diagnosis.summary


def test_a_wrong_command_line_is_followed_by_the_next_one(log: Log, tmp_path: Path) -> None:
    for error in ("argument --fp16: invalid choice: 's'", "unrecognized arguments: --bf32"):
        log.lines += ["usage: train.py [-h] [--fp16 FP16]", f"train.py: error: {error}"]
    assert "--bf32" in log.diagnosis(tmp_path).summary


def test_what_peers_report_at_once_is_not_taken_for_the_cause(log: Log) -> None:
    """Seen two seconds after it: what is printed like an exception that was caught was not, where peers lost it."""
    for step in range(1, 31):
        for rank in (0, 3):
            log.now += timedelta(seconds=5 * (rank == 0))
            log.lines.append(f"[rank{rank}] {log.now:%Y-%m-%d %H:%M:%S} INFO step {step}/500 | loss 3.1")
    log.lines += [
        "[rank3]: Traceback (most recent call last):",
        '[rank3]:   File "/home/u/train.py", line 61, in main',
        "[rank3]: ValueError: sample 88 has 0 tokens",
        "[rank0]: Traceback (most recent call last):",
        '[rank0]:   File "/home/u/train.py", line 61, in main',
        "[rank0]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] "
        "Connection closed by peer [10.0.0.3]:21231",
    ]
    session = Session(Config())
    session.feed(session.add_source("train.log"), Block("\n".join([*log.lines, ""]).encode(), 0, 1))
    now = log.now.timestamp() + 2
    diagnosis = session.present((now - 600, now), align(session.store), now)
    assert diagnosis.run.state == "failed"
    assert "rank 3: ValueError" in diagnosis.summary


def test_a_bare_word_of_a_shell_is_believed_when_nothing_follows_it(log: Log) -> None:
    """A prompt may hold it, too: a log that is watched goes on then within a few steps."""
    log.steps(1, 30, every_s=5)
    log.lines.append("Killed")
    session = Session(Config())
    session.feed(session.add_source("train.log"), Block("\n".join([*log.lines, ""]).encode(), 0, 1))
    moments = [log.now.timestamp() + later for later in (4, 20)]
    states = [session.present((now - 600, now), align(session.store), now).run.state for now in moments]
    assert states == ["running", "failed"]


def test_of_forty_runs_that_failed_alike_each_is_told(log: Log, tmp_path: Path) -> None:
    for _ in range(40):
        log.steps(1, 20, total=500, every_s=5, pause_s=20)
        log.lines += [
            "Traceback (most recent call last):",
            '  File "train.py", line 3, in <module>',
            "    f()",
            "ValueError: x",
        ]
    diagnosis = log.diagnosis(tmp_path)
    assert diagnosis.run.runs == 40
    assert diagnosis.run.state == "failed"
