"""Columns of GPUs (each a row, or those of a host in one), engines and other queues, sockets, jobs, single values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from perfmon.core import counted, slope
from perfmon.store import Seen
from perfmon.textgraphics import compact, spark
from perfmon.viewmodel import (
    Host,
    Level,
    gib,
    labelled,
    percent,
    rate,
    share,
    size_of_bytes,
    throttle_level,
    throttle_words,
    uptime,
    value,
    verdict_words,
    worst_of,
)

from ...theme import LEVEL_NAMES
from .table import FIGURE, FULL, GAUGE, NAME, TREND, Cell, Column, RenderContext, Thing, number, texts, widest, word

_IN_COLUMNS = frozenset({
    "depth", "capacity", "fill_pct", "put_per_s", "get_per_s", "empty_pct", "put_wait_pct", "get_wait_pct",
    "consumers_waiting", "producers_waiting",
})  # fmt: skip
"""Columns of queues between stages."""
_COURSE, _LEAST_COURSE = 60, 10
"""Values of a depth by which its course is described."""
_WAITS_PCT, _WAITING = 20.0, 0.5
"""Percent of their time, or how many on average, from which one side of a queue waits for the other."""


def gpu_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
    """One GPU a row; columns that none of them fills are left out."""
    users = {id(thing[1]): _users(thing) for thing in things}
    name = widest([_name(look, thing) for thing in things])

    def figure(thing: Thing, _: int) -> Cell:
        if thing[1].reading.words.get("state") == "lost":
            return "lost", "critical"
        return look.figure(thing, percent(value(thing[1], "util_pct")) or "-", "title")

    return [
        look.marks(),
        Column(name, 0, lambda thing, _: (_name(look, thing), _name_style(look, thing[1])), lead=NAME),
        Column(
            6, 2, lambda thing, n: (_bar(look, thing[1], n), _bar_style(look, thing[1])), "util", grow=4, lead=GAUGE
        ),
        Column(8, 0, figure, right=True, lead=FIGURE),
        Column(
            6, 5, lambda thing, n: (look.spark(thing[1], "util_pct", n, 100.0), "muted"), "lately", grow=6, lead=TREND
        ),
        Column(6, 6.5, lambda thing, n: (_memory_bar(look, thing[1], n), "muted")),
        Column(8, 1, lambda thing, _: (_memory(thing[1]), "text"), "memory", right=True),
        Column(8, 4, lambda thing, n: (_power(thing[1], n), "muted"), "power", right=True),
        Column(4, 6, lambda thing, _: _heat(look, thing[1]), "temp", right=True),
        Column(10, 3, lambda thing, _: _slowed(thing[1]), "slowed by", grow=12),
        Column(12, 7, lambda thing, _: (users.get(id(thing[1]), ""), "muted"), "processes", grow=24),
    ]


def _name(look: RenderContext, thing: Thing) -> str:
    name = look.name(thing, thing[1].reading.name)
    name = name if look.around.several else f"gpu {name}"
    mine = look.around.gpus_given and thing[1].reading.words.get("mine") == "yes"
    return f"{name}{look.skin.glyph('bullet')}" if mine else name


def _name_style(look: RenderContext, seen: Seen) -> str:
    if not look.around.gpus_given:
        return "text"
    return "title" if seen.reading.words.get("mine") == "yes" else "faint"


def _bar(look: RenderContext, seen: Seen, cells: int) -> str:
    return look.bar(share(value(seen, "util_pct"), 100.0), cells)


def _bar_style(look: RenderContext, seen: Seen) -> str:
    """One of the run that idles half of the time stands out; a single second means nothing."""
    return "warning" if look.idles(seen) else "rpc"


def _memory(seen: Seen) -> str:
    used, total = gib(value(seen, "mem_used_mb")), gib(value(seen, "mem_total_mb"))
    return f"{used}/{total}G" if total else f"{used}G" if used else ""


def _memory_bar(look: RenderContext, seen: Seen, cells: int) -> str:
    return look.bar(share(value(seen, "mem_used_mb"), value(seen, "mem_total_mb")), cells)


def _power(seen: Seen, cells: int) -> str:
    drawn, limit = value(seen, "power_w"), value(seen, "power_limit_w")
    if drawn is None:
        return ""
    both = f"{drawn:.0f}/{limit:.0f}W" if limit else ""
    return both if both and len(both) <= cells else f"{drawn:.0f}W"


def _heat(look: RenderContext, seen: Seen) -> Cell:
    heat = value(seen, "temp_c")
    return ("" if heat is None else f"{heat:.0f}C"), look.style(seen, "temp_c", "muted")


def _slowed(seen: Seen) -> Cell:
    level = throttle_level(seen.reading)
    return throttle_words(seen.reading), "muted" if level is Level.NONE else LEVEL_NAMES[level]


def _users(thing: Thing) -> str:
    """`vllm 48123 +1`: the one with most memory there, and how many more."""
    held = thing[0].users(thing[1])
    if not held:
        return ""
    first = held[0].reading
    more = f" +{len(held) - 1}" if len(held) > 1 else ""
    return f"{first.words.get('role') or first.words.get('command', '')} {first.name}{more}".strip()


# --- all GPUs of a host in one row ------------------------------------------------------------------------------------
Folded = tuple[Host, tuple[Seen, ...]]
_MOST = 16


def folded_columns(look: RenderContext, rows: Sequence[Folded], *, whole: bool = False) -> list[Column[Folded]]:
    """One host a row, a character a GPU; with `whole` the machine's own figures as well."""
    count = min(_MOST, max((len(gpus) for _, gpus in rows), default=1))
    columns: list[Column[Folded]] = [
        Column(2, 0, lambda row, _: _folded_mark(look, row)),
        Column(widest([host.short for host, _ in rows], 12), 0, lambda row, _: (row[0].short, "text"), lead=NAME),
        Column(count, 1, lambda row, n: (_each(look, row[1], n), "rpc"), "util"),
        Column(6, 0, lambda row, _: _mean_cell(look, row), right=True),
        Column(9, 3, lambda row, _: (_memory_of(row[1]), "text"), "memory", right=True),
        Column(9, 5, lambda row, _: (_power_of(row[1]), "muted"), "power", right=True),
        Column(4, 6, lambda row, _: _hottest(look, row[1]), "temp", right=True),
        Column(11, 4, lambda row, _: _slowed_cell(row[1]), "slowed by", grow=16),
    ]
    if whole:
        columns.insert(4, Column(8, 2, lambda row, _: _processors(look, row[0]), right=True))
        columns.insert(
            5, Column(8, 7, lambda row, _: (labelled("mem", percent(row[0].memory_pct)), "muted"), right=True)
        )
    return columns


