"""Styles and characters for every depth of colour, and what of them reaches a terminal."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from colours import contrast
from rich.cells import cell_len
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from perfmon.rules.signatures import load_signatures
from perfmon.textgraphics.cells import ASCII, UNICODE, Glyphs, glyphs_for
from perfmon.themes.loader import GROUNDS, STYLES, TEXTS, load_themes
from perfmon.tui.terminal.driver import Colourless
from perfmon.tui.theme import _CAUSES, ColorDepth, ThemeStyles, depth_of
from perfmon.viewmodel import AlertState, Freshness, Level, RunState

THEMES = load_themes()
ROOT = Path(__file__).parents[2]
STYLE_CODES = {0, 1, 2, 3, 4, 7}
"""Reset, bold, dim, italic, underline, reverse."""


@pytest.mark.parametrize("depth", ColorDepth)
@pytest.mark.parametrize("theme", THEMES)
def test_every_name_has_a_style_at_every_depth(theme: str, depth: ColorDepth) -> None:
    skin = ThemeStyles(THEMES[theme], depth)
    for name in STYLES:
        assert skin.style(name) is skin.style(name), "made once"
    assert skin.textual_theme().name == skin.theme.name


def test_a_name_that_nobody_knows_is_refused() -> None:
    skin = ThemeStyles(THEMES["midnight"])
    with pytest.raises(KeyError):
        skin.style("criticle")
    with pytest.raises(KeyError):
        skin.style("text", "critical")
    with pytest.raises(KeyError):
        skin.glyph("smiley")


def test_styles_carry_their_ground() -> None:
    skin = ThemeStyles(THEMES["midnight"])
    on_screen, on_cursor = skin.style("critical"), skin.style("critical", "cursor")
    assert on_screen.color == on_cursor.color
    assert (on_screen.bgcolor, on_cursor.bgcolor) == (skin.style("background").bgcolor, skin.style("cursor").bgcolor)


def test_without_colours_bars_are_not_reversed_and_the_cursor_shows_on_them() -> None:
    skin = ThemeStyles(THEMES["mono"])
    assert not skin.style("critical").reverse
    assert skin.style("critical", "cursor").reverse


@pytest.mark.parametrize("theme", THEMES)
def test_sixteen_colours_are_the_terminals_own(theme: str) -> None:
    skin = ThemeStyles(THEMES[theme], ColorDepth.SIXTEEN)
    styles = [skin.style(name, ground) for name in STYLES for ground in GROUNDS]
    numbers = [c.number for style in styles for c in (style.color, style.bgcolor) if c]
    assert [number for number in numbers if number is None or number > 15] == []
    assert skin.style("text").bgcolor is None, "its own background"


@pytest.mark.parametrize("theme", THEMES)
def test_without_colour_only_attributes_are_left(theme: str) -> None:
    skin = ThemeStyles(THEMES[theme], ColorDepth.NONE)
    assert {(skin.style(name).color, skin.style(name).bgcolor) for name in STYLES} == {(None, None)}
    assert len({skin.level(level) for level in (Level.GOOD, Level.WARNING, Level.CRITICAL)}) == 3


@pytest.mark.parametrize("theme", [name for name, theme in THEMES.items() if not theme.inherits])
def test_texts_are_readable_when_a_terminal_has_256_colours(theme: str) -> None:
    skin = ThemeStyles(THEMES[theme], ColorDepth.EIGHT_BIT)
    for name in TEXTS.keys() - {"faint", "frame"}:
        style = skin.style(name)
        assert style.color
        assert style.bgcolor
        pair = (color.downgrade(ColorSystem.EIGHT_BIT).get_truecolor().hex for color in (style.color, style.bgcolor))
        assert contrast(*pair) >= 4.0, name


def test_a_level_is_told_by_a_character_too() -> None:
    for glyphs in (UNICODE, ASCII):
        assert len({ThemeStyles(THEMES["mono"], glyphs=glyphs).mark(level) for level in Level}) == len(Level)


def test_causes_have_the_colours_of_their_lanes_and_keep_them() -> None:
    skin = ThemeStyles(THEMES["midnight"])
    assert skin.cause("frontend-queue") == skin.style("queue")
    assert skin.cause("of a user") == ThemeStyles(THEMES["midnight"]).cause("of a user")
    assert _CAUSES.keys() - {"productive", "unknown"} <= {signature.id for signature in load_signatures()}


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_every_character_takes_one_cell(glyphs: Glyphs) -> None:
    assert {cell_len(glyph) for glyph in (*glyphs.named.values(), *glyphs.spark, *glyphs.eighths)} == {1}
    assert (len(glyphs.spark), len(glyphs.eighths)) == (8, 7)


def test_states_have_characters() -> None:
    for state in (*AlertState, *Freshness, *RunState):
        assert UNICODE[state]


def test_plain_characters_are_ascii() -> None:
    assert ("".join(ASCII.named.values()) + ASCII.spark + ASCII.eighths).isascii()


@pytest.mark.parametrize(
    ("environment", "glyphs"),
    [
        ({}, UNICODE),
        ({"LANG": "de_DE.UTF-8"}, UNICODE),
        ({"LANG": "C.utf8"}, UNICODE),
        ({"LANG": "de_DE.ISO-8859-1"}, ASCII),
        ({"LC_ALL": "C", "LANG": "de_DE.UTF-8"}, ASCII),
        ({"LC_ALL": "", "LANG": "POSIX"}, ASCII),
    ],
)
def test_the_locale_says_which_characters(environment: dict[str, str], glyphs: Glyphs) -> None:
    assert glyphs_for(environment) is glyphs


def test_the_depth_of_a_console() -> None:
    message = ["truecolor", "256", "standard", "windows", None]
    expected = [ColorDepth.TRUECOLOR, ColorDepth.EIGHT_BIT, ColorDepth.SIXTEEN, ColorDepth.SIXTEEN, ColorDepth.NONE]
    assert [depth_of(system) for system in message] == expected
    assert depth_of("truecolor", no_color=True) is ColorDepth.NONE


def test_colourless_keeps_selections_and_clicks() -> None:
    selected = Style(color="black", bgcolor="white", bold=True) + Style.from_meta({"@click": "app.quit"})
    (segment,) = Colourless().apply([Segment("x", selected)], Color.parse("black"))
    assert segment.style == Style(bold=True, reverse=True) + Style.from_meta({"@click": "app.quit"})


# --- a real terminal --------------------------------------------------------------------------------------------------
_APP = """
import os
from textual.app import App
from textual.filter import LineFilter
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, Label
from rich.segment import Segment
from perfmon.themes.loader import load_themes
from perfmon.themes.loader import STYLES, GROUNDS
from perfmon.tui.terminal.driver import line_filters
from perfmon.tui.theme import ThemeStyles, depth_of

