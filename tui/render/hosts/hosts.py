"""Hosts: how each is reached, and how busy it is; below it its disks, interfaces and processes."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan

from perfmon.sources.pollers import Area
from perfmon.store import Seen
from perfmon.textgraphics import cut, spark
from perfmon.viewmodel import (
    Host,
    age_words,
    clock_words,
    cores,
    gib,
    labelled,
    percent,
    rate,
    share,
    size,
    state_of,
    uptime,
    value,
    worst_of,
)

from ..rows import Words
from .table import (
    FIGURE,
    FULL,
    GAUGE,
    NAME,
    TREND,
    Cell,
    Column,
    RenderContext,
    Thing,
    number,
    texts,
    widest,
    word,
)


def host_columns(look: RenderContext, hosts: Sequence[Host]) -> list[Column[Host]]:
    """One host a row."""
    waits = any(
        max(host.figure("iowait_pct") or 0.0, (host.figure("iowait_max_pct") or 0.0) / 10) >= 1.0 for host in hosts
    )
    most = max((len(_cores(host)) for host in hosts), default=0)
    return [
        Column(2, 0, lambda host, _: _mark(look, host)),
        Column(widest([host.short for host in hosts]), 0, lambda host, _: (host.short, "text"), lead=NAME),
        Column(6, 5.5, lambda host, n: (_processors(look, host, n), "rpc"), grow=4, lead=GAUGE),
        Column(8, 0, lambda host, _: _first(look, host), right=True, lead=FIGURE),
        Column(6, 4, lambda host, n: (_lately(look, host, n), "muted"), grow=6, lead=TREND),
        Column(widest([_state(host)[0] for host in hosts]), 3, lambda host, _: _state(host)),
        Column(
            6 + min(8, most), 7, lambda host, n: (_each(look, host, n - 6), "muted"), grow=max(0, min(24, most - 8))
        ),
        Column(6, 7.5, lambda host, n: (_memory_bar(look, host, n), "muted")),
        Column(7, 1, lambda host, n: _memory(look, host, n), grow=9),
        Column(9, 2, lambda host, n: _disk(look, host, n), grow=29),
        Column(12, 5, lambda host, _: (_network(host), "muted"), grow=8),
        Column(9, 7, lambda host, _: (labelled("load", _load(host)), "muted")),
        Column(6, 6, lambda host, n: _waits(look, host, n) if waits else ("", "muted"), grow=8),
        Column(12, 6, lambda host, _: ("" if host.link is None else clock_words(host.link), "muted"), grow=4),
    ]


def unreached(look: RenderContext, host: Host) -> Words | None:
    """The whole row of a host of which nothing is known but that, and why, it is not reached."""
    if host.link is None or host.things:
        return None
    sign, words = state_of(host.link)
    style = "warning" if sign == "lagging" else sign
    why = host.link.error.removeprefix(f"{host.name}: ")
    return (
        (f" {look.skin.glyph(sign)} ", style),
        (f"{cut(host.short, 16)} ", "text"),
        (words, style),
        (f" {cut(why, 200)}" if why else "", "muted"),
    )


def _mark(look: RenderContext, host: Host) -> Cell:
    if host.link is not None:
        sign, _ = state_of(host.link)
        if sign != "good" or host.whole is None:
            return f" {look.skin.glyph(sign)}", "warning" if sign == "lagging" else sign
    if host.whole is not None and look.around.stale(host.whole):
        return look.mark((host, host.whole))
    fresh = [seen for seen in host.of(Area.HOST, Area.DISK) if not look.around.stale(seen)]
    if not fresh:
        return look.mark((host, host.whole)) if host.whole is not None else (f" {look.skin.glyph('none')}", "faint")
    return look.mark((host, max(fresh, key=lambda seen: worst_of(seen.reading, look.metrics))))


def _state(host: Host) -> Cell:
    if host.link is None:
        return "", "muted"
    sign, words = state_of(host.link)
    return words, "muted" if sign == "good" else "warning" if sign == "lagging" else sign


def _first(look: RenderContext, host: Host) -> Cell:
    whole = host.whole
    if whole is None:
        return "", "muted"
    return look.figure((host, whole), labelled("cpu", percent(value(whole, "cpu_pct"))), look.style(whole, "cpu_pct"))


def _processors(look: RenderContext, host: Host, cells: int) -> str:
    return look.bar(share(host.figure("cpu_pct"), 100.0), cells)


def _memory_bar(look: RenderContext, host: Host, cells: int) -> str:
    part = host.memory_pct
    return look.bar(None if part is None else part / 100.0, cells)


def _lately(look: RenderContext, host: Host, cells: int) -> str:
    return "" if host.whole is None else look.spark(host.whole, "cpu_pct", cells, 100.0)


def _memory(look: RenderContext, host: Host, cells: int) -> Cell:
    part = host.memory_pct
    if part is None:
        return "", "muted"
    text, total = f"mem {percent(part)}", gib(host.figure("mem_total_mb"))
    longer = f"{text} {gib(host.figure('mem_used_mb'))}/{total}G"
    return (longer if len(longer) <= cells else text), look.level_style(Area.HOST, "mem_pct", part)


def _disk(look: RenderContext, host: Host, cells: int) -> Cell:
    """The fullest disk: of those that hold logs or checkpoints, if there are any."""
    disks = host.of(Area.DISK)
    held = [disk for disk in disks if disk.reading.words.get("holds")] or list(disks)
    fullest = max(held, key=lambda disk: value(disk, "used_pct") or 0.0, default=None)
    if fullest is None:
        return "", "muted"
    used = percent(value(fullest, "used_pct"))
    named = f"disk {fullest.reading.name} {used}"
    forms = (f"{named} {labelled(size(value(fullest, 'free_gb')), 'free')}".rstrip(), named, f"disk {used}")
    return next((text for text in forms if len(text) <= cells), forms[-1]), look.style(fullest, "used_pct")


def _network(host: Host) -> str:
    """Rates of all interfaces."""
    busier = max(host.total(Area.NIC, key) for key in ("rx_mb_s", "tx_mb_s"))
    return f"net {rate(busier)}" if host.of(Area.NIC) else ""


def _load(host: Host) -> str:
    load = host.figure("load1")
    return "" if load is None else f"{load:.1f}" if load < 100 else f"{load:.0f}"


def _waits(look: RenderContext, host: Host, cells: int) -> Cell:
    """For disks: all processors together, and the one that waits most, which is not seen among many."""
    style = "muted" if host.whole is None else look.style(host.whole, "iowait_pct", "muted")
    text, most = labelled("io", percent(host.figure("iowait_pct"))), percent(host.figure("iowait_max_pct"))
    longer = f"{text} max {most}" if text and most else text
    return (longer if len(longer) <= cells else text), style


def _cores(host: Host) -> list[float]:
    return [] if host.whole is None else cores(host.whole, "cores_busy")


def _each(look: RenderContext, host: Host, cells: int) -> str:
    """A character a core, as high as it is busy; of more than there is room for, the busiest of neighbours."""
    each = _cores(host)
    if not each or cells < 1:
        return ""
    together = -(-len(each) // cells)
    groups = [[one for one in each[at : at + together] if one == one] for at in range(0, len(each), together)]  # noqa: PLR0124
    return labelled("cores", spark([max(group, default=nan) for group in groups], 0.0, FULL, glyphs=look.skin.glyphs))


# --- what is below a host ---------------------------------------------------------------------------------------------
def disk_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A file system a row."""
    return [
        look.marks(),
        look.names(things, look.own_name, 30),
        Column(6, 3, lambda thing, n: (look.bar(share(value(thing[1], "used_pct"), 100.0), n), "rpc"), grow=10),
        Column(6, 0, lambda thing, _: _full(look, thing), right=True),
        texts(16, 1, number("free_gb", lambda free: f"{size(free)} free"), "text"),
        texts(14, 4, number("read_mb_s", rate, "r")),
        texts(14, 4, number("write_mb_s", rate, "w")),
        texts(9, 5, number("busy_pct", percent, "busy")),
        Column(15, 2, lambda thing, _: _forecast(thing[1])),
        texts(11, 6, lambda seen: seen.reading.words.get("holds", ""), grow=8),
    ]


