"""A log is stale by its own rhythm."""

from __future__ import annotations

from pictures import source

from perfmon.monitor.ingest import ended_where_silent
from perfmon.monitor.source_health import SourceHealth, stale_sources
from perfmon.store.source_state import SourceState
from perfmon.viewmodel import Freshness


def test_a_log_that_speaks_every_second_is_stale_after_ten() -> None:
    lively, state = SourceHealth(), SourceState("a.log", 0)
    for at in range(20):
        lively.arrived(float(at), live=True)
    assert lively.freshness(20.0, state) is Freshness.FRESH
    assert lively.freshness(26.0, state) is Freshness.LAGGING
    assert lively.freshness(30.0, state) is Freshness.STALE


def test_a_log_that_speaks_every_minute_is_not() -> None:
    lively, state = SourceHealth(), SourceState("a.log", 0)
    for at in range(0, 1200, 60):
        lively.arrived(float(at), live=True)
    assert lively.freshness(1140.0 + 120.0, state) is Freshness.FRESH
    assert lively.freshness(1140.0 + 301.0, state) is Freshness.STALE


def test_a_server_that_is_silent_when_idle_is_stale_after_an_hour_only() -> None:
    lively, state = SourceHealth(), SourceState("vllm.log", 0)
    state.idle_silence = True
    lively.arrived(0.0, live=True)
    assert lively.freshness(5.0, state) is Freshness.FRESH
    assert lively.freshness(3500.0, state) is Freshness.IDLE
    assert lively.freshness(3700.0, state) is Freshness.STALE
    assert lively.freshness(3700.0, state, alone=False) is Freshness.IDLE
    trainer, of_trainer = SourceHealth(), SourceState("train.log", 1)
    trainer.arrived(3699.0, live=True)
    assert stale_sources([(lively, state)], 3500.0) == ([], True)
    assert stale_sources([(lively, state)], 3700.0) == ([lively], False)
    assert stale_sources([(lively, state), (trainer, of_trainer)], 3700.0) == ([], True)


def test_one_that_said_nothing_yet_is_waited_for_and_one_that_ended_has_ended() -> None:
    state = SourceState("a.log", 0)
    assert SourceHealth().freshness(5.0, state) is Freshness.WAITING
    state.ended = True
    assert SourceHealth().freshness(5.0, state) is Freshness.ENDED


def test_rates_are_those_of_the_last_seconds() -> None:
    lively = SourceHealth()
    for at in range(30):
        lively.count(float(at), 100 * at if at < 20 else 2000, 10 * at)
    assert lively.rates() == (0.0, 10.0)


def test_a_server_whose_last_statistics_show_work_is_not_idle() -> None:
    lively, state = SourceHealth(), SourceState("vllm.log", 0)
    state.idle_silence = state.busy = True
    for at in range(0, 300, 10):
        lively.arrived(float(at), live=True)
    assert lively.freshness(295.0, state) is Freshness.FRESH
    assert lively.freshness(400.0, state) is Freshness.STALE
    assert stale_sources([(lively, state)], 400.0) == ([lively], False)


def test_a_pause_that_has_come_twice_may_come_again() -> None:
    lively, state = SourceHealth(), SourceState("a.log", 0)
    for at in (*range(30), *range(80, 110), *range(160, 190), *range(240, 260)):
        lively.arrived(float(at), live=True)
    assert lively.freshness(259.0 + 55.0, state) is not Freshness.STALE
    assert lively.freshness(259.0 + 105.0, state) is Freshness.STALE


def test_two_lines_have_no_rhythm() -> None:
    lively, state = SourceHealth(), SourceState("a.log", 0)
    state.lines = 2
    lively.arrived(0.0, live=True)
    assert lively.freshness(200.0, state) is not Freshness.STALE
    assert lively.freshness(310.0, state) is Freshness.STALE


def test_in_a_run_that_is_over_a_quiet_log_has_ended() -> None:
    quiet = (Freshness.STALE, Freshness.LAGGING, Freshness.IDLE, Freshness.FRESH, Freshness.WAITING)
    shown = ended_where_silent(tuple(source(freshness=one, lines_per_s=0.0) for one in quiet))
    assert [one.freshness for one in shown] == [*[Freshness.ENDED] * 4, Freshness.WAITING]
    (going_on,) = ended_where_silent((source(freshness=Freshness.FRESH, lines_per_s=2.0),))
    assert going_on.freshness is Freshness.FRESH
