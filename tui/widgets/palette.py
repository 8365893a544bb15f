"""The palette: alerts, metrics, weight updates and logs of this moment, and everything that can be done, by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import Click
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from perfmon.core import UsageError, plain
from perfmon.logbuffer import Query
from perfmon.textgraphics import compact_value, fit
from perfmon.viewmodel import Alert, AlertState, Level, MonitorState

from ..actions import ACTIONS, Action, keys_of, spelled
from ..commands import COMMANDS, Command, known, quoted
from ..layout import LAYOUTS
from ..render.alerts import LEVELS, WORDS
from ..render.rows import Row, Run, cells, panel_row
from ..theme import LEVEL_NAMES, ThemeStyles
from .pane import Listing

# --- Fuzzy matching of a text with typed words, in one pass over the text, even if it is hostile ---

_LONGEST = 300
_WHOLE, _BEGINS, _AT_WORD, _INSIDE, _SCATTERED = 100.0, 80.0, 60.0, 40.0, 10.0


@dataclass(frozen=True, slots=True)
class Match:
    """A text that fits."""

    score: float
    """More is better; only good for comparing."""
    places: frozenset[int]
    """Characters of the text that were typed."""


def match_of(typed: str, text: str) -> Match | None:
    """Score of `text` for the words of `typed`, all of which it must contain, at least as letters; None without it.

    Capitals do not matter. Of a long text only the beginning counts.
    """
    low = _folded(text[:_LONGEST])
    score, places = 0.0, set[int]()
    words = _folded(typed[:_LONGEST]).split()
    for word in words:
        found = _together(word, low) or _scattered(word, low)
        if found is None:
            return None
        score += found[0]
        places.update(found[1])
    return Match(score / max(1, len(words)) - 0.05 * len(low), frozenset(places))


def _folded(text: str) -> str:
    """In small letters, each where it was."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(char.lower()[:1] for char in text)


def _together(word: str, text: str) -> tuple[float, range] | None:
    at = first = text.find(word)
    while at > 0 and text[at - 1].isalnum():
        at = text.find(word, at + 1)
    if first < 0:
        return None
    best = first if at < 0 else at
    worth = _INSIDE if at < 0 else _AT_WORD if at else _WHOLE if len(word) == len(text) else _BEGINS
    return worth, range(best, best + len(word))


def _scattered(word: str, text: str) -> tuple[float, list[int]] | None:
    """The letters in their order: worth more where they begin words, less the further apart they are."""
    places: list[int] = []
    at = -1
    for char in word:
        at = text.find(char, at + 1)
        if at < 0:
            return None
        places.append(at)
    begins = sum(1 for place in places if not place or not text[place - 1].isalnum())
    gaps = places[-1] - places[0] + 1 - len(word)
    return _SCATTERED * (begins + 1) / (len(word) + 1) - 0.2 * gaps, places


# --- Entries of the palette: current items first, then commands and actions; best match on top ---

_MOST = 300
_KIND = 9
_NONE = Match(0.0, frozenset())
_WORTH = {"alert": 12.0, "metric": 8.0, "update": 6.0, "log": 5.0, "run": 4.0, "do": 2.0, "theme": 1.0, "layout": 1.0}
_OVER = (AlertState.RESOLVED, AlertState.SILENCED, AlertState.INHIBITED)


@dataclass(frozen=True, slots=True)
class Choice:
    """A row of the palette."""

    kind: str
    """`alert`, `metric`, `update`, `log`, `theme`, `layout`, `run` or `do`."""
    text: str
    """Searched text, safe to show."""
    note: str
    """Its description."""
    command: str
    """Command that runs when it is chosen."""
    style: str = "muted"
    """Name of the style of the note."""
    unfinished: bool = False
    """The command wants more: choosing it begins to type it."""
    also: str = ""
    """Further searched text that is not shown."""


