"""Sections of the hosts pane: tables, summary, badges, what is missing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from perfmon.core import counted
from perfmon.sources.pollers import Area
from perfmon.sources.remote import Phase
from perfmon.store import Seen
from perfmon.textgraphics import cut
from perfmon.viewmodel import (
    Freshness,
    Host,
    HostOverview,
    MonitorState,
    SourceStatus,
    age_words,
    percent,
    state_of,
    value,
)

from ...theme import ThemeStyles
from ..rows import Run, Words, row_cells
from .columns import (
    Folded,
    depth_columns,
    engine_columns,
    folded_columns,
    gpu_columns,
    is_engine,
    job_columns,
    socket_columns,
    value_columns,
)
from .hosts import disk_columns, host_columns, nic_columns, poller_columns, process_columns, unreached
from .table import Column, RenderContext, Thing

# --- The parts of the pane: which things, in which table ---

Key = tuple[str, str, str]
"""Host, area and name: what the cursor stays on, and what is opened."""


@dataclass(frozen=True, slots=True)
class Section:
    """Things of one table. (`Any`: each table has things of its own kind.)"""

    title: str
    things: Sequence[Any]
    columns: Callable[[RenderContext, Sequence[Any]], list[Column[Any]]]
    thing: Callable[[Any], Thing | None]
    """The reading of a row, if it is a single one."""
    instead: Callable[[RenderContext, Any], Words | None] = lambda look, one: None
    """Row that replaces the row of the table."""


def _of_host(host: Host) -> Thing | None:
    return None if host.whole is None else (host, host.whole)


def _polled(look: RenderContext, title: str, columns: Callable[..., Any], *areas: Area) -> Section:
    """All things of some areas, one reading a row."""
    return Section(
        title, [thing for area in areas for thing in look.around.of_area(area)], columns, lambda thing: thing
    )


def gpu_sections(look: RenderContext) -> list[Section]:
    """Every GPU."""
    return _some(_polled(look, "GPUS", gpu_columns, Area.GPU))


def folded_sections(look: RenderContext, *, whole: bool = False) -> list[Section]:
    """GPUs by host; `whole`: with the machine's own figures, of all hosts."""
    rows = [(host, host.of(Area.GPU)) for host in look.around.hosts if host.of(Area.GPU) or (whole and host.is_known)]

    def columns(look: RenderContext, rows: Sequence[Folded]) -> list[Column[Folded]]:
        return folded_columns(look, rows, whole=whole)

    def instead(look: RenderContext, row: Folded) -> Words | None:
        return unreached(look, row[0])

    return _some(Section("GPUS", rows, columns, lambda row: _of_host(row[0]), instead))


def host_sections(look: RenderContext) -> list[Section]:
    """Every host as a row."""
    hosts = [host for host in look.around.hosts if host.is_known]
    own = [host for host in hosts if host.link is not None or host.whole is not None or host.of(Area.DISK, Area.NIC)]
    return _some(Section("HOSTS", own, host_columns, _of_host, unreached))


def below_hosts(look: RenderContext) -> list[Section]:
    """Disks and interfaces, and the processes of the run."""
    disks = _polled(look, "DISKS", disk_columns, Area.DISK)
    return _some(disks, _polled(look, "NETWORK", nic_columns, Area.NIC), *process_sections(look))


def process_sections(look: RenderContext) -> list[Section]:
    """The processes of the run."""
    return _some(_polled(look, "PROCESSES", process_columns, Area.PROCESS))


def queue_sections(look: RenderContext, *, all_of_them: bool = True) -> list[Section]:
    """Engines, queues, sockets and jobs; all, or without single values and what is well anyway."""
    queues = list(look.around.of_area(Area.QUEUE))
    sections = [
        Section("ENGINES", [thing for thing in queues if is_engine(thing[1])], engine_columns, lambda thing: thing),
        Section("QUEUES", [thing for thing in queues if not is_engine(thing[1])], depth_columns, lambda thing: thing),
        _polled(look, "SOCKETS", socket_columns, Area.SOCKET),
        _polled(look, "JOBS", job_columns, Area.JOB, Area.NODE),
        _polled(look, "VALUES", value_columns, *([Area.VALUE] if all_of_them else [])),
    ]
    if not all_of_them:
        sections = [replace(one, things=[thing for thing in one.things if _presses(look, thing)]) for one in sections]
    return _some(*sections)


