"""Steps without timestamps between two lines with one."""

from __future__ import annotations

from itertools import pairwise

import pytest
from feeding import feed

from perfmon.core import Config
from perfmon.pipeline import Session
from perfmon.store import Series

BEGIN = "2026-03-02 10:00:00,000 INFO launching 4 processes\n"
END = "2026-03-02 10:15:00,000 ERROR a process failed (exitcode: -9)\n"


def _steps(count: int, more: str = "") -> str:
    return "".join(f"step {5 * n}/20000 loss {2.5 - 0.001 * n:.3f}{more}\n" for n in range(count))


def _loss(*blocks: str) -> tuple[Session, Series]:
    session = Session(Config())
    feed(session, "train.log", blocks)
    session.lay()
    return session, session.store.series["loss", ""]


def test_they_are_spread_evenly_over_the_time_between() -> None:
    session, loss = _loss(BEGIN + _steps(299) + "Traceback (most recent call last):\n" + END)
    assert [after - before for before, after in pairwise(loss.times)] == [pytest.approx(3.0)] * 298
    assert loss.times[0] == pytest.approx((session.store.sources[0].first or 0.0) + 3.0)
    run = session.snapshot().run
    assert run.goal is not None
    assert run.goal.done == 1490
    assert run.pace is not None
    assert run.pace.step_s == pytest.approx(0.6)
    assert {row.cause: row.share for row in session.snapshot().ledger}["productive"] > 0.9


def test_it_does_not_matter_how_they_are_read_and_it_happens_once() -> None:
    text = BEGIN + _steps(299) + END + _steps(20) + END.replace(":15:", ":16:")
    session, loss = _loss(text)
    _, cut = _loss(*text.splitlines(keepends=True))
    assert list(loss.times) == list(cut.times)
    session.lay()
    assert list(loss.times) == list(cut.times)


@pytest.mark.parametrize(
    ("steps", "why"),
    [
        (_steps(2), "a table behind a line"),
        (_steps(100, " step_time 0.1s"), "50 s of 15 minutes: it stood still, or had not begun"),
    ],
)
def test_these_stay_where_they_are(steps: str, why: str) -> None:
    _, loss = _loss(BEGIN + steps + END)
    assert len(set(loss.times)) == 1, why


def test_steps_that_state_what_they_took_are_spread_where_that_fits() -> None:
    _, loss = _loss(BEGIN + _steps(100, " step_time 1.8s") + END)
    assert len(set(loss.times)) == 100
