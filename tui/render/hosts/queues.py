"""Queues: engines that generate, queues between stages, sockets, jobs of the scheduler, and single values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfmon.core import counted, slope
from perfmon.store import Seen
from perfmon.textgraphics import compact
from perfmon.viewmodel import labelled, percent, rate, share, size_of_bytes, uptime, value, verdict_words

from ...theme import LEVEL_NAMES
from .table import FIGURE, GAUGE, TREND, Cell, Column, RenderContext, Thing, number, texts, word

_IN_COLUMNS = frozenset({
    "depth", "capacity", "fill_pct", "put_per_s", "get_per_s", "empty_pct", "put_wait_pct", "get_wait_pct",
    "consumers_waiting", "producers_waiting",
})  # fmt: skip
"""Columns of queues between stages."""
_COURSE, _LEAST_COURSE = 60, 10
"""Values of a depth by which its course is described."""
_WAITS_PCT, _WAITING = 20.0, 0.5
"""Percent of their time, or how many on average, from which one side of a queue waits for the other."""


def is_engine(seen: Seen) -> bool:
    """It serves requests; else it is a queue with a depth."""
    return "running" in seen.reading.values or "waiting" in seen.reading.values


def engine_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
    """An engine a row."""
    return [
        look.marks(),
        look.names(things, look.namer(things, _name), 22, least=8),
        Column(6, 5.5, lambda thing, n: (_cache_bar(look, thing[1], n), "queue"), grow=4, lead=GAUGE),
        Column(8, 0, lambda thing, _: _cache(look, thing), right=True, lead=FIGURE),
        Column(5, 5, lambda thing, n: (look.spark(thing[1], "waiting", n), "queue"), grow=7, lead=TREND),
        texts(8, 0.2, number("running", _count, "run"), "text"),
        Column(9, 1, lambda thing, _: _waiting(thing[1])),
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


def _cache(look: RenderContext, thing: Thing) -> Cell:
    """The use of the cache, or how old all of it is."""
    seen = thing[1]
    text = labelled("kv", percent(value(seen, "kv_usage_pct")))
    return look.figure(thing, text, look.style(seen, "kv_usage_pct"))


def _cache_bar(look: RenderContext, seen: Seen, cells: int) -> str:
    known = value(seen, "kv_usage_pct")
    return look.bar(None if known is None else known / 100.0, cells)


def _evicted(seen: Seen) -> Cell:
    known = value(seen, "preemptions_per_min")
    return (f"preempts {compact(known, 4)}/m", "warning") if known else ("", "muted")


def _first(seen: Seen) -> str:
    """Time to first token."""
    known = next((known for key in ("ttft_p95_s", "ttft_p50_s") if (known := value(seen, key)) is not None), None)
    return "" if known is None else f"ttft {known:.2f} s"


def depth_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A queue between stages a row."""
    return [
        look.marks(),
        look.names(things, look.namer(things, _name), 22),
        *([] if _has_strip(things) else [_bar(look)]),
        look.figures(6, _filled, right=True),
        texts(9, 1, _depth, "text", right=True),
        _strip(look, things),
        texts(10, 2, number("put_per_s", _pace, "put")),
        texts(10, 2, number("get_per_s", _pace, "get")),
        Column(19, 1.5, lambda thing, _: _who_waits(thing[1])),
        texts(10, 4, number("empty_pct", percent, "empty")),
        texts(17, 4.5, _course),
        Column(14, 2, lambda thing, n: (_rest(thing[1], n), "muted"), grow=60),
    ]


def _has_strip(things: Sequence[Thing]) -> bool:
    return any("fill_pct" in seen.history for _, seen in things)


def _bar(look: RenderContext) -> Column[Thing]:
    return Column(6, 2, lambda thing, n: (look.bar(_fill(thing[1]), n), "queue"), grow=10)


def _strip(look: RenderContext, things: Sequence[Thing]) -> Column[Thing]:
    """Fill of each, one value a cell, in the colours of its target range; its depth where it has no end."""
    if not _has_strip(things):
        return look.sparks(6, 3, "depth", "queue", grow=24)
    return Column(
        8, 1.2, lambda thing, n: (look.spark(thing[1], "fill_pct", n, 100.0), "queue"), grow=40,
        strip=lambda thing, n: look.strip(thing[1], "fill_pct", "queue_fill", n),
    )  # fmt: skip


def _course(seen: Seen) -> str:
    """Change of its depth, by a straight line through its last values, and how much it swings around that."""
    depths = seen.history.get("depth", ())[-_COURSE:]
    if seen.every_s is None or len(depths) < _LEAST_COURSE:
        return ""
    points = [(seen.every_s * at, depth) for at, depth in enumerate(depths)]
    per_s = slope(points)
    middle = sum(depths) / len(depths)
    center = points[-1][0] / 2
    off = [depth - middle - per_s * (time - center) for time, depth in points]
    return f"{compact(60 * per_s, 5)}/min ±{compact((max(off) - min(off)) / 2, 4)}"


def _who_waits(seen: Seen) -> Cell:
    """The side that waits for the other."""
    for side, key in (("consumers", "get_wait_pct"), ("producers", "put_wait_pct")):
        known = value(seen, key)
        if known is not None and known >= _WAITS_PCT:
            return f"{side} wait {percent(known)}", "warning" if side == "consumers" else "text"
    for side in ("consumers", "producers"):
        count = value(seen, f"{side}_waiting")
        if count is not None and count >= _WAITING:
            return f"{_count(count)} {side} wait", "warning" if side == "consumers" else "text"
    measured = ("get_wait_pct", "put_wait_pct", "consumers_waiting", "producers_waiting")
    return ("no side waits", "muted") if any(value(seen, key) is not None for key in measured) else ("", "muted")


def _fill(seen: Seen) -> float | None:
    known = value(seen, "fill_pct")
    return share(value(seen, "depth"), value(seen, "capacity")) if known is None else known / 100.0


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
    parts += [f"{key} {compact(seen.reading.values[key], 6)}" for key in seen.reading.values if key not in _IN_COLUMNS]
    while len(parts) > 1 and len("  ".join(parts)) > cells:
        parts.pop()
    return "  ".join(parts)


def _pace(rate: float) -> str:
    return f"{compact(rate, 4)}/s"


def value_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A value that no other table has a place for."""
    return [
        look.marks(),
        look.names(things, look.namer(things, _name), 40),
        look.figures(9, number("value", _count), right=True),
        look.sparks(8, 1, "value", grow=24),
    ]


def socket_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
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


def _verdict(look: RenderContext, thing: Thing) -> Cell:
    return look.figure(thing, verdict_words(thing[1].reading), look.mark(thing)[1])


def _unread(look: RenderContext, seen: Seen) -> Cell:
    return number("recv_q_bytes", size_of_bytes, "unread")(seen), look.style(seen, "recv_q_share_pct", "muted")


# --- the scheduler ----------------------------------------------------------------------------------------------------
def job_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
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


def _state(look: RenderContext, thing: Thing) -> Cell:
    style = look.mark(thing)[1]
    words = thing[1].reading.words.get("state", "").lower()
    return look.figure(thing, words, style if style in LEVEL_NAMES.values() else "text")


def _given(key: str) -> Callable[[Seen], str]:
    def text(seen: Seen) -> str:
        given = seen.reading.words.get(key, "")
        return "" if given.lower() in ("none", "-") else given

    return text
