"""Asks for one line of text at the bottom of the screen."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input, Label


class Prompt(ModalScreen[str | None]):
    """Gives what was typed; None when it was left."""

    DEFAULT_CSS = """
    Prompt { align: left bottom; background: transparent; }
    Prompt Horizontal { height: 1; background: $panel; }
    Prompt Label { width: auto; color: $accent; padding: 0 1; }
    Prompt Input { border: none; height: 1; padding: 0; background: $panel; }
    Prompt Input:focus { border: none; }
    """
    BINDINGS = [("escape", "leave", "leave")]  # noqa: RUF012 - Textual's own way

    def __init__(self, question: str, value: str = "") -> None:
        super().__init__()
        self._question, self._value = question, value

    def compose(self) -> ComposeResult:
        """One row."""
        with Horizontal():
            yield Label(self._question, markup=False)
            yield Input(self._value, select_on_focus=False)

    def on_mount(self) -> None:
        """Typing replaces the initial text, unless the cursor was moved first."""
        self.query_one(Input).action_select_all()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Enter."""
        event.stop()
        self.dismiss(event.value)

    def action_leave(self) -> None:
        """Escape."""
        self.dismiss(None)
