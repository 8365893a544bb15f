"""Queues: engines that generate, queues between stages, sockets, jobs of the scheduler, and single values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfmon.core import counted
from perfmon.store import Seen
from perfmon.textgraphics import compact
from perfmon.viewmodel import labelled, percent, rate, share, size_of_bytes, uptime, value, verdict_words

from ...theme import LEVEL_NAMES
from .table import Cell, Column, Look, Thing, number, texts, word

_TOLD = frozenset({"depth", "capacity", "fill_pct", "put_per_s", "get_per_s", "empty_pct"})
"""Columns of queues between stages."""


def is_engine(seen: Seen) -> bool:
    """It serves requests; else it is a queue with a depth."""
    return "running" in seen.reading.values or "waiting" in seen.reading.values


def engine_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """An engine a row."""
    return [
        look.marks(),
        look.names(things, look.namer(things, _name), 22, least=8),
        look.figures(8, number("running", _count, "run")),
        Column(9, 1, lambda thing, _: _waiting(thing[1])),
        look.sparks(5, 5, "waiting", "queue", grow=11),
        Column(7, 2, lambda thing, _: _cache(look, thing[1])),
        texts(11, 3, number("gen_tps", lambda rate: f"{_count(rate)} tok/s"), "text", right=True),
        look.sparks(5, 6, "gen_tps", "generation", grow=11),
        Column(14, 4, lambda thing, _: _evicted(thing[1])),
        texts(13, 7, _first),
    ]


def _name(seen: Seen) -> str:
    name, kind = seen.reading.name, seen.reading.words.get("kind", "")
    return name if kind in ("", "prometheus", "command") or name.startswith(kind) else f"{kind} {name}"


def _count(count: float) -> str:
    return compact(count, 5)


def _waiting(seen: Seen) -> Cell:
    return number("waiting", _count, "wait")(seen), "queue" if value(seen, "waiting") else "muted"


def _cache(look: Look, seen: Seen) -> Cell:
    return labelled("kv", percent(value(seen, "kv_usage_pct"))), look.style(seen, "kv_usage_pct")


def _evicted(seen: Seen) -> Cell:
    told = value(seen, "preemptions_per_min")
    return (f"preempts {compact(told, 4)}/m", "warning") if told else ("", "muted")


def _first(seen: Seen) -> str:
    """Time to first token."""
    told = next((told for key in ("ttft_p95_s", "ttft_p50_s") if (told := value(seen, key)) is not None), None)
    return "" if told is None else f"ttft {told:.2f} s"


def depth_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A queue between stages a row."""
    return [
        look.marks(),
        look.names(things, look.namer(things, _name), 22),
        Column(6, 2, lambda thing, n: (look.bar(_fill(thing[1]), n), "queue"), grow=10),
        look.figures(6, _filled, right=True),
        texts(9, 1, _depth, "text", right=True),
        look.sparks(6, 5, "depth", grow=12),
        texts(10, 3, number("put_per_s", _pace, "put")),
        texts(10, 3, number("get_per_s", _pace, "get")),
        texts(10, 4, number("empty_pct", percent, "empty")),
        Column(14, 2, lambda thing, n: (_rest(thing[1], n), "muted"), grow=60),
    ]


def _fill(seen: Seen) -> float | None:
    told = value(seen, "fill_pct")
    return share(value(seen, "depth"), value(seen, "capacity")) if told is None else told / 100.0


def _filled(seen: Seen) -> str:
    part = _fill(seen)
    return "" if part is None else percent(100.0 * part)


def _depth(seen: Seen) -> str:
    depth, room = number("depth", _count)(seen), number("capacity", _count)(seen)
    return f"{depth}/{room}" if depth and room else depth


def _rest(seen: Seen, cells: int) -> str:
    """Further values of its kind of queue, as many as fit: `step 42  loss 0.31`."""
    why = word("why")(seen)
    parts = [why] if why else []
    parts += [f"{key} {compact(seen.reading.values[key], 6)}" for key in seen.reading.values if key not in _TOLD]
    while len(parts) > 1 and len("  ".join(parts)) > cells:
        parts.pop()
    return "  ".join(parts)


def _pace(rate: float) -> str:
    return f"{compact(rate, 4)}/s"


def value_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A value that no other table has a place for."""
    return [
        look.marks(),
        look.names(things, look.namer(things, _name), 40),
        look.figures(9, number("value", _count), right=True),
        look.sparks(8, 1, "value", grow=24),
    ]


def socket_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """The sockets of a port a row, with what they show about where the time goes."""
    return [
        look.marks(),
        look.names(things, look.namer(things, lambda seen: f"port {seen.reading.name}")),
        Column(14, 0, lambda thing, _: _verdict(look, thing), grow=18),
        texts(10, 1, number("rate_mb_s", rate), "text", right=True),
        Column(14, 2, lambda thing, _: _unread(look, thing[1])),
        texts(14, 3, number("send_q_bytes", size_of_bytes, "unsent")),
        texts(9, 4, number("busy_pct", percent, "busy")),
        texts(8, 5, number("rwnd_limited_pct", percent, "rwnd")),
        texts(12, 6, number("retrans_per_s", _pace, "retr")),
    ]


def _verdict(look: Look, thing: Thing) -> Cell:
    return look.figure(thing, verdict_words(thing[1].reading), look.mark(thing)[1])


def _unread(look: Look, seen: Seen) -> Cell:
    return number("recv_q_bytes", size_of_bytes, "unread")(seen), look.style(seen, "recv_q_share_pct", "muted")


# --- the scheduler ----------------------------------------------------------------------------------------------------
def job_columns(look: Look, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A job, or a node of the scheduler, a row."""
    return [
        look.marks(),
        look.names(things, _job, 18),
        Column(10, 0, lambda thing, _: _state(look, thing)),
        texts(8, 3, number("uptime_s", uptime), right=True),
        texts(8, 4, number("nodes", lambda count: counted(round(count), "node")), right=True),
        texts(10, 2, _given("title"), grow=20),
        texts(10, 1, _given("reason"), grow=40),
    ]


def _job(thing: Thing) -> str:
    return f"{thing[1].reading.area.value} {thing[1].reading.name}"


def _state(look: Look, thing: Thing) -> Cell:
    style = look.mark(thing)[1]
    words = thing[1].reading.words.get("state", "").lower()
    return look.figure(thing, words, style if style in LEVEL_NAMES.values() else "text")


def _given(key: str) -> Callable[[Seen], str]:
    def text(seen: Seen) -> str:
        given = seen.reading.words.get(key, "")
        return "" if given.lower() in ("none", "-") else given

    return text
