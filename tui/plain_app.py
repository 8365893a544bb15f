"""A screen without a monitor: its header and footer, its keys from the table of actions, its themes and its help."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from textual.filter import LineFilter

from perfmon.textgraphics import UNICODE, Glyphs
from perfmon.themes import ThemeData

from .actions import ACTIONS, Action, by_key, chosen, keys_of, spelled
from .render.header_footer import key_row
from .render.help import action_lines
from .render.rows import Entry, Row, Words, panel_row
from .terminal.driver import SturdyDriver, Timely, TypedAhead, filters_for
from .terminal.suspend import Leaving
from .theme import ThemeStyles, depth_of
from .widgets.overlays import Page, PageScreen
from .widgets.pane import Pane

BACK = -1
"""The code that the monitor returns where esc goes back to a list of runs."""
AGAIN = -2
"""The code that it returns where its sources are to be read once more, from their start."""


def actions_of(known: Collection[str], words: Mapping[str, tuple[str, str]]) -> list[Action]:
    """The `known` actions that belong to no pane; `words` are the title and the help of those that mean more here."""
    found = []
    for action in ACTIONS:
        if action.id in known and not action.panes:
            title, about = words.get(action.id, (action.title, action.help))
            found.append(Action(action.id, action.keys, title, about, action.group, rank=action.rank))
    return found


@dataclass(slots=True)
class AppOptions:
    """Options that the monitor is opened with."""

    title: str
    themes: Mapping[str, ThemeData]
    theme: str
    layout: str = "auto"
    keys: Mapping[str, str] = field(default_factory=dict)
    """Keys that the user chose, by action."""
    glyphs: Glyphs = UNICODE
    hints: tuple[str, ...] = ()
    """Actions that the user is shown a hint at, until they were used."""
    back: bool = False
    """It was opened from a list of runs, to which esc goes back once nothing else is left to take back."""
    again: bool = False
    """Its sources can be read from their start once more: leaving with AGAIN does that."""


class Bar(Pane):
    """The first or the last row of the screen."""

    can_focus = False
    content: Row = ()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """One."""
        return [self.content]


class KeysPage(Page):
    """The keys of a screen, and lines that explain it."""

    def __init__(
        self, skin: ThemeStyles, actions: Sequence[Action], opening: AppOptions, more: Sequence[Words]
    ) -> None:
        super().__init__(skin, id="help")
        self._actions, self._opening, self._more = actions, opening, more

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title."""
        left: Words = ((" help ", "title"), ("every key", "muted"))
        return (panel_row(left, ((" ? esc q close ", "footer-key"),), width, self.skin),)

    def layout_entries(self, width: int) -> Sequence[Entry]:
        """Keys by group, and the lines that explain it."""
        lines = action_lines(self._actions, self._opening.keys, self.skin, width)
        return [Entry(words) for words in (*lines, *self._more)]

    do_help = do_quit = Page.do_back


