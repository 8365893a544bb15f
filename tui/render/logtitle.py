"""What the pane of log lines says of itself: what of the logs is in sight."""

from __future__ import annotations

from perfmon.logbook import Query
from perfmon.text import plain

from ..logview import LogView


def told(view: LogView, query: Query | None, note: str, *, piece: bool) -> str:
    """`note` first; `piece` when it shows lines that were read back from a file."""
    wanted = view.wanted
    parts = [plain(note, 120)] if note else []
    if piece:
        parts.append("read back from the file: End returns")
    elif not view.follow:
        parts.append(f"+{_grouped(view.unseen)} lines" if view.unseen else "not following")
    if wanted.sources:
        names = view.book.names
        parts.append("only " + ", ".join(plain(names.get(source, "?"), 30) for source in sorted(wanted.sources)))
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
        parts.append(f"{_grouped(lost)} lines older than what is kept")
    return " · ".join(parts)


def _grouped(count: int) -> str:
    return f"{count:,}".replace(",", "\u202f")