def _processors(look: RenderContext, host: Host) -> Cell:
    whole = host.whole
    if whole is None:
        return "", "muted"
    return labelled("cpu", percent(value(whole, "cpu_pct"))), look.style(whole, "cpu_pct", "muted")


def _folded_mark(look: RenderContext, row: Folded) -> Cell:
    host, gpus = row
    if not gpus:
        return look.mark((host, host.whole)) if host.whole is not None else (" ?", "stale")
    if all(look.around.stale(gpu) for gpu in gpus):
        return f" {look.skin.glyph('stale')}", "stale"
    level = max(Level.GOOD, *(worst_of(gpu.reading, look.metrics) for gpu in gpus))
    if level is Level.GOOD and all(map(look.proves, gpus)):
        return look.idle_mark()
    return f" {look.skin.mark(level)}", LEVEL_NAMES[level]


def _each(look: RenderContext, gpus: Sequence[Seen], cells: int) -> str:
    """A character a GPU, as high as it is busy; of more than there is room for, the first."""
    used = [value(gpu, "util_pct") for gpu in gpus[:cells]]
    return spark([float("nan") if one is None else one for one in used], 0.0, FULL, glyphs=look.skin.glyphs)


def _mean_cell(look: RenderContext, row: Folded) -> Cell:
    host, gpus = row
    if not gpus:
        return "", "text"
    if all(look.around.stale(gpu) for gpu in gpus):
        return look.figure((host, gpus[0]), "")
    used = [one for gpu in gpus if (one := value(gpu, "util_pct")) is not None]
    return (percent(sum(used) / len(used)) if used else "-"), "title"


def _sum(gpus: Sequence[Seen], key: str) -> float | None:
    known = [one for gpu in gpus if (one := value(gpu, key)) is not None]
    return sum(known) if known else None


def _memory_of(gpus: Sequence[Seen]) -> str:
    used, total = gib(_sum(gpus, "mem_used_mb")), gib(_sum(gpus, "mem_total_mb"))
    return f"{used}/{total}G" if total else ""


def _power_of(gpus: Sequence[Seen]) -> str:
    drawn = _sum(gpus, "power_w")
    return "" if drawn is None else f"{drawn / 1000:.1f}kW" if drawn >= 1000 else f"{drawn:.0f}W"


def _hottest(look: RenderContext, gpus: Sequence[Seen]) -> Cell:
    hot = max(gpus, key=lambda gpu: value(gpu, "temp_c") or 0.0, default=None)
    return ("", "muted") if hot is None else _heat(look, hot)


def _slowed_cell(gpus: Sequence[Seen]) -> Cell:
    slowed = [gpu for gpu in gpus if throttle_words(gpu.reading)]
    if not slowed:
        return "", "muted"
    worst = max(slowed, key=lambda gpu: throttle_level(gpu.reading))
    return f"{len(slowed)}: {throttle_words(worst.reading)}", _slowed(worst)[1]


def is_engine(seen: Seen) -> bool:
    """It serves requests; else it is a queue with a depth."""
    return "running" in seen.reading.values or "waiting" in seen.reading.values


def engine_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
    """An engine a row."""
    return [
        look.marks(),
        look.names(things, look.namer(things, _queue_name), 22, least=8),
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


def _queue_name(seen: Seen) -> str:
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
        look.names(things, look.namer(things, _queue_name), 22),
        *([] if _has_strip(things) else [_depth_bar(look)]),
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


def _depth_bar(look: RenderContext) -> Column[Thing]:
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
        look.names(things, look.namer(things, _queue_name), 40),
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
