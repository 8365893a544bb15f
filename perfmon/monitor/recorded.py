"""A recording that is played: what was there when it began is no more waited for than it was then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

from perfmon.items import MARKS, Notice
from perfmon.sources.files import LogFile
from perfmon.sources.replay import Player

from .feeds import Anew, Item, PlayerFeed


class RecordedFeed(PlayerFeed):
    """Heeds the marks of `marked.MarkedFeed`; a recording without them is played as if all of it had been live."""

    def __init__(self, player: Player) -> None:
        super().__init__(player)
        self._begin()

    def _begin(self) -> None:
        self._loading, self._marked = True, False
        self._written: dict[str, float] = {}
        self._present_s = 0.0

    async def items(self) -> AsyncIterator[Item]:
        """What is played, without the marks."""
        async for log, item in super().items():
            if isinstance(item, Anew):
                self._begin()
            elif isinstance(item, Notice) and item.kind in MARKS:
                self._heed(log, item)
                continue
            elif not self._marked:
                self._loading = False
            yield log, item

    def _heed(self, log: LogFile, mark: Notice) -> None:
        self._marked, self._loading = True, mark.kind != "present"
        self._present_s = self._player.told_at_s(log) or 0.0
        if mark.kind == "written":
            with suppress(ValueError):
                self._written[log.name] = float(mark.text)

    @property
    def caught_up(self) -> bool:
        """A seek is over, and so is what was there already."""
        return super().caught_up and (not self._loading or self._player.ended)

    @property
    def of_past(self) -> bool:
        """It was there when the recording began."""
        return self._loading

    def changed_at(self, log: LogFile) -> float | None:
        """When it was written to last, perhaps before the recording began."""
        written, told_s = self._written.get(log.name), self._player.told_at_s(log)
        if written is None or (told_s is not None and told_s > self._present_s):
            return super().changed_at(log)
        return written
