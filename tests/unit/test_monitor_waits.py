"""A monitor that waits for its first log is there for others, too."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from perfmon.alerting.notifications import Notifications
from perfmon.core.config import Config, NotifyConfig
from perfmon.monitor.feeds import FollowFeed
from perfmon.monitor.monitor import Monitor
from perfmon.viewmodel import MonitorState

_PATIENCE_S = 30.0
UPDATE = "{} INFO [weights][w{}] client.done wall_ms=22000 rpc_ms=1200 queue_ms=20800\n"


def _until(true: Callable[[], object]) -> None:
    end = time.monotonic() + _PATIENCE_S
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)


@pytest.mark.slow
def test_what_the_first_log_shows_after_the_monitor_has_begun_to_wait_is_told(tmp_path: Path) -> None:
    notifications, pictures, result = (
        Notifications(NotifyConfig(bell=True), time.monotonic),
        list[MonitorState](),
        list[str](),
    )

    def hear(picture: MonitorState) -> None:
        pictures.append(picture)
        result.extend(one.signature for one in notifications.take(picture))

    monitor = Monitor(lambda: FollowFeed([str(tmp_path)]), Config())
    monitor.listeners.append(hear)
    monitor.start()
    try:
        _until(lambda: pictures)  # a status line knows of it before there is anything to know
        assert pictures[0].snapshot is None
        now = datetime.now().isoformat(" ", "milliseconds")
        (tmp_path / "a.log").write_text("".join(UPDATE.format(now, at) for at in range(4)))
        _until(lambda: result)
    finally:
        monitor.stop()
    assert result == ["frontend-queue"]
