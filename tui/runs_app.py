"""The list of the runs that were found: state, verdict, age and place of each; one of them is opened."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.events import Callback

from perfmon.core import counted
from perfmon.sources import LogGroup
from perfmon.status import RunRow, ordered
from perfmon.textgraphics import fit

from .plain_app import AppOptions, PlainApp, actions_of
from .render.rows import Row, Words, ends, styled
from .widgets.pane import Listing, Request

_KNOWN = frozenset((
    "help", "theme", "suspend", "quit", "up", "down", "page_up", "page_down", "top", "bottom", "open",
))  # fmt: skip
_WORDS = {
    "open": ("open", "Open the run under the cursor; esc comes back to this list."),
    "quit": ("quit", "Quit."),
}
_TICK_S = 1.0
_PATIENCE_S = 10.0
_AGAIN_S = 10.0
"""Runs whose logs grew are looked at again, and new ones looked for, this often."""
_STATE, _STEPS, _LEFT, _AGE, _LOGS = 11, 12, 9, 11, 5
_WITH_STEPS, _WITH_LEFT = 76, 100
"""Cells of the screen from which on there is room for the steps, and for the time left and the number of logs."""
_TOGETHER = "all of these as one run"
_STYLES = {
    "critical": "critical", "warning": "warning", "info": "info", "good": "good", "unknown": "stale", "idle": "muted",
}  # fmt: skip


class RunsPane(Listing):
    """A row for each run; the last row is all of them together, where they are in one folder."""

    def __init__(self, rows: Sequence[RunRow], together: bool, skin_of: PlainApp) -> None:
        super().__init__(skin_of.skin, id="runs")
        self.runs, self.together = list(rows), together
        self.cursor = 0

    def head(self, width: int, height: int) -> Sequence[Row]:
        """Names of the columns."""
        if height < 3:
            return ()
        verdict, place = _columns(width)
        names = [fit("   state", _STATE + 3), fit("verdict", verdict), *_progress("step", "left", width)]
        shown = self.place(height - 1)
        room = max(0, place - len(shown) - 1)
        names += [fit("last line", _AGE, right=True), *_columns_of_logs("logs", width), "  " + fit("run", room)]
        return [
            styled((("".join(names), "muted"), (fit(shown, place - room, right=True), "text")), self.skin, "background")
        ]

    def count(self) -> int:
        """Runs, and all together."""
        return len(self.runs) + self.together

    def line(self, at: int, width: int, ground: str) -> Row:
        """A run."""
        if at >= len(self.runs):
            return styled(((f"   {_TOGETHER}", "muted"),), self.skin, ground)
        return styled(self._words(self.runs[at], width), self.skin, ground)

    def _words(self, row: RunRow, width: int) -> Words:
        verdict, place = _columns(width)
        style = _STYLES[row.level]
        quiet = "text" if row.level in ("critical", "warning") else "muted"
        return (
            (f" {self.skin.glyph('loading' if row.word == 'reading' else row.level)} ", style),
            (fit(row.word, _STATE - 1) + " ", style),
            (fit(row.verdict, verdict - 1) + " ", quiet),
            *((text, "text") for text in _progress(row.steps, row.left, width)),
            (fit(row.age_text(time.time()), _AGE, right=True), "text"),
            *((text, "muted") for text in _columns_of_logs(f"{len(row.group.paths):,}", width)),
            ("  " + ends(row.group.name, place, self.skin), "text"),
        )

    def do_open(self) -> None:
        """Open the run under the cursor."""
        at = self.cursor or 0
        self.post_message(Request("run", None if at >= len(self.runs) else self.runs[at].group))


def _columns(width: int) -> tuple[int, int]:
    """Cells of the verdict and of the place."""
    taken = sum(map(len, (*_progress("", "", width), *_columns_of_logs("", width))))
    room = max(12, width - _STATE - 3 - _AGE - taken - 3)
    place = max(8, room * 45 // 100 if width < _WITH_LEFT else room * 30 // 100)
    return room - place, place


def _columns_of_logs(count: str, width: int) -> list[str]:
    """The column of the number of logs, where there is room for it."""
    return [fit(count, _LOGS, right=True)] if width >= _WITH_LEFT else []


def _progress(steps: str, left: str, width: int) -> list[str]:
    """The columns of the progress for which there is room."""
    columns = [(steps, _STEPS, _WITH_STEPS), (left, _LEFT, _WITH_LEFT)]
    return [fit(text, room, right=True) for text, room, least in columns if width >= least]


class RunsApp(PlainApp):
    """The screen of a list of runs; `choice` is the one to open, None where the user left.

    `find` returns the runs that there are now, `look` one of them as it is now; both are called in a thread.
    """

    @dataclass(frozen=True, slots=True)
    class Choice:
        """The run to open; None for all together."""

        group: LogGroup | None

    shown_keys = ("help", "open", "theme", "quit")

    def __init__(
        self,
        rows: Sequence[RunRow],
        opening: AppOptions,
        find: Callable[[], Sequence[RunRow]],
        look: Callable[[RunRow], RunRow],
        *,
        together: bool,
        cursor: int = 0,
    ) -> None:
        super().__init__(opening, actions_of(_KNOWN, _WORDS))
        self._find, self._look = find, look
        self.choice: RunsApp.Choice | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="runs", daemon=True)
        self.list = RunsPane(rows, together, self)
        self.list.cursor = min(cursor, self.list.count() - 1)

    def compose(self) -> ComposeResult:
        """Header, list, footer."""
        yield self.header
        yield self.list
        yield self.footer

    def on_mount(self) -> None:
        """Look at the runs, one after another, while the list is shown."""
        self.list.focus()
        self.show_bars()
        self.call_after_refresh(self.show_bars)  # how many runs there is room for is known then
        self.set_interval(_TICK_S, self.list.redraw)
        self._thread.start()

    def on_unmount(self) -> None:
        """Stop looking."""
        self._over.set()

    def settle(self) -> None:
        """Wait until the thread has ended: Python cannot end one that is in compiled code."""
        if self._thread.is_alive():
            self._thread.join(_PATIENCE_S)

    def on_resize(self) -> None:
        """Another size."""
        self.call_after_refresh(self.show_bars)

    def show_bars(self) -> None:
        """Draw what was found, and the keys."""
        width, runs = self.size.width, self.list.runs
        words = [row.level if row.level in ("critical", "warning") else row.word for row in runs]
        counted_words = ("critical", "warning", "silent", "unreadable")
        states = ", ".join(f"{words.count(word)} {word}" for word in counted_words if word in words)
        room = self.list.size.height - 1
        most = f"{room} of " if 0 < room < self.list.count() else ""
        left: Words = ((" perfmon ", "title"), (f"{most}{counted(len(runs), 'run')} in {self.opening.title}", "text"))
        right: Words = ((f"{self.message or states} ", "accent" if self.message else "muted"),)
        self.draw_bars(left, right, width)

    def help_lines(self) -> Sequence[Words]:
        """The columns in words."""
        about = (
            (
                "state",
                "of the run, by the ends of its logs; silent: no log output, no sign of an end; idle: no requests",
            ),
            ("verdict", "of the last ten minutes of its logs, or what its running monitor shows"),
            ("step, left", "steps done, and of how many; the time that the rest takes at the present pace"),
            ("last line", "time since the last line of its newest log"),
        )
        head: Words = (("Columns", "title"),)
        return [(), head, *(((f"   {fit(name, 12)}", "footer-key"), (text, "text")) for name, text in about)]

    # --- the thread ---------------------------------------------------------------------------------------------------
    def _watch(self) -> None:
        rows = list(self.list.runs)
        while not self._over.is_set():
            for at, row in enumerate(rows):
                if self._over.is_set():
                    return
                if row.state is None or self._grew(row):
                    rows[at] = self._look(row)
                    self.post_message(Callback(lambda shown=tuple(rows): self.show_rows(shown)))
            self._over.wait(_AGAIN_S)
            known = {row.group.name: row for row in rows}
            rows = [self._merged(row, known.get(row.group.name)) for row in self._find()]

    @staticmethod
    def _grew(row: RunRow) -> bool:
        """It was found with newer logs than those that were looked at; one that runs may also have gone silent."""
        return row.state is not None and row.word in ("running", "starting", "silent", "stalled", "unknown")

    @staticmethod
    def _merged(found: RunRow, known: RunRow | None) -> RunRow:
        """A run that was found again keeps what is known of it while its logs are as they were."""
        if known is None or (found.changed, found.group) != (known.changed, known.group):
            return found
        return known

    def show_rows(self, rows: Sequence[RunRow]) -> None:
        """Show newer rows; the cursor stays on its run, or at the top."""
        pane = self.list
        at = pane.cursor or 0
        held = pane.runs[at].group.name if at < len(pane.runs) else None
        pane.runs = ordered(rows)
        places = {row.group.name: place for place, row in enumerate(pane.runs)}
        if at:
            pane.cursor = places.get(held, min(at, pane.count() - 1)) if held is not None else pane.count() - 1
        pane.redraw()
        self.show_bars()

    # --- acting -------------------------------------------------------------------------------------------------------
    def on_request(self, message: Request) -> None:
        """Leave with the run that was chosen."""
        if message.action == "run":
            self.choice = self.Choice(message.about if isinstance(message.about, LogGroup) else None)
            self.exit(0)
