"""Title of the log pane: the visible part of the logs."""

from __future__ import annotations

from functools import lru_cache

from perfmon.logbook import Query
from perfmon.text import plain

from ..logview import LogView
from .loglines import short_names

_KEYS = ("/ find", "& only", "f log", "v level", "r trace", "e error", "m mark", "O pager")
_TAKEN = 18
"""Cells of a title that have other uses, whatever it says."""


@lru_cache(16)
def keys_within(room: int) -> str:
    """As many of the pane's keys as a title of `room` cells can name."""
    shown = 0
    while shown < len(_KEYS) and len("  ".join(_KEYS[: shown + 1])) + _TAKEN <= room:
        shown += 1
    return "  ".join(_KEYS[:shown])


def told(view: LogView, query: Query | None, note: str, *, piece: bool) -> str:
    """`note` first; `piece` when it shows lines that were read back from a file."""
    wanted = view.wanted
    parts = [plain(note, 120)] if note else []
    if piece:
        parts.append("read from the file: End returns")
    elif not view.follow:
        parts.append(f"+{_grouped(view.unseen)} line{'s' * (view.unseen != 1)}" if view.unseen else "not following")
    if wanted.sources:
        names = short_names(view.book.names)
        parts.append("only " + ", ".join(names.get(source, "?") for source in sorted(wanted.sources)))
    if wanted.level:
        parts.append(f"{wanted.level.name.lower()} and worse")
    if wanted.trace:
        parts.append(f"trace {plain(wanted.trace, 30)}")
    parts += [f"with {plain(text, 40)}" for text in wanted.texts]
    if query is not None:
        parts.append(f"find {plain(query.query, 40)}")
    if view.searching or view.waiting:
        parts.append("searching …")
    lost = 0 if view.follow else view.book.totals().lost_lines
    if lost:
        parts.append(f"{_grouped(lost)} older lines dropped")
    return " · ".join(parts)


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", "\u202f")
