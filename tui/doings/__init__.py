"""Actions of `tui.actions` that concern more than one pane, a module per topic.

`do_NAME` is what the action of that name does.
"""

from __future__ import annotations

from .answering import Answering
from .arranging import PANES
from .general import General
from .replaying import Replaying


class Doings(General, Answering, Replaying):
    """The app's half of the actions; `PerfmonApp` has the other things that it is made of."""

    def do_palette(self) -> None:
        """Everything by name."""
        from ..palette import Palette

        self.push_screen(Palette(self.skin, self.picture, self.opening), self._chosen)

    def _chosen(self, command: str | None) -> None:
        if command:
            from ..commands import obey

            self.say("")  # what was said of the command before is over
            problem = obey(self, command)
            if problem:
                self.say(problem)


__all__ = ["PANES", "Doings"]
