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
    """Position in the footer; 9: not shown."""
    command: str = ""
    """The word after `:` that does it, where that differs from the id."""

    @property
    def word(self) -> str:
        """Name after `:`."""
        return self.command or self.id.replace("_", "-")

    @property
    def everywhere(self) -> bool:
        """It is done while something is open over the panes, too; others would change what is not visible."""
        return self.group in ("General", "Replay") or self.id in _EVERYWHERE


_EVERYWHERE = frozenset({"pause", "live", "zoom_in", "zoom_out", "zoom_reset", "zoom_all"})
_BOARD, _LOG, _ALERTS, _SOURCES, _CHART = ("board",), ("log",), ("alerts",), ("sources",), ("chart",)
_SORTED = ("board", "sources")

ACTIONS: tuple[Action, ...] = (
    Action("help", ("question_mark",), "help", "Show every key and command.", "General", rank=0),
    Action("palette", ("colon", "ctrl+p"), "command", "Find and run a command by name.", "General", rank=1),
    Action("snapshot", ("s",), "snapshot", "Save the screen as a Markdown page.", "General", rank=5),
    Action("record", ("R",), "record", "Start or stop a recording.", "General"),
    Action("theme", ("T",), "theme", "Switch to the next theme.", "General"),
    Action("doctor", ("D",), "doctor", "Show the parse coverage of each log.", "General"),
    Action("thresholds", ("B",), "learn thresholds", "Learn thresholds from this run, or use the others.", "General"),
    Action("suspend", ("ctrl+z",), "suspend", "Suspend (fg to resume).", "General"),
    Action("quit", ("q",), "quit", "Quit; closes a recording.", "General", rank=8),
    Action("next_pane", ("tab",), "next pane", "Focus the next pane.", "Panes"),
    Action("previous_pane", ("shift+tab",), "previous pane", "Focus the previous pane.", "Panes"),
    Action("pane_board", ("1",), "timeline", "Focus the timeline; again: hide it.", "Panes"),
    Action("pane_alerts", ("2",), "alerts", "Focus the alerts; again: hide them.", "Panes"),
    Action("pane_sources", ("3",), "sources", "Focus hosts, GPUs and logs; again: hide.", "Panes"),
    Action("pane_log", ("4",), "log", "Focus the log; again: hide it.", "Panes"),
    Action("pane_collectives", ("5",), "collectives", "Focus the collectives (nccl=DIR); again: hide.", "Panes"),
    Action("next_view", ("M",), "next view", "Switch pane 3: GPUs, hosts, queues, logs, or overview.", "Panes"),
    Action("zoom", ("z",), "maximise", "Maximise or restore the focused pane.", "Panes", rank=3),
    Action("preset", ("p",), "preset", "Switch the layout: overview, timeline, log, strip.", "Panes"),
    Action("back", ("escape",), "back", "Close what is open; never quits.", "Panes"),
    Action("pause", ("space",), "pause", "Pause the view; reading and recording continue.", "Time", rank=4),
    Action("live", ("L",), "live", "Return to live.", "Time"),
    Action("cursor_left", ("left", "h"), "cursor left", "Move the time cursor left.", "Time"),
    Action("cursor_right", ("right", "l"), "cursor right", "Move the time cursor right.", "Time"),
    Action("cursor_left_far", ("shift+left",), "cursor far left", "Move the time cursor ten columns left.", "Time"),
    Action("cursor_right_far", ("shift+right",), "cursor far right", "Move the time cursor ten columns right.", "Time"),
    Action("zoom_in", ("plus", "equals_sign"), "zoom in", "Zoom in.", "Time"),
    Action("zoom_out", ("minus",), "zoom out", "Zoom out.", "Time"),
    Action("zoom_reset", ("0",), "zoom reset", "Reset the zoom to the analysis window.", "Time"),
    Action("zoom_all", ("9",), "whole run", "Show the whole run.", "Time"),
    Action("previous_update", ("comma",), "previous update", "Go to the previous weight update.", "Time"),
    Action("next_update", ("full_stop",), "next update", "Go to the next weight update.", "Time"),
    Action("previous_alert", ("left_square_bracket",), "previous alert", "Go to the previous alert change.", "Time"),
    Action("next_alert", ("right_square_bracket",), "next alert", "Go to the next alert change.", "Time"),
    Action("up", ("up", "k"), "up", "Move up one row.", "Move"),
    Action("down", ("down", "j"), "down", "Move down one row.", "Move"),
    Action("page_up", ("pageup", "ctrl+u"), "page up", "Move up one page.", "Move"),
    Action("page_down", ("pagedown", "ctrl+d"), "page down", "Move down one page.", "Move"),
    Action("top", ("home", "g"), "top", "Go to the first row.", "Move"),
    Action("bottom", ("end", "G"), "bottom", "Go to the last row; follow the log again.", "Move"),
    Action("open", ("enter",), "open", "Open the item under the cursor.", "Move", rank=2),
    Action("waterfall", ("w",), "waterfall", "Open the weight update under the cursor.", "Timeline"),
    Action("expand", ("U",), "expand", "Show each weight update on a row, or all on one.", "Timeline", _BOARD),
    Action("sort", ("o",), "sort", "Sort lanes by verdict, kind or name; hosts by use.", "Timeline", _SORTED),
    Action("filter_lanes", ("slash",), "filter lanes", "Filter lanes by name.", "Timeline", _BOARD, rank=6),
    Action("add_chart", ("c",), "add chart", "Show the next metric, too, below this one.", "Chart", _CHART),
    Action("remove_chart", ("X",), "remove chart", "Take the last of several metrics away.", "Chart", _CHART),
    Action("smooth", ("t",), "smooth", "Draw the mean over more columns, or none.", "Chart", _CHART),
    Action("baseline", ("b",), "baseline", "Show or hide a recorded run behind this one.", "Chart", _CHART),
    Action("verdict", ("d",), "explain", "Explain the verdict: proof, fix, commands.", "Alerts", rank=2),
    Action("ack", ("a",), "acknowledge", "Acknowledge the alert.", "Alerts", _ALERTS, rank=5),
    Action("silence", ("S",), "silence", "Silence the alert for some minutes.", "Alerts", _ALERTS, rank=6),
    Action("undo", ("u",), "undo", "Undo an acknowledgement or a silence.", "Alerts", _ALERTS, rank=7),
    Action("machines", ("V",), "overview", "Show an overview of GPUs, hosts and queues.", "Hosts", _SOURCES, rank=5),
    Action("gpus", ("C",), "GPUs", "Show every GPU: utilisation, memory, power.", "Hosts", _SOURCES, rank=5),
    Action("hosts", ("H",), "hosts", "Show every host: CPU, disks, network, processes.", "Hosts", _SOURCES, rank=6),
    Action("queues", ("Q",), "queues", "Show engines, queues, sockets and jobs.", "Hosts", _SOURCES, rank=6),
    Action("sources", ("F",), "logs", "Show every log and poller.", "Hosts", _SOURCES, rank=7),
    Action("processes", ("i",), "processes", "Show or hide the processes of each GPU.", "Hosts", _SOURCES, rank=7),
    Action("search", ("slash",), "find", "Search backward for text or a /regular expression/.", "Log", _LOG, rank=5),
    Action("filter_text", ("ampersand",), "only lines", "Filter lines by text or /regex/.", "Log", _LOG, rank=6),
    Action("next_match", ("n",), "next match", "Go to the next match.", "Log"),
    Action("previous_match", ("N",), "previous match", "Go to the previous match.", "Log"),
    Action("next_error", ("e",), "next error", "Go to the next error; from the tail to the last.", "Log", rank=7),
    Action("previous_error", ("E",), "previous error", "Go to the previous error.", "Log"),
    Action("filter_source", ("f",), "one source", "Filter by log: one log, then the next.", "Log", _LOG),
    Action("filter_level", ("v",), "level", "Filter by level: warnings, errors, all.", "Log", _LOG),
    Action("fold", ("A",), "access lines", "Fold or show access lines.", "Log", _LOG),
    Action("filter_trace", ("r",), "update", "Filter by the weight update under the cursor.", "Log", _LOG),
    Action("clear_filters", ("x",), "clear filters", "Clear all filters.", "Log", _LOG),
    Action("mark", ("m",), "mark", "Mark the line.", "Log", _LOG),
    Action("next_mark", ("apostrophe",), "next mark", "Go to the next marked line.", "Log", _LOG),
    Action("scroll_left", ("less_than_sign",), "scroll left", "Scroll left.", "Log", _LOG),
    Action("scroll_right", ("greater_than_sign",), "scroll right", "Scroll right.", "Log", _LOG),
    Action("yank", ("y",), "copy", "Copy the line or evidence to the clipboard.", "Log"),
    Action("pager", ("O",), "pager", "Open the log at this line in $PAGER or lnav.", "Log"),
    Action("faster", ("right_parenthesis",), "faster", "Replay: double the speed.", "Replay"),
    Action("slower", ("left_parenthesis",), "slower", "Replay: halve the speed.", "Replay"),
    Action("seek_back", ("left_curly_bracket",), "30 s back", "Replay: seek back 30 s.", "Replay"),
    Action("seek_on", ("right_curly_bracket",), "30 s forward", "Replay: seek forward 30 s.", "Replay"),
    Action("step", ("backslash",), "step", "Replay, paused: advance one frame.", "Replay"),
)  # fmt: skip
"""In the order of the help page."""

HINTS: Mapping[str, str] = {
    "verdict": "explains the verdict",
    "open": "explains what is selected",
    "next_pane": "goes to the next pane",
    "help": "lists every key",
}
"""Hints for a new user, shown one at a time until the action was used."""

_SPELLED = {
    "question_mark": "?", "colon": ":", "plus": "+", "equals_sign": "=", "minus": "-", "comma": ",", "full_stop": ".",
    "left_square_bracket": "[", "right_square_bracket": "]", "slash": "/", "apostrophe": "'", "escape": "esc",
    "less_than_sign": "<", "greater_than_sign": ">", "left_curly_bracket": "{", "right_curly_bracket": "}",
    "left_parenthesis": "(", "right_parenthesis": ")",
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
    """Footer actions while `pane` is focused, in order."""
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
    """Action of a key while `pane` is focused: the pane's own one has priority."""
    fitting = [action for action in actions if not action.panes or pane in action.panes]
    return min(fitting, key=lambda action: not action.panes, default=None)
