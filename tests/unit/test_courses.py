"""The courses of metrics for charts: extremes, smoothed means, and a baseline run at the same age."""

from __future__ import annotations

from math import isnan, nan
from pathlib import Path

import pytest
from handfed import HandFed
from hypothesis import given, strategies
from snapshots import metric, snapshot

from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import TimeRange, Viewport
from perfmon.viewmodel.buckets import baseline_run, course_of, held_values, smoothed

PORT = Viewport(1000.0, 1100.0, 10)


def test_a_course_has_the_least_the_largest_and_the_mean_of_each_part() -> None:
    course = course_of([(1000.5, 3.0), (1001.0, 5.0), (1004.0, 1.0), (1099.0, 2.0), (900.0, 9.0)], PORT, 20)
    assert (course.lows[0], course.highs[0], course.means[0]) == (1.0, 5.0, 3.0)
    assert isnan(course.means[1])
    assert course.highs[19] == 2.0


def test_a_monitor_makes_the_courses_that_are_requested() -> None:
    log, run = LogFile("trainer.log", Path("/trainer.log")), HandFed(1_772_452_800.0)
    for second in range(60):
        run.say(log, f"2026-03-02 12:00:{second:02d} INFO step {second + 1}/99 | loss {3.0 - second / 60:.3f}")
        run.feed.now += 1.0
    run.look(1)
    plain = run.watch.picture(TimeRange(columns=50), 2)
    assert plain.board.courses == {}
    charted = run.watch.picture(TimeRange(columns=50, charted=("loss", "nothing"), points=30), 3)
    assert set(charted.board.courses) == {"loss"}
    course = charted.board.courses["loss"]
    assert len(course.lows) == len(course.highs) == len(course.means) == 30
    known = [at for at in range(30) if not isnan(course.means[at])]
    assert all(course.lows[at] < course.means[at] < course.highs[at] for at in known[1:-1])
    assert run.watch.picture(TimeRange(columns=50), 4).board.courses == {}


def test_a_mean_is_over_what_was_measured() -> None:
    values = (1.0, nan, 3.0, 5.0, nan, nan, 9.0)
    assert list(smoothed(values, 2))[:1] == [1.0]
    assert smoothed(values, 4)[2] == 3.0
    assert [at for at, value in enumerate(smoothed(values, 4)) if isnan(value)] == [1, 4, 5]


@given(strategies.lists(strategies.floats(-1e6, 1e6) | strategies.just(nan), max_size=40), strategies.integers(1, 50))
def test_a_mean_stays_within_its_values(values: list[float], window: int) -> None:
    shown = smoothed(values, window)
    known = [value for value in values if not isnan(value)]
    assert len(shown) == len(values)
    slack = 1e-6 * max(map(abs, known), default=0.0)
    assert all(isnan(one) or min(known) - slack <= one <= max(known) + slack for one in shown)


@given(strategies.lists(strategies.floats(0, 9) | strategies.just(nan), max_size=40))
def test_holding_adds_nothing_but_the_value_before(values: list[float]) -> None:
    last = nan
    for before, after in zip(values, held_values(values), strict=True):
        last = last if isnan(before) else before
        assert isnan(after) or after == last
        assert isnan(before) or after == before


def test_a_baseline_is_shown_at_the_same_age() -> None:
    values = tuple(float(at) for at in range(15))
    run = baseline_run("before", snapshot(metrics={"loss": metric("loss", values, "")}))  # 40 s apart
    course = run.course("loss", Viewport(5000.0, 5400.0, 10), 5000.0, 10)
    assert list(course) == [float(at) for at in range(10)]
    later = run.course("loss", Viewport(5500.0, 5900.0, 10), 5000.0, 10)
    assert list(later)[:2] == pytest.approx([13.0, 14.0])
    assert isnan(later[5]), "it is over"
    assert all(map(isnan, run.course("reward", PORT, 1000.0, 4)))
