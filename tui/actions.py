"""Everything that can be done on the screen, in one table: keys, footer, help and palette are made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a key or a command does."""

    id: str
    """The pane's, or else the app's, method `do_<id>` does it."""
    keys: tuple[str, ...]
    title: str
    """A few words, for the footer and the palette."""
    help: str
    group: str
    panes: tuple[str, ...] = ()
    """Panes whose focus it needs; none: works everywhere."""
    rank: int = 9
    """Where it stands in the footer; 9: not there."""
    command: str = ""
    """The word after `:` that does it, where that differs from the id."""

    @property
    def word(self) -> str:
        """What is typed after `:`."""
        return self.command or self.id.replace("_", "-")

    @property
    def everywhere(self) -> bool:
        """It is done while something is open over the panes, too; others would change what nobody sees."""
        return self.group in ("General", "Replay") or self.id in _EVERYWHERE


_EVERYWHERE = frozenset({"pause", "live", "zoom_in", "zoom_out", "zoom_reset"})
_BOARD, _LOG, _ALERTS, _SOURCES = ("board",), ("log",), ("alerts",), ("sources",)

ACTIONS: tuple[Action, ...] = (
    Action("help", ("question_mark",), "help", "What every key does.", "General", rank=0),
    Action("palette", ("colon", "ctrl+p"), "command", "Find and run anything by name.", "General", rank=1),
    Action("snapshot", ("s",), "snapshot", "Write what is on the screen as a markdown page.", "General", rank=5),
    Action("record", ("R",), "record", "Begin or end a recording of what the log holds and all that comes.", "General"),
    Action("theme", ("T",), "theme", "The next colour theme.", "General"),
    Action("doctor", ("D",), "doctor", "How well each log is understood, with lines that are not.", "General"),
    Action("suspend", ("ctrl+z",), "suspend", "To the shell; fg returns.", "General"),
    Action("quit", ("q",), "quit", "Leave; a recording is closed.", "General", rank=8),
    Action("next_pane", ("tab",), "next pane", "Give the keys to the next pane.", "Panes"),
    Action("previous_pane", ("shift+tab",), "previous pane", "Give the keys to the pane before.", "Panes"),
    Action("pane_board", ("1",), "timeline", "Show or hide the timeline.", "Panes"),
    Action("pane_alerts", ("2",), "alerts", "Show or hide the alerts.", "Panes"),
    Action("pane_sources", ("3",), "sources", "Show or hide what is observed: machines and logs.", "Panes"),
    Action("pane_log", ("4",), "log", "Show or hide the log.", "Panes"),
    Action("next_view", ("M",), "next view", "Pane 3: GPUs, hosts, queues, logs, or what matters of all.", "Panes"),
    Action("zoom", ("z",), "maximise", "Give the whole screen to the pane with the keys, and back.", "Panes", rank=3),
    Action("preset", ("p",), "preset", "The next arrangement: overview, timeline, log, strip.", "Panes"),
    Action("back", ("escape",), "back", "Leave what is open; never quits.", "Panes"),
    Action("pause", ("space",), "pause", "Freeze the view; reading and recording go on.", "Time", rank=4),
    Action("live", ("L",), "live", "Back to the present.", "Time"),
    Action("cursor_left", ("left", "h"), "cursor left", "Move the time cursor one column back.", "Time"),
    Action("cursor_right", ("right", "l"), "cursor right", "Move the time cursor one column on.", "Time"),
    Action("cursor_left_far", ("shift+left", "H"), "cursor far left", "Move the time cursor ten columns back.", "Time"),
    Action("cursor_right_far", ("shift+right",), "cursor far right", "Move the time cursor ten columns on.", "Time"),
    Action("zoom_in", ("plus", "equals_sign"), "zoom in", "Half as much time on the timeline.", "Time"),
    Action("zoom_out", ("minus",), "zoom out", "Twice as much time on the timeline.", "Time"),
    Action("zoom_reset", ("0",), "zoom reset", "As much time as is judged.", "Time"),
    Action("previous_update", ("comma",), "previous update", "Cursor to the weight update before.", "Time"),
    Action("next_update", ("full_stop",), "next update", "Cursor to the next weight update.", "Time"),
    Action("previous_alert", ("left_square_bracket",), "previous alert", "Cursor to the alert change before.", "Time"),
    Action("next_alert", ("right_square_bracket",), "next alert", "Cursor to the next alert change.", "Time"),
    Action("up", ("up", "k"), "up", "One row up.", "Move"),
    Action("down", ("down", "j"), "down", "One row down.", "Move"),
    Action("page_up", ("pageup", "ctrl+u"), "page up", "One page up.", "Move"),
    Action("page_down", ("pagedown", "ctrl+d"), "page down", "One page down.", "Move"),
    Action("top", ("home", "g"), "top", "To the first row.", "Move"),
    Action("bottom", ("end", "G"), "bottom", "To the last row; the log follows again.", "Move"),
    Action("open", ("enter",), "open", "What is under the cursor: trace, chart, alert, GPU or line.", "Move", rank=2),
    Action("waterfall", ("w",), "waterfall", "The trace under the cursor with its lines and the gaps.", "Timeline"),
    Action("sort", ("o",), "sort", "Metrics in the usual order, the worst first, or by name.", "Timeline", _BOARD),
    Action("filter_lanes", ("slash",), "filter lanes", "Lanes with a text in their name.", "Timeline", _BOARD, rank=6),
    Action("ack", ("a",), "acknowledge", "Somebody looks after the alert.", "Alerts", _ALERTS, rank=5),
    Action("silence", ("S",), "silence", "Hide the alert for a while.", "Alerts", _ALERTS, rank=6),
    Action("undo", ("u",), "undo", "Take back acknowledgement and silence.", "Alerts", _ALERTS, rank=7),
    Action("machines", ("a",), "what matters", "What matters of GPUs, hosts and queues.", "Machines", _SOURCES, rank=5),
    Action("gpus", ("g",), "GPUs", "Every GPU: use, memory, power, what slows it down.", "Machines", _SOURCES, rank=5),
    Action("hosts", ("h",), "hosts", "Every host: processor, disks, network, programs.", "Machines", _SOURCES, rank=6),
    Action("queues", ("Q",), "queues", "Engines, queues, sockets, jobs.", "Machines", _SOURCES, rank=6),
    Action("sources", ("l",), "logs", "Every log, and who polls what.", "Machines", _SOURCES, rank=7),
    Action("processes", ("i",), "processes", "Each GPU with its processes, or without.", "Machines", _SOURCES, rank=7),
    Action("search", ("slash",), "find", "Find a text, or a /regular expression/.", "Log", _LOG, rank=5),
    Action("filter_text", ("ampersand",), "only lines", "Only lines with a text, or that match.", "Log", _LOG, rank=6),
    Action("next_match", ("n",), "next match", "The next line that matches.", "Log"),
    Action("previous_match", ("N",), "previous match", "The matching line before.", "Log"),
    Action("next_error", ("e",), "next error", "The next error in the log.", "Log", rank=7),
    Action("previous_error", ("E",), "previous error", "The error before.", "Log"),
    Action("filter_source", ("f",), "one source", "Only the lines of one log, then of the next one.", "Log", _LOG),
    Action("filter_level", ("v",), "level", "Only warnings and worse, then errors, then all again.", "Log", _LOG),
    Action("filter_trace", ("r",), "trace", "Only the lines of the trace under the cursor.", "Log", _LOG),
    Action("clear_filters", ("x",), "clear filters", "All lines again.", "Log", _LOG),
    Action("mark", ("m",), "mark", "Mark the line.", "Log", _LOG),
    Action("next_mark", ("apostrophe",), "next mark", "To the next marked line.", "Log", _LOG),
    Action("scroll_left", ("less_than_sign",), "scroll left", "Long lines: to their beginning.", "Log", _LOG),
    Action("scroll_right", ("greater_than_sign",), "scroll right", "Long lines: to their end.", "Log", _LOG),
    Action("yank", ("y",), "copy", "Copy the line, or the evidence, to the clipboard.", "Log"),
    Action("pager", ("O",), "pager", "Open the log at this line in $PAGER or lnav.", "Log"),
    Action("faster", ("greater_than_sign",), "faster", "Replay: twice the speed.", "Replay"),
    Action("slower", ("less_than_sign",), "slower", "Replay: half the speed.", "Replay"),
    Action("seek_back", ("left_curly_bracket",), "30 s back", "Replay: half a minute back.", "Replay"),
    Action("seek_on", ("right_curly_bracket",), "30 s on", "Replay: half a minute on.", "Replay"),
    Action("step", ("backslash",), "step", "Replay, paused: the next moment.", "Replay"),
)  # fmt: skip
"""In the order of the help page."""

