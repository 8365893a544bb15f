"""Commands that can be typed after `:`, and what their arguments mean."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import (
    PerfmonError,
    TimeBase,
    UsageError,
    format_seconds,
    moment,
    parse_duration,
    plain,
    short_duration,
)
from perfmon.logbuffer import Query
from perfmon.viewmodel import Alert

from .actions import ACTIONS, Action
from .layout import LAYOUTS
from .render.rows import moment_text

if TYPE_CHECKING:
    from perfmon.sources import Player

    from .handlers.open import OpenActions


# --- Parsing of command arguments; a one-line UsageError for invalid ones ---

_NAMED = 60
_MOST_NAMES = 6


def seconds_of(text: str, least: float, most: float, example: str) -> float:
    """A duration within these bounds; `example` is one as it is typed."""
    try:
        seconds = parse_duration(text)
    except (ValueError, OverflowError):
        raise UsageError(f"{plain(text, _NAMED)!r} is no duration: type it as in {example}") from None
    if not (isfinite(seconds) and least <= seconds <= most):
        span = f"{format_seconds(least)} to {format_seconds(most)}"
        raise UsageError(f"{plain(text, _NAMED)!r}: expected {span}, as in {example}")
    return seconds


def name_among(text: str, names: Iterable[str], what: str) -> str:
    """The name that is meant: that one, or the only one that begins with the text, or else has it."""
    known = list(dict.fromkeys(names))
    if text in known:
        return text
    low = text.lower()
    for fitting in (
        [name for name in known if name.lower().startswith(low)],
        [name for name in known if low in name.lower()],
    ):
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise UsageError(f"{plain(text, _NAMED)!r} is ambiguous: expected one of {_listed(fitting)}")
    if not known:
        raise UsageError(f"no such {what}: {plain(text, _NAMED)!r} (there are none yet)")
    raise UsageError(f"no such {what}: {plain(text, _NAMED)!r}, expected one of {_listed(known)}")


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(plain(name, 40) for name in names[:_MOST_NAMES])
    return f"{listed} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else listed


def alerts_of(app: OpenActions, text: str) -> list[Alert]:
    """Alerts by number (`#12`, `12`), or all of one signature, by its name or a part of it or of a title."""
    alerts = app.monitor.picture.alerts
    number = text.removeprefix("#")
    if number.isdecimal():
        found = [alert for alert in alerts if str(alert.number) == number.lstrip("0")]
        if not found:
            raise UsageError(f"no such alert: #{number[:_NAMED]}")
        return found
    titled = {alert.key[0] for alert in alerts if text.lower() in alert.finding.title.lower()}
    signature = titled.pop() if len(titled) == 1 else name_among(text, [alert.key[0] for alert in alerts], "alert")
    return [alert for alert in alerts if alert.key[0] == signature]


def file_of(text: str) -> str:
    """Path of a file, which may not exist."""
    try:
        return str(Path(plain(text, 4000)).expanduser())
    except RuntimeError:
        raise UsageError(f"{plain(text, _NAMED)}: unknown home folder") from None


def player_of(app: OpenActions) -> Player:
    """The player of a replay."""
    if app.player is None:
        raise UsageError("this run is live: only for replays")
    return app.player


# --- A typed line as words: like a shell's, but every line has a meaning ---

_WORD = re.compile(r'"((?:\\["\\]|[^"])*)"?|\'([^\']*)\'?|(\S+)')
_ESCAPED = re.compile(r'\\(["\\])')


def split_words(line: str) -> list[str]:
    """Words between blanks; one that starts with a quote ends at the next one, or with the line.

    Within double quotes `\\"` and `\\\\` stand for themselves; a backslash elsewhere is a backslash.
    """
    return [_ESCAPED.sub(r"\1", double) + single + bare for double, single, bare in _WORD.findall(line)]


def quoted(word: str) -> str:
    """`word` as `split_words` gives it back."""
    if word and not any(char.isspace() for char in word) and word[0] not in "\"'":
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


# --- Everything that can be typed after `:`, in one table: the palette and the help are made from it ---

_DAY_S = 86400.0
_YEARS_S = 3650 * _DAY_S


@dataclass(frozen=True, slots=True)
class Command:
    """Something that is done by its name, with arguments."""

    name: str
    usage: str
    """Usage: capitals are placeholders, brackets are optional."""
    help: str
    run: Callable[[OpenActions, Sequence[str]], None]
    """Does it; raises UsageError, one line, for arguments that mean nothing."""
    least: int = 0
    most: int = 1
    """Arguments that it takes; more are parts of the last one."""
    picks: bool = False
    """Its argument is a name out of those that there are."""
    alone: bool = False
    """Without arguments it is the action of that name, in the focused pane."""


# --- time -------------------------------------------------------------------------------------------------------------
def _at(app: OpenActions, words: Sequence[str]) -> None:
    picture = app.monitor.picture
    if ":" in words[0] and picture.time_base is not TimeBase.WALL:
        raise UsageError("these logs have no time of day: expected a duration before now, as in 10m")
    start = picture.now if picture.snapshot is None else picture.snapshot.run.start
    when = moment(words[0], start, picture.now)
    if when > picture.now:
        raise UsageError(f"{plain(words[0], _NAMED)!r} is later than the newest line")
    if when < picture.now - _YEARS_S:
        raise UsageError(f"{plain(words[0], _NAMED)!r} is long before the start of these logs")
    app.close_overlays()
    if picture.begin is not None and when < picture.begin:
        when = picture.begin
        first = moment_text(when, picture.time_base)
        app.show_message(f"{plain(words[0], _NAMED)!r} is before the first line ({first})")
    app.request_cursor(when)


def _last(app: OpenActions, words: Sequence[str]) -> None:
    seconds = seconds_of(words[0], 30.0, 7 * _DAY_S, "30m")
    app.do_live()
    app.time_view.span_s = seconds
    app.request_view()


def _window(app: OpenActions, words: Sequence[str]) -> None:
    seconds = seconds_of(words[0], 10.0, 7 * _DAY_S, "10m")
    app.monitor.judge_window(seconds)
    app.show_message(f"analysis window: last {short_duration(seconds)}")


# --- alerts -----------------------------------------------------------------------------------------------------------
def _silence(app: OpenActions, words: Sequence[str]) -> None:
    alerts = alerts_of(app, words[0])
    if len(words) == 1:
        app.request_silence(alerts[0])
        return
    seconds = seconds_of(words[1], 1.0, 30 * _DAY_S, "15m")
    for alert in alerts:
        app.monitor.silence(alert.key, seconds)
    app.show_message(f"{_title(alerts)}: silenced for {short_duration(seconds)}")


def _ack(app: OpenActions, words: Sequence[str]) -> None:
    alerts = alerts_of(app, words[0])
    for alert in alerts:
        app.monitor.ack(alert.key)
    app.show_message(f"{_title(alerts)}: acknowledged")


def _undo(app: OpenActions, words: Sequence[str]) -> None:
    for alert in alerts_of(app, words[0]):
        app.monitor.undo(alert.key)


def _open(app: OpenActions, words: Sequence[str]) -> None:
    app.request_alert(alerts_of(app, words[0])[0])


def _title(alerts: Sequence[Alert]) -> str:
    return plain(alerts[0].finding.title, 40)


# --- what there is to see ---------------------------------------------------------------------------------------------
def _chart(app: OpenActions, words: Sequence[str]) -> None:
    names = [lane.name for lane in app.picture.board.metrics]
    whole = " ".join(words)  # that of one queue has a blank in it
    app.open_chart(*([whole] if whole in names else [name_among(word, names, "metric") for word in words]))


def _baseline(app: OpenActions, words: Sequence[str]) -> None:
    app.load_baseline(file_of(words[0]))


def _update(app: OpenActions, words: Sequence[str]) -> None:
    bars = {bar.key: bar for bar in app.updates()}
    if not bars:
        raise UsageError("no weight update in view (- zooms out)")
    app.open_trace(bars[name_among(words[0], bars, "weight update in view with the id")])


def _lane(app: OpenActions, words: Sequence[str]) -> None:
    app.close_overlays()
    app.board.want(words[0] if words else "")


def _log(app: OpenActions, words: Sequence[str]) -> None:
    texts: tuple[str, ...] = ()
    if words:
        text = words[0] if words[0].startswith("/") else f"/{words[0]}/"
        texts = (Query(text).query,)
    app.show_log()
    app.log_pane.filter(replace(app.log_pane.view.wanted, texts=texts))


def _source(app: OpenActions, words: Sequence[str]) -> None:
    indices = {name: index for index, name in app.log_pane.book.names.items()}
    wanted = None if not words else frozenset({indices[name_among(words[0], indices, "log")]})
    app.show_log()
    app.log_pane.filter(replace(app.log_pane.view.wanted, sources=wanted))


def _theme(app: OpenActions, words: Sequence[str]) -> None:
    if words:
        app.choose_theme(name_among(words[0], app.opening.themes, "theme"))
    else:
        app.do_theme()


def _layout(app: OpenActions, words: Sequence[str]) -> None:
    app.close_overlays()
    if words:
        app.choose_preset(name_among(words[0], LAYOUTS, "layout"))
    else:
        app.do_preset()


# --- files ------------------------------------------------------------------------------------------------------------
def _snapshot(app: OpenActions, words: Sequence[str]) -> None:
    app.save_page(file_of(words[0]) if words else "")


def _learn(app: OpenActions, words: Sequence[str]) -> None:
    app.do_learn(words[0] if words else "")


def _svg(app: OpenActions, words: Sequence[str]) -> None:
    app.save_svg(file_of(words[0]) if words else "")


def _record(app: OpenActions, words: Sequence[str]) -> None:
    made, word = app.monitor.picture.recording, words[0] if words else ""
    held = None if made is None or made.failed is not None else made
    if word == "stop" and held is None:
        raise UsageError("no recording is running")
    if word not in ("", "stop") and held is not None:
        raise UsageError(f"{plain(held.path, _NAMED)} is being recorded already (record stop ends it)")
    if word == "stop":
        app.monitor.stop_recording()
    elif word in ("", "start"):
        app.do_record()
    else:
        app.monitor.record(file_of(word))


# --- a replay ---------------------------------------------------------------------------------------------------------
def _speed(app: OpenActions, words: Sequence[str]) -> None:
    player = player_of(app)
    try:
        speed = float(words[0].lower().strip("x"))
    except ValueError:
        speed = 0.0
    if not 0.1 <= speed <= 1000.0:
        raise UsageError(f"{plain(words[0], _NAMED)!r}: expected a factor from 0.1 to 1000, as in 8")
    player.speed = speed


def _seek(app: OpenActions, words: Sequence[str]) -> None:
    player = player_of(app)
    seconds = seconds_of(words[0], 0.0, _YEARS_S, "1:30")
    app.seek_to(player, seconds)
    if seconds > player.duration_s:
        end = format_seconds(player.duration_s)
        app.show_message(f"{plain(words[0], _NAMED)!r} is past the end of the recording: at its end ({end})")


COMMANDS: tuple[Command, ...] = (
    Command("at", "at TIME", "Move the time cursor: 14:06:38, a date, or 10m ago.", _at, 1),
    Command("last", "last TIME", "Show the last TIME on the timeline, live.", _last, 1),
    Command("window", "window TIME", "Set the analysis window, as in 10m.", _window, 1),
    Command("open", "open [ALERT]", "Open an alert, by number or name.", _open, picks=True, alone=True),
    Command("ack", "ack [ALERT]", "Acknowledge the alert.", _ack, picks=True, alone=True),
    Command("silence", "silence [ALERT [TIME]]", "Silence an alert (default: 15m).", _silence, most=2, alone=True),
    Command("undo", "undo [ALERT]", "Undo an acknowledgement or a silence.", _undo, picks=True, alone=True),
    Command("chart", "chart METRIC...", "Show metrics as charts.", _chart, 1, most=6, picks=True),
    Command("baseline", "baseline [RUN]", "Show a recorded run, or its logs, behind charts.", _baseline, alone=True),
    Command("update", "update ID", "Open a weight update with its log lines.", _update, 1, picks=True),
    Command("lane", "lane [TEXT]", "Filter lanes by name (no text: show all).", _lane),
    Command("log", "log [REGEX]", "Filter lines (no regex: show all).", _log),
    Command("source", "source [NAME]", "Filter by log (no name: show all).", _source, picks=True),
    Command("snapshot", "snapshot [FILE]", "Save the screen as a Markdown page.", _snapshot),
    Command("learn", "learn [LOG]", "Propose a format for an unrecognised log.", _learn),
    Command("svg", "svg [FILE]", "Save a screenshot as SVG.", _svg),
    Command("record", "record [FILE|start|stop]", "Start or stop a recording.", _record),
    Command("theme", "theme [NAME]", "Set the theme (no name: next).", _theme, picks=True),
    Command("layout", "layout [NAME]", "Set the layout (no name: next).", _layout, picks=True),
    Command("speed", "speed NUMBER", "Replay: set the speed, as a factor of real time.", _speed, 1),
    Command("seek", "seek TIME", "Replay: seek to a position, as in 1:30.", _seek, 1),
)
_BY_NAME = {command.name: command for command in COMMANDS}
_BY_NAME["trace"] = _BY_NAME["update"]  # its former name, for one release
_ACTIONS = {**{action.id: action for action in ACTIONS}, **{action.word: action for action in ACTIONS}}
_ALIASES = {"q!": "quit", "qa": "quit", "qa!": "quit", "wq": "quit", "exit": "quit", "h": "help"}
"""Names that editors and pagers have for it."""
_KEYS = {key: action for action in ACTIONS if action.group == "General" for key in action.keys if len(key) == 1}


# --- running ----------------------------------------------------------------------------------------------------------
def known(name: str) -> Command | Action | None:
    """The command of that name, or the action whose word, or key anywhere, it is."""
    return _BY_NAME.get(name) or _ACTIONS.get(_ALIASES.get(name, name)) or _KEYS.get(name)


def run_command(app: OpenActions, text: str) -> str | None:
    """Do what was typed after `:`; what is wrong with it in one line, None when nothing is."""
    name, rest = (*text.strip().removeprefix(":").split(maxsplit=1), "", "")[:2]
    if not name:
        return None
    found = known(name)
    try:
        if isinstance(found, Command) and found.alone and not rest.strip():
            _act(app, _ACTIONS[name])
        elif isinstance(found, Command):
            found.run(app, _arguments(found, rest.strip()))
        elif found is None:
            raise UsageError(_unknown(name))
        elif rest.strip():
            raise UsageError(f"{name} takes no more arguments, got {plain(rest.strip(), _NAMED)!r}")
        else:
            _act(app, found)
    except PerfmonError as error:
        return plain(str(error), 300)
    return None


def _arguments(command: Command, rest: str) -> list[str]:
    """A single argument may have blanks in it; it is taken as it is, unless it stands in quotes."""
    words = split_words(rest)
    if command.most == 1 and rest and rest[0] not in "\"'":
        words = [rest]
    if not command.least <= len(words) <= command.most or (command.least and not words[0]):
        raise UsageError(f"{command.name}: expected {command.usage}")
    return words


def _unknown(name: str) -> str:
    names = [*_BY_NAME, *(action.word for action in ACTIONS)]
    near = get_close_matches(name[:_NAMED].lower(), names, 1)
    hint = f"did you mean {near[0]}?" if near else "? lists all"
    return f"no such command: {plain(name, _NAMED)!r}: {hint}"


def _act(app: OpenActions, action: Action) -> None:
    """As its key does; what is open goes first, and where that cannot do it, it is left."""
    panes = {"board": app.board, "alerts": app.alerts, "sources": app.sources, "log": app.log_pane}
    if len(app.screen_stack) > 1:
        if _done(app.focused, action) or (action.everywhere and _done(app, action)):
            return
        app.close_overlays()
    own = [panes[name] for name in action.panes if name in panes]
    if not any(_done(where, action) for where in (*own, app.focused, app, *panes.values())):
        raise UsageError(f"{action.word}: not available here")


def _done(where: object, action: Action) -> bool:
    """Run the action; return false if it is not available."""
    method = getattr(where, f"do_{action.id}", None)
    if method is not None:
        method()
    return method is not None
