"""The row about the run itself: what its logs report, and nothing that they do not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import nan
from typing import Any

import pytest
from hosts import PLAIN, SIZES, SKIN
from pictures import picture, source
from rich.cells import cell_len
from snapshots import HOSTILE, metric, snapshot

from perfmon.core.model import Progress
from perfmon.diagnosis.result import Goal, MetricStats
from perfmon.pipeline.offline import diagnose_texts
from perfmon.rules import Pace, Resumption
from perfmon.tui.render.explanation import why_row
from perfmon.tui.render.header_footer import HeaderInfo, header_row
from perfmon.tui.render.progress import direction, progress_row
from perfmon.viewmodel import MonitorState, RunState

FALLING = tuple(3.0 - 0.02 * at + 0.01 * (at % 3) for at in range(60))
NOISE = tuple(2.0 + 0.1 * (at * 7 % 5) for at in range(60))
METRICS = {
    "step_s": metric("step_s", (3.1,) * 60, "s"),
    "throughput_tps": metric("throughput_tps", (21_034.0,), "tokens/s"),
    "mfu_pct": metric("mfu_pct", (41.2,), "%"),
    "loss": metric("loss", FALLING, ""),
    "reward": metric("reward", NOISE, ""),
}


def shown(
    metrics: dict[str, MetricStats] | None = None, present: float | None = None, errors: int = 0, **run: Any
) -> MonitorState:
    """A run of 20 000 steps with these fields of its state."""
    whole = snapshot(metrics=METRICS if metrics is None else metrics)
    known: dict[str, Any] = {"goal": Goal(199.0, 20_000.0, "step", 61_200.0), "saved": whole.run.end - 34.0, **run}
    logs = (source(error_lines=errors), source(index=1, name="trainer.log"))
    made = picture(snapshot=replace(whole, run=replace(whole.run, **known)), sources=logs)
    return replace(made, now=whole.run.end, actual=present)


def text(made: MonitorState, width: int = 200) -> str:
    return "".join(words for words, _ in progress_row(made, width, PLAIN))


def test_all_that_the_logs_report_is_shown() -> None:
    assert text(shown(errors=2)) == (
        " running · step 199 of 20,000 · 3.1 s/step (last 5) · 21.0k tok/s · MFU 41 % · loss 1.84 ↓ · reward 2.30"
        " · ETA 17h · checkpoint 30 s ago · ! 2 errors"
    )


def test_a_restart_is_named_with_when_why_and_where_it_goes_on() -> None:
    end = snapshot().run.end
    restart = Resumption(end - 30.0, 15.0, "a GPU error", 8.0, 3.0, "step")
    made = shown(restart=restart)
    assert "! restarted 30 s ago" in text(made)
    healthy = replace(made, snapshot=replace(made.snapshot or snapshot(), verdict=None, findings=()))
    row = "".join(words for words, _ in why_row(healthy, 200, PLAIN))
    assert row == "  ! restarted 30 s ago after a GPU error: resumes at step 8, 3 steps again, 15 s down"
    assert "restarted" not in text(shown(restart=replace(restart, time=end - 4000.0)))  # before the window


def test_of_a_run_that_diverged_neither_the_course_of_the_loss_nor_the_end_is_progress() -> None:
    made = shown()
    assert made.snapshot is not None
    assert made.snapshot.verdict is not None
    lost = replace(made.snapshot.verdict, signature="loss-diverged")
    row = text(replace(made, snapshot=replace(made.snapshot, verdict=lost)))
    assert "loss 1.84 ·" in row
    assert "ETA" not in row


def test_what_they_do_not_report_is_left_out() -> None:
    assert text(shown({}, goal=None, saved=None)) == " running"
    assert text(replace(picture(), sources=(source(lines=0),))) == ""
    assert text(replace(picture(), snapshot=None)) == ""


@pytest.mark.parametrize("size", SIZES)
def test_state_step_and_pace_are_shown_at_every_size(size: tuple[int, int]) -> None:
    message = text(shown(errors=1), size[0])
    assert cell_len(message) <= size[0]
    for words in ("running", "199", "1 error", "ETA 17h"):
        assert words in message
    assert "running  step 199/20k  " in text(shown(), 60)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (Progress.STALLED, "stalled for 5m 30s"),
        (Progress.FINISHED, "finished 5m ago"),
        (Progress.FAILED, "failed 5m ago"),
        (Progress.SILENT, "no output for 5m"),
        (Progress.UNKNOWN, "state unknown, last line 0 s ago"),
        (Progress.STARTING, "starting for 5m"),
    ],
)
def test_the_state_has_its_age_and_no_end_is_promised_while_nothing_moves(state: Progress, words: str) -> None:
    made = shown(state=state)
    since = (made.snapshot.run.end if made.snapshot else 0.0) - 330.0
    made = shown(state=state, since=since)
    assert text(made).startswith(f" {words} · ")
    assert "ETA" not in text(made)


def test_a_run_whose_logs_are_silent_is_not_called_running() -> None:
    assert text(replace(shown(), stale_s=98.0)).startswith(" no output for 90 s · step 199")
    starts = replace(shown(state=Progress.STARTING), stale_s=98.0)
    words = "".join(part for part, _ in header_row(starts, HeaderInfo("train.log", 600.0), 200, PLAIN))
    assert "SILENT" in words
    assert "STARTING" not in words
    loading = replace(shown(), state=RunState.LOADING, progress=0.45)
    assert text(loading).startswith(" reading 45 % · ")


def test_values_of_the_past_are_faint_but_for_critical_ones() -> None:
    metrics = {**METRICS, "reward": replace(METRICS["reward"], ends_not_finite=True)}
    styles = dict(progress_row(shown(metrics, state=Progress.STALLED), 200, SKIN))
    assert {styles[words] for words in ("3.1 s", "21.0k", "41", "1.84")} == {SKIN.style("faint")}
    assert styles["reward nan ✗"] == SKIN.style("critical")
    now = dict(progress_row(shown(metrics), 200, SKIN))
    assert now["3.1 s"] == SKIN.style("text")


def test_a_failure_shows_what_was_not_saved() -> None:
    made = shown(state=Progress.FAILED)
    end = made.snapshot.run.end if made.snapshot else 0.0
    assert "last checkpoint 12m before" in text(shown(state=Progress.FAILED, since=end, saved=end - 725.0))
    assert "checkpoint" not in text(shown(state=Progress.FINISHED, since=end, saved=end - 725.0))


def test_what_is_lost_since_the_last_checkpoint_is_named() -> None:
    end = snapshot().run.end
    failed = shown(state=Progress.FAILED, since=end, saved=end - 725.0, saved_step=100.0, unsaved_steps=99.0)
    assert " · last checkpoint 12m before · 99 steps lost" in text(failed)
    over: dict[str, Any] = {"state": Progress.FINISHED, "since": end, "saved_step": 199.0}
    assert text(shown(unsaved_steps=0.0, **over)).endswith(" · last checkpoint: step 199, at the end")
    assert text(shown(unsaved_steps=1.0, **over)).endswith(" · last checkpoint: step 199, 1 step since")
    silent = shown(state=Progress.STALLED, saved_step=150.0, unsaved_steps=49.0)
    assert "last checkpoint: step 150, 49 steps since" in text(silent)
    assert "last checkpoint before: step 100" in text(shown(sound_step=100.0))


def test_the_step_of_a_checkpoint_is_the_last_one_before_it() -> None:
    lines = [
        f"2026-03-02 10:{at // 60:02d}:{at % 60:02d} INFO step {at} | loss 2.5 | step_time 1.0s" for at in range(300)
    ]
    lines.insert(201, "2026-03-02 10:03:20 INFO saved checkpoint to ckpt/last")
    run = diagnose_texts({"trainer.log": "\n".join(lines)}).run
    assert (run.saved_step, run.unsaved_steps, run.sound_step) == (200.0, 99.0, None)
    lines[230:] = [line.replace("2.5", "nan") for line in lines[230:]]
    lines.insert(260, "2026-03-02 10:04:18 INFO saved checkpoint to ckpt/later")
    bad = diagnose_texts({"trainer.log": "\n".join(lines)})
    assert (bad.run.saved_step, bad.run.sound_step) == (258.0, 200.0)
    assert bad.verdict is not None
    assert "last checkpoint before: step 200" in bad.verdict.sentence
    assert diagnose_texts({"trainer.log": "\n".join(lines[:200])}).run.saved_step is None


def test_a_server_shows_its_requests() -> None:
    metrics = {
        "kv_usage": metric("kv_usage", (41.0, 47.6), "%"),
        "running": metric("running", (38.0, 41.0), ""),
        "waiting": metric("waiting", (0.0, 2.0), ""),
        "gen_tps": metric("gen_tps", (2300.0,), "tokens/s"),
    }
    assert text(shown(metrics, goal=None, saved=None, serves_alone=True)) == (
        " running · 41 requests · 2 waiting · KV cache 48 % · 2300 tok/s generated"
    )
    assert (
        text(shown(metrics, goal=None, saved=None, serves_alone=True), 60)
        == " running  41 requests  2 waiting  KV 48 %  2300 tok/s"
    )
    several = {**metrics, "running": replace(metrics["running"], of_several=True)}
    assert "requests" not in text(shown(several, goal=None, saved=None, serves_alone=True))
    assert "requests" not in text(shown({**METRICS, **metrics})), "of a run that trains"


def test_several_runs_that_are_watched_as_one_have_no_common_progress() -> None:
    made = replace(shown(), sources=(source(name="runs/one/a.log"), source(index=1, name="runs/two/b.log")))
    assert "step 199" in text(made), "two logs that the user named"
    assert text(replace(made, together=True)) == " 2 runs together as one: perfmon runs lists them"
    parts = (source(name="runs/one/trainer/a.log"), source(index=1, name="runs/one/vllm/b.log"))
    assert "step 199" in text(replace(made, sources=parts, together=True))


def test_a_loss_that_ends_as_nan_is_critical() -> None:
    made = shown({"loss": replace(METRICS["loss"], ends_not_finite=True)})
    assert "loss nan ✗" in text(made)
    assert "loss nan ✗" in text(made, 60)


def test_skipped_updates_are_counted_and_no_loss_is_made_up() -> None:
    scale = "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 1, reducing to 1"
    clocks = [(n, f"[2026-03-02 10:{n // 15:02}:{n % 15 * 4:02},118] [INFO]") for n in range(60)]
    lines = [f"{clock} {scale}\n{clock} [Rank 0] step={n}, skipped={n}, lr=[1e-05]\n" for n, clock in clocks]
    snapshot = diagnose_texts({"ds.log": "".join(lines)})
    made = replace(shown(), snapshot=snapshot)
    assert "60 updates skipped ✗" in text(made)
    assert "loss" not in text(made)
    assert snapshot.metrics["loss_scale"].last == 1.0


def test_a_pace_that_changed_is_compared_with_the_usual_one() -> None:
    slower = metric("step_s", (3.1,) * 50 + (3.6,) * 6, "s")
    assert "3.6 s/step (last 5) ↑16 %" in text(shown({"step_s": slower}))
    assert "3.6 s/step (last 5) ·" in text(shown({"step_s": replace(slower, of_several=True)})), "those of several logs"
    few = metric("step_s", (3.1, 3.1, 3.6), "s")
    assert "(last 5) ↑" not in text(shown({"step_s": few}))


def test_without_a_metric_of_steps_the_pace_is_that_of_the_counter() -> None:
    made = shown({}, goal=Goal(10.0, 50.0, "epochs", 400.0))
    assert " running · epoch 10 of 50 · 10.0 s/epoch · ETA 6m 40s" in text(made)
    assert "/" not in text(shown({}, goal=Goal(10.0, None, "epochs")))


@pytest.mark.parametrize(("each_s", "pause"), [(2.5, 0), (3.1, 0), (0.7, 0), (25.0, 0), (2.5, 30)])
def test_the_pace_of_steps_is_finer_than_a_clock_of_whole_seconds(each_s: float, pause: int) -> None:
    lines = []
    for step in range(1, 201):
        at = int(step * each_s + (pause if step > 180 else 0))
        lines.append(f"2026-03-02 {10 + at // 3600}:{at // 60 % 60:02}:{at % 60:02} INFO step={step} loss=2.5\n")
    for until in range(190, 200):
        pace = diagnose_texts({"train.log": "".join(lines[:until])}).run.pace
        assert pace is not None
        assert pace.step_s == pytest.approx(each_s, rel=0.05)


def test_a_direction_is_more_than_noise() -> None:
    assert direction(metric("loss", FALLING, "")) == -1
    assert direction(metric("loss", tuple(reversed(FALLING)), "")) == 1
    assert direction(metric("loss", NOISE, "")) == 0
    assert direction(metric("loss", (3.0, 2.0, 1.0), "")) == 0
    assert direction(metric("loss", (2.0,) * 60, "")) == 0


def test_hostile_units_and_values() -> None:
    made = shown({"loss": metric("loss", (nan, 1e300), "")}, goal=Goal(1e18, 1e300, HOSTILE, 1e17))
    message = text(made)
    assert "\x1b" not in message
    assert "\n" not in message


def test_the_last_checkpoint_is_that_of_the_run_whatever_the_window() -> None:
    lines = [f"2026-03-02 10:{at:02d}:00 INFO [ckpt] write.done step={at} write_ms=900.0" for at in (1, 5)]
    lines += [f"2026-03-02 10:{at:02d}:30 INFO step {at} | loss 2.5" for at in range(30)]
    run = diagnose_texts({"trainer.log": "\n".join(sorted(lines))}).run
    assert run.saved is not None
    assert run.end - run.saved == pytest.approx(24 * 60 + 30, abs=1)
    assert diagnose_texts({"trainer.log": lines[5]}).run.saved is None


def test_an_end_far_before_the_goal_is_stated_and_the_day_where_it_is_another_one() -> None:
    goal = Goal(500.0, 60_000.0, "step", early=True)
    early = shown(state=Progress.FINISHED, since=snapshot().run.end - 60.0, goal=goal)
    assert text(early).startswith(" ended early, 60 s ago · step 500 of 60,000")
    earlier = datetime(2026, 3, 4, 9, 15, 20, tzinfo=UTC).timestamp()
    dated = replace(shown(state=Progress.FINISHED, since=earlier, goal=goal), dated=True)
    assert "ago (2026-03-04 09:15:20) · step 500" in text(dated)
    assert "ago (2026-03-04)  step 500" in text(dated, 80)


def test_an_engine_without_requests_is_idle() -> None:
    end = snapshot().run.end
    late: dict[str, Any] = {"goal": None, "saved": None, "pace": Pace(end - 500.0, 10.0, 30.0, False)}
    assert text(shown({}, idle=end - 420.0, **late)) == " idle for 7m"
    assert text(shown({}, **late)).startswith(" no progress for 8m")


def test_errors_of_several_runs_are_not_those_of_this_one() -> None:
    assert text(shown(errors=78, runs=40)).endswith("! 78 errors in 40 runs")


def test_a_pause_that_is_longer_than_usual_is_shown_before_it_is_a_stall() -> None:
    made = shown()
    end = made.snapshot.run.end if made.snapshot else 0.0
    pace = Pace(end - 18.0, 2.0, 30.0, True, 2.1)
    assert text(shown(pace=pace)).startswith(" no step for 10 s (usually every 2.0 s) · step 199")
    assert text(shown(pace=replace(pace, last=end - 9.0))).startswith(" running")
    assert text(shown(pace=replace(pace, usual_s=10.0))).startswith(" running")
    assert text(shown(pace=replace(pace, of_steps=False))).startswith(" no progress for 10 s")


def test_the_time_of_a_step_is_that_of_the_log_where_no_line_states_it() -> None:
    end = snapshot().run.end
    pace = Pace(end, 20.0, 60.0, True, 2.06)
    assert "2.1 s/step ·" in text(shown({}, pace=pace))
    assert "2.1 s/step · " in text(shown({}, pace=pace), 120)
    assert "3.1 s/step" in text(shown(pace=pace))
