"""A long history, of which the log pane keeps the end alone, is told as if all of it were kept."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from perfmon.core.config import Config
from perfmon.monitor import worker
from perfmon.monitor.feeds import FollowFeed
from perfmon.monitor.monitor import Monitor

_PATIENCE_S = 60.0


def log(updates: int) -> str:
    """Weight updates, some of them slow, between lines that say nothing."""
    lines = list[str]()
    for number in range(updates):
        clock, trace = f"2026-03-01 {8 + number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}", f"{number:08x}"
        queue = (12.5, 80.0, 13_400.0)[number % 3]
        lines += [
            f"{clock} INFO [weights][{trace}] client.send url=http://10.0.0.1:8000 path=/m/step_{number}",
            *(f"{clock} DEBUG rollout {number} finished" for _ in range(number % 20)),
            f"{clock} INFO [weights][{trace}] client.done wall_ms={queue + 500} rpc_ms=500.0 queue_ms={queue}",
        ]
        if not number % 7:
            lines.append(f"{clock} INFO [ckpt] write.done step={number} write_ms=nan")
    return "".join(line + "\n" for line in lines)


def shown(path: Path) -> object:
    """What a monitor shows of a log when it has read it."""
    monitor = Monitor(lambda: FollowFeed([str(path)]), Config())
    monitor.start()
    until = time.monotonic() + _PATIENCE_S
    while time.monotonic() < until and (monitor.picture.progress is not None or monitor.picture.snapshot is None):
        time.sleep(0.02)
    picture = monitor.picture
    monitor.stop()
    assert monitor.failed is None
    assert picture.snapshot is not None
    (source,) = picture.sources
    return picture.lines, source.bytes, source.events, source.patterns, source.notes, source.skipped


def test_a_monitor_shows_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "orchestrator.log"
    path.write_text(log(3000))
    monkeypatch.setattr(worker, "_FAR", 1 << 40)
    kept = shown(path)
    monkeypatch.setattr(worker, "_FAR", 0)
    assert shown(path) == kept
