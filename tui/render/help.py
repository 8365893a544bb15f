"""The help as lines: the keys of the pane that has them, then all others, commands, and what the characters mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perfmon.core import plain
from perfmon.sources.formats import glossary, meaning_of
from perfmon.textgraphics import fit

from ..actions import ACTIONS, Action, keys_of, spelled
from ..commands import COMMANDS
from ..theme import ThemeStyles
from .rows import Words, cells, paragraph, rule

Block = list[Words]
_KEYS, _USAGE = 12, 25
_COLUMN, _GAP = 58, 2
_FURTHER = 2
"""Words of the lines of an item below its first."""
_PANES = {"board": "TIMELINE", "alerts": "ALERTS", "sources": "HOSTS/GPUS", "log": "LOG", "collectives": "COLLECTIVES"}
LEGEND: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "A weight update": (
        ("send", "send", "leaves the client"),
        ("queue", "queue", "waits in the server's queue"),
        ("unknown-leg", "unknown", "queue or network (no server log)"),
        ("rpc", "rpc", "the server loads the weights"),
        ("done", "done", "done"),
        ("open", "accent", "still open"),
    ),
    "Values": (
        ("good", "good", "good"),
        ("warning", "warning", "between good and critical"),
        ("critical", "critical", "critical"),
        ("unknown", "stale", "unknown: log silent or value not reported"),
        ("edge", "warning", "the verdict rests on it; an idle GPU"),
    ),
    "Alerts": (
        ("pending", "muted", "pending: too few occurrences yet"),
        ("firing", "critical", "firing or acknowledged"),
        ("resolving", "muted", "resolving: not seen recently"),
        ("resolved", "muted", "resolved"),
        ("inhibited", "muted", "explained by another finding"),
        ("silenced", "muted", "silenced"),
        ("flapping", "warning", "flapping"),
    ),
    "Logs": (
        ("fresh", "good", "up to date"),
        ("idle", "muted", "idle: a server without requests"),
        ("lagging", "warning", "lagging"),
        ("stale", "stale", "silent: no recent output"),
        ("waiting", "muted", "nothing read yet"),
        ("ended", "faint", "ended"),
    ),
}
"""Of each kind: the name of the sign, its style, what it means."""


def help_lines(
    pane: str, remapped: Mapping[str, str], skin: ThemeStyles, width: int, metrics: Sequence[str] = (), wanted: str = ""
) -> list[Words]:
    """All of it at that width, in as many columns as there is room for; `metrics` are those of the run.

    With `wanted` only what contains that text, in any case: of keys, commands, symbols and all metrics.
    """
    columns = 1 if wanted else max(1, min(3, (width + _GAP) // (_COLUMN + _GAP)))
    room = (width - 1 - _GAP * (columns - 1)) // columns
    blocks = [*_actions(pane, remapped, skin, room), _commands(skin, room), *_legend(skin, room)]
    if wanted:
        blocks.append(_metrics("Metrics", glossary(), skin, room))
        return [line for block in blocks for line in _matching(block, wanted.lower())]
    blocks += [_metrics("Metrics of this run", metrics, skin, room)] if metrics else []
    return _side_by_side(_shared_out(blocks, columns), room)


def _matching(block: Block, wanted: str) -> Block:
    """The items of a block that contain a text, under its heading."""
    items: list[Block] = []
    for line in block[1:]:
        if not items or line[0][0].strip() or len(line) > _FURTHER:
            items.append([])
        items[-1].append(line)
    found = [item for item in items if wanted in " ".join(text for line in item for text, _ in line).lower()]
    return [block[0], *(line for item in found for line in item), ()] if found else []


def _metrics(title: str, names: Iterable[str], skin: ThemeStyles, width: int) -> Block:
    """Metrics with their meanings, as far as these are known."""
    lines = [rule(title, skin, width, "enter on one shows its chart")]
    for name in sorted(names):
        if meaning := meaning_of(name):
            lines += paragraph(meaning, width - 1, "text", f" {fit(plain(name, 80), _USAGE - 2)} ", "footer-key")
    return lines


def _actions(pane: str, remapped: Mapping[str, str], skin: ThemeStyles, width: int) -> list[Block]:
    """The pane's own keys, then those of everywhere by group, then those of the other panes."""
    own = [action for action in ACTIONS if pane in action.panes]
    groups: dict[str, list[Action]] = {f"{_PANES[pane]}: this pane": own} if own and pane in _PANES else {}
    for action in ACTIONS:
        if action not in own:
            title = f"{action.group}: in its pane" if action.panes and action.panes != ("replay",) else action.group
            groups.setdefault(title, []).append(action)
    return [_block(title, actions, remapped, skin, width) for title, actions in groups.items()]


def action_lines(actions: Sequence[Action], remapped: Mapping[str, str], skin: ThemeStyles, width: int) -> list[Words]:
    """Keys of these actions by group, in as many columns as there is room for."""
    columns = max(1, min(3, (width + _GAP) // (_COLUMN + _GAP)))
    room = (width - 1 - _GAP * (columns - 1)) // columns
    groups: dict[str, list[Action]] = {}
    for action in actions:
        groups.setdefault(action.group, []).append(action)
    blocks = [_block(title, held, remapped, skin, room) for title, held in groups.items()]
    return _side_by_side(_shared_out(blocks, columns), room)


def _block(title: str, actions: Sequence[Action], remapped: Mapping[str, str], skin: ThemeStyles, width: int) -> Block:
    lines = [rule(title, skin, width)]
    for action in actions:
        keys = " ".join(spelled(key) for key in keys_of(action, remapped))
        mark = fit(keys, _KEYS - 1, right=True, glyphs=skin.glyphs) + " "
        lines += paragraph(action.help, width - 1, "text", mark, "footer-key")
    return lines


def _commands(skin: ThemeStyles, width: int) -> Block:
    lines = [rule("After :", skin, width, "action names work too")]
    for command in COMMANDS:
        mark = fit(f" {command.usage}", _USAGE) + " "
        lines += paragraph(command.help, width - 1, "text", mark, "footer-key")
    return lines


def _legend(skin: ThemeStyles, width: int) -> list[Block]:
    return [
        [
            rule(f"Symbols: {title.lower()}", skin, width),
            *(
                (("   ", "text"), (skin.glyph(glyph), style), (f"  {meaning}", "text"))
                for glyph, style, meaning in signs
            ),
        ]
        for title, signs in LEGEND.items()
    ]


# --- columns ----------------------------------------------------------------------------------------------------------
def _shared_out(blocks: Sequence[Block], count: int) -> list[Block]:
    """The blocks in order, in columns of about the same height."""
    columns: list[Block] = [[] for _ in range(count)]
    fair = sum(len(block) + 1 for block in blocks) / count
    at = 0
    for block in blocks:
        if columns[at] and at < count - 1 and len(columns[at]) + len(block) / 2 > fair:
            at += 1
        columns[at] += [*block, ()]
    return columns


def _side_by_side(columns: Sequence[Block], width: int) -> list[Words]:
    if len(columns) == 1:
        return columns[0]
    height = max(map(len, columns))
    rows: list[Words] = []
    for y in range(height):
        row: list[tuple[str, str]] = []
        for column in columns:
            words = column[y] if y < len(column) else ()
            used = sum(cells(text) for text, _ in words)
            row += [*words, (" " * (width + _GAP - used), "text")]
        rows.append(tuple(row[:-1]))
    return rows
