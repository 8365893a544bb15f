"""Findings of successive windows become alerts: counted once, with a life, and what a user lays over it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from snapshots import finding, snapshot

from perfmon.alerting.alerts import AlertManager
from perfmon.core.model import Severity, TimeBase
from perfmon.diagnosis.result import Diagnosis, Finding, Moment
from perfmon.viewmodel import Alert, AlertKey, AlertState, Level

BEGIN = 1_000_000.0
WINDOW_S = 600.0
KEY: AlertKey = ("frontend-queue", (("url", "http://a"),))
Event = tuple[float, float]
"""An occurrence: when it ended, and how many seconds before that it began."""


def found(events: dict[int, Event], start: float, end: float, state: str = "firing", **changes: Any) -> Finding | None:
    """What a window says of occurrences, by their numbers; None where it holds none."""
    inside = {name: event for name, event in events.items() if start <= event[0] <= end}
    if not inside:
        return None
    times = {name: (max(at - long, start) - start, at - start) for name, (at, long) in inside.items()}
    lost = tuple(sorted((low, high) for low, high in times.values() if high > low))
    merged: list[tuple[float, float]] = []
    for low, high in lost:
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    made = finding(
        identity={"url": "http://a"},
        state=state,
        first_s=min(low for low, _ in times.values()),
        last_s=max(high for _, high in times.values()),
        count=len(inside),
        lost=tuple(merged),
        lost_s=sum(high - low for low, high in merged),
        moments=tuple(
            Moment((name,), events[name][0] - events[name][1] - start, high) for name, (_, high) in times.items()
        ),
    )
    return replace(made, **changes)


def window(end: float, *findings: Finding | None, start: float | None = None, **run: Any) -> Diagnosis:
    """A snapshot of the ten minutes before `end`."""
    base = snapshot(findings=tuple(f for f in findings if f is not None))
    begin = end - WINDOW_S if start is None else start
    return replace(base, run=replace(base.run, start=begin, end=end, wall_s=end - begin, **run))


def other(end: float, at: float, signature: str, state: str = "firing", **changes: Any) -> Finding:
    """A finding of another signature with one occurrence at `at`."""
    begin = end - WINDOW_S
    moments = (Moment((7,), at - begin, at - begin),)
    made = finding(signature=signature, identity={}, state=state, count=1, moments=moments, lost_s=0.0)
    return replace(made, first_s=at - begin, last_s=at - begin, **changes)


def seen(
    book: AlertManager, events: dict[int, Event], end: float, stale_s: float | None = None, **changes: Any
) -> Alert:
    """The only alert after one more window."""
    alerts = book.update(window(end, found(events, end - WINDOW_S, end, **changes)), end, stale_s)
    assert len(alerts) == 1
    return alerts[0]


events_st = st.dictionaries(
    st.integers(0, 30), st.tuples(st.floats(0, 3000), st.floats(0, 100)), min_size=1, max_size=20
)


@given(events=events_st, steps=st.lists(st.floats(0.5, 590), min_size=1, max_size=40))
def test_sliding_windows_count_what_one_window_counts(events: dict[int, Event], steps: list[float]) -> None:
    book, end, counts = AlertManager(), BEGIN, [0]
    placed = {name: (BEGIN + at, long) for name, (at, long) in events.items()}
    for step in [*steps, *[300.0] * 12]:
        end += step
        alerts = book.update(window(end, found(placed, end - WINDOW_S, end)), end, None)
        counts += [alert.count for alert in alerts]
        assert sum(alert.lost_s for alert in alerts) <= _union(placed) + 1e-3
    assert counts == sorted(counts)
    assert counts[-1] == len(placed)
    whole = AlertManager().update(window(end, found(placed, BEGIN - 200, end), start=BEGIN - 200), end, None)
    assert whole[0].count == counts[-1]


@given(events=events_st, steps=st.lists(st.floats(0.5, 250), min_size=1, max_size=30))
def test_losses_are_added_up_without_a_gap_and_without_an_overlap(events: dict[int, Event], steps: list[float]) -> None:
    book, end = AlertManager(), BEGIN
    placed = {name: (BEGIN + at, long) for name, (at, long) in events.items()}
    for step in [*steps, *[250.0] * 15]:
        end += step
        alerts = book.update(window(end, found(placed, end - WINDOW_S, end)), end, None)
    assert alerts[0].state is AlertState.RESOLVED
    assert alerts[0].lost_s == pytest.approx(_union(placed), abs=1e-3)


@given(
    states=st.lists(
        st.tuples(st.sampled_from(["", "pending", "firing", "resolving", "resolved"]), st.booleans(), st.booleans()),
        max_size=25,
    )
)
def test_whatever_follows_what_counts_only_grow(states: list[tuple[str, bool, bool]]) -> None:
    book, events, highest = AlertManager(), dict[int, Event](), dict[int, int]()
    for at, (state, more, stale) in enumerate(states):
        end = BEGIN + 40.0 * at
        if more or not events:
            events[at] = (end - 1, 5.0)
        message = found(events, end - WINDOW_S, end, state) if state else None
        for alert in book.update(window(end, message), end, 20.0 if stale else None):
            assert alert.count >= highest.get(alert.number, 0)
            highest[alert.number] = alert.count
    assert len(highest) <= 1


def _union(events: dict[int, Event]) -> float:
    total, until = 0.0, float("-inf")
    for low, high in sorted((at - long, at) for at, long in events.values()):
        total += max(0.0, high - max(low, until))
        until = max(until, high)
    return total


def test_a_life_from_pending_to_resolved() -> None:
    book, events = AlertManager(), {1: (BEGIN, 0.0)}
    states = [seen(book, events, BEGIN + 10 * at, state=state).state for at, state in enumerate(
        ("pending", "firing", "resolving", "resolved")
    )]  # fmt: skip
    assert states == [AlertState.PENDING, AlertState.FIRING, AlertState.RESOLVING, AlertState.RESOLVED]
    left = book.update(window(BEGIN + 5000), BEGIN + 5000, None)
    assert [(alert.state, alert.count, alert.changed) for alert in left] == [(AlertState.RESOLVED, 1, BEGIN + 30)]


def test_what_leaves_the_window_is_resolved_and_what_never_fired_is_gone() -> None:
    book = AlertManager()
    seen(book, {1: (BEGIN, 0.0)}, BEGIN + 1)
    assert [alert.state for alert in book.update(window(BEGIN + 700), BEGIN + 700, None)] == [AlertState.RESOLVED]
    book = AlertManager()
    seen(book, {1: (BEGIN, 0.0)}, BEGIN + 1, state="pending")
    assert book.update(window(BEGIN + 700), BEGIN + 700, None) == ()


def test_what_fires_again_is_the_same_alert() -> None:
    book = AlertManager()
    first = seen(book, {1: (BEGIN, 0.0)}, BEGIN + 1)
    book.update(window(BEGIN + 700), BEGIN + 700, None)
    again = seen(book, {2: (BEGIN + 900, 0.0)}, BEGIN + 901)
    assert (again.number, again.count, again.state) == (first.number, 2, AlertState.FIRING)
    assert (again.began, again.since, again.last) == (BEGIN, BEGIN + 900, BEGIN + 900)


def test_one_that_comes_and_goes_is_flapping() -> None:
    book, flapping = AlertManager(), []
    for at, state in enumerate(("firing", "resolved", "firing", "resolved", "resolved")):
        flapping.append(seen(book, {at: (BEGIN + 50 * at, 0.0)}, BEGIN + 50 * at, state=state).flapping)
    assert flapping == [False, False, False, True, True]
    assert not book.alerts(BEGIN + 2000)[0].flapping


def test_an_explained_one_is_inhibited_while_its_cause_fires() -> None:
    book, end = AlertManager(), BEGIN
    symptom = other(end, end - 5, "generation-contention", explained_by="frontend-queue")
    cause = found({1: (end - 9, 5.0)}, end - WINDOW_S, end)
    alerts = book.update(window(end, cause, symptom), end, None)
    assert [alert.state for alert in alerts] == [AlertState.FIRING, AlertState.INHIBITED]
    assert alerts[1].inhibited_by == "frontend-queue"
    over = None if cause is None else replace(cause, state="resolved")
    after = book.update(window(end + 1, over, symptom), end + 1, None)
    assert next((alert.state, alert.inhibited_by) for alert in after) == (AlertState.FIRING, None)


def test_an_acknowledgement_ends_when_the_alert_does() -> None:
    book, events = AlertManager(), {1: (BEGIN, 0.0)}
    seen(book, events, BEGIN)
    assert book.ack(KEY)
    assert book.alerts(BEGIN)[0].state is AlertState.ACKED
    assert seen(book, events, BEGIN + 1, state="resolving").state is AlertState.RESOLVING
    assert seen(book, events, BEGIN + 2).state is AlertState.ACKED
    assert seen(book, events, BEGIN + 3, state="resolved").state is AlertState.RESOLVED
    assert not book.ack(KEY)
    assert seen(book, {2: (BEGIN + 9, 0.0)}, BEGIN + 9).state is AlertState.FIRING


def test_a_silence_lasts_until_its_time_and_can_be_undone() -> None:
    book, events = AlertManager(), {1: (BEGIN, 0.0)}
    seen(book, events, BEGIN)
    assert book.silence(KEY, BEGIN + 60)
    silenced = seen(book, events, BEGIN + 59)
    assert (silenced.state, silenced.silenced_until) == (AlertState.SILENCED, BEGIN + 60)
    assert seen(book, events, BEGIN + 60).state is AlertState.FIRING
    book.silence(KEY, BEGIN + 600)
    assert book.undo(KEY)
    assert seen(book, events, BEGIN + 61).state is AlertState.FIRING
    assert not book.undo(KEY)
    assert not book.silence(("nothing", ()), BEGIN)


def test_silent_sources_make_what_is_alive_unknown_but_not_what_speaks_of_silence() -> None:
    book, end = AlertManager(), BEGIN
    silence = finding(signature="stall", identity={}, count=1, moments=(Moment((), 500.0, 600.0),))
    queue = found({1: (end - 300, 5.0)}, end - WINDOW_S, end)
    book.update(window(end, queue, silence), end, None)
    later = book.update(window(end + 400, silence), end + 400, 400.0)
    assert {alert.key[0]: alert.state for alert in later} == {
        "stall": AlertState.FIRING,
        "frontend-queue": AlertState.UNKNOWN,
    }
    assert {alert.state for alert in book.update(window(end + 500), end + 500, None)} == {AlertState.RESOLVED}


def test_what_its_logs_tell_no_more_of_holds_until_they_were_heard_last() -> None:
    book, events = AlertManager(), {1: (BEGIN - 300, 5.0), 2: (BEGIN - 90, 5.0)}
    assert seen(book, events, BEGIN).held_until(BEGIN) == BEGIN
    for later in (60.0, 200.0):
        silent = {"orchestrator.log": BEGIN - 20, "trainer.log": BEGIN - 10}
        finding_then = found(events, BEGIN + later - WINDOW_S, BEGIN + later)
        (alert,) = book.update(window(BEGIN + later, finding_then), BEGIN + later, None, silent)
        assert (alert.state, alert.held_until(BEGIN + later)) == (AlertState.UNKNOWN, BEGIN - 20)
    assert seen(book, events, BEGIN + 210).until is None
    assert seen(book, events, BEGIN + 220, stale_s=200.0).until == BEGIN - 90


def test_nothing_is_said_to_have_held_while_nobody_judged() -> None:
    """The monitor was stopped for hours (ctrl+z), and the run went on."""
    end, hours = BEGIN, 3 * 3600.0
    events = {1: (end - 500, 5.0), 2: (end - 100, 5.0), 3: (end + hours - 200, 5.0)}
    book = AlertManager()
    assert seen(book, events, end).held_until(end) - seen(book, events, end).since == 505.0
    still = seen(book, events, end + hours)
    assert (still.state, still.since, still.count) == (AlertState.FIRING, end + hours - 205, 3)
    assert still.began == end - 505  # when it was seen first stays
    book = AlertManager()
    seen(book, events, end)
    (over,) = book.update(window(end + hours), end + hours, None)
    assert (over.state, over.changed) == (AlertState.RESOLVED, end)


def test_a_silence_that_lasts_has_held_all_the_time_however_seldom_it_was_judged() -> None:
    book, counts = AlertManager(), []
    for end, begun in ((BEGIN, 300.0), (BEGIN + 700, -400.0)):
        silence = finding(
            signature="stall", identity={}, first_s=begun, last_s=600.0, count=1, moments=(Moment((), begun, 600.0),)
        )
        (alert,) = book.update(window(end, silence), end, None)
        counts.append(end - alert.since)
    assert counts == [300.0, 1000.0]


def test_a_growing_silence_is_one_occurrence() -> None:
    book, counts = AlertManager(), []
    for at in range(5):
        moment = Moment((), 500.0 - 100 * at, 600.0)
        silence = finding(signature="stall", identity={}, count=1, moments=(moment,))
        counts.append(book.update(window(BEGIN + 100 * at, silence), BEGIN + 100 * at, None)[0].count)
    assert counts == [1] * 5
    second = finding(
        signature="stall", identity={}, count=2, moments=(Moment((), 0.0, 300.0), Moment((), 300.0, 600.0))
    )
    assert book.update(window(BEGIN + 500, second), BEGIN + 500, None)[0].count == 2


def test_a_silence_that_is_still_waited_to_end_is_as_old_as_what_it_costs() -> None:
    book, end = AlertManager(WINDOW_S), BEGIN + 600.0
    stopped = Moment((), 300.0, 1160.0)
    silence = finding(signature="stall", identity={}, count=1, first_s=300.0, last_s=600.0, moments=(stopped,))
    (alert,) = book.update(window(end, silence), end, 860.0, None, end + 560.0)
    assert alert.state is AlertState.FIRING
    assert alert.held_until(end) - alert.since == 860.0
    over = replace(silence, moments=(Moment((), 300.0, 600.0),))
    (ended,) = AlertManager(WINDOW_S).update(window(end, over), end, 860.0, None, end + 560.0)
    assert ended.held_until(end) - ended.since == 300.0


def test_a_cause_that_is_found_later_takes_over_what_was_lost_lately() -> None:
    book, events = AlertManager(), {1: (BEGIN - 5, 50.0)}
    assert seen(book, events, BEGIN).lost_s == 50.0
    assert seen(book, events, BEGIN, lost=(), lost_s=0.0).lost_s == 0.0


def test_what_a_window_cannot_tell_one_by_one_counts_too() -> None:
    book = AlertManager()
    many = seen(book, {1: (BEGIN - 5, 2.0)}, BEGIN, count=5000, lost_s=300.0)
    assert (many.count, many.lost_s) == pytest.approx((5000, 300.0))
    more = seen(book, {1: (BEGIN - 5, 2.0), 2: (BEGIN - 1, 2.0)}, BEGIN + 1, count=4990, lost_s=290.0)
    assert (more.count, more.lost_s) == pytest.approx((5001, 302.0))


def test_the_most_pressing_alert_comes_first() -> None:
    book, end = AlertManager(), BEGIN
    states = {"a": "resolved", "b": "pending", "c": "resolving", "d": "firing", "e": "firing", "f": "firing"}
    findings = [other(end, end - 5, name, state) for name, state in states.items()]
    findings[-1] = replace(findings[-1], lost_s=60.0)
    book.update(window(end, *findings), end, None)
    book.ack(("d", ()))
    assert "".join(alert.key[0] for alert in book.alerts(end)) == "fedbca"


def test_numbers_are_never_reused_and_old_alerts_are_forgotten() -> None:
    book = AlertManager()
    for at in range(230):
        end = BEGIN + at
        alerts = book.update(window(end, other(end, end - 1, f"s{at}", "resolved")), end, None)
    assert len(alerts) == 200
    assert [alert.number for alert in alerts[:2]] == [230, 229]
    back = book.update(window(BEGIN + 300, other(BEGIN + 300, BEGIN + 299, "s0")), BEGIN + 300, None)
    assert (back[0].number, back[0].count) == (231, 1)


def test_changes_are_told_when_they_happened() -> None:
    book = AlertManager()
    past = found({1: (BEGIN - 100, 10.0)}, BEGIN - WINDOW_S, BEGIN, "resolved", severity=Severity.WARNING)
    book.update(window(BEGIN, past), BEGIN, None)
    seen(book, {2: (BEGIN + 9, 0.0)}, BEGIN + 10)
    assert [(t.time, t.state, t.level) for t in book.transitions()] == [
        (BEGIN - 110, AlertState.FIRING, Level.WARNING),
        (BEGIN - 100, AlertState.RESOLVED, Level.WARNING),
        (BEGIN + 9, AlertState.FIRING, Level.CRITICAL),
    ]


def test_a_date_that_is_told_late_moves_what_was_remembered() -> None:
    book, moved = AlertManager(), 1e9
    seen(book, {1: (BEGIN - 100, 10.0)}, BEGIN)
    events = {1: (BEGIN - 100 + moved, 10.0)}
    end = BEGIN + moved
    alert = book.update(
        window(end, found(events, end - WINDOW_S, end), time_base=TimeBase.MONOTONIC), end, None
    )[0]  # fmt: skip
    assert (alert.count, alert.lost_s, alert.began) == pytest.approx((1, 10.0, end - 110))
    assert [t.time for t in book.transitions()] == [pytest.approx(end - 110)]


def test_what_rests_on_a_log_that_fell_silent_is_unknown_until_it_speaks() -> None:
    book = AlertManager()
    events = {1: (BEGIN - 100, 10.0)}
    (log,) = {line.source for line in (found(events, BEGIN - WINDOW_S, BEGIN) or finding()).evidence}
    states = []
    for end, silent in ((BEGIN, {}), (BEGIN + 400, {log: BEGIN}), (BEGIN + 900, {log: BEGIN}), (BEGIN + 910, {})):
        (alert,) = book.update(window(end, found(events, end - WINDOW_S, end)), end, None, silent)
        states.append(alert.state)
    assert states == [AlertState.FIRING, AlertState.UNKNOWN, AlertState.UNKNOWN, AlertState.RESOLVED]
    assert book.update(window(BEGIN + 920), BEGIN + 920, None, {"another.log": BEGIN})[0].state is AlertState.RESOLVED


def test_a_book_begun_anew_knows_what_was_acknowledged_or_silenced() -> None:
    for state in (AlertState.ACKED, AlertState.SILENCED):
        book = AlertManager()
        seen(book, {1: (BEGIN - 20.0, 10.0)}, BEGIN)
        assert book.ack(KEY) if state is AlertState.ACKED else book.silence(KEY, BEGIN + 60.0)
        book = book.fresh_copy()
        assert book.alerts(BEGIN) == ()
        book.shift(3600.0)
        assert seen(book, {1: (BEGIN + 3580.0, 10.0)}, BEGIN + 3600.0).state is state
        assert book.undo(KEY)
    assert AlertManager().fresh_copy().update(window(BEGIN), BEGIN, None) == ()
