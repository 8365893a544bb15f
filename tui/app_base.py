"""Common base of all actions: the parts of the app, and its own methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import App

from perfmon.picture import Picture

from ..journey import Journey
from ..timely import Timely

if TYPE_CHECKING:
    from perfmon.monitor import Monitor

    from ..actions import Action
    from ..app import Opening
    from ..panes.alerts import AlertPane
    from ..panes.board import BoardPane
    from ..panes.logs import LogPane
    from ..panes.sources import SourcesPane
    from ..skin import Skin


class Base(Timely, App[int]):
    """The app as its doings see it; `PerfmonApp` has what is not here."""

    monitor: Monitor
    opening: Opening
    picture: Picture
    journey: Journey
    preset: str
    hidden: set[str]
    zoomed: str | None
    theme_name: str
    board: BoardPane
    alerts: AlertPane
    sources: SourcesPane
    log_pane: LogPane
    skin: Skin

    def say(self, text: str) -> None:
        """Says something for a few seconds."""
        raise NotImplementedError

    def do(self, action: Action) -> None:
        """Does an action where the keys are."""
        raise NotImplementedError

    def arrange(self) -> None:
        """Lays the panes out anew."""
        raise NotImplementedError

    def dress(self, name: str) -> None:
        """Puts on a theme."""
        raise NotImplementedError

    @property
    def pane_name(self) -> str:
        """The pane that has the keys."""
        raise NotImplementedError

    @property
    def strip(self) -> bool:
        """There is room for the timeline only."""
        raise NotImplementedError

    def shown_panes(self) -> set[str]:
        """The panes that have rows."""
        raise NotImplementedError

    def focus_first(self) -> None:
        """Gives the keys to the first pane that is shown."""
        raise NotImplementedError

    def uncover(self) -> None:
        """Leaves what is open over the panes."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
