"""The parts of the pane: which things, in which table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from perfmon.machines import Seen
from perfmon.picture import Freshness, SourceNow
from perfmon.sources.polls.reading import Area
from perfmon.surroundings import Host

from ..prose import Words
from .gpus import Folded, folded_columns, gpu_columns, processes_of
from .hosts import disk_columns, host_columns, nic_columns, poller_columns, process_columns, unreached
from .look import Look, Thing
from .queues import depth_columns, engine_columns, is_engine, job_columns, socket_columns, value_columns
from .table import Column

Key = tuple[str, str, str]
"""Host, area and name: what the cursor stays on, and what is opened."""
_SICK = (Freshness.STALE,)


@dataclass(frozen=True, slots=True)
class Section:
    """Things of one table. (`Any`: each table has things of its own kind.)"""

    title: str
    things: Sequence[Any]
    columns: Callable[[Look, Sequence[Any]], list[Column[Any]]]
    thing: Callable[[Any], Thing | None]
    """The reading of a row, if it is a single one."""
    instead: Callable[[Look, Any], Words | None] = lambda look, one: None
    """Row that replaces the row of the table."""


def _single(thing: Thing) -> Thing:
    return thing


def _of_host(host: Host) -> Thing | None:
    return None if host.whole is None else (host, host.whole)


def _polled(look: Look, title: str, columns: Callable[..., Any], things: Sequence[Thing]) -> Section:
    return Section(title, things, columns, _single)


def gpu_sections(look: Look) -> list[Section]:
    """Every GPU."""
    return _some([_polled(look, "GPUS", gpu_columns, list(look.around.of_area(Area.GPU)))])


def folded_sections(look: Look, *, whole: bool = False) -> list[Section]:
    """GPUs by host; `whole`: with the machine's own figures, of all hosts."""
    rows = [(host, host.of(Area.GPU)) for host in look.around.hosts if host.of(Area.GPU) or (whole and host.told)]

    def columns(look: Look, rows: Sequence[Folded]) -> list[Column[Folded]]:
        return folded_columns(look, rows, whole=whole)

    def instead(look: Look, row: Folded) -> Words | None:
        return unreached(look, row[0])

    return _some([Section("GPUS", rows, columns, lambda row: _of_host(row[0]), instead)])


def host_sections(look: Look) -> list[Section]:
    """Every host as a row."""
    hosts = [host for host in look.around.hosts if host.told]
    own = [host for host in hosts if host.link is not None or host.whole is not None or host.of(Area.DISK, Area.NIC)]
    return _some([Section("HOSTS", own, host_columns, _of_host, unreached)])


def below_hosts(look: Look) -> list[Section]:
    """Disks and interfaces."""
    return _some(
        [
            _polled(look, "DISKS", disk_columns, list(look.around.of_area(Area.DISK))),
            _polled(look, "NETWORK", nic_columns, list(look.around.of_area(Area.NIC))),
        ]
    )


def process_sections(look: Look) -> list[Section]:
    """The processes of the run."""
    return _some([_polled(look, "PROCESSES", process_columns, list(look.around.of_area(Area.PROCESS)))])


def queue_sections(look: Look, *, all_of_them: bool = True) -> list[Section]:
    """Engines, queues, sockets and jobs; all, or without single values and what is well anyway."""
    queues = list(look.around.of_area(Area.QUEUE))
    sockets = list(look.around.of_area(Area.SOCKET))
    jobs = list(look.around.of_area(Area.JOB))
    nodes = list(look.around.of_area(Area.NODE))
    if not all_of_them:
        sockets = [thing for thing in sockets if thing[1].reading.words.get("verdict") not in ("healthy", "idle", None)]
        jobs, nodes = ([thing for thing in held if look.mark(thing)[1] != "good"] for held in (jobs, nodes))
    return _some([
        _polled(look, "ENGINES", engine_columns, [thing for thing in queues if is_engine(thing[1])]),
        _polled(look, "QUEUES", depth_columns, [thing for thing in queues if not is_engine(thing[1])]),
        _polled(look, "SOCKETS", socket_columns, sockets),
        _polled(look, "JOBS", job_columns, [*jobs, *nodes]),
        _polled(look, "VALUES", value_columns, list(look.around.of_area(Area.VALUE)) if all_of_them else []),
    ])  # fmt: skip


def poller_sections(look: Look, *, all_of_them: bool = True) -> list[Section]:
    """Pollers: all, or those without a response (missing devices are no problem)."""
    things = [thing for thing in look.around.of_area(Area.POLLER) if all_of_them or _troubled(look, thing[1])]
    return _some([_polled(look, "POLLS", poller_columns, things)])


def _troubled(look: Look, seen: Seen) -> bool:
    state = seen.reading.words.get("state")
    return state in ("failed", "stale") or (state != "absent" and look.around.stale(seen))


def troubled(sources: Sequence[SourceNow]) -> list[SourceNow]:
    """Logs that do not speak of the present, or lost something."""
    return [source for source in sources if source.freshness in _SICK or source.errors]


def _some(sections: Sequence[Section]) -> list[Section]:
    return [section for section in sections if section.things]


def users_of(host: Host, gpu: Seen) -> Iterator[Thing]:
    """The processes of a GPU."""
    return ((host, process) for process in processes_of(host, gpu))
