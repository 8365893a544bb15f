"""Origins of the blocks of a monitored run: followed logs, a recording, the built-in run."""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from perfmon.core import MARKS, Block, ConnectError, Notice
from perfmon.sources import LogFile, Player, Rewound
from perfmon.sources.follow import BackgroundFollower
from perfmon.sources.remote import HostState
from perfmon.viewmodel import CollectivesState

if TYPE_CHECKING:
    from perfmon.sources import Opener
    from perfmon.sources.remote import Selection

_T = TypeVar("_T")
_NO_LOG = LogFile("", Path())


def elapsed() -> float:
    """Seconds of a clock that is never set; while the machine sleeps it continues where the system counts that."""
    if sys.platform.startswith("linux"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class ResetMarker:
    """The run follows from its start again: what was read is dropped."""


Item = tuple[LogFile, Block | Notice | ResetMarker]


class Feed(Protocol):
    """The input of a monitor."""

    def items(self) -> AsyncIterator[Item]:
        """Yield the blocks and notices of all logs, as they come."""

    async def close(self) -> None:
        """Release everything."""

    def finish(self) -> Sequence[tuple[LogFile, Block | Notice]]:
        """Return what was read and not taken yet, and the last lines that have no end, before `close`: reading ends."""
        return ()

    def clock(self) -> float:
        """Return the time of arrival in seconds: wall-clock time, or that of a replay."""

    @property
    def caught_up(self) -> bool:
        """True once all that was there at the start was read."""

    @property
    def of_past(self) -> bool:
        """True while lines come that were printed before the start: their arrival does not date them."""
        return not self.caught_up

    @property
    def behind(self) -> int:
        """Bytes that were there at the start and are not read yet."""
        return 0

    def changed_at(self, log: LogFile) -> float | None:
        """Return the time of the last write to a log that was there at the start, by `clock`; None if unknown."""

    @property
    def player(self) -> Player | None:
        """The controls of a replay; None where time passes by itself."""
        return None

    @property
    def hosts(self) -> tuple[HostState, ...]:
        """Hosts that are reached over SSH."""
        return ()

    @property
    def collectives(self) -> CollectivesState | None:
        """The collectives of a job whose NCCL Inspector logs are followed; None without such logs."""
        return None

    @property
    def specs(self) -> tuple[str, ...]:
        """The folders and logs of this machine, as they were given."""
        return ()

    def through(self, host: str, work: Callable[[Opener], Coroutine[Any, Any, _T]]) -> _T:
        """The result of what uses streams through the connection to a host; from any thread but the feed's.

        Raises ConnectError where there is none.
        """
        raise ConnectError(f"{host}: none of the hosts that are read")

    def copy(self, own: Path, shared: Path, selection: Selection) -> int:
        """Copy small files of hosts as `copy_selected`, for some seconds at most; from any thread but the feed's."""
        return 0


class FollowFeed(Feed):
    """Logs on this machine that are followed by name; they are read at once, whatever an evaluation takes."""

    def __init__(self, specs: Sequence[str], *, history: bool | int = True, polling: bool | None = None) -> None:
        """Raises UsageError for a wrong SOURCE."""
        self._follower = BackgroundFollower(specs, history, polling=polling)
        self._specs = tuple(specs)
        self._started = time.time() - elapsed()

    def items(self) -> AsyncIterator[Item]:
        return self._follower.items()

    async def close(self) -> None:
        self._follower.close()

    def finish(self) -> Sequence[tuple[LogFile, Block | Notice]]:
        return self._follower.finish()

    def clock(self) -> float:
        """Seconds since 1970, as of the start: a clock that is set later does not move it."""
        return self._started + elapsed()

    @property
    def caught_up(self) -> bool:
        return self._follower.caught_up

    @property
    def behind(self) -> int:
        return self._follower.behind

    def changed_at(self, log: LogFile) -> float | None:
        return self._follower.changed_at(log)

    @property
    def specs(self) -> tuple[str, ...]:
        return self._specs


class PlayerFeed(Feed):
    """A recording, or the built-in run, that is played."""

    def __init__(self, player: Player) -> None:
        self._player = player

    async def items(self) -> AsyncIterator[Item]:
        """Yield what is played; `ResetMarker` after a jump back."""
        async for item in self._player:
            yield (_NO_LOG, ResetMarker()) if isinstance(item, Rewound) else item

    async def close(self) -> None:
        pass

    def clock(self) -> float:
        """Seconds since 1970 as they were, or would have been."""
        player = self._player  # lines that are due together come log by log: never before it was their time
        return player.timeline.start + (player.handed_s if player.seeking else max(player.position_s, player.handed_s))

    @property
    def caught_up(self) -> bool:
        """True unless a seek is under way."""
        return not self._player.seeking

    @property
    def of_past(self) -> bool:
        """False: each line comes at its time, also during a seek."""
        return False

    def changed_at(self, log: LogFile) -> float | None:
        """Return the time of the last line of a log so far."""
        last_s = self._player.last_item_s(log)
        return None if last_s is None else self._player.timeline.start + last_s

    @property
    def player(self) -> Player | None:
        return self._player


class RecordingFeed(PlayerFeed):
    """A recording with the marks of `HistoryTaggedFeed`: its history is not played as if it had been live.

    A recording without marks is.
    """

    def __init__(self, player: Player) -> None:
        super().__init__(player)
        self._reset()

    def _reset(self) -> None:
        self._loading, self._marked = True, False
        self._written: dict[str, float] = {}
        self._present_s = 0.0

    async def items(self) -> AsyncIterator[Item]:
        """Yield what is played, without the marks."""
        async for log, item in super().items():
            if isinstance(item, ResetMarker):
                self._reset()
            elif isinstance(item, Notice) and item.kind in MARKS:
                self._apply(log, item)
                continue
            elif not self._marked:
                self._loading = False
            yield log, item

    def _apply(self, log: LogFile, mark: Notice) -> None:
        self._marked, self._loading = True, mark.kind != "present"
        self._present_s = self._player.last_item_s(log) or 0.0
        if mark.kind == "written":
            with suppress(ValueError):
                self._written[log.name] = float(mark.text)

    @property
    def caught_up(self) -> bool:
        """True unless a seek is under way, or the history is played."""
        return super().caught_up and (not self._loading or self._player.ended)

    @property
    def of_past(self) -> bool:
        """True for what was there when the recording began."""
        return self._loading

    def changed_at(self, log: LogFile) -> float | None:
        """Return the time of the last write, perhaps before the recording began."""
        written, last_s = self._written.get(log.name), self._player.last_item_s(log)
        if written is None or (last_s is not None and last_s > self._present_s):
            return super().changed_at(log)
        return written