class ThemedApp(Timely, Leaving, TypedAhead, inherit_bindings=False):
    """The base of all screens: their themes, and the keys of the table of actions.

    Keys are those of `tui.actions` alone: Textual's own ctrl+q, which elsewhere lets a stopped terminal continue, would
    quit.
    """

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, opening: AppOptions) -> None:
        super().__init__(driver_class=SturdyDriver)
        self.opening = opening
        depth = depth_of(self.console.color_system, self.no_color)
        self.skin = ThemeStyles(opening.themes[opening.theme], depth, opening.glyphs)
        for theme in opening.themes.values():
            self.register_theme(ThemeStyles(theme, depth, opening.glyphs).textual_theme())
        self.theme = self.theme_name = opening.theme

    def bind_keys(self, keys: Iterable[str]) -> None:
        """Have `action_key` called with each of these keys."""
        for key in keys:
            self._bindings.bind(key, f"key({key!r})", show=False)
        self._bindings.bind("ctrl+c", "do('quit')", show=False, priority=True)

    def action_key(self, key: str) -> None:
        """Do what a key means."""
        raise NotImplementedError

    def action_focus_next(self) -> None:
        """Do what tab means in the table of actions, also where something is open."""
        self.action_key("tab")

    def action_focus_previous(self) -> None:
        """Do what shift+tab means in the table of actions."""
        self.action_key("shift+tab")

    def action_do(self, name: str) -> None:
        """Do an action of the app by its id, whatever is focused."""
        getattr(self, f"do_{name}")()

    def do_suspend(self) -> None:
        """Suspend to the shell, until `fg`."""
        self.action_suspend_process()

    @property
    def next_theme(self) -> str:
        """The name of the theme after this one."""
        names = list(self.opening.themes)
        return names[(names.index(self.theme_name) + 1) % len(names)]

    def apply_theme(self, name: str) -> None:
        """Draw everything in another theme."""
        self.skin = ThemeStyles(self.opening.themes[name], self.skin.depth, self.opening.glyphs)
        self.theme = self.theme_name = name
        for screen in {self.screen_stack[0], self.screen}:
            for pane in screen.query(Pane):
                pane.apply_theme(self.skin)

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Colours and characters that a terminal does not have are left out everywhere."""
        return filters_for(self.skin, super().get_line_filters())


class PlainApp(ThemedApp):
    """The base of screens that have no monitor; their keys are those of the monitor, as far as `actions` has them."""

    CSS = """
    Screen { layout: vertical; overflow: hidden; background: $background; }
    #lower { width: 1fr; height: 1fr; }
    """
    shown_keys: tuple[str, ...] = ()
    """Actions of the footer, in order."""

    def __init__(self, opening: AppOptions, actions: Sequence[Action]) -> None:
        super().__init__(opening)
        self.actions = actions
        self.message = ""
        known = {action.id: action for action in actions}
        self._keys = {
            key: [known[action.id] for action in meant if action.id in known and not action.panes]
            for key, meant in by_key(opening.keys).items()
        }
        self.bind_keys(key for key, meant in self._keys.items() if meant)
        self.header, self.footer = Bar(self.skin, id="header"), Bar(self.skin, id="footer")

    def on_mount(self) -> None:
        """Lay out the bars; signals end it."""
        self.header.styles.height = self.footer.styles.height = 1
        self.exit_on_signals()

    def show_bars(self) -> None:
        """Draw header and footer."""
        raise NotImplementedError

    def draw_bars(self, left: Words, right: Words, width: int) -> None:
        """Draw these words in the header, and the keys."""
        self.header.content = panel_row(left, right, width, self.skin)
        self.footer.content = self._footer_row(width)
        self.header.redraw()
        self.footer.redraw()

    def help_lines(self) -> Sequence[Words]:
        """Lines of the help below the keys."""
        return ()

    def _footer_row(self, width: int) -> Row:
        by_id = {action.id: action for action in self.actions}
        keys = [(spelled(keys_of(by_id[name], self.opening.keys)[0]), by_id[name].title) for name in self.shown_keys]
        return key_row(keys, (), width, self.skin)

    def show_message(self, text: str) -> None:
        """Show a text in the header until the next key."""
        self.message = text
        self.show_bars()

    # --- keys ---------------------------------------------------------------------------------------------------------
    def action_key(self, key: str) -> None:
        """Do what a key means: of what is open or focused, else of the app."""
        action = chosen(self._keys.get(key, ()), "")
        if action is None:
            return
        if self.message:
            self.show_message("")
        do = f"do_{action.id}"
        covered = len(self.screen_stack) > 1
        target = self.focused if hasattr(self.focused, do) else None if covered else self
        if target is not None and hasattr(target, do):
            getattr(target, do)()

    def do_quit(self) -> None:
        """Leave."""
        self.exit(0)

    def do_help(self) -> None:
        """Open the help."""
        self.push_screen(PageScreen(KeysPage(self.skin, self.actions, self.opening, self.help_lines())))

    def do_theme(self) -> None:
        """Switch to the next theme."""
        self.apply_theme(self.next_theme)
        self.show_bars()
