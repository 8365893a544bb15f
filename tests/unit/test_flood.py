"""A feed that always has more at once: whoever looks sees pictures all the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from threading import Event
from typing import Any

from perfmon.core import ConnectError
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.monitor.monitor import Monitor
from perfmon.sources.discovery import LogFile

_LINES = 8000
_MOST = 100_000
"""Blocks after which it gives up."""


class _Flood:
    """Gives block after block, without a pause, until a picture shows some of them."""

    player, behind, caught_up, of_past = None, 0, True, False
    hosts = ()
    collectives = None
    specs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.given, self.shown, self.over = 0, False, Event()
        self.monitor: Monitor | None = None

    async def items(self) -> AsyncIterator[tuple[LogFile, Block]]:
        data, log = b"y\n" * _LINES, LogFile("stdin", Path("-"))
        while not self.shown and self.given < _MOST:
            yield log, Block(data, self.given * len(data), self.given * _LINES + 1)
            self.given += 1
            self.shown = self.monitor is not None and self.monitor.picture.lines > 0
        self.over.set()

    def finish(self) -> list[tuple[LogFile, Block]]:
        return []

    async def close(self) -> None:
        pass

    def clock(self) -> float:
        return 1_800_000_000.0

    def through(self, *_given: object) -> Any:
        raise ConnectError("no hosts")

    def copy(self, *_given: object) -> int:
        return 0

    def changed_at(self, _log: LogFile) -> float | None:
        return None


def test_pictures_are_made_while_more_comes_at_once_than_can_be_read() -> None:
    flood = _Flood()
    flood.monitor = Monitor(lambda: flood, Config())
    flood.monitor.start()
    assert flood.over.wait(60.0)
    flood.monitor.stop()
    assert flood.shown
