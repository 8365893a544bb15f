"""How far a run is on its way: by the counter of its steps, and by none that counts a part of it."""

from __future__ import annotations

import pytest

from perfmon.selftest import diagnose_texts
from perfmon.snapshot import Goal

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
