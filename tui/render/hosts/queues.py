"""Queues: engines that generate, queues between stages, sockets, jobs of the scheduler, and single values."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.store import Seen
from perfmon.textgraphics import compact
from perfmon.viewmodel import labelled, percent, rate, share, size_of_bytes, uptime, value, verdict_words

from ...theme import LEVEL_NAMES
from .table import Cell, Column, Look, Thing, widest

_TOLD = frozenset({"depth", "capacity", "fill_pct", "put_per_s", "get_per_s", "empty_pct"})
"""Columns of queues between stages."""


def is_engine(seen: Seen) -> bool:
    """It serves requests; else it is a queue with a depth."""
    return "running" in seen.reading.values or "waiting" in seen.reading.values


def engine_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """An engine a row."""
    names = look.names(things, _name)
    evicts = any(any(seen.history.get("preemptions_per_min", ())) for _, seen in things)
    columns: list[Column[Thing]] = [
        Column(2, 0, lambda thing, _: look.mark(thing)),
        Column(widest(names.values(), 22), 0, lambda thing, _: (names[id(thing[1])], "text"), least=8),
        Column(8, 0, lambda thing, _: look.figure(thing, labelled("run", _count(thing[1], "running")))),
        Column(9, 1, lambda thing, _: _waiting(thing[1])),
        Column(5, 5, lambda thing, n: (look.spark(thing[1], "waiting", n), "queue"), grow=11),
        Column(7, 2, lambda thing, _: _cache(look, thing[1])),
        Column(11, 3, lambda thing, _: (_tokens(thing[1]), "text"), right=True),
        Column(5, 6, lambda thing, n: (look.spark(thing[1], "gen_tps", n), "generation"), grow=11),
    ]
    if evicts:
        columns.append(Column(14, 4, lambda thing, _: _evicted(thing[1])))
    return [*columns, Column(13, 7, lambda thing, _: (_first(thing[1]), "muted"))]


def _name(seen: Seen) -> str:
    name, kind = seen.reading.name, seen.reading.words.get("kind", "")
    return name if kind in ("", "prometheus", "command") or name.startswith(kind) else f"{kind} {name}"


def _count(seen: Seen, key: str) -> str:
    told = value(seen, key)
    return "" if told is None else compact(told, 5)


def _waiting(seen: Seen) -> Cell:
    told = value(seen, "waiting")
    return labelled("wait", _count(seen, "waiting")), "queue" if told else "muted"


def _cache(look: Look, seen: Seen) -> Cell:
    return labelled("kv", percent(value(seen, "kv_usage_pct"))), look.style(seen, "kv_usage_pct")


def _tokens(seen: Seen) -> str:
    told = value(seen, "gen_tps")
    return "" if told is None else f"{compact(told, 5)} tok/s"


def _evicted(seen: Seen) -> Cell:
    told = value(seen, "preemptions_per_min")
    return (f"preempts {compact(told, 4)}/m", "warning") if told else ("", "muted")


def _first(seen: Seen) -> str:
    """Time to first token."""
    told = next((told for key in ("ttft_p95_s", "ttft_p50_s") if (told := value(seen, key)) is not None), None)
    return "" if told is None else f"ttft {told:.2f} s"


def depth_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A queue between stages a row."""
    names = look.names(things, _name)
    return [
        Column(2, 0, lambda thing, _: look.mark(thing)),
        Column(widest(names.values(), 22), 0, lambda thing, _: (names[id(thing[1])], "text")),
        Column(6, 2, lambda thing, n: (look.bar(_fill(thing[1]), n), "queue"), grow=10),
        Column(6, 0, lambda thing, _: look.figure(thing, _filled(thing[1])), right=True),
        Column(9, 1, lambda thing, _: (_depth(thing[1]), "text"), right=True),
        Column(6, 5, lambda thing, n: (look.spark(thing[1], "depth", n), "muted"), grow=12),
        Column(10, 3, lambda thing, _: (_pace(thing[1], "put", "put_per_s"), "muted")),
        Column(10, 3, lambda thing, _: (_pace(thing[1], "get", "get_per_s"), "muted")),
        Column(10, 4, lambda thing, _: (labelled("empty", percent(value(thing[1], "empty_pct"))), "muted")),
        Column(14, 2, lambda thing, n: (_rest(thing[1], n), "muted"), grow=60),
    ]


def _fill(seen: Seen) -> float | None:
    told = value(seen, "fill_pct")
    return share(value(seen, "depth"), value(seen, "capacity")) if told is None else told / 100.0


