"""GPUs, hosts and queues in the `--json` document: numbers as numbers, by names that say their unit."""

from __future__ import annotations

from typing import Any

from perfmon.machines import Seen
from perfmon.snapshot import Snapshot
from perfmon.sources.polls.reading import Area
from perfmon.surroundings import Host, Surroundings

_BELOW = {Area.DISK: "disks", Area.NIC: "interfaces", Area.SOCKET: "sockets", Area.PROCESS: "processes"}
_QUEUES = (Area.QUEUE, Area.JOB, Area.NODE, Area.VALUE)


def machines_document(snapshot: Snapshot) -> dict[str, Any]:
    """`gpus`, `hosts` and `queues`: a list each, and only those that were observed.

    Every item has `host`, `name` and `age_s`, its age at the end of the run; then what was polled, under the names of
    `sources.polls.reading.Area`. What is not known is not there.
    """
    around = Surroundings.of(snapshot.seen, (), snapshot.run.end)
    told = {
        "gpus": [_item(around, seen) for _, seen in around.of_area(Area.GPU)],
        "hosts": [_host(around, host) for host in around.hosts if host.of(Area.HOST, *_BELOW)],
        "queues": [_item(around, seen, kind=True) for _, seen in around.of_area(*_QUEUES)],
    }
    return {name: items for name, items in told.items() if items}


def _item(around: Surroundings, seen: Seen, *, kind: bool = False) -> dict[str, Any]:
    reading = seen.reading
    area = {"area": reading.area.value} if kind else {}
    head = {"host": seen.host, "name": reading.name, **area, "age_s": round(around.age_s(seen), 3)}
    return head | {key: told for key, told in (*reading.words.items(), *reading.values.items()) if key not in head}


def _host(around: Surroundings, host: Host) -> dict[str, Any]:
    made: dict[str, Any] = {"host": host.name, "name": "all"}
    if host.whole is not None:
        made = _item(around, host.whole)
    else:
        newest = max(host.of(*_BELOW), key=lambda seen: seen.at)
        made["age_s"] = round(around.age_s(newest), 3)
    below = {name: [_item(around, seen) for seen in host.of(area)] for area, name in _BELOW.items()}
    return made | {name: items for name, items in below.items() if items}
