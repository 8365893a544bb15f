"""Help, palette, themes, pages and recordings."""

from __future__ import annotations

import asyncio
from datetime import datetime

from perfmon.errors import InputError, PerfmonError
from perfmon.picture import Picture, little_is_recognised

from .base import Base


class General(Base):
    """General actions."""

    def do_help(self) -> None:
        """Every key."""
        from ..screens.help import HelpScreen

        self.push_screen(HelpScreen(self.skin, self.pane_name, self.opening.keys))

    def do_snapshot(self, path: str = "") -> None:
        """Writes a page."""
        self.run_worker(self._keep_page(self.picture, path))

    async def _keep_page(self, picture: Picture, path: str) -> None:
        from ..keeping import keep_page

        try:
            self.say(f"written: {await asyncio.to_thread(keep_page, picture, path)}")
        except InputError as error:
            self.say(str(error))

    def do_learn(self, log: str = "") -> None:
        """Learns a format from a log: without a name from the one of which least is recognised."""
        unread = [source for source in self.picture.sources if little_is_recognised(source)]
        chosen = log or next((source.name for source in sorted(unread, key=lambda s: -(s.lines - s.events))), "")
        if chosen:
            self.run_worker(self._learn(chosen))
        else:
            self.say("every log is recognised: name one to learn from")

    async def _learn(self, log: str) -> None:
        from ..keeping import keep_format

        try:
            self.say(f"{await asyncio.to_thread(keep_format, log)}; used from the next start")
        except PerfmonError as error:
            self.say(str(error))

    def do_record(self) -> None:
        """Begins or ends a recording."""
        self.monitor.toggle_recording(f"perfmon-{datetime.now():%Y%m%d-%H%M%S}.pmrec")

    def do_theme(self) -> None:
        """The next theme."""
        names = list(self.opening.themes)
        self.choose_theme(names[(names.index(self.theme_name) + 1) % len(names)])

    def choose_theme(self, name: str) -> None:
        """Puts on a theme and remembers it."""
        from perfmon.remembered import remember

        self.dress(name)
        self.say(f"theme: {name}")
        remember("theme", name)

    def do_doctor(self) -> None:
        """Open the parse coverage of the logs."""
        from ..screens.doctor import DoctorScreen

        self.push_screen(DoctorScreen(self.skin, self.monitor.picture))

    def do_suspend(self) -> None:
        """To the shell; what is watched stands still until `fg`."""
        self.action_suspend_process()

    def do_quit(self) -> None:
        """Leaves."""
        self.exit(0)
