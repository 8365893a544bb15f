"""GPUs: each as a row, or those of a host in one."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.store import Seen
from perfmon.textgraphics import spark
from perfmon.viewmodel import (
    Host,
    Level,
    gib,
    labelled,
    percent,
    share,
    throttle_level,
    throttle_words,
    value,
    worst_of,
)

from ...theme import LEVEL_NAMES
from .table import FIGURE, FULL, GAUGE, NAME, TREND, Cell, Column, RenderContext, Thing, widest


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
