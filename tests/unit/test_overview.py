"""The axis of a timeline, which fits what was observed, and the whole run in one row."""

from __future__ import annotations

from dataclasses import replace
from math import isnan
from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.clocks.alignment import align
from perfmon.core.model import Ref
from perfmon.sources.discovery import LogFile
from perfmon.store.store import Store
from perfmon.viewmodel import AlertState, Level, Overview, TimeRange, Transition
from perfmon.viewmodel.buckets import OverviewBuilder, fitted_span, viewport

KEY = ("stall", ())


@pytest.mark.parametrize("observed", [0.0, 3.0, 10.0, 75.0, 599.0, 4000.0, 1e6])
def test_a_young_run_has_all_of_the_axis(observed: float) -> None:
    port = viewport(TimeRange(columns=100), 1e9 + observed, 600.0, 1e9, over=False)
    length = port.end - port.start
    assert length == pytest.approx(min(600.0, fitted_span(observed)))
    assert observed <= fitted_span(observed) * (1 + 1e-9)
    assert fitted_span(observed) <= max(10.0, 1.2 * observed) * (1 + 1e-9), "hardly any of it is empty"
    assert port.end - max(port.column_s, 3.1) <= 1e9 + observed <= port.end + 1e-6
    assert port.end - length / 10 - port.column_s <= 1e9 + observed


def test_a_run_that_is_over_has_no_more_than_it_needs() -> None:
    port = viewport(TimeRange(columns=100), 1361.0, 600.0, 1000.0, over=True)
    assert port.end - port.start == pytest.approx(361.0)


def test_a_longer_range_shows_no_more_than_there_is_and_a_shorter_one_what_was_requested() -> None:
    for span, result in ((3600.0, fitted_span(700.0)), (60.0, 60.0), (None, 600.0)):
        port = viewport(TimeRange(None, span, 50), 1700.0, 600.0, 1000.0, over=False)
        assert port.end - port.start == pytest.approx(result)
    unknown = viewport(TimeRange(None, 3600.0, 50), 1700.0, 600.0, over=False)
    assert unknown.end - unknown.start == pytest.approx(3600.0), "no line has a time"


def built(times: list[float], now: float, ticks: tuple[Transition, ...] = (), columns: int = 10) -> Overview:
    store = Store()
    store.add_source("trainer.log")
    for at, time in enumerate(times):
        store.step("trainer", time, float(at + 1), Ref(0, at + 1, 0))
    made = OverviewBuilder(store).build(0.0, now, columns, align(store), ticks)
    assert made is not None
    return made


def test_the_pace_of_a_run_is_that_of_its_steps_and_falls_while_none_comes() -> None:
    steady = built([10.0 * at for at in range(1, 11)], 100.0)
    assert [pace for pace in steady.paces if not isnan(pace)] == pytest.approx([0.1] * 9)
    stalled = built([10.0 * at for at in range(1, 6)], 100.0)
    assert stalled.paces[4] == pytest.approx(0.1)
    assert stalled.paces[9] < 0.03
    paused = built([10.0, 20.0, 30.0, 90.0, 100.0], 100.0)
    assert paused.paces[5] == pytest.approx(1 / 60)
    assert isnan(steady.paces[0]), "nothing is known before the first step"
    assert all(map(isnan, built([10.0], 100.0).paces))


def test_alerts_have_the_columns_in_which_they_were_active() -> None:
    fired = Transition(30.0, KEY, AlertState.FIRING, Level.CRITICAL)
    over = Transition(52.0, KEY, AlertState.RESOLVED, Level.CRITICAL)
    again = replace(fired, time=91.0)
    made = built([], 100.0, (fired, over, again))
    span = made.viewport.end - made.viewport.start
    assert [made.levels[made.viewport.column(time)] for time in (5.0, 31.0, 50.0, 75.0, 95.0)] == [0, 3, 3, 0, 3]
    assert made.starts == ((30.0, Level.CRITICAL), (91.0, Level.CRITICAL))
    assert span == pytest.approx(fitted_span(100.0))


def test_a_run_that_has_not_begun_has_none() -> None:
    builder = OverviewBuilder(Store())
    assert builder.build(None, 10.0, 10, align(Store()), ()) is None
    assert builder.build(10.0, 10.0, 10, align(Store()), ()) is None


def test_the_monitor_fits_the_axis_and_shows_the_whole_run() -> None:
    log, run = LogFile("trainer.log", Path("/trainer.log")), HandFed(1_772_452_800.0)
    for second in range(60):
        run.say(log, f"2026-03-02 12:00:{second:02d} INFO step {second + 1}/1000 | loss 2.5 | 1.00 s/step")
        run.feed.now += 1.0
    picture = run.look(1)
    length = picture.board.viewport.end - picture.board.viewport.start
    assert 59.0 <= length <= 72.0
    assert picture.overview is not None
    assert picture.overview.viewport.end - picture.overview.viewport.start == pytest.approx(length)
    assert max(pace for pace in picture.overview.paces if not isnan(pace)) == pytest.approx(1.0)
