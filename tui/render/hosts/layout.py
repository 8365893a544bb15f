"""Layout of the hosts pane: which lines it shows in the rows that there are."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from perfmon.core import counted
from perfmon.sources.pollers import Area
from perfmon.viewmodel import SourceStatus, value

from ..rows import Words, wrapped
from .hosts import process_columns
from .sections import (
    EMPTY_VIEWS,
    Key,
    Section,
    below_hosts,
    folded_sections,
    gpu_sections,
    host_sections,
    poller_sections,
    process_sections,
    queue_sections,
    reasons,
    troubled,
    users_of,
)
from .table import Column, RenderContext, Thing, aligned, chosen, detail_lines, heading, row

# --- Lines of the hosts pane: the selected view, or the most important items that fit ---

VIEWS = ("auto", "gpus", "hosts", "queues", "sources")
_ORDERS = {
    "busiest first": {
        Area.GPU: "util_pct", Area.HOST: "cpu_pct", Area.DISK: "busy_pct", Area.NIC: "rx_mb_s", Area.PROCESS: "cpu_pct",
        Area.QUEUE: "running",
    },
    "most memory first": {
        Area.GPU: "mem_used_mb", Area.HOST: "mem_used_mb", Area.DISK: "used_pct", Area.PROCESS: "rss_mb",
        Area.QUEUE: "kv_usage_pct",
    },
}  # fmt: skip
"""By order: the value of each kind of thing that decides."""
ORDERS = ("", *_ORDERS)
"""Orders of the rows of a table: "" is by host and name."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the pane."""

    draw: Callable[[], Words]
    key: Key | None = None
    """Its item, if the cursor can be on it."""
    source: SourceStatus | None = None
    foreign: bool = False
    """Names in it are not plain ASCII."""


@dataclass(frozen=True, slots=True)
class View:
    """View and available room."""

    name: str
    """One of VIEWS."""
    width: int
    room: int
    """Lines in view."""
    opened: Collection[Key] = ()
    """Things of which every value is shown."""
    processes: bool = False
    everything: bool = False
    """All of it, with headings, however long that is."""
    order: str = ""
    """One of ORDERS."""


LogRow = Callable[[SourceStatus], Words]


def lines_of(look: RenderContext, view: View, sources: Sequence[SourceStatus], log_row: LogRow) -> list[Line]:
    """The lines; `log_row` draws a log."""
    match view.name:
        case "auto":
            return _auto(look, view, sources, log_row)
        case "sources":
            return _sources(look, view, sources, log_row)
        case "gpus":
            more = process_sections(look) if view.everything and not view.processes else []
            sections = [*gpu_sections(look), *more]
        case "hosts":
            sections = [*host_sections(look), *below_hosts(look)]
        case _:
            sections = queue_sections(look)
    return _titled(look, view, sections) or _empty(look, view)


# --- views ------------------------------------------------------------------------------------------------------------
def _sources(look: RenderContext, view: View, sources: Sequence[SourceStatus], log_row: LogRow) -> list[Line]:
    pollers = poller_sections(look)
    headed = bool(pollers) and (view.everything or view.room > len(sources) + 2 + len(pollers[0].things))
    lines = _logs(sources, log_row, heading_at=view.width if headed else None)
    return lines + _listed(look, view, pollers, headed=headed)


def _auto(look: RenderContext, view: View, sources: Sequence[SourceStatus], log_row: LogRow) -> list[Line]:
    """The first of several plans that fits; where none does, the shortest one. Logs have the room that is left."""
    gpus, hosts, queues = gpu_sections(look), host_sections(look), queue_sections(look)
    pollers = poller_sections(look, all_of_them=False)
    if not (gpus or hosts or queues or pollers):
        return _logs(sources, log_row)
    if view.everything:
        whole = [*gpus, *hosts, *below_hosts(look), *queue_sections(look)]
        lines = _listed(look, view, [*whole, *poller_sections(look)], headed=True)
        return lines + _logs(sources, log_row, heading_at=view.width)
    every, pressing = [*gpus, *hosts, *queues, *pollers], [*queue_sections(look, all_of_them=False), *pollers]
    sick = troubled(sources)
    plans: tuple[Callable[[], _Plan], ...] = (
        lambda: _Plan(every, sources, headed=True),
        lambda: _Plan(every, sources),
        lambda: _Plan(every, sick),
        lambda: _Plan([*gpus, *hosts, *pressing], sick),
        lambda: _Plan([*folded_sections(look), *hosts, *pressing], sick),
        lambda: _Plan([*folded_sections(look, whole=True), *pressing], sick),
    )
    plan = next((made for make in plans if (made := make()).count <= view.room), plans[-1]())
    lines = _listed(look, view, plan.sections, headed=plan.headed)
    shown = {id(one) for one in plan.sources}
    rest = [one for one in sources if id(one) not in shown]
    spare = view.room - plan.count
    shown |= {id(one) for one in (rest if len(rest) <= spare else rest[: max(0, spare - 1)])}
    lines += _logs([one for one in sources if id(one) in shown], log_row, view.width if plan.headed else None)
    hidden = len(sources) - len(shown)
    if hidden and spare > 0:
        lines.append(Line(partial(_unchanged, ((f"   {counted(hidden, 'more log')}", "muted"),))))
    return lines


