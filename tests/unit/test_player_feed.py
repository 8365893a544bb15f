"""A replay that goes faster than it can be read: its clock is that of what was handed over."""

from __future__ import annotations

from pathlib import Path

from perfmon.core.model import Block, Notice
from perfmon.monitor.feeds import PlayerFeed
from perfmon.sources.replay import Player, Timeline

START, SECONDS = 1_790_000_000.0, 2000
LOGS = ("a.log", "b.log", "c.log")


class _Hasty:
    """A clock by which half a second goes by between two looks."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


async def test_no_line_comes_before_its_time_and_no_log_seems_silent() -> None:
    width = len(f"{0:08d}\n")
    items = [
        (float(second), log, Block(f"{second:08d}\n".encode(), second * width, second + 1))
        for second in range(SECONDS)
        for log in LOGS
    ]
    player = Player(Timeline(Path("run"), START, float(SECONDS), lambda: iter(items)), speed=1000.0, clock=_Hasty())
    feed = PlayerFeed(player)
    message = dict.fromkeys(LOGS, 0)
    async for log, item in feed.items():
        assert isinstance(item, Block | Notice)
        if isinstance(item, Block):
            message[log.name] = int(item.data.split()[-1])
            assert feed.clock() >= START + message[log.name]
            assert max(message.values()) - min(message.values()) <= 15
    assert set(message.values()) == {SECONDS - 1}
