"""When the monitor judges: rarely where that costs, soon where somebody looks at a moment that stands still."""

from __future__ import annotations

from dataclasses import replace

from snapshots import healthy

from perfmon.monitor.scheduling import EvaluationScheduler
from perfmon.rules import Pace


def after(cost_s: float, *, played: bool = False) -> EvaluationScheduler:
    """It judged at 100 s, which cost that much."""
    pace = EvaluationScheduler(played=played)
    pace.judged(100.0, cost_s, 1, until=5000.0)
    return pace


def test_a_dear_judgement_of_a_run_is_not_repeated_soon() -> None:
    assert not after(0.07).due(109.0, 2)
    assert after(0.07).due(110.1, 2)


def test_what_is_played_is_judged_more_often_for_its_time_may_fly() -> None:
    assert after(0.07, played=True).due(103.0, 2)
    assert not after(0.07, played=True).due(101.5, 2)


def test_at_the_end_and_in_a_pause_the_last_lines_are_judged_at_once() -> None:
    assert after(0.07).due(101.1, 2, still=True)
    assert not after(0.07).due(100.5, 2, still=True)


def test_where_nothing_was_said_since_nothing_is_judged_anew_for_a_while() -> None:
    assert not after(0.001).due(105.0, 1, still=True)
    assert after(0.001).due(112.1, 1)


def test_a_silence_that_is_played_is_judged_as_its_time_goes() -> None:
    assert after(0.001, played=True).due(101.1, 1)
    assert not after(0.001, played=True).due(105.0, 1, still=True)


def test_a_judgement_that_lags_behind_what_is_said_tells_its_age() -> None:
    pace = after(0.14)
    assert pace.behind_s(109.9, 2) is None
    assert pace.behind_s(112.0, 2) == 12.0
    assert pace.behind_s(112.0, 1) is None  # nothing was said since
    assert EvaluationScheduler().behind_s(112.0, 2) is None


def test_a_run_is_judged_once_when_its_pause_outlasts_its_rhythm() -> None:
    pace, whole = after(0.001), healthy()
    paused = replace(whole, run=replace(whole.run, pace=Pace(1000.0, 2.0, 30.0, True)))
    assert not pace.stall_begins(paused, 1030.5)
    assert pace.stall_begins(paused, 1031.5)
    assert not pace.stall_begins(paused, 1040.0)
    assert not pace.stall_begins(whole, 1040.0)
    assert not after(0.001, played=True).stall_begins(paused, 1040.0)


def test_it_is_known_up_to_which_moment_was_judged_where_more_has_come_since() -> None:
    assert after(0.07).judged_until(2) == 5000.0
    assert after(0.07).judged_until(1) is None
