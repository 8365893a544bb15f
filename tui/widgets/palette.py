"""The palette: alerts, metrics, weight updates and logs of this moment, and everything that can be done, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import Click
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from perfmon.viewmodel import MonitorState

from ..commands import Command, known
from ..render.rows import Row, between
from ..theme import ThemeStyles
from .choices import Choice, Fit, choice_row, choices, fitting, problem_of
from .pane import Listing


class Chosen(Message):
    """A row was clicked."""


class Offered(Listing, can_focus=False):
    """List of matches. The input keeps the focus and moves the cursor by these methods."""

    def __init__(self, skin: ThemeStyles, offered: Sequence[Choice]) -> None:
        super().__init__(skin, id="offered")
        self._offered = offered
        self._typed = ""
        self._found: list[tuple[Choice, Fit]] = []
        self.want("")

    def want(self, typed: str) -> None:
        """Shows what fits."""
        self._typed = typed
        self._found = fitting(typed, self._offered)
        self.top, self.cursor = 0, 0 if self._found else None
        self.redraw()

    @property
    def chosen(self) -> Choice | None:
        """The row under the cursor."""
        return self._found[self.cursor][0] if self.cursor is not None and self.cursor < len(self._found) else None

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """Details of the row under the cursor, or of the typed command."""
        if height < 4:
            return ()
        skin = self.skin
        problem = problem_of(self._typed)
        told = problem or self._told()
        left = [(f" {told}", skin.style("warning" if problem else "muted", "panel"))]
        right = [(f" {len(self._found)} ", skin.style("muted", "panel"))]
        return (between(left, right, width, (" ", skin.style("panel"))),)

    def _told(self) -> str:
        choice = self.chosen
        if choice is None:
            return "no matches: ? lists every key and command"
        name = choice.command.split()[0]
        command = known(name)
        return f":{command.usage}  {command.help}" if isinstance(command, Command) else f":{name}  {choice.note}"

    def count(self) -> int:
        """Number of matches."""
        return len(self._found)

    def line(self, at: int, width: int, ground: str) -> Row:
        """One of them."""
        return choice_row(*self._found[at], self.skin, width, ground)

    def _ground(self, at: int) -> str:
        return "cursor" if at == self.cursor else "background"

    def moved(self) -> None:
        """The cursor stays in sight."""
        self.reveal()

    def on_click(self, event: Click) -> None:
        """A click chooses."""
        at = event.y - self._above + self.top
        if 0 <= event.y - self._above < self._room and at < self.count():
            event.stop()
            self.cursor = at
            self.post_message(Chosen())


class Palette(ModalScreen[str | None]):
    """Gives the command that was chosen, as `commands.run_command` takes it; None when it was left."""

    DEFAULT_CSS = """
    Palette { align: center top; background: $background; }
    Palette #frame { width: 100%; max-width: 110; height: 100%; background: $background; }
    Palette Horizontal { height: 1; background: $panel; }
    Palette Label { width: auto; color: $accent; background: $panel; padding: 0 1; }
    Palette Input, Palette Input:focus { width: 1fr; border: none; height: 1; padding: 0; background: $panel; }
    """
    BINDINGS = [  # noqa: RUF012 - Textual's own way
        ("escape", "dismiss", "leave"),
        ("down,ctrl+n", "move('down')", "down"),
        ("up,ctrl+p", "move('up')", "up"),
        ("pagedown", "move('page_down')", "page down"),
        ("pageup", "move('page_up')", "page up"),
        ("tab", "complete", "complete"),
    ]

    def __init__(
        self, skin: ThemeStyles, picture: MonitorState, themes: Iterable[str], keys: Mapping[str, str]
    ) -> None:
        super().__init__()
        self.offered = Offered(skin, choices(picture, themes, keys))

    def compose(self) -> ComposeResult:
        """The input, and its matches."""
        with Vertical(id="frame"):
            with Horizontal():
                yield Label(":", markup=False)
                typed = Input(select_on_focus=False)
                typed.cursor_blink = False
                yield typed
                yield Label("esc close", markup=False)
            yield self.offered

    def on_mount(self) -> None:
        """Keys are typed."""
        self.query_one(Input).focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Another letter, other choices."""
        event.stop()
        self.offered.want(event.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self._choose()

    def on_chosen(self, event: Chosen) -> None:
        """A click."""
        event.stop()
        self._choose()

    def _choose(self) -> None:
        choice = self.offered.chosen
        if choice is None:
            self.dismiss(self.query_one(Input).value.strip() or None)
        elif choice.unfinished:
            self.action_complete()
        else:
            self.dismiss(choice.command)

    def action_complete(self) -> None:
        """Types what the cursor is on."""
        choice = self.offered.chosen
        if choice is not None:
            typed = self.query_one(Input)
            typed.value = f"{choice.command} "
            typed.cursor_position = len(typed.value)

    def action_move(self, where: str) -> None:
        """The cursor goes there."""
        getattr(self.offered, f"do_{where}")()