@dataclass(frozen=True, slots=True)
class _Plan:
    """Lines to show; opened items do not count, because they must not change the view."""

    sections: Sequence[Section]
    sources: Sequence[SourceStatus]
    headed: bool = False

    @property
    def count(self) -> int:
        """Lines."""
        rows = sum(len(section.things) for section in self.sections) + len(self.sources)
        return rows + self.headed * (len(self.sections) + bool(self.sources))


# --- lines ------------------------------------------------------------------------------------------------------------
def _titled(look: RenderContext, view: View, sections: Sequence[Section]) -> list[Line]:
    """With headings where several tables would be taken for one, or there is room for them."""
    plain = _listed(look, view, sections, headed=len(sections) > 1 or view.everything)
    if len(sections) == 1 and len(plain) < view.room:
        return _listed(look, view, sections, headed=True)
    return plain


def _listed(look: RenderContext, view: View, sections: Sequence[Section], *, headed: bool) -> list[Line]:
    sections = [_ordered(section, view.order) for section in sections]
    held = [[one for one in section.things if section.instead(look, one) is None] for section in sections]
    tables = [(section.columns(look, usual), usual) for section, usual in zip(sections, held, strict=True)]
    drawn = zip(sections, aligned(tables, view.width), strict=True)
    return [line for section, columns in drawn for line in _section(look, view, section, columns, headed)]


def _ordered(section: Section, order: str) -> Section:
    """Rows with the largest value first; those without it keep their order, last."""
    keys = _ORDERS.get(order)
    if keys is None:
        return section

    def rank(one: Any) -> float:
        thing = section.thing(one)
        key = None if thing is None else keys.get(thing[1].reading.area)
        known = None if thing is None or key is None else value(thing[1], key)
        return inf if known is None else -known

    return replace(section, things=sorted(section.things, key=rank))


def _section(
    look: RenderContext, view: View, section: Section, columns: Sequence[Column[Any]], headed: bool
) -> Iterator[Line]:
    if headed:
        yield Line(partial(heading, columns, section.title, view.width))
    for one in section.things:
        thing = section.thing(one)
        whole = section.instead(look, one)
        draw = partial(_row, look, columns, one, thing, view.width) if whole is None else partial(_unchanged, whole)
        yield Line(draw, _key(thing), foreign=_foreign(thing))
        if thing is not None and _key(thing) in view.opened:
            yield from (Line(draw, foreign=_foreign(thing)) for draw in detail_lines(look, thing, view.width))
        if thing is not None and view.processes and thing[1].reading.area is Area.GPU:
            yield from _users(look, view, thing)


def _users(look: RenderContext, view: View, gpu: Thing) -> Iterator[Line]:
    things = list(users_of(*gpu))
    columns = chosen(process_columns(look, things), things, view.width - 2) if things else []
    for thing in things:
        yield Line(partial(_indented, look, columns, thing, view.width), _key(thing), foreign=_foreign(thing))


def _row(look: RenderContext, columns: Sequence[Column[Any]], one: object, thing: Thing | None, width: int) -> Words:
    words = row(columns, one, width, look.skin.glyphs)
    return words if thing is None else look.dim(words, thing)


def _unchanged(words: Words) -> Words:
    return words


def _indented(look: RenderContext, columns: Sequence[Column[Any]], thing: Thing, width: int) -> Words:
    return (("  ", "text"), *_row(look, columns, thing, thing, max(1, width - 2)))


def _foreign(thing: Thing | None) -> bool:
    """Add host names to rows of several items."""
    if thing is None:
        return True
    reading = thing[1].reading
    return not "".join((thing[0].short, reading.name, *reading.words.values())).isascii()


def _key(thing: Thing | None) -> Key | None:
    return None if thing is None else (thing[1].host, thing[1].reading.area.value, thing[1].reading.name)


def _logs(sources: Sequence[SourceStatus], log_row: LogRow, heading_at: int | None = None) -> list[Line]:
    if not sources:
        return []
    head = [] if heading_at is None else [Line(partial(heading, (), "LOGS", heading_at))]
    return head + [Line(partial(log_row, one), ("", "log", f"{one.index} {one.name}"), one) for one in sources]


def _empty(look: RenderContext, view: View) -> list[Line]:
    """Reason for an empty view, and how to fill it."""
    nothing, fixes = EMPTY_VIEWS[view.name]
    lines = [(f" {look.skin.glyph('waiting')} {nothing}", "text")]
    texts = [(reason, "warning") for reason in reasons(view.name, look.around)[:3]] + [(fix, "muted") for fix in fixes]
    for text, style in texts:
        lines += [(f"   {part}", style) for part in wrapped(text, max(1, view.width - 4))]
    return [Line(partial(_unchanged, (line,))) for line in lines]
