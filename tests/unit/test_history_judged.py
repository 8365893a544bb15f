"""What is told of a history does not depend on how quickly it was read."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest
from handfed import HandFed

from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import MonitorState

BEGIN = datetime(2026, 3, 2, 12)
UTC_S = 1772452800.0
LOG = LogFile("orchestrator.log", Path("/orchestrator.log"))
UPDATES = 600


def read_back(look_every: int | None) -> tuple[HandFed, MonitorState]:
    """Five hours of a log, of which the first and the last hour hold slow updates; looked at every so many updates."""
    run = HandFed(UTC_S)
    run.feed.caught_up = False
    for number in range(UPDATES):
        at = BEGIN + timedelta(seconds=30 * number)
        queue = 13_400.0 if number < 120 or number > 480 else 12.5
        trace = f"{number:08x}"
        for moment, result in (
            (at, "client.send url=http://10.0.0.1:8000"),
            (at + timedelta(seconds=15), f"client.done wall_ms={queue + 500} rpc_ms=500.0 queue_ms={queue}"),
        ):
            run.say(LOG, f"{moment:%Y-%m-%d %H:%M:%S}.118 INFO [weights][{trace}] {result}")
        run.feed.now += 2.0
        if look_every and number % look_every == look_every - 1:
            run.look(number)
    run.feed.changed_at = lambda _log: UTC_S + 30 * UPDATES  # type: ignore[assignment,method-assign]
    run.feed.now = UTC_S + 30 * UPDATES
    run.feed.caught_up = True
    return run, run.look(UPDATES)


@pytest.mark.parametrize("look_every", [7, 100, 450])
def test_alerts_of_a_history_are_those_of_its_window(look_every: int) -> None:
    (_, at_once), (_, meanwhile) = read_back(None), read_back(look_every)
    assert [alert.finding for alert in meanwhile.alerts] == [alert.finding for alert in at_once.alerts]
    (alert,) = meanwhile.alerts
    assert (alert.count, alert.began) == (at_once.alerts[0].count, at_once.alerts[0].began)
    assert meanwhile.board.ticks == at_once.board.ticks


def test_the_end_of_a_history_is_judged_as_soon_as_it_is_read() -> None:
    slow = HandFed(UTC_S, iter(range(0, 10**6, 100)).__next__)  # so dear that nothing is judged twice in a moment
    slow.feed.caught_up = False
    slow.say(LOG, f"{BEGIN:%Y-%m-%d %H:%M:%S}.118 INFO [weights][00000001] client.send url=http://10.0.0.1:8000")
    slow.look(1)
    done = "client.done wall_ms=13900.0 rpc_ms=500.0 queue_ms=13400.0"
    slow.say(LOG, f"{BEGIN + timedelta(seconds=15):%Y-%m-%d %H:%M:%S}.118 INFO [weights][00000001] {done}")
    slow.feed.now += 2.0
    slow.feed.caught_up = True
    last = slow.look(2).snapshot
    assert last is not None
    assert last.verdict is not None