def _filled(seen: Seen) -> str:
    part = _fill(seen)
    return "" if part is None else percent(100.0 * part)


def _depth(seen: Seen) -> str:
    depth, room = _count(seen, "depth"), _count(seen, "capacity")
    return f"{depth}/{room}" if depth and room else depth


def _rest(seen: Seen, cells: int) -> str:
    """Further values of its kind of queue, as many as fit: `step 42  loss 0.31`."""
    told = [why.replace("_", " ")] if (why := seen.reading.words.get("why", "")) else []
    told += [f"{key} {compact(seen.reading.values[key], 6)}" for key in seen.reading.values if key not in _TOLD]
    while len(told) > 1 and len("  ".join(told)) > cells:
        told.pop()
    return "  ".join(told)


def _pace(seen: Seen, label: str, key: str) -> str:
    told = value(seen, key)
    return "" if told is None else f"{label} {compact(told, 4)}/s"


def value_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A value that no other table has a place for."""
    names = look.names(things, _name)
    return [
        Column(2, 0, lambda thing, _: look.mark(thing)),
        Column(widest(names.values(), 40), 0, lambda thing, _: (names[id(thing[1])], "text")),
        Column(9, 0, lambda thing, _: look.figure(thing, _count(thing[1], "value")), right=True),
        Column(8, 1, lambda thing, n: (look.spark(thing[1], "value", n), "muted"), grow=24),
    ]


def socket_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """The sockets of a port a row, with what they say about where the time goes."""
    names = look.names(things, lambda seen: f"port {seen.reading.name}")
    return [
        Column(2, 0, lambda thing, _: look.mark(thing)),
        Column(widest(names.values()), 0, lambda thing, _: (names[id(thing[1])], "text")),
        Column(14, 0, lambda thing, _: _verdict(look, thing), grow=18),
        Column(10, 1, lambda thing, _: (rate(value(thing[1], "rate_mb_s")), "text"), right=True),
        Column(14, 2, lambda thing, _: _unread(look, thing[1])),
        Column(14, 3, lambda thing, _: (labelled("unsent", _bytes(thing[1], "send_q_bytes")), "muted")),
        Column(9, 4, lambda thing, _: (labelled("busy", percent(value(thing[1], "busy_pct"))), "muted")),
        Column(8, 5, lambda thing, _: (labelled("rwnd", percent(value(thing[1], "rwnd_limited_pct"))), "muted")),
        Column(12, 6, lambda thing, _: (_pace(thing[1], "retr", "retrans_per_s"), "muted")),
    ]


def _verdict(look: Look, thing: Thing) -> Cell:
    return look.figure(thing, verdict_words(thing[1].reading), look.mark(thing)[1])


def _bytes(seen: Seen, key: str) -> str:
    return size_of_bytes(value(seen, key))


def _unread(look: Look, seen: Seen) -> Cell:
    return labelled("unread", _bytes(seen, "recv_q_bytes")), look.style(seen, "recv_q_share_pct", "muted")


# --- the scheduler ----------------------------------------------------------------------------------------------------
def job_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A job, or a node of the scheduler, a row."""
    return [
        Column(2, 0, lambda thing, _: look.mark(thing)),
        Column(widest([_job(thing[1]) for thing in things], 18), 0, lambda thing, _: (_job(thing[1]), "text")),
        Column(10, 0, lambda thing, _: _state(look, thing)),
        Column(8, 3, lambda thing, _: (uptime(value(thing[1], "uptime_s")), "muted"), right=True),
        Column(8, 4, lambda thing, _: (_nodes(thing[1]), "muted"), right=True),
        Column(10, 2, lambda thing, _: (_words(thing[1], "title"), "muted"), grow=20),
        Column(10, 1, lambda thing, _: (_words(thing[1], "reason"), "muted"), grow=40),
    ]


def _job(seen: Seen) -> str:
    return f"{seen.reading.area.value} {seen.reading.name}"


def _state(look: Look, thing: Thing) -> Cell:
    style = look.mark(thing)[1]
    words = thing[1].reading.words.get("state", "").lower()
    return look.figure(thing, words, style if style in LEVEL_NAMES.values() else "text")


def _nodes(seen: Seen) -> str:
    told = value(seen, "nodes")
    return "" if told is None else f"{told:.0f} node{'s' * (told != 1)}"


def _words(seen: Seen, key: str) -> str:
    told = seen.reading.words.get(key, "")
    return "" if told.lower() in ("none", "-") else told
