"""Which moment it is for a run whose clock is not ours."""

from __future__ import annotations

import pytest

from perfmon.monitor.scheduling import RunClock

ZONE = 7200.0


def test_it_goes_on_where_the_lines_stop() -> None:
    present = RunClock(600.0)
    present.arrived(1000.0 + ZONE, 1000.2)
    present.arrived(1001.0 + ZONE, 1001.1)
    assert present.now(1030.0) == pytest.approx(1030.0 - 0.1 + ZONE)
    assert present.silent_s(1030.0) == pytest.approx(1030.0 - 0.1 - 1001.0)


def test_a_line_that_comes_late_does_not_set_the_clock_back() -> None:
    present = RunClock(600.0)
    present.arrived(1000.0, 1000.1)
    present.arrived(1001.0, 1009.0)
    assert present.now(1010.0) == pytest.approx(1010.0 - 0.1)


def test_logs_that_were_there_are_dated_by_their_files() -> None:
    present = RunClock(600.0)
    present.written(5000.0, changed_at=900.0, arrived_at=1000.0)
    assert present.now(1000.0) == 5100.0
    assert present.watched


@pytest.mark.parametrize("window_s", [600.0, float("inf")])  # all is judged: that makes no old log a recent one
def test_a_run_that_is_long_over_ends_where_it_ended(window_s: float) -> None:
    present = RunClock(window_s)
    present.written(5000.0, changed_at=100.0, arrived_at=90_000.0)
    assert not present.watched
    assert present.now(90_000.0) == 5000.0
    assert present.silent_s(90_000.0) == 89_900.0


def test_it_stops_where_the_run_ended() -> None:
    present = RunClock(600.0)
    present.arrived(1000.0, 1000.0)
    assert (present.now(9000.0), present.now(9000.0, over=True)) == (9000.0, 1000.0)
    assert present.silent_s(9000.0) == 8000.0


def test_before_any_line_there_is_no_present() -> None:
    assert RunClock(600.0).now(10.0) is None
