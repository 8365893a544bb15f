"""How far a run is on its way: by the counter of its steps, and by none that counts a part of it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from perfmon.cli import main
from perfmon.core.errors import ExitCode
from perfmon.core.model import Progress
from perfmon.diagnosis.result import Goal
from perfmon.pipeline.offline import diagnose_texts

_BAR = "{share:3}%|####      | {done}/{total} [{minutes:02d}:00<{left:02d}:00, 60.00s/it]"


def _bar(total: int, *done: int) -> str:
    """The frames of a trainer's bar, which makes a step a minute."""
    frames = (
        _BAR.format(share=100 * at // total, done=at, total=total, minutes=at, left=min(99, total - at)) for at in done
    )
    return "\r".join(frames)


def _goal(log: str) -> Goal | None:
    return diagnose_texts({"train.log": log}).run.goal


def test_it_is_told_by_the_counter_of_the_steps() -> None:
    goal = _goal(_bar(40, 1, 2, 3, 4))
    assert goal is not None
    assert (goal.done, goal.total) == (4.0, 40.0)
    assert goal.remaining_s == pytest.approx(36 * 60.0)


def test_a_counter_that_begins_anew_counts_a_part_of_the_run() -> None:
    assert _goal("\n".join(_bar(10, *range(1, 11)) for _ in range(3)) + "\n" + _bar(10, 1, 2, 3)) is None


def _frame(done: int, total: int, elapsed_s: int, more: str = "") -> str:
    clock, left = f"{elapsed_s // 60:02d}:{elapsed_s % 60:02d}", "?" if not done else "01:00"
    return f"{100 * done // total:3}%|####      | {done}/{total} [{clock}<{left}, 2.00s/it{more}]"


def _nested(totals: list[int], upto: int, more: str = "") -> str:
    """A bar of epochs, and below it one for the batches of each, none with a name; so many frames of batches."""
    frames, passed = [_frame(0, len(totals), 0)], 0
    for epoch, total in enumerate(totals, 1):
        for done in range(0, total + 1, 10):
            frames.append(_frame(done, total, 2 * done, more))
            upto -= 1
            if not upto:
                return "\n".join(frames)
        passed += 2 * total
        frames.append(_frame(epoch, len(totals), passed))
    return "\n".join(frames)


@pytest.mark.parametrize("more", ["", ", loss=1.2"], ids=["bare", "with a loss"])
@pytest.mark.parametrize("totals", [[200] * 5, [200, 180, 210, 190, 200]], ids=["alike", "of other lengths"])
@pytest.mark.parametrize(("upto", "done"), [(8, 0), (21, 0), (30, 1), (50, 2), (200, 5)])
def test_of_two_bars_without_a_name_the_outer_one_counts(totals: list[int], upto: int, done: int, more: str) -> None:
    goal = _goal(_nested(totals, upto, more))
    assert goal is not None
    assert (goal.done, goal.total) == (done, 5)


def test_a_full_inner_bar_is_no_end() -> None:
    run = diagnose_texts({"train.log": _nested([200] * 5, 21, ", loss=1.2")}).run
    assert run.state is Progress.RUNNING


def test_a_bar_that_stopped_before_another_one_began_holds_nothing() -> None:
    prepared = [_frame(0, 1, 0), _frame(1, 1, 3), *(_frame(done, 100, done) for done in range(0, 90, 10))]
    goal = _goal("\n".join([*prepared, *(_frame(done, 1000, 2 * done) for done in range(0, 300, 10))]))
    assert goal is not None
    assert goal.total == 1000


def test_a_start_that_resumes_further_on_does_not_speed_the_run_up() -> None:
    def line(step: int, seconds: int) -> str:
        return f"2026-03-02 10:{seconds // 60:02d}:{seconds % 60:02d} step {step}/1000 loss: 1.5"

    first = [line(10 + at, 10 * at) for at in range(30)]
    second = [line(500 + at, 400 + 10 * at) for at in range(30)]  # its checkpoint is of a run that this log has not
    goal = _goal("\n".join(first + second) + "\n")
    assert goal is not None
    assert goal.remaining_s == pytest.approx(471 * 10.0)


_LOSS = "{'loss': 1.5, 'grad_norm': 0.75, 'learning_rate': 1e-05, 'epoch': 0.1}"


@pytest.mark.parametrize("first", [0, 1], ids=["after none", "after one"])
@pytest.mark.parametrize("rank", ["", "[rank3]: "])
@pytest.mark.parametrize("again", [False, True], ids=["once", "with the bar again"])
def test_a_bar_that_turns_out_to_be_the_trainers_is_one_counter(first: int, rank: str, again: bool) -> None:
    lines = [rank + _frame(done, 500, 2 * done) for done in range(first + 1)]
    for done in range(max(first, 1), 61):
        frame = rank + _frame(done, 500, 2 * done)
        lines += [frame, _LOSS, frame] if again else [frame, _LOSS]
    run = diagnose_texts({"train.log": "\n".join(lines)}).run
    assert run.goal is not None
    assert (run.goal.done, run.goal.total) == (60, 500)
    assert run.goal.remaining_s == pytest.approx(440 * 2.0)
    assert run.end - run.start == pytest.approx(120.0)


@pytest.mark.parametrize("label", ["Epoch {}, loss: 0.{}: ", "Training: ", "Fitting: "])
@pytest.mark.parametrize("rank", ["", "[rank3]: "])
def test_a_bar_that_gets_its_name_later_is_one_counter(label: str, rank: str) -> None:
    frames = [rank + _frame(0, 500, 0)]
    frames += [rank + label.format(done, done) + _frame(done, 500, 20 * done) for done in range(1, 60, 4)]
    goal = _goal("\n".join(frames))
    assert goal is not None
    assert (goal.done, goal.total) == (57, 500)
    assert goal.remaining_s == pytest.approx(443 * 20.0)


def test_a_bar_whose_later_frames_show_a_loss_is_one_counter() -> None:
    frames = [_frame(done, 500, 20 * done, ", loss=1.2" if done else "") for done in range(30)]
    goal = _goal("\n".join(frames))
    assert goal is not None
    assert goal.done == 29


def test_a_named_bar_within_one_of_the_same_total_is_its_own() -> None:
    frames, passed = [_frame(0, 10, 0)], 0
    for epoch in range(1, 5):
        frames += [f"Epoch {epoch}: " + _frame(done, 10, 20 * done) for done in range(11)]
        passed += 200
        frames.append(_frame(epoch, 10, passed))
    run = diagnose_texts({"train.log": "\n".join(frames)}).run
    assert run.goal is not None
    assert (run.goal.done, run.goal.total) == (4, 10)
    assert run.end - run.start == pytest.approx(800.0)


def test_a_run_that_is_over_has_no_remaining_time() -> None:
    frames = [_frame(done, 500, 2 * done) for done in range(0, 300, 10)]
    end = "{'train_runtime': 600.2, 'train_samples_per_second': 6.3, 'train_loss': 0.38, 'epoch': 1.0}"
    run = diagnose_texts({"train.log": "\n".join([*frames, end, ""])}).run
    assert run.state is Progress.FINISHED
    assert run.goal is not None
    assert run.goal.remaining_s is None


def _shares(log: str) -> dict[str, float]:
    return {entry.cause: entry.share for entry in diagnose_texts({"train.log": log}).ledger}


@pytest.mark.parametrize("total", [1, 760])
@pytest.mark.parametrize("first", [True, False], ids=["from its begin", "full at once"])
def test_what_a_full_bar_took_was_its_work(total: int, first: bool) -> None:
    frames = [_frame(0, total, 0)] if first else []
    assert _shares("\n".join([*frames, _frame(total, total, 1592), ""]))["productive"] > 0.99


def test_a_first_item_may_hold_a_start() -> None:
    assert _shares("\n".join([_frame(0, 500, 0), _frame(1, 500, 600), ""]))["startup"] > 0.99


def _epochs(count: int) -> str:
    rows = (
        "      {at}/{count}      4.11G      1.744      2.310      1.388         48        640: 100%|####| 188/188 "
        "[01:00<00:00,  3.13it/s]\n"
    )
    return "".join(rows.format(at=at, count=count) for at in range(1, count + 1))


@pytest.mark.parametrize(
    "before",
    [
        "train: Scanning /data/labels... 50029 images, 0 corrupt: 100%|####| 68434/68434 [01:39<00:00, 686.04it/s]\n",
        "train: Caching images (3.2GB ram): 100%|####| 68434/68434 [00:39<00:00, 1686.04it/s]\n",
        "100%|####| 6.25M/6.25M [01:43<00:00, 63.4kB/s]\n",
        "  0%|          | 0/1426 [00:00<?, ?it/s]\n",
    ],
)
def test_what_is_scanned_or_copied_before_the_epochs_is_no_goal(before: str) -> None:
    goal = _goal(before + _epochs(6))
    assert goal is not None
    assert (goal.done, goal.total) == (6.0, 6.0)


def test_a_bar_that_is_over_at_once_is_no_goal_where_another_one_took_its_time() -> None:
    brief = "100%|####| 25000/25000 [00:00<00:00, 26335.95it/s]\n"
    goal = _goal(_frame(0, 760, 0) + "\n" + _frame(760, 760, 1592) + "\n" + brief)
    assert goal is not None
    assert goal.total == 760.0
    goal = _goal(brief)
    assert goal is not None
    assert goal.total == 25000.0


def test_what_was_over_at_once_before_a_run_failed_is_no_goal() -> None:
    brief = "100%|####| 25000/25000 [00:00<00:00, 26335.95it/s]\n"
    died = (
        'Traceback (most recent call last):\n  File "pretrain.py", line 12, in <module>\n'
        '    raise ValueError("none")\nValueError: none\n'
    )
    assert _goal(brief + died) is None


def test_steps_that_state_their_time_tell_what_is_left_without_a_clock() -> None:
    log = "".join(f"iteration {n}/1000 | elapsed time per iteration (ms): 500.0 | lm loss: 2.5\n" for n in range(1, 41))
    goal = _goal(log)
    assert goal is not None
    assert goal.remaining_s == pytest.approx(480.0)


def test_what_is_copied_before_is_no_goal() -> None:
    frames = "\r".join(
        f" {share}%|███       | {share}M/100M [00:0{share // 50}<00:01, 50MB/s]" for share in (10, 50, 90)
    )
    assert _goal(f"Downloading the features\n{frames}\r100%|██████████| 100M/100M [00:02<00:00, 50MB/s]\n") is None


def test_a_bar_before_the_first_clock_is_a_clock_behind_it() -> None:
    head = "\r  0%|          | 0/400 [00:00<?, ?it/s]"
    frames = "\r".join(_frame(done, 400, 10 * done) for done in range(1, 61))
    log = (
        f"{head}[rank0]:[W304 09:15:20.087800751 reducer.cpp:1431] Warning: unused parameters.\n"
        f"{frames}\n{{'loss': 1.5, 'learning_rate': 1e-05, 'epoch': 0.1}}\n"
        "[rank0]:[W304 09:25:22.197940985 ProcessGroupNCCL.cpp:1524] Warning: destroy_process_group() was not called\n"
    )
    run = diagnose_texts({"train.log": log})
    assert {one.cause: one.lost_s for one in run.ledger}.get("productive", 0.0) > 500


def test_the_time_between_two_runs_is_no_part_of_the_pace() -> None:
    def lines(first: int, last: int, hour: int) -> str:
        at = ((step, 2 * (step - first)) for step in range(first, last + 1))
        return "".join(f"2026-03-02 {hour}:{s // 60:02d}:{s % 60:02d} step {step}/1000 loss: 1.5\n" for step, s in at)

    resumed = "2026-03-02 14:00:00 Using device: cuda\n2026-03-02 14:00:01 Resuming from step 100\n"
    goal = _goal(f"{lines(1, 120, 10)}{resumed}{lines(101, 200, 15)}")
    assert goal is not None
    assert goal.remaining_s == pytest.approx(1600.0, rel=0.05)


def test_the_bar_of_an_evaluation_is_no_goal_next_to_that_of_epochs() -> None:
    epochs = [
        f"Epoch {at}: 100%|██████████| 300/300 [01:12<00:00,  4.17it/s, v_num=2]\n"
        "Validation:   0%|          | 0/1 [00:00<?, ?it/s]\n"
        "Validation DataLoader 0: 100%|██████████| 1/1 [00:00<00:00, 408.32it/s]"
        for at in range(3)
    ]
    goal = _goal("\n".join([*epochs, "`Trainer.fit` stopped: `max_epochs=3` reached."]))
    assert goal is not None
    assert (goal.done, goal.total, goal.unit) == (3.0, 3.0, "epochs")


@pytest.mark.parametrize("silent_s", [2.0, 200.0])
def test_a_run_that_stands_still_has_no_time_left(
    silent_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    log, last = tmp_path / "train.log", time.time() - silent_s
    stamps = [time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(last - (60 - at) * 5)) for at in range(1, 61)]
    lines = [f"{stamp},000 INFO train: step {at}/2000 loss 1.2 step_time 5.0s" for at, stamp in enumerate(stamps, 1)]
    log.write_text("\n".join(lines) + "\n")
    os.utime(log, (last, last))
    for command in (["analyze"], ["snapshot", "-o", "-"], ["snapshot", "--for", "100ms", "-o", "-"]):
        assert main([*command, str(log)]) == ExitCode.DONE
        out = " ".join(capsys.readouterr().out.split())
        assert "60 of 2,000 steps" in out
        assert (" left" in out) == (silent_s < 100.0), command
        assert "| unaccounted |" not in out
