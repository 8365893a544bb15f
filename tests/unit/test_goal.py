"""How far a run is on its way: by the counter of its steps, and by none that counts a part of it."""

from __future__ import annotations

import pytest

from perfmon.core.model import Progress
from perfmon.diagnosis.result import Goal
from perfmon.pipeline.signature_tests import diagnose_texts

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
