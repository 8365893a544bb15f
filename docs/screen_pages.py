"""The generated parts of the pages about the screen: from its tables of keys, commands and signs to Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from pages import cell, code, table

from perfmon.textgraphics.cells import UNICODE
from perfmon.tui.actions import ACTIONS, Action, spelled
from perfmon.tui.commands import COMMANDS
from perfmon.tui.render.help import LEGEND

_SHORT = ("help", "palette", "open", "zoom", "pause", "search", "snapshot", "quit")
"""The eight keys to start with."""
_PANES = {
    "board": "timeline", "alerts": "alerts", "log": "log", "sources": "hosts", "chart": "chart", "replay": "a replay",
}  # fmt: skip


def _keys(keys: Iterable[str]) -> str:
    return " ".join(code(spelled(key).replace("⇧", "shift+").replace("^", "ctrl+")) for key in keys)


def _where(action: Action) -> str:
    """Where a key means that, when it does not do so everywhere."""
    places = " and ".join(_PANES[pane] for pane in action.panes)
    return f" ({places})" if places else ""


def short_keys_table() -> str:
    """The keys of the README."""
    known = {action.id: action for action in ACTIONS}
    rows = ((_keys(known[name].keys[:2]), cell(known[name].help) + _where(known[name])) for name in _SHORT)
    return table(("key", "action"), rows)


def keys_table() -> str:
    """Every key, a table a group."""
    groups: dict[str, list[Action]] = {}
    for action in ACTIONS:
        groups.setdefault(action.group, []).append(action)
    parts = []
    for group, actions in groups.items():
        rows = ((_keys(a.keys), cell(a.help) + _where(a), code(a.id)) for a in actions)
        parts.append(f"### {group}\n\n{table(('key', 'function', 'action'), rows)}")
    return "\n\n".join(parts)


def pane_keys_table() -> str:
    """The keys that a pane adds to those that work everywhere."""
    rows = []
    for pane, name in _PANES.items():
        own = [action for action in ACTIONS if pane in action.panes or (pane == "replay" and action.group == "Replay")]
        rows.append((name, ", ".join(f"{_keys(action.keys)} {cell(action.title)}" for action in own)))
    return table(("while this has the focus", "keys"), rows)


def screen_commands_table() -> str:
    """What can be typed after `:`."""
    return table(("command", "function"), ((code(c.usage), cell(c.help)) for c in COMMANDS))


def signs_table() -> str:
    """The characters that stand for states."""
    rows = (
        (title if at == 0 else "", code(UNICODE[glyph]), cell(meaning))
        for title, signs in LEGEND.items()
        for at, (glyph, _, meaning) in enumerate(signs)
    )
    return table(("item", "symbol", "meaning"), rows)