def _presses(look: RenderContext, thing: Thing) -> bool:
    """Return true for what must be shown where there is little room: not for sockets and jobs that are well."""
    match thing[1].reading.area:
        case Area.SOCKET:
            return thing[1].reading.words.get("verdict") not in ("healthy", "idle", None)
        case Area.JOB | Area.NODE:
            return look.mark(thing)[1] != "good"
        case _:
            return True


def poller_sections(look: RenderContext, *, all_of_them: bool = True) -> list[Section]:
    """Pollers: all, or those without a response (missing devices are no problem)."""
    section = _polled(look, "POLLERS", poller_columns, Area.POLLER)
    things = [thing for thing in section.things if all_of_them or _troubled(look, thing[1])]
    return _some(replace(section, things=things))


def _troubled(look: RenderContext, seen: Seen) -> bool:
    state = seen.reading.words.get("state")
    return state in ("failed", "stale") or (state != "absent" and look.around.stale(seen))


def troubled(sources: Sequence[SourceStatus]) -> list[SourceStatus]:
    """Logs that are stale, or lost something."""
    return [source for source in sources if source.freshness is Freshness.STALE or source.errors]


def _some(*sections: Section) -> list[Section]:
    return [section for section in sections if section.things]


def users_of(host: Host, gpu: Seen) -> Iterator[Thing]:
    """The processes of a GPU."""
    return ((host, process) for process in host.users(gpu))


# --- The title of the pane of machines: how many there are of each kind, and the keys ---

TITLES: Mapping[str, str] = {
    "auto": "HOSTS/GPUS",
    "gpus": "GPUS",
    "hosts": "HOSTS",
    "queues": "QUEUES",
    "sources": "SOURCES",
}
_LISTED = (Area.GPU, Area.HOST, Area.QUEUE, Area.SOCKET, Area.JOB, Area.NODE)


def keys_of(machines: bool, width: int) -> str:
    """The keys that there is room to name."""
    if not machines:
        return "Enter doctor" if width >= 60 else ""
    long, short = "M next view  i processes  Enter all values", "M view  i processes  Enter values"
    return long if width >= 110 else short if width >= 90 else "M view" if width >= 50 else ""


def summary_of(look: RenderContext | None, view: str, logs: Sequence[str], width: int) -> str:
    """Counts, of one kind or all; the last parts are dropped first if room is short."""
    known = look is not None and look.any
    taken = len(keys_of(known, width)) + (22 if known else 16)
    if look is None or not known:
        parts = list(logs) if view in ("auto", "sources") else []
    elif view == "sources":
        pollers = sum(1 for _ in look.around.of_area(Area.POLLER))
        parts = [*logs, *([counted(pollers, "poller")] if pollers else [])]
    else:
        parts = [*_machines(look), *(logs if view == "auto" else ())]
    while len(parts) > 1 and len(" · ".join(parts)) > max(8, width - taken):
        parts.pop()
    return " · ".join(parts)


def lines_wanted(picture: MonitorState) -> int:
    """Number of lines without headings, to distribute the room."""
    counts = Counter(seen.reading.area for seen in picture.seen if seen.reading.area in _LISTED)
    return sum(counts.values()) + len(picture.sources) + max(0, len(picture.links) - counts[Area.HOST])


def _machines(look: RenderContext) -> list[str]:
    gpus = [seen for _, seen in look.around.of_area(Area.GPU)]
    used = [one for seen in gpus if (one := value(seen, "util_pct")) is not None and not look.around.stale(seen)]
    busy = f" {percent(sum(used) / len(used))}" if used else ""
    hosts = sum(host.is_known for host in look.around.hosts)
    queues = sum(1 for _ in look.around.of_area(Area.QUEUE))
    counts = ((len(gpus), "GPU", busy), (hosts, "host", ""), (queues, "queue", ""))
    return [f"{counted(count, what)}{more}" for count, what, more in counts if count]


# --- Texts of empty views: the reason, and how to fill them ---

EMPTY_VIEWS: Mapping[str, tuple[str, Sequence[str]]] = {
    "gpus": (
        "no GPU is monitored",
        (
            "Add the source gpu, as in: perfmon logs/ gpu. It polls NVML; over ssh nvidia-smi or amd-smi.",
            "perfmon doctor shows what is missing on this machine.",
        ),
    ),
    "hosts": (
        "no host is monitored",
        (
            "Add the source host, as in: perfmon logs/ host. For remote hosts: perfmon ssh USER@HOST.",
            "It reports CPU, memory, disks, network, and the processes of the run.",
        ),
    ),
    "queues": (
        "no queue is monitored",
        (
            "Add an engine: vllm=http://HOST:8000, sglang=URL or prometheus=URL.",
            "Or ray, slurm, net:PORT for the sockets of a port, command:'COMMAND' for a custom value.",
        ),
    ),
}
"""Of each view: that there is nothing, in a few words, and instructions."""
_POLLERS = {"gpu": "gpus", "host": "hosts", "processes": "hosts", "disks": "hosts"}
"""The view that shows what the pollers of a kind report; those of any other kind report queues."""


