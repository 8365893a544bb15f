"""Slow weight updates that outlast quick ones: the alert fires, is notified, and a replay shows the same."""

from __future__ import annotations

from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.alerting.notifications import Notifications
from perfmon.core.config import NotifyConfig
from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import AlertState

pytestmark = pytest.mark.slow
_BEGIN_S = 1_787_300_000.0
_LINE = "[weights][u{0}] client.send url=http://10.0.0.5:8000 t={1}.0"
_DONE = "[weights][u{0}] client.done wall_ms={1} rpc_ms=1000 queue_ms={2}"


def _events() -> list[tuple[float, str]]:
    """Lines with the seconds at which they come: a quick update every 2 s; from 60 s on a slow one now and then."""
    events = []
    for at in range(150):
        second, queue_ms = 2 * at, 15_000 if at >= 30 and at % 10 == 0 else 20
        events.append((second, _LINE.format(at, 1000 + second)))
        events.append((second + 1 + queue_ms // 1000, _DONE.format(at, queue_ms + 1000, queue_ms)))
    return sorted(events)


def _watched(every_s: int) -> tuple[list[tuple[AlertState, str]], list[str]]:
    """The states of the alert since its second occurrence, and what is notified, by pictures every so many seconds."""
    run, log = HandFed(_BEGIN_S), LogFile("weights.log", Path("weights.log"))
    notifications, states, events = Notifications(NotifyConfig(), run.feed.clock), [], []
    lines = _events()
    for second in range(0, 300, every_s):
        run.feed.now = _BEGIN_S + second
        while lines and lines[0][0] <= second:
            run.say(log, lines.pop(0)[1])
        picture = run.look(second)
        states += [(alert.state, alert.finding.signature) for alert in picture.alerts if alert.count > 1]
        events += [note.event for note in notifications.take(picture)]
    return list(dict.fromkeys(states)), events


def test_the_alert_fires_and_is_notified_at_any_pace() -> None:
    for every_s in (5, 30):
        states, events = _watched(every_s)
        assert states == [(AlertState.FIRING, "frontend-queue")], every_s
        assert events == ["firing"], every_s