class Pane(Widget):
    def render_line(self, y):
        names = list(STYLES)
        return Strip([Segment(name, self.app.skin.style(name, ground)) for name in names[y::9] for ground in GROUNDS])

class Shown(App):
    CSS = '''
    Pane { height: 9; border: round $border; } Label { color: $accent; background: $panel; }
    '''
    def __init__(self):
        super().__init__()
        self.depth = depth_of(self.console.color_system, self.no_color)
        self.skin = ThemeStyles(load_themes()[os.environ["SHOWN"]], self.depth)
        self.register_theme(self.skin.textual_theme())
        self.theme = self.skin.theme.name
    def get_line_filters(self):
        return line_filters(self.depth, super().get_line_filters())
    def compose(self):
        yield Pane()
        yield Input("text", select_on_focus=True)
        yield Label("line")
    async def on_ready(self):
        self.query_one(Input).action_select_all()
        self.set_timer(0.2, self.exit)

Shown().run()
"""


def _written(theme: str, **environment: str) -> str:
    """What an application in that theme writes to a terminal."""
    ours, theirs = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM")}
    env = {**kept, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40", "PYTHONPATH": str(ROOT), "SHOWN": theme}
    command = [sys.executable, "-c", _APP]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env={**env, **environment}):
        os.close(theirs)
        text = b"".join(_chunks(ours)).decode()
        os.close(ours)
    assert "critical" in text, "the screen was shown"
    return text


def _chunks(descriptor: int) -> Iterator[bytes]:
    while True:
        try:
            chunk = os.read(descriptor, 1 << 16)
        except OSError:  # the other end is closed
            return
        yield chunk


def _codes(text: str) -> set[int]:
    return {int(code or 0) for codes in re.findall(r"\x1b\[([\d;]*)m", text) for code in codes.split(";")}


@pytest.mark.parametrize("theme", ["midnight", "ansi-16"])
def test_no_colour_reaches_a_terminal_that_wants_none(theme: str) -> None:
    text = _written(theme, NO_COLOR="1", COLORTERM="truecolor")
    assert _codes(text) <= STYLE_CODES
    assert 7 in _codes(text), "what is selected shows"


@pytest.mark.parametrize("theme", ["midnight", "daylight", "ansi-16"])
def test_sixteen_colours_reach_a_terminal_that_has_no_more(theme: str) -> None:
    codes = _codes(_written(theme, TERM="linux"))
    assert codes - STYLE_CODES <= {*range(30, 38), 39, *range(40, 48), 49, *range(90, 98), *range(100, 108)}
    assert codes >= {31, 32}
