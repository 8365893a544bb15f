"""GPUs, hosts and queues on the snapshot page, as they were at its moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from perfmon.diagnosis import Diagnosis
from perfmon.sources.pollers import Area
from perfmon.store import Seen
from perfmon.textgraphics import compact, limits, spark
from perfmon.viewmodel import (
    Host,
    HostOverview,
    MonitorState,
    age_words,
    clock_words,
    gib,
    percent,
    rate,
    share,
    size,
    size_of_bytes,
    state_of,
    throttle_words,
    uptime,
    value,
    verdict_words,
)

from .layout import code, markdown_table

_TREND = 24
_MOST = 100
_NONE = "–"
_ABOUT_HOSTS = (Area.HOST, Area.DISK, Area.NIC)
Thing = tuple[Host, Seen]
Cells = tuple[str, ...]


def machine_sections(snapshot: Diagnosis, picture: MonitorState | None) -> Iterator[list[str]]:
    """A section each for hosts, GPUs, queues, sockets and jobs: those that there are."""
    links = () if picture is None else picture.links
    end = snapshot.run.end if picture is None else max(snapshot.run.end, picture.asked)
    around = HostOverview.of(snapshot.seen, links, end)
    hosts = [host for host in around.hosts if host.link is not None or host.of(*_ABOUT_HOSTS)]
    yield from _section("Hosts", _HOSTS, [_host(around, host) for host in hosts])
    yield from _section("GPUs", _GPUS, [_gpu(around, thing) for thing in around.of_area(Area.GPU)])
    yield from _section("Queues", _QUEUES, [_queue(around, thing) for thing in around.of_area(Area.QUEUE)])
    yield from _section("Sockets", _SOCKETS, [_socket(around, thing) for thing in around.of_area(Area.SOCKET)])
    yield from _section("Jobs", _JOBS, [_job(around, thing) for thing in around.of_area(Area.JOB, Area.NODE)])


def _section(title: str, head: Sequence[str], rows: Sequence[Cells]) -> Iterator[list[str]]:
    """A table without the columns that nobody fills; nothing where there are no rows."""
    if not rows:
        return
    filled = [at for at in range(len(head)) if at == 0 or any(row[at] not in ("", _NONE) for row in rows)]
    shown = [tuple(row[at] or _NONE for at in filled) for row in rows[:_MOST]]
    right = frozenset(place for place, at in enumerate(filled) if head[at] in _RIGHT)
    more = ["", f"… and {len(rows) - _MOST} more."] if len(rows) > _MOST else []
    yield [f"## {title}", "", *markdown_table([head[at] for at in filled], shown, right), *more]


_HOSTS = ("host", "state", "clock", "cpu", "memory", "load", "io wait", "fullest disk", "network", "seen", "recent cpu")
_GPUS = (
    "GPU",
    "model",
    "use",
    "memory",
    "power",
    "temp",
    "throttled by",
    "given",
    "processes",
    "seen",
    "recent utilisation",
)
_QUEUES = (
    "queue",
    "kind",
    "running",
    "waiting",
    "cache",
    "tokens/s",
    "depth",
    "fill",
    "put/s",
    "get/s",
    "seen",
    "lately",
)
_SOCKETS = ("port", "verdict", "rate", "unread", "unsent", "busy", "seen", "recent rate")
_JOBS = ("job", "state", "up", "nodes", "title", "reason", "seen")
_RIGHT = frozenset({
    "cpu", "memory", "load", "io wait", "network", "seen", "use", "power", "temp", "running", "waiting", "cache",
    "tokens/s", "depth", "fill", "put/s", "get/s", "rate", "unread", "unsent", "busy", "up", "nodes",
})  # fmt: skip


def _name(around: HostOverview, thing: Thing) -> str:
    return f"{thing[0].short}:{thing[1].reading.name}" if around.several else thing[1].reading.name


def _age(around: HostOverview, seen: Seen) -> str:
    return f"{age_words(around.age_s(seen))} ago"


def _trend(seen: Seen | None, key: str, high: float | None = None) -> str:
    values = () if seen is None else seen.history.get(key, ())[-_TREND:]
    low, top = (0.0, high) if high is not None else limits(values)
    return code(spark(values, low, top))


def _told(seen: Seen, key: str, say: Callable[[float], str]) -> str:
    known = value(seen, key)
    return "" if known is None else say(known)


# --- rows -------------------------------------------------------------------------------------------------------------
def _host(around: HostOverview, host: Host) -> Cells:
    whole, link = host.whole, host.link
    state, clock = ("", "") if link is None else (state_of(link)[1], clock_words(link))
    figures: Cells = ("",) * 4
    if whole is not None:
        used, total = value(whole, "mem_used_mb"), value(whole, "mem_total_mb")
        part = share(used, total)
        memory = f"{percent(100 * part)} of {gib(total)} GiB" if part is not None else ""
        figures = (
            percent(value(whole, "cpu_pct")), memory, _told(whole, "load1", "{:.1f}".format),
            percent(value(whole, "iowait_pct")),
        )  # fmt: skip
    newest = max(host.of(*_ABOUT_HOSTS), key=lambda seen: seen.at, default=None)
    seen = "" if newest is None else _age(around, newest)
    return (host.name, state, clock, *figures, _disk(host), _network(host), seen, _trend(whole, "cpu_pct", 100.0))


def _disk(host: Host) -> str:
    disks = host.of(Area.DISK)
    fullest = max(disks, key=lambda disk: value(disk, "used_pct") or 0.0, default=None)
    if fullest is None:
        return ""
    free = size(value(fullest, "free_gb"))
    return f"{fullest.reading.name} {percent(value(fullest, 'used_pct'))}{f', {free} free' if free else ''}"


def _network(host: Host) -> str:
    sums = [
        sum(told for nic in host.of(Area.NIC) if (told := value(nic, key)) is not None)
        for key in ("rx_mb_s", "tx_mb_s")
    ]
    return f"in {rate(sums[0])}, out {rate(sums[1])}" if host.of(Area.NIC) else ""


def _gpu(around: HostOverview, thing: Thing) -> Cells:
    host, seen = thing
    reading = seen.reading
    used, total = gib(value(seen, "mem_used_mb")), gib(value(seen, "mem_total_mb"))
    drawn, limit = value(seen, "power_w"), value(seen, "power_limit_w")
    names = {reading.name, reading.words.get("uuid", reading.name)}
    users = [one.reading for one in host.of(Area.PROCESS) if names & set(one.reading.words.get("gpu", "").split("+"))]
    return (
        _name(around, thing),
        reading.words.get("model", "").replace("_", " "),
        "lost" if reading.words.get("state") == "lost" else percent(value(seen, "util_pct")),
        f"{used} of {total} GiB" if total else "",
        "" if drawn is None else f"{drawn:.0f} of {limit:.0f} W" if limit else f"{drawn:.0f} W",
        _told(seen, "temp_c", "{:.0f} °C".format),
        throttle_words(reading),
        {"yes": "to the run", "no": "no"}.get(reading.words.get("mine", ""), "") if around.gpus_given else "",
        ", ".join(f"{one.words.get('command', '')} {one.name}".strip() for one in users[:4]),
        _age(around, seen),
        _trend(seen, "util_pct", 100.0),
    )


def _queue(around: HostOverview, thing: Thing) -> Cells:
    seen = thing[1]
    lately = "waiting" if value(seen, "waiting") is not None else "depth"
    depth, room = (_told(seen, key, compact) for key in ("depth", "capacity"))
    return (
        _name(around, thing),
        _kind(seen),
        _told(seen, "running", compact),
        _told(seen, "waiting", compact),
        percent(value(seen, "kv_usage_pct")),
        _told(seen, "gen_tps", compact),
        f"{depth} of {room}" if room else depth,
        percent(value(seen, "fill_pct")),
        _told(seen, "put_per_s", compact),
        _told(seen, "get_per_s", compact),
        _age(around, seen),
        _trend(seen, lately),
    )


def _kind(seen: Seen) -> str:
    """And why it does not answer, where it says so."""
    words = seen.reading.words
    return ": ".join(word.replace("_", " ") for word in (words.get("kind", ""), words.get("why", "")) if word)


def _socket(around: HostOverview, thing: Thing) -> Cells:
    seen = thing[1]
    return (
        _name(around, thing),
        verdict_words(seen.reading),
        rate(value(seen, "rate_mb_s")),
        size_of_bytes(value(seen, "recv_q_bytes")),
        size_of_bytes(value(seen, "send_q_bytes")),
        percent(value(seen, "busy_pct")),
        _age(around, seen),
        _trend(seen, "rate_mb_s"),
    )


def _job(around: HostOverview, thing: Thing) -> Cells:
    seen = thing[1]
    words = seen.reading.words
    reason = words.get("reason", "")
    return (
        f"{seen.reading.area.value} {seen.reading.name}",
        words.get("state", "").lower(),
        uptime(value(seen, "uptime_s")),
        _told(seen, "nodes", "{:.0f}".format),
        words.get("title", ""),
        "" if reason.lower() == "none" else reason,
        _age(around, seen),
    )