def choices(picture: MonitorState, themes: Iterable[str], keys: Mapping[str, str]) -> list[Choice]:
    """Everything that there is to choose from; `keys` are those that the user chose, by action."""
    firing = [alert for alert in picture.alerts if alert.state not in _OVER]
    rest = [alert for alert in picture.alerts if alert.state in _OVER]
    return [
        *map(_alert, firing),
        *map(_command, COMMANDS),
        *_metrics(picture),
        *_traces(picture),
        *map(_alert, rest),
        *(_named("log", source.name, "source", source.freshness.value) for source in picture.sources[:_MOST]),
        *_actions(keys),
        *(_named("theme", name, "theme") for name in themes),
        *(_named("layout", name, "layout") for name in LAYOUTS),
    ]


def _alert(alert: Alert) -> Choice:
    finding = alert.finding
    note = f"{WORDS[finding.severity]} {alert.state.value}"
    style = LEVELS[finding.severity] if alert.state is AlertState.FIRING else "muted"
    return Choice("alert", plain(f"{alert.key[0]}  {finding.title}", 120), note, f"open #{alert.number}", style)


def _metrics(picture: MonitorState) -> Iterator[Choice]:
    for lane in picture.board.metrics[:_MOST]:
        value = "" if lane.now is None else compact_value(lane.now, lane.unit, 10)
        yield Choice(
            "metric", plain(lane.name, 120), value, f"chart {quoted(lane.name)}",
            "muted" if lane.now_level is Level.NONE else LEVEL_NAMES[lane.now_level],
        )  # fmt: skip


def _traces(picture: MonitorState) -> Iterator[Choice]:
    bars = [bar for lane in picture.board.spans if lane.kind == "weight-update" for bar in lane.bars if bar.key]
    for bar in reversed(bars[-_MOST:]):
        parts = [
            f"{name} {compact_value(bar.values[f'{name}_ms'], 'ms', 8)}"
            for name in ("queue", "rpc")
            if f"{name}_ms" in bar.values
        ]
        command, style = f"update {quoted(bar.key)}", LEVEL_NAMES[bar.level]
        yield Choice("update", plain(bar.key, 120), "  ".join(parts), command, style)


def _named(kind: str, name: str, command: str, note: str = "") -> Choice:
    return Choice(kind, plain(name, 120), note, f"{command} {quoted(name)}", also=command)


def _command(command: Command) -> Choice:
    return Choice("run", command.usage, command.help, command.name, unfinished=command.least > 0)


def _actions(keys: Mapping[str, str]) -> Iterator[Choice]:
    names = {command.name for command in COMMANDS}
    for action in ACTIONS:
        if action.word not in names:
            pressed = " ".join(spelled(key) for key in keys_of(action, keys))
            yield Choice("do", action.word, f"{action.help}  {pressed}", action.word, also=action.title)


# --- What fits ---
def typed_command(typed: str) -> Choice | None:
    """The typed text, if it is a complete command or the name of an action."""
    name, rest = (*typed.strip().removeprefix(":").split(maxsplit=1), "", "")[:2]
    command = known(name)
    if isinstance(command, Action) and not rest:
        return Choice("do", command.word, command.help, command.word)
    if not isinstance(command, Command) or not (rest or not command.least):
        return None
    return Choice("run", plain(f"{name} {rest}".strip(), 200), command.help, f"{name} {rest}".strip())


def fitting(typed: str, offered: Sequence[Choice]) -> list[tuple[Choice, Match]]:
    """Matches, the exact name of a command or action first, then best first; without input all in their order."""
    text = typed.strip().removeprefix(":").strip()
    if not text:
        return [(choice, _NONE) for choice in offered]
    found = [
        (choice, fit)
        for choice in offered
        if (fit := match_of(text, choice.text) or _match_hidden(text, choice)) is not None
    ]
    begun = known(text)
    own = begun.usage if isinstance(begun, Command) else ""
    found.sort(key=lambda pair: (pair[0].text != own, -(pair[1].score + _WORTH[pair[0].kind])))
    whole = typed_command(typed)
    if whole is None:
        return found
    command = known(text.split()[0])
    named = [pair for pair in found if not pair[0].unfinished and pair[0].kind not in ("run", "do")]
    rest = [pair for pair in found if pair[0].text != whole.text and pair not in named]
    first = isinstance(command, Command) and command.picks and named and " " in text
    return [*named, (whole, _NONE), *rest] if first else [(whole, _NONE), *named, *rest]