def reasons(view: str, around: HostOverview) -> list[str]:
    """Errors of the pollers that would fill a view."""
    return [
        f"{host.short}: {seen.reading.name}: {why.replace('_', ' ')}"
        for host, seen in around.of_area(Area.POLLER)
        if (why := seen.reading.words.get("why")) and _POLLERS.get(_kind(seen.reading.name), "queues") == view
    ]


def _kind(poller: str) -> str:
    """`vllm` of `vllm http://gpu-1:8000` and, as it is recorded, of `vllm_http://gpu-1:8000`; `net` of `net:12321`."""
    return "".join(takewhile(lambda char: char.isalpha() or char == "-", poller))


# --- Badges of hosts and pollers in the header ---

_NAME = 14
_AREAS = (Area.HOST, Area.GPU, Area.PROCESS, Area.QUEUE)
Badge = tuple[str, str, str]
"""Name of the host, name of the sign, and the text behind it."""


def host_runs(picture: MonitorState, room: int, skin: ThemeStyles) -> list[Run]:
    """`a100-0 ✓ 0.3s  a100-1 ? 12 s`; how many, where there is no room for each.

    Nothing for this machine alone, nor where all is well and no room.
    """
    if not picture.links and len({seen.host for seen in picture.seen}) < 2:
        return []
    around = HostOverview.at(picture)
    badges = [_badge(around, host) for host in around.hosts if host.is_known]
    if not badges or (not picture.links and len(badges) < 2):
        return []
    each = [run for at, badge in enumerate(badges) for run in _runs(badge, skin, first=not at)]
    forms = (each, _counted(badges, skin, " not live"), _counted(badges, skin, ""))
    fitting = next((runs for runs in forms if row_cells(runs) <= room), None)
    well = all(sign == "good" for _, sign, _ in badges)
    return fitting if fitting is not None else [] if well else forms[-1]


def _badge(around: HostOverview, host: Host) -> Badge:
    name = cut(host.short, _NAME)
    if host.link is not None:
        sign, words = state_of(host.link)
        if host.link.phase is Phase.LIVE:
            words = "" if host.link.age_s is None else f"{host.link.age_s:.1f}s"
        elif host.link.phase is Phase.STALE and host.link.age_s is not None:
            words = age_words(host.link.age_s)
        return name, sign, words
    newest = max(host.of(*_AREAS), key=lambda seen: seen.at, default=None)
    if newest is None or not around.stale(newest):
        return name, "good", ""
    return name, "stale", age_words(around.age_s(newest))


def _runs(badge: Badge, skin: ThemeStyles, *, first: bool) -> list[Run]:
    name, sign, words = badge
    style = skin.style("warning" if sign == "lagging" else sign)
    head = [(f"{'' if first else '  '}{name} ", skin.style("text")), (skin.glyph(sign), style)]
    if sign == "good":
        return [*head, (words, skin.style("faint"))]
    return [*head, (f" {words}" if words else "", style)]


def _counted(badges: list[Badge], skin: ThemeStyles, what: str) -> list[Run]:
    """`3 hosts ✓`, `3 hosts ✗ 2 not live`, with the sign of the worst of them."""
    sick = [badge for badge in badges if badge[1] != "good"]
    runs: list[Run] = [(f"{counted(len(badges), 'host')} ", skin.style("text"))]
    if not sick:
        return [*runs, (skin.glyph("good"), skin.style("good"))]
    worst = max(sick, key=lambda badge: ("lagging", "stale", "critical").index(badge[1]))
    style = skin.style("warning" if worst[1] == "lagging" else worst[1])
    return [*runs, (f"{skin.glyph(worst[1])} {len(sick)}{what}", style)]


def polls_text(picture: MonitorState) -> str:
    """`3 polls`, "" where nothing is polled."""
    count = sum(
        seen.reading.area is Area.POLLER and seen.reading.words.get("state") != "absent" for seen in picture.seen
    )
    return counted(count, "poller") if count else ""
