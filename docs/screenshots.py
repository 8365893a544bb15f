"""Makes the pictures of the documentation from the built-in run (`make screenshots`): the same each time."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from perfmon.core.config import Config
from perfmon.demo.output import demo_timeline
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.feeds import PlayerFeed
from perfmon.monitor.monitor import Monitor
from perfmon.sources.replay import Player
from perfmon.themes.loader import load_themes
from perfmon.tui.app import board_columns, shoot
from perfmon.tui.plain_app import AppOptions
from perfmon.viewmodel.state import Freshness, MonitorState, RunState

FOLDER = Path(__file__).with_name("images")
BEGIN = datetime(2026, 8, 21, 10, 0)
_AT_S = 754.0
_SPEED = 20.0
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture: what is on the screen after some keys."""

    name: str
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    scenario: str = "frontend-queue"
    theme: str = "midnight"
    at_s: float = _AT_S


SHOTS = (
    Shot("overview", (160, 45)),
    Shot("terminal-80x24", (80, 24)),
    Shot("strip-60x10", (60, 10)),
    Shot("machines", (120, 30), ("tab", "tab", "z"), at_s=766.0),
    Shot("alert", (120, 32), ("tab", "enter")),
    Shot("waterfall", (120, 22), ("w",), at_s=770.0),
    Shot("chart", (120, 24), ("colon", *"chart", "space", *"queue", "underscore", *"ms", "enter")),
    Shot("daylight", (120, 30), theme="daylight", scenario="checkpoint-stall"),
)


def seen(shot: Shot) -> tuple[MonitorState, LogBuffer]:
    """What a monitor has seen of the run up to that moment."""
    player = Player(demo_timeline(shot.scenario, 0, 60.0, BEGIN), paused=True, linger=True)
    player.seek(shot.at_s)
    monitor = Monitor(lambda: PlayerFeed(player), Config())
    monitor.look(None, None, board_columns(shot.size[0]))
    monitor.start()
    try:
        end = time.monotonic() + _PATIENCE_S
        while not _whole(monitor.picture, shot) and time.monotonic() < end:
            time.sleep(0.05)
    finally:
        monitor.stop()
    return monitor.picture, monitor.logbook


def _whole(picture: MonitorState, shot: Shot) -> bool:
    return picture.progress is None and picture.snapshot is not None and picture.position_s == shot.at_s


def still(picture: MonitorState) -> MonitorState:
    """As it looks while the run is played; rates and ages are those of the logs, not of this machine's speed."""
    sources = tuple(
        replace(
            source,
            freshness=Freshness.FRESH,
            age_s=picture.now - (source.last or picture.now),
            lines_per_s=source.lines / (picture.position_s or 1.0),
            bytes_per_s=source.bytes / (picture.position_s or 1.0),
        )
        for source in picture.sources
    )
    rate = sum(source.lines_per_s for source in sources)
    return replace(
        picture, state=RunState.REPLAY, speed=_SPEED, stale_s=None, lines_per_s=rate, sources=sources, notices=()
    )


def make(shot: Shot) -> str:
    """The image."""
    picture, logbook = seen(shot)
    opening = AppOptions(f"demo {shot.scenario}", load_themes(), shot.theme)
    return asyncio.run(shoot(still(picture), logbook, opening, shot.size, shot.keys))


def main(names: Sequence[str]) -> int:
    """Writes all images, or those that are named."""
    FOLDER.mkdir(exist_ok=True)
    for shot in SHOTS:
        if not names or shot.name in names:
            file = FOLDER / f"{shot.name}.svg"
            file.write_text(make(shot), encoding="utf-8", newline="\n")
            print(f"{file.relative_to(FOLDER.parents[1])}: {file.stat().st_size / 1000:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