def _match_hidden(text: str, choice: Choice) -> Match | None:
    """By what is not shown: `theme day` finds the theme daylight."""
    if not choice.also:
        return None
    found = match_of(text, f"{choice.also} {choice.text}")
    before = len(choice.also) + 1
    return found and Match(found.score, frozenset(at - before for at in found.places if at >= before))


# --- Rows ---
def choice_row(choice: Choice, found: Match, skin: ThemeStyles, width: int, ground: str) -> Row:
    """A choice in exactly `width` cells; characters that were typed stand out."""
    mark = skin.glyph("next") if ground == "cursor" else " "
    head: list[Run] = [
        (f" {mark} ", skin.style("accent", ground)),
        (fit(choice.kind, _KIND), skin.style("muted", ground)),
    ]
    left = width - 4 - _KIND
    note = fit(
        choice.note, min(cells(choice.note), max(0, left - min(left, cells(choice.text)) - 2)), glyphs=skin.glyphs
    )
    room = max(0, left - cells(note) - 2 * bool(note))
    shown = fit(choice.text, room, glyphs=skin.glyphs)
    usual, hit = skin.style("text", ground), skin.style("accent", ground)
    name = [(char, hit if at in found.places else usual) for at, char in enumerate(shown)]
    tail: list[Run] = [("  ", usual), (note, skin.style(choice.style, ground))] if note else []
    return (*head, *name, *tail, (" ", usual))


def problem_of(typed: str) -> str:
    """Error in the typed command; "" without one."""
    name, rest = (*typed.strip().removeprefix(":").split(maxsplit=1), "", "")[:2]
    if name == "log" and rest:
        try:
            Query(rest if rest.startswith("/") else f"/{rest}/")
        except UsageError as error:
            return str(error)
    return ""


# --- The screen over the panes: an input and its matches ---


class Selected(Message):
    """A row was clicked."""


class Suggestions(Listing, can_focus=False):
    """List of matches. The input keeps the focus and moves the cursor by these methods."""

    def __init__(self, skin: ThemeStyles, offered: Sequence[Choice]) -> None:
        super().__init__(skin, id="offered")
        self._offered = offered
        self._typed = ""
        self._found: list[tuple[Choice, Match]] = []
        self.want("")

    def want(self, typed: str) -> None:
        """Show what fits."""
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
        problem = problem_of(self._typed)
        left = ((f" {problem or self._description()}", "warning" if problem else "muted"),)
        return (panel_row(left, ((f" {len(self._found)} ", "muted"),), width, self.skin),)

    def _description(self) -> str:
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
            self.post_message(Selected())


class Palette(ModalScreen[str | None]):
    """Gives the command that was chosen, as `commands.run_command` takes it; None when it was left."""

    DEFAULT_CSS = """
    Palette { align: center top; background: transparent; }
    Palette #frame { width: 100%; max-width: 110; height: 100%; max-height: 32; background: $background; }
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
        self.offered = Suggestions(skin, choices(picture, themes, keys))

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

    def on_selected(self, event: Selected) -> None:
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
        """Type what the cursor is on."""
        choice = self.offered.chosen
        if choice is not None:
            typed = self.query_one(Input)
            typed.value = f"{choice.command} "
            typed.cursor_position = len(typed.value)

    def action_move(self, where: str) -> None:
        """The cursor goes there."""
        getattr(self.offered, f"do_{where}")()
