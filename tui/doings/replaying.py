"""A replay is steered."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .travelling import Travelling

if TYPE_CHECKING:
    from perfmon.sources.replay import Player


class Replaying(Travelling):
    """Speed and place of a replay; a live run has neither."""

    def _player(self) -> Player | None:
        player = self.monitor.feed.player if self.monitor.feed is not None else None
        if player is None:
            self.say("this run is live: only for replays")
        return player

    def do_faster(self) -> None:
        """Twice the speed."""
        player = self._player()
        if player is not None:
            player.speed = player.speed * 2

    def do_slower(self) -> None:
        """Half the speed."""
        player = self._player()
        if player is not None:
            player.speed = player.speed / 2

    def do_seek_back(self) -> None:
        """Half a minute back."""
        player = self._player()
        if player is not None:
            self.seek_to(player, player.position_s - 30)

    def do_seek_on(self) -> None:
        """Half a minute on."""
        player = self._player()
        if player is not None:
            self.seek_to(player, player.position_s + 30)

    def do_step(self) -> None:
        """The next moment."""
        player = self._player()
        if player is not None:
            self._follow()
            player.step()

    def seek_to(self, player: Player, seconds: float) -> None:
        """To a moment of the replay, which is then in sight: a view that stood still goes along."""
        self._follow()
        player.seek(seconds)

    def _follow(self) -> None:
        if self.journey.paused:
            self.do_live()
