"""Tables of the hosts pane: columns that fit the width, cells, details of one thing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from typing import Any, Generic, TypeVar

from perfmon.diagnosis import Finding, MetricStats
from perfmon.sources.pollers import Area
from perfmon.store import Seen
from perfmon.textgraphics import Glyphs, compact, cut, fit, limits, spark
from perfmon.viewmodel import (
    Host,
    HostOverview,
    Level,
    MonitorState,
    age_words,
    bare,
    cores,
    labelled,
    level_of,
    level_within,
    metric_of,
    value,
    worst_of,
)

from ...theme import LEVEL_NAMES, LEVELS, ThemeStyles
from ..rows import Words, cells, wrapped

# --- Columns that make room for each other: what matters least goes first, what is left may grow ---

T = TypeVar("T")
_MATTERS = 2
"""Columns of this rank and below are worth shortening a name for."""
_TELLS_WHY = 0.5
"""The rank of a column that shows what is critical: without it a mark has no reason."""
_MOST_CHECKED = 64
"""Of more things than that not each is checked to choose columns."""
Cell = tuple[str, str]
"""(text, name of a style)"""


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """One column of a table."""

    cells: int
    rank: float
    """The larger, the sooner it goes; 0 stays as long as anything does."""
    draw: Callable[[T, int], Cell]
    """Cell of an item at a given width."""
    title: str = ""
    right: bool = False
    grow: int = 0
    """So many more cells it can make use of."""
    least: int = 0
    """To so few cells it shrinks before what matters goes; 0: not at all."""
    lead: str = ""
    """Its role in all tables that begin alike: NAME, GAUGE, FIGURE or TREND. These stand below each other."""
    strip: Callable[[T, int], Words] | None = None
    """The cell in several styles, exactly as wide; `draw` has its text, and the style that matters."""


def chosen(columns: Sequence[Column[T]], things: Sequence[T], width: int) -> list[Column[T]]:
    """Those that have a value and room for it, a blank between them, as wide as they are to be."""
    kept = [column for column in columns if any(column.draw(thing, column.cells)[0] for thing in things)]
    if _cells(kept) > width:
        kept = [_kept_longer(column, things[:_MOST_CHECKED]) for column in kept]
    while (over := _cells(kept) - width) > 0 and (goes := max(kept, key=lambda column: column.rank)).rank:
        give = next((at for at, one in enumerate(kept) if 0 < one.least <= one.cells - over), None)
        if give is not None and goes.rank <= _MATTERS:
            kept[give] = replace(kept[give], cells=kept[give].cells - over)
        else:
            kept.remove(goes)
    more = _shared([column.grow for column in kept], width - _cells(kept))
    return [replace(one, cells=one.cells + extra) if extra else one for one, extra in zip(kept, more, strict=True)]


NAME, GAUGE, FIGURE, TREND = "name", "gauge", "figure", "trend"
_SHORT, _ROOM_FOR_NAMES = 12, 116
"""Names up to that have one width in all tables; longer ones where a row has so many cells."""


def aligned(tables: Sequence[tuple[Sequence[Column[Any]], Sequence[Any]]], width: int) -> list[list[Column[Any]]]:
    """`chosen` of each table, its columns and things; what they begin with stands below each other."""
    widths = [column.cells for columns, _ in tables for column in columns if column.lead == NAME]
    names = max((cells for cells in widths if cells <= _SHORT or width >= _ROOM_FOR_NAMES), default=0)
    found = []
    for columns, things in tables:
        wide = [replace(one, cells=max(one.cells, names)) if one.lead == NAME else one for one in columns]
        found.append(chosen(wide, things, width))
    for lead in (GAUGE, FIGURE, TREND):
        least = min((column.cells for columns in found for column in columns if column.lead == lead), default=0)
        found = [[replace(one, cells=least) if one.lead == lead else one for one in columns] for columns in found]
    return found


def _kept_longer(column: Column[T], things: Sequence[T]) -> Column[T]:
    """The same; where it shows something critical it goes after those that do not."""
    if column.rank <= _TELLS_WHY or all(column.draw(thing, column.cells)[1] != "critical" for thing in things):
        return column
    return replace(column, rank=_TELLS_WHY)


def _shared(wanted: Sequence[int], spare: int) -> list[int]:
    """`spare` cells shared out evenly among those that want more."""
    given = [0] * len(wanted)
    while spare > 0 and (open_still := [at for at, want in enumerate(wanted) if given[at] < want]):
        each = max(1, spare // len(open_still))
        for at in open_still:
            extra = min(each, wanted[at] - given[at], spare)
            given[at] += extra
            spare -= extra
    return given


def _cells(columns: Sequence[Column[T]]) -> int:
    return sum(column.cells for column in columns) + max(0, len(columns) - 1)


def row(columns: Sequence[Column[T]], thing: T, width: int, glyphs: Glyphs) -> Words:
    """A thing in at most `width` cells."""
    words: list[tuple[str, str]] = []
    left = width
    for column in columns:
        gap = " " if words else ""
        cells = min(column.cells, left - len(gap))
        if cells <= 0:
            break
        if column.strip is not None:
            words += [(gap, "text"), *column.strip(thing, cells)]
        else:
            text, style = column.draw(thing, cells)
            words.append((gap + fit(text, cells, right=column.right, glyphs=glyphs), style))
        left -= cells + len(gap)
    return tuple(words)


def heading(columns: Sequence[Column[T]], title: str, width: int) -> Words:
    """The title of a table, and the names of its columns."""
    text = " ".join(fit(column.title, column.cells, right=column.right) for column in columns)
    first = f" {title} "
    rest = text[len(first) :] if len(text) > len(first) else ""
    return ((first, "muted"), (cut(rest, max(0, width - len(first))).rstrip(), "faint"))


# --- Input for rows about hosts: the time, the thresholds, and the characters of the terminal ---

Thing = tuple[Host, Seen]
_NAME = 16
_HEADROOM = 1.15
FULL = 100.0 * _HEADROOM
"""The height of a percentage that leaves a gap below the row above."""


_MEASURED = {
    Area.GPU: ("gpu_",), Area.HOST: ("host_", "mem_used", "iowait", "psi_"), Area.DISK: ("disk_",), Area.NIC: ("nic_",),
    Area.SOCKET: ("socket_",),
}  # fmt: skip
"""First letters of the metrics of things that are not queues."""
_LATELY, _IDLE_PCT, _OFTEN = 15, 50.0, 0.25
"""Polls that are looked back on, the use below which a GPU is idle (where the band gpu_busy is critical), and the share
of its polls from which on it idles often."""
Place = tuple[str, Area, str]


def _blamed(picture: MonitorState) -> dict[Place, Level]:
    """Things with a value that the verdict rests on: those that it names, or the only one there is of its kind."""
    finding = picture.verdict_finding
    if finding is None:
        return {}
    level = LEVELS[finding.severity.value]
    named = [*_blamed_queues(finding, picture), *_blamed_others(finding, picture)]
    return {(seen.host, seen.reading.area, seen.reading.name): level for seen in named}


def _blamed_others(finding: Finding, picture: MonitorState) -> Iterator[Seen]:
    """GPUs, hosts, disks, interfaces and sockets, by the name of the group that the finding is about."""
    group = finding.identity.get("group", "")
    for area, begins in _MEASURED.items():
        if any(metric.startswith(begins) for metric in finding.proof):
            held = [seen for seen in picture.seen if seen.reading.area is area]
            alone = len(held) == 1 and not group
            yield from (seen for seen in held if alone or group in _groups_of(seen))


def _groups_of(seen: Seen) -> tuple[str, ...]:
    """The names of a thing as a group of samples."""
    hosts = (seen.host, bare(seen.host))
    return hosts if seen.reading.area is Area.HOST else tuple(f"{host}:{seen.reading.name}" for host in hosts)


def _blamed_queues(finding: Finding, picture: MonitorState) -> Sequence[Seen]:
    queues = [seen for seen in picture.seen if seen.reading.area is Area.QUEUE]
    rests_on = [seen for seen in queues if not set(finding.proof).isdisjoint(map(metric_of, seen.reading.values))]
    group = finding.identity.get("group", "")
    named = [seen for seen in rests_on if group and (group in seen.reading.name or seen.reading.name in group)]
    return named or (rests_on if len(rests_on) == 1 else [])


def _is_own_gpu(seen: Seen) -> bool:
    return seen.reading.area is Area.GPU and seen.reading.words.get("mine", "yes") == "yes"


@dataclass(frozen=True)
class RenderContext:
    """The machines of a picture, and how they are drawn."""

    around: HostOverview
    skin: ThemeStyles
    metrics: Mapping[str, MetricStats] = field(default_factory=dict)
    """Those of the snapshot: their bands are the limits."""
    blamed: Mapping[Place, Level] = field(default_factory=dict)
    """The level of the verdict by host, area and name of the things that it is about."""

    costs: bool = False
    """The verdict costs time: GPUs that idle in that time show it."""

    @classmethod
    def at(cls, picture: MonitorState, skin: ThemeStyles) -> RenderContext:
        """At that picture."""
        snapshot = picture.snapshot
        metrics = {} if snapshot is None else snapshot.metrics
        finding = picture.verdict_finding
        costs = finding is not None and finding.lost_s > 0
        return cls(HostOverview.at(picture), skin, metrics, _blamed(picture), costs)

    @property
    def any(self) -> bool:
        """Something else than logs is observed."""
        return bool(self.around.hosts)

    # --- cells ----------------------------------------------------------------------------------------------------
    def mark(self, thing: Thing) -> Cell:
        """The sign of its worst value; `?` where that is stale."""
        seen = thing[1]
        if self.around.stale(seen):
            return f" {self.skin.glyph('stale')}", "stale"
        blamed = self.blamed.get((seen.host, seen.reading.area, seen.reading.name), Level.NONE)
        level = max(worst_of(seen.reading, self.metrics), blamed)
        if level <= Level.GOOD and self.proves(seen):
            return self.idle_mark()
        named = LEVEL_NAMES[Level.GOOD if level is Level.NONE else level]
        return f" {self.skin.glyph(named)}", named

    def proves(self, seen: Seen) -> bool:
        """Return true for a GPU of the run that idles now, or often, while the verdict costs time.

        Where GPUs take turns a mark by the present alone would come and go.
        """
        lately = seen.history.get("util_pct", ()) if self.costs and _is_own_gpu(seen) else ()
        now = lately[-1:]
        return any(one < _IDLE_PCT for one in now) or sum(one < _IDLE_PCT for one in lately) > _OFTEN * len(lately)

    def idles(self, seen: Seen) -> bool:
        """Return true for a GPU of the run that lately idled half of the time; a single second means nothing."""
        if not _is_own_gpu(seen):
            return False
        lately = seen.history.get("util_pct", ())[-_LATELY:]
        stats = self.metrics.get("gpu_busy")
        limit = _IDLE_PCT if stats is None else stats.critical
        return bool(lately) and limit is not None and sum(lately) / len(lately) < limit

    def idle_mark(self) -> Cell:
        """The sign of what idles while the verdict costs time: it shows that, and is neither good nor at fault."""
        return f" {self.skin.glyph('edge')}", "warning"

    def figure(self, thing: Thing, text: str, style: str = "text") -> Cell:
        """The first figure of a row; its age instead, where it is old."""
        if self.around.stale(thing[1]):
            return f"{self.skin.glyph('stale')} {age_words(self.around.age_s(thing[1]))}", "stale"
        return text, style

    def style(self, seen: Seen, key: str, usual: str = "text") -> str:
        """That of a value by its level."""
        known = seen.reading.values.get(key)
        return usual if known is None else self.level_style(seen.reading.area, key, known, usual)

    def level_style(self, area: Area, key: str, value: float, usual: str = "text") -> str:
        """That of a value that was worked out of others."""
        level = level_of(area, key, value, self.metrics)
        return usual if level in (Level.NONE, Level.GOOD) else LEVEL_NAMES[level]

    def bar(self, share: float | None, cells: int) -> str:
        """A line as long as that share, to half a cell: bars as high as their rows would grow together."""
        if share is None:
            return ""
        whole, half = divmod(round(2 * cells * min(1.0, max(0.0, share))), 2)
        drawn = self.skin.glyph("gauge") * whole + self.skin.glyph("gauge-end") * half
        return drawn + self.skin.glyph("dot") * (cells - whole - half)

    def spark(self, seen: Seen, key: str, cells: int, high: float | None = None) -> str:
        """The last values, one a cell; `high` fixes the scale from 0. Nothing reaches up to the row above."""
        values = seen.history.get(key, ())[-cells:]
        low, top = (0.0, high) if high is not None else limits(values)
        return spark(values, low, low + _HEADROOM * (top - low), glyphs=self.skin.glyphs).rjust(cells)

    def strip(self, seen: Seen, key: str, metric: str, cells: int) -> Words:
        """The last values of a percentage, one a cell, each in the style of its level by the thresholds of a metric."""
        values = seen.history.get(key, ())[-cells:]
        drawn = spark(values, 0.0, FULL, glyphs=self.skin.glyphs)
        words = [(" " * (cells - len(values)), "text")] if len(values) < cells else []
        known = self.metrics.get(metric)
        for sign, one in zip(drawn, values, strict=True):
            level = level_within(known, one)
            words.append((sign, "queue" if level is Level.NONE else LEVEL_NAMES[level]))
        return tuple(words)

    def name(self, thing: Thing, text: str) -> str:
        """A name, with that of its host where there are several."""
        return f"{thing[0].short}:{text}" if self.around.several else text

    def own_name(self, thing: Thing) -> str:
        """The name of a thing, with that of its host where there are several."""
        return self.name(thing, thing[1].reading.name)

    def namer(self, things: Sequence[Thing], name: Callable[[Seen], str]) -> Callable[[Thing], str]:
        """Names of things; with those of their hosts where they are not enough."""
        if len({name(seen) for _, seen in things}) == len(things):
            return lambda thing: name(thing[1])
        return lambda thing: self.name(thing, name(thing[1]))

    def dim(self, words: Words, thing: Thing) -> Words:
        """Make the row of a stale thing faint, except the words that state it."""
        if not self.around.stale(thing[1]):
            return words
        return tuple((text, style if style == "stale" else "faint") for text, style in words)

    # --- columns --------------------------------------------------------------------------------------------------
    def marks(self) -> Column[Thing]:
        """The sign of each thing."""
        return Column(2, 0, lambda thing, _: self.mark(thing))

    def names(
        self,
        things: Sequence[Thing],
        name: Callable[[Thing], str],
        most: int = _NAME,
        style: str = "text",
        least: int = 0,
    ) -> Column[Thing]:
        """Names, as wide as the longest needs, up to `most` cells."""
        wide = widest(map(name, things), most)
        return Column(wide, 0, lambda thing, _: (name(thing), style), least=least, lead=NAME)

    def figures(self, cells: int, form: Callable[[Seen], str], *, right: bool = False) -> Column[Thing]:
        """The first figure of each row, or its age where it is old."""
        return Column(cells, 0, lambda thing, _: self.figure(thing, form(thing[1])), right=right)

    def sparks(self, cells: int, rank: float, key: str, style: str = "muted", *, grow: int) -> Column[Thing]:
        """The last values of each."""
        return Column(cells, rank, lambda thing, n: (self.spark(thing[1], key, n), style), grow=grow)


def texts(
    cells: int, rank: float, form: Callable[[Seen], str], style: str = "muted", *, right: bool = False, grow: int = 0
) -> Column[Thing]:
    """Texts in one style."""
    return Column(cells, rank, lambda thing, _: (form(thing[1]), style), right=right, grow=grow)


def number(key: str, form: Callable[[float], str], label: str = "") -> Callable[[Seen], str]:
    """The form of a value behind its label; "" where it is unknown."""

    def text(seen: Seen) -> str:
        known = value(seen, key)
        drawn = "" if known is None else form(known)
        return labelled(label, drawn) if label else drawn

    return text


def word(key: str) -> Callable[[Seen], str]:
    """A word of the reading, with blanks for `_`; "" without it."""
    return lambda seen: seen.reading.words.get(key, "").replace("_", " ")


def widest(texts: Iterable[str], most: int = _NAME) -> int:
    """Cells for a column of names."""
    return max(1, min(most, max((cells(text) for text in texts), default=1)))


# --- Everything that was polled of one thing: what its row had no room for ---

_INDENT = "     "
_KEY, _NOW, _SPAN = 20, 10, 20
_CORES = {"cores_busy": "cores busy", "cores_iowait": "cores wait"}
"""Words that are drawn, a sign a core."""
_TENTH = 10.0


def detail_lines(look: RenderContext, thing: Thing, width: int) -> Iterator[Callable[[], Words]]:
    """A line a value, with its course; its words above them."""
    seen = thing[1]
    words = [f"{key} {word.replace('_', ' ')}" for key, word in seen.reading.words.items() if key not in _CORES]
    words.append(f"seen {age_words(look.around.age_s(seen))} ago")
    if seen.every_s is not None:
        words.append(f"every {seen.every_s:.3g} s")
    for part in wrapped(" · ".join(words), max(1, width - len(_INDENT) - 1)):
        yield partial(_words, part)
    for key, name in _CORES.items():
        if seen.reading.words.get(key):
            yield partial(_cores, look, seen, key, name)
    for key in seen.reading.values:
        yield partial(_value, look, seen, key, width)


def _words(text: str) -> Words:
    return ((f"{_INDENT}{text}", "muted"),)


def _cores(look: RenderContext, seen: Seen, key: str, name: str) -> Words:
    drawn = spark(cores(seen, key), _TENTH / 2, 100.0 - _TENTH / 2, glyphs=look.skin.glyphs)
    return ((_INDENT + fit(name, _KEY, glyphs=look.skin.glyphs), "muted"), (drawn, "metric"))


_UNITS = {
    "_mb_s": " MB/s", "_per_s": "/s", "_pct": " %", "_mb": " MB", "_gb": " GB", "_mhz": " MHz", "_ms": " ms",
    "_w": " W", "_c": " C", "_s": " s",
}  # fmt: skip
"""Ends of the names of values, and their units."""


def _value(look: RenderContext, seen: Seen, key: str, width: int) -> Words:
    """A value with its unit, and its course if it has one: of what never changes bars would show nothing."""
    glyphs = look.skin.glyphs
    end = next((end for end in _UNITS if key.endswith(end)), "")
    unit, scale = _UNITS.get(end, ""), 1.0
    if unit == " MB" and seen.reading.values[key] >= 1024:
        unit, scale = " GB", 1024.0
    known = [value / scale for value in seen.history.get(key, ()) if isfinite(value)]
    varies = bool(known) and min(known) < max(known)
    span = f"{compact(min(known), 8)} .. {compact(max(known), 8)}" if varies else ""
    room = max(0, width - len(_INDENT) - _KEY - _NOW - _SPAN - 3)
    values = seen.history.get(key, ())[-room:] if room and varies else ()
    name, now = key.removesuffix(end).replace("_", " "), f"{compact(seen.reading.values[key] / scale, 6)}{unit}"
    return (
        (_INDENT + fit(name, _KEY, glyphs=glyphs), "muted"),
        (fit(now, _NOW, right=True), look.style(seen, key)),
        ("  " + fit(span, _SPAN), "faint"),
        (spark(values, *limits(values), glyphs=glyphs), "metric"),
    )