_SPELLED = {
    "question_mark": "?", "colon": ":", "plus": "+", "equals_sign": "=", "minus": "-", "comma": ",", "full_stop": ".",
    "left_square_bracket": "[", "right_square_bracket": "]", "slash": "/", "apostrophe": "'", "escape": "esc",
    "less_than_sign": "<", "greater_than_sign": ">", "left_curly_bracket": "{", "right_curly_bracket": "}",
    "backslash": "\\", "ampersand": "&",
    "left": "←", "right": "→", "up": "↑", "down": "↓", "shift+left": "⇧←", "shift+right": "⇧→",
    "shift+tab": "⇧tab", "pageup": "pgup", "pagedown": "pgdn", "space": "space", "ctrl+p": "^p", "ctrl+u": "^u",
    "ctrl+d": "^d", "ctrl+z": "^z",
}  # fmt: skip


def spelled(key: str) -> str:
    """A key as it is shown."""
    return _SPELLED.get(key, key)


def keys_of(action: Action, remapped: Mapping[str, str]) -> tuple[str, ...]:
    """The keys of an action, those that the user chose where there are any (`remapped`: by action id)."""
    chosen = remapped.get(action.id)
    return tuple(key.strip() for key in chosen.split(",")) if chosen else action.keys


def footer_actions(pane: str) -> list[Action]:
    """What the footer shows while `pane` has the keys, in order."""
    shown = [action for action in ACTIONS if action.rank < 9 and (not action.panes or pane in action.panes)]
    return sorted(shown, key=lambda action: action.rank)


def by_key(remapped: Mapping[str, str]) -> dict[str, list[Action]]:
    """The actions of each key; several, where panes give a key different meanings."""
    table: dict[str, list[Action]] = {}
    for action in ACTIONS:
        for key in keys_of(action, remapped):
            table.setdefault(key, []).append(action)
    return table


def chosen(actions: Iterable[Action], pane: str) -> Action | None:
    """Which of the actions of a key is meant while `pane` has the keys: its own one goes first."""
    fitting = [action for action in actions if not action.panes or pane in action.panes]
    return min(fitting, key=lambda action: not action.panes, default=None)
