"""The title of the pane of machines: how many there are of each kind, and the keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from perfmon.picture import Picture
from perfmon.sources.polls.reading import Area
from perfmon.surroundings.amounts import percent, value

from .look import Look

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
    return (
        "M next view  i processes  Enter all values"
        if width >= 110
        else "M view  i processes  Enter values"
        if width >= 90
        else "M view"
        if width >= 50
        else ""
    )


def summary_of(look: Look | None, view: str, logs: Sequence[str], width: int) -> str:
    """Counts, of one kind or all; the last parts are dropped first if room is short."""
    if look is None or not look.any:
        return " · ".join(logs) if view in ("auto", "sources") else ""
    told = [*_machines(look), *(logs if view in ("auto", "sources") else ())]
    if view == "sources":
        told = [*logs, *_polls(look)]
    while len(told) > 1 and len(" · ".join(told)) > max(8, width - 22 - len(keys_of(True, width))):
        told.pop()
    return " · ".join(told)


def lines_wanted(picture: Picture) -> int:
    """Number of lines without headings, to distribute the room."""
    counts = Counter(seen.reading.area for seen in picture.seen if seen.reading.area in _LISTED)
    return sum(counts.values()) + len(picture.sources) + max(0, len(picture.links) - counts[Area.HOST])


def _machines(look: Look) -> list[str]:
    gpus = [seen for _, seen in look.around.of_area(Area.GPU)]
    used = [one for seen in gpus if (one := value(seen, "util_pct")) is not None and not look.around.stale(seen)]
    busy = f" {percent(sum(used) / len(used))}" if used else ""
    hosts = sum(host.told for host in look.around.hosts)
    queues = sum(1 for _ in look.around.of_area(Area.QUEUE))
    told = [f"{counted(len(gpus), 'GPU')}{busy}"] if gpus else []
    told += [counted(hosts, "host")] if hosts else []
    return [*told, *([counted(queues, "queue")] if queues else [])]


def _polls(look: Look) -> list[str]:
    count = sum(1 for _ in look.around.of_area(Area.POLLER))
    return [counted(count, "poll")] if count else []


def counted(count: int, what: str) -> str:
    """`1 host`, `2 hosts`."""
    return f"{count} {what}{'s' * (count != 1)}"
