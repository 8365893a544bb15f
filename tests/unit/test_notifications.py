"""Alerts that are notified, and when."""

from __future__ import annotations

from pictures import alert, picture

from perfmon.alerting.notifications import BURST, Notifications
from perfmon.core.config import NotifyConfig
from perfmon.core.model import Severity
from perfmon.viewmodel import AlertState, RunState


class Hand:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def opened(clock: Hand | None = None, **config: object) -> Notifications:
    """Notifications that saw a first picture, without alerts."""
    notifications = Notifications(NotifyConfig(**config), clock or Hand())  # type: ignore[arg-type]
    assert notifications.take(picture()) == []
    return notifications


def events(notifications: Notifications, *alerts: object) -> list[tuple[int, str]]:
    """Number and event of what is told of a picture with these alerts."""
    return [(result.number, result.event) for result in notifications.take(picture(*alerts))]  # type: ignore[arg-type]


def test_an_alert_is_told_once_when_it_fires_and_once_when_it_resolved() -> None:
    clock = Hand()
    notifications = opened(clock)
    assert events(notifications, alert(state=AlertState.PENDING)) == []
    assert events(notifications, alert()) == [(1, "firing")]
    assert events(notifications, alert()) == []
    assert events(notifications, alert(state=AlertState.RESOLVING)) == []
    clock.now += 61
    assert events(notifications, alert(state=AlertState.RESOLVED)) == [(1, "resolved")]
    assert events(notifications, alert(state=AlertState.RESOLVED)) == []


def test_what_burns_at_the_start_is_on_the_screen_and_only_its_end_is_told() -> None:
    notifications = Notifications(NotifyConfig(), Hand())
    assert events(notifications, alert()) == []
    assert events(notifications, alert(), alert(2)) == [(2, "firing")]
    assert events(notifications, alert(state=AlertState.RESOLVED)) == [(1, "resolved")]


def test_what_fired_between_two_pictures_is_told() -> None:
    clock = Hand()
    notifications = opened(clock)
    resolving = alert(state=AlertState.RESOLVING)
    assert events(notifications, resolving) == [(1, "firing")]
    assert events(notifications, resolving) == []
    clock.now += 61
    assert events(notifications, alert(state=AlertState.RESOLVED)) == [(1, "resolved")]
    clock.now += 61
    assert events(notifications, resolving) == [(1, "firing")]


def test_what_resolves_and_was_not_to_be_told_is_not_told() -> None:
    for state in (AlertState.ACKED, AlertState.INHIBITED, AlertState.UNKNOWN, AlertState.SILENCED):
        notifications = opened()
        assert events(notifications, alert(state=state)) == []
        assert events(notifications, alert(state=AlertState.RESOLVING)) == []


def test_nothing_is_told_while_history_is_read() -> None:
    notifications = Notifications(NotifyConfig(), Hand())
    assert notifications.take(picture(alert(), state=RunState.LOADING)) == []
    assert events(notifications, alert()) == []


def test_an_alert_that_comes_and_goes_is_told_once_an_interval() -> None:
    clock = Hand()
    notifications = opened(clock)
    assert events(notifications, alert()) == [(1, "firing")]
    assert events(notifications, alert(state=AlertState.RESOLVED)) == []
    assert events(notifications, alert()) == []
    clock.now += 60
    assert events(notifications, alert()) == [(1, "firing")]


def test_what_was_never_told_to_fire_is_not_told_to_have_resolved() -> None:
    notifications = opened()
    many = [alert(number) for number in range(1, BURST + 2)]
    assert len(events(notifications, *many)) == BURST
    last = alert(BURST + 1, state=AlertState.RESOLVED)
    assert events(notifications, *many[:-1], last) == []
    assert notifications._waiting == {}


def test_a_crowd_is_told_worst_first_and_the_rest_later() -> None:
    clock = Hand()
    notifications = opened(clock)
    mild = [alert(number, severity=Severity.WARNING) for number in range(1, BURST + 1)]
    assert [number for number, _ in events(notifications, *mild, alert(99))] == [99, 1, 2, 3, 4]
    clock.now += 60
    assert events(notifications, *mild, alert(99)) == [(5, "firing")]


def test_what_gets_worse_is_told_again() -> None:
    clock = Hand()
    notifications = opened(clock)
    assert events(notifications, alert(severity=Severity.WARNING)) == [(1, "firing")]
    clock.now += 60
    assert events(notifications, alert()) == [(1, "firing")]


def test_silenced_acknowledged_and_inhibited_alerts_are_not_told() -> None:
    notifications = opened()
    for state in (AlertState.SILENCED, AlertState.ACKED, AlertState.INHIBITED, AlertState.UNKNOWN):
        assert events(notifications, alert(state=state)) == []
    silenced = opened()
    assert events(silenced, alert(), alert(2)) == [(1, "firing"), (2, "firing")]
    silenced._sent.clear()
    assert events(silenced, alert(state=AlertState.SILENCED), alert(2, state=AlertState.ACKED)) == []
    over = [alert(number, state=AlertState.RESOLVED) for number in (1, 2)]
    assert events(silenced, *over) == [(2, "resolved")]


def test_severity_and_events_are_chosen() -> None:
    assert events(opened(min_severity=Severity.CRITICAL), alert(severity=Severity.WARNING)) == []
    only_ends = opened(on=("resolved",))
    assert events(only_ends, alert()) == []
    assert events(only_ends, alert(state=AlertState.RESOLVED)) == [(1, "resolved")]
