"""Little apps around one pane or screen, with the keys of the real one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.cells import cell_len
from textual import _wait
from textual.app import App, ComposeResult
from textual.events import Key
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widget import Widget

from perfmon.themes.loader import load_themes
from perfmon.tui.actions import by_key, chosen
from perfmon.tui.theme import ColorDepth, ThemeStyles
from perfmon.tui.widgets.overlays import PageScreen
from perfmon.tui.widgets.pane import Request

SIZES = [(60, 10), (80, 24), (120, 30), (200, 50)]
SKIN = ThemeStyles(load_themes()["midnight"])
PLAIN = ThemeStyles(load_themes()["midnight"], ColorDepth.NONE)

# Before and after every key Textual's pilot looks for 20 ms whether the process is idle, which is most of the time that
# these tests would take.
_wait.SLEEP_GRANULARITY /= 4
_wait.SLEEP_IDLE /= 4


class Host(App[None]):
    """Shows one widget or screen; keeps its requests, as names and what they are about."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, make: Callable[[], Widget]) -> None:
        super().__init__()
        self._make = make
        self.requests: list[tuple[str, Any]] = []

    def compose(self) -> ComposeResult:
        """The widget."""
        made = self._make()
        if not isinstance(made, Screen):
            yield made

    def on_mount(self) -> None:
        """Or the screen."""
        made = self._make()
        if isinstance(made, Screen):
            self.push_screen(made)
        elif self.screen.focus_chain:
            self.screen.focus_chain[0].focus()

    def on_request(self, message: Request) -> None:
        """Keeps it."""
        self.requests.append((message.action, message.about))

    def on_key(self, event: Key) -> None:
        """Runs the action of a key as the app does."""
        focused = self.screen.focused
        if focused is None:
            return
        action = chosen(by_key({}).get(event.key, []), focused.id or "")
        if action is not None:
            getattr(focused, f"do_{action.id}", lambda: None)()


def page_of(app: App[Any]) -> Widget | None:
    """The page that is open."""
    return app.screen.page if isinstance(app.screen, PageScreen) else None


def screen_text(app: App[Any]) -> list[str]:
    """What stands on the screen, line by line."""
    return [strip.text for strip in app.screen._compositor.render_strips()]


async def paged(app: App[None], pilot: Pilot[None]) -> list[str]:
    """All lines that paging down shows, until nothing moves any more; each as wide as the screen."""
    seen: list[str] = []
    lines: list[str] = []
    while (now := screen_text(app)) != lines:
        lines = now
        assert {cell_len(line) for line in lines} == {app.size.width}
        seen += lines
        await pilot.press("pagedown")
    return seen