def _full(look: RenderContext, thing: Thing) -> Cell:
    return look.figure(thing, percent(value(thing[1], "used_pct")), look.style(thing[1], "used_pct"))


def _forecast(seen: Seen) -> Cell:
    """Time until it is full, if it fills quickly."""
    left = value(seen, "full_in_s")
    if left is None or left <= 0 or left > 7 * 86400:
        return "", "muted"
    return f"full in {uptime(left)}", "critical" if left < 3600 else "warning" if left < 86400 else "muted"


def nic_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
    """An interface a row."""
    return [
        look.marks(),
        look.names(things, look.own_name, 24),
        look.figures(14, number("rx_mb_s", rate, "rx")),
        look.sparks(8, 3, "rx_mb_s", grow=12),
        texts(14, 1, number("tx_mb_s", rate, "tx"), "text"),
        texts(16, 4, number("speed_mb_s", rate, "of")),
        Column(24, 2, lambda thing, _: _faults(thing[1])),
    ]


def _faults(seen: Seen) -> Cell:
    parts = [
        f"{count:.1f} {word}/s"
        for key, word in (("errors_per_s", "errors"), ("drops_per_s", "drops"))
        if (count := value(seen, key))
    ]
    return " ".join(parts), "warning"


def process_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A process of the run a row."""
    return [
        Column(2, 0, lambda thing, _: (f" {look.skin.glyph('bullet')}", "faint")),
        look.names(things, look.own_name, 20, "muted"),
        Column(12, 0, lambda thing, _: (_command(thing[1]), "text"), grow=40),
        Column(8, 1, lambda thing, _: look.figure(thing, labelled("cpu", percent(value(thing[1], "cpu_pct"))))),
        texts(9, 2, number("rss_mb", _gb, "rss"), "text"),
        texts(8, 3, lambda seen: labelled("on", seen.reading.words.get("gpu", "")), grow=6),
        texts(9, 2, number("gpu_mem_mb", _gb, "gpu"), "text"),
        texts(5, 5, number("gpu_util_pct", percent)),
        texts(10, 4, number("uptime_s", uptime, "up")),
    ]


def _command(seen: Seen) -> str:
    words = seen.reading.words
    return " ".join(dict.fromkeys(word for word in (words.get("role", ""), words.get("command", "")) if word))


def _gb(mb: float) -> str:
    return f"{gib(mb)}G"


# --- pollers ----------------------------------------------------------------------------------------------------------
def poller_columns(look: RenderContext, things: Sequence[Thing]) -> list[Column[Thing]]:
    """A poller a row: if it answers, and why not."""
    return [
        look.marks(),
        look.names(things, look.own_name, 32),
        Column(10, 0, lambda thing, _: _answers(look, thing)),
        texts(10, 3, number("took_ms", lambda ms: f"{ms:.{int(ms < 10)}f} ms"), right=True),
        texts(10, 1, word("why"), grow=100),
    ]


def _answers(look: RenderContext, thing: Thing) -> Cell:
    seen = thing[1]
    state, old = seen.reading.words.get("state", "ok"), value(seen, "age_s")
    if state == "stale" and old is not None:
        return f"stale {age_words(old)}", "stale"
    return look.figure(thing, state, "critical" if state == "failed" else "muted")
