"""Parts of reports: spans and weight updates as text; GPUs, hosts and queues at the moment of a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from perfmon.core import format_seconds
from perfmon.diagnosis import Diagnosis, TimelineRow
from perfmon.sources.pollers import Area
from perfmon.store import Seen
from perfmon.textgraphics import Leg, axis, compact, compact_seconds, fit, gantt, limits, spark, ticks
from perfmon.viewmodel import (
    Bar,
    Host,
    HostOverview,
    Level,
    MonitorState,
    age_words,
    clock_words,
    gib,
    percent,
    rate,
    size,
    size_of_bytes,
    state_of,
    throttle_words,
    uptime,
    value,
    verdict_words,
)

from .layout import amount, code, fenced, fields_text, one_line, section, table, table_section

BREAKDOWN = ("wall_ms", "queue_ms", "rpc_ms")
_SHOWN_OVERLAPS = 8


def timeline_text(snapshot: Diagnosis) -> Iterator[str]:
    """Lines in time order: start, end, duration in seconds, kind and key, fields; overlaps follow, marked `<->`."""
    yield "# start_s     end_s     dur_s    what; <-> marks overlapping spans and updates"
    if not snapshot.timeline:
        yield "no spans were observed"
    for row in sorted(snapshot.timeline, key=lambda row: (row.start_s, row.end_s)):
        duration = row.end_s - row.start_s
        name = f"{one_line(row.kind, 60)} {one_line(row.key, 120)}".rstrip()
        yield f"{row.start_s:9.3f} {row.end_s:9.3f} {duration:9.3f}  {name}  {fields_text(row.fields)}".rstrip()
        yield from (f"{'<->':>31} {one_line(other, 200)}" for other in row.overlaps[:_SHOWN_OVERLAPS])
        if len(row.overlaps) > _SHOWN_OVERLAPS:
            yield f"{'<->':>31} and {len(row.overlaps) - _SHOWN_OVERLAPS} more"


def slowest_text(snapshot: Diagnosis) -> Iterator[str]:
    """The ten slowest weight updates with their breakdown, overlaps and lines."""
    if not snapshot.slowest:
        yield "no weight update was observed"
        return
    head = ("", "update", "at", *(name.removesuffix("_ms") for name in BREAKDOWN), "queue share")
    rows = [head, *(_update_row(at, row) for at, row in enumerate(snapshot.slowest, 1))]
    yield from table(rows, frozenset({1}), (3, 40, 12, 10, 10, 10, 12))
    for at, row in enumerate(snapshot.slowest, 1):
        yield from _slowest_detail(at, row)


def _update_row(at: int, row: TimelineRow) -> tuple[str, ...]:
    wall, queue, rpc = (_number(row, name) for name in BREAKDOWN)
    share = "–" if not wall or queue is None else f"{100 * queue / wall:.0f} %"
    shown = (amount(value, "ms") for value in (wall, queue, rpc))
    return (str(at), row.key, f"{row.start_s:.3f} s", *shown, share)


def _slowest_detail(at: int, row: TimelineRow) -> Iterator[str]:
    yield ""
    yield f"{at}. {one_line(row.key, 120)}  {fields_text(row.fields)}"
    yield from (f"   <-> {one_line(other, 200)}" for other in row.overlaps[:_SHOWN_OVERLAPS])
    yield from (f"   {one_line(item.source, 200)}:{item.line}  {one_line(item.text)}" for item in row.evidence)


def _number(row: TimelineRow, name: str) -> float | None:
    value = row.fields.get(name)
    return value if isinstance(value, float | int) else None


# --- Weight updates as text: each begins at zero, and shows how long it was queued and how long the engine took ---

UPDATE = "weight-update"
LEGEND = "○ sent   ░ queued   █ RPC   ● done   ▒ queue or network (not logged)   ▸ still open"
_LAST, _SLOWEST = 8, 5
_SAME_S = 1.0
_KEY, _AT, _WIDTH, _FIGURE = 12, 8, 40, 7


def waterfall_lines(snapshot: Diagnosis, picture: MonitorState | None) -> list[str]:
    """The last and the slowest weight updates; nothing where none was observed."""
    origin = snapshot.run.start
    bars = picture.board.bars(UPDATE) if picture else []
    bars = bars or [_bar(row, origin) for row in snapshot.timeline if row.kind == UPDATE]
    last = sorted(bars, key=lambda bar: bar.start)[-_LAST:]
    slowest = [_known(row, origin, bars) for row in snapshot.slowest[:_SLOWEST]]
    if not last and not slowest:
        return []
    lines = [LEGEND]
    if last:
        lines += ["", f"The last {len(last)}:" if len(last) > 1 else "The last one:", "", *_drawn(last, origin)]
    if slowest and slowest != last:
        title = f"The slowest {len(slowest)}:" if len(slowest) > 1 else "The slowest:"
        lines += ["", title, "", *_drawn(slowest, origin)]
    return section("Weight updates", lines)


def _known(row: TimelineRow, origin: float, bars: Sequence[Bar]) -> Bar:
    """The bar of an update, from the timeline if it is there: that knows what each line reports."""
    same = (bar for bar in bars if bar.key == row.key and abs(bar.start - origin - row.start_s) < _SAME_S)
    return next(same, None) or _bar(row, origin)


def _bar(row: TimelineRow, origin: float) -> Bar:
    """A bar from durations: the queue comes first, and what no line reports stays unknown."""
    values = {name: value for name in BREAKDOWN if (value := _number(row, name)) is not None}
    start, end = origin + row.start_s, origin + row.end_s
    queue, rpc = values.get("queue_ms"), values.get("rpc_ms")
    if queue is None:
        split, before, after = end if rpc is None else max(start, end - rpc / 1000.0), "unknown", "rpc"
    else:
        split, before, after = min(end, start + queue / 1000.0), "queue", "unknown" if rpc is None else "rpc"
    return Bar(
        UPDATE, row.key, start, end, False, Level.NONE, (Leg(before, start, split), Leg(after, split, end)), values
    )


def _drawn(bars: Sequence[Bar], origin: float) -> list[str]:
    """Bars that all begin at zero, in a code block."""
    longest = max(bar.end - bar.start for bar in bars)
    scale = axis(ticks(0.0, longest, _WIDTH, origin=0.0, zero="0", plus=""), _WIDTH)
    names = "".join(fit(name, _FIGURE + 1, right=True) for name in ("wall", "queue", "rpc"))
    lines = [f"{fit('update', _KEY)} {fit('at', _AT, right=True)}  {scale} {names}"]
    for bar in bars:
        wall = bar.end - bar.start
        legs = [Leg(leg.kind, leg.start - bar.start, leg.end - bar.start) for leg in bar.legs if leg.end > leg.start]
        if legs and not bar.open:
            legs.append(Leg("done", wall, wall))
        cells = "".join(cell for cell, _ in gantt(legs, 0.0, longest, _WIDTH, still_open=bar.open))
        times = (1000.0 * wall, bar.values.get("queue_ms"), bar.values.get("rpc_ms"))
        figures = "".join(f" {_milliseconds(value)}" for value in times)
        start = fit(format_seconds(bar.start - origin), _AT, right=True)
        lines.append(f"{fit(bar.key or '–', _KEY)} {start}  {cells} {figures}".rstrip())
    return fenced(lines)


def _milliseconds(ms: float | None) -> str:
    return fit("–" if ms is None else compact_seconds(ms / 1000.0, _FIGURE), _FIGURE, right=True)


# --- GPUs, hosts and queues as they were at the moment of a snapshot: on its page, and in the `--json` document ---

_TREND = 24
_MOST = 100
_NONE = "–"
_ABOUT_HOSTS = (Area.HOST, Area.DISK, Area.NIC)
Thing = tuple[Host, Seen]
Cells = dict[str, str]


def machine_sections(snapshot: Diagnosis, picture: MonitorState | None) -> Iterator[list[str]]:
    """A section each for hosts, GPUs, queues, sockets, jobs and pollers without an answer: those that there are."""
    links = () if picture is None else picture.links
    end = snapshot.run.end if picture is None else max(snapshot.run.end, picture.present)
    around = HostOverview.of(snapshot.seen, links, end)
    hosts = [host for host in around.hosts if host.link is not None or host.of(*_ABOUT_HOSTS)]
    yield _section("Hosts", [_host(around, host) for host in hosts])
    yield _section("GPUs", [_gpu(around, thing) for thing in around.of_area(Area.GPU)])
    yield _section("Queues", [_queue(around, thing) for thing in around.of_area(Area.QUEUE)])
    yield _section("Sockets", [_socket(around, thing) for thing in around.of_area(Area.SOCKET)])
    yield _section("Jobs", [_job(around, thing) for thing in around.of_area(Area.JOB, Area.NODE)])
    silent = [thing for thing in around.of_area(Area.POLLER) if thing[1].reading.words.get("why")]
    yield _section("Sources without an answer", [_poller(around, thing) for thing in silent])


def _section(title: str, rows: Sequence[Cells]) -> list[str]:
    """A table without the columns that have no values; nothing where there are no rows."""
    first, *others = rows[0] if rows else [""]
    head = [first, *(name for name in others if any(row[name] not in ("", _NONE) for row in rows))]
    right = [place for place, name in enumerate(head) if name in _RIGHT]
    return table_section(title, head, rows, lambda row: [row[name] or _NONE for name in head], _MOST, right)


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


def _figure(seen: Seen | None, key: str, text: Callable[[float], str]) -> str:
    known = None if seen is None else value(seen, key)
    return "" if known is None else text(known)


# --- rows -------------------------------------------------------------------------------------------------------------
def _host(around: HostOverview, host: Host) -> Cells:
    whole, link, part = host.whole, host.link, host.memory_pct
    newest = max(host.of(*_ABOUT_HOSTS), key=lambda seen: seen.at, default=None)
    return {
        "host": host.name,
        "state": "" if link is None else state_of(link)[1],
        "clock": "" if link is None else clock_words(link),
        "cpu": _figure(whole, "cpu_pct", percent),
        "memory": "" if part is None else f"{percent(part)} of {gib(host.figure('mem_total_mb'))} GiB",
        "load": _figure(whole, "load1", "{:.1f}".format),
        "io wait": _figure(whole, "iowait_pct", percent),
        "fullest disk": _disk(host),
        "network": _network(host),
        "seen": "" if newest is None else _age(around, newest),
        "recent cpu": _trend(whole, "cpu_pct", 100.0),
    }


def _disk(host: Host) -> str:
    disks = host.of(Area.DISK)
    fullest = max(disks, key=lambda disk: value(disk, "used_pct") or 0.0, default=None)
    if fullest is None:
        return ""
    free = size(value(fullest, "free_gb"))
    return f"{fullest.reading.name} {percent(value(fullest, 'used_pct'))}{f', {free} free' if free else ''}"


def _network(host: Host) -> str:
    received, sent = (host.total(Area.NIC, key) for key in ("rx_mb_s", "tx_mb_s"))
    return f"in {rate(received)}, out {rate(sent)}" if host.of(Area.NIC) else ""


def _gpu(around: HostOverview, thing: Thing) -> Cells:
    host, seen = thing
    reading = seen.reading
    used, total = gib(value(seen, "mem_used_mb")), gib(value(seen, "mem_total_mb"))
    drawn, limit = value(seen, "power_w"), value(seen, "power_limit_w")
    users = [one.reading for one in host.users(seen)]
    return {
        "GPU": _name(around, thing),
        "model": reading.words.get("model", "").replace("_", " "),
        "use": "lost" if reading.words.get("state") == "lost" else percent(value(seen, "util_pct")),
        "memory": f"{used} of {total} GiB" if total else "",
        "power": "" if drawn is None else f"{drawn:.0f} of {limit:.0f} W" if limit else f"{drawn:.0f} W",
        "temp": _figure(seen, "temp_c", "{:.0f} °C".format),
        "throttled by": throttle_words(reading),
        "given": {"yes": "to the run", "no": "no"}.get(reading.words.get("mine", ""), "") if around.gpus_given else "",
        "processes": ", ".join(f"{one.words.get('command', '')} {one.name}".strip() for one in users[:4]),
        "seen": _age(around, seen),
        "recent utilisation": _trend(seen, "util_pct", 100.0),
    }


def _queue(around: HostOverview, thing: Thing) -> Cells:
    seen = thing[1]
    trend = "waiting" if value(seen, "waiting") is not None else "depth"
    depth, capacity = (_figure(seen, key, compact) for key in ("depth", "capacity"))
    return {
        "queue": _name(around, thing),
        "kind": _kind(seen),
        "running": _figure(seen, "running", compact),
        "waiting": _figure(seen, "waiting", compact),
        "cache": percent(value(seen, "kv_usage_pct")),
        "tokens/s": _figure(seen, "gen_tps", compact),
        "depth": f"{depth} of {capacity}" if capacity else depth,
        "fill": percent(value(seen, "fill_pct")),
        "put/s": _figure(seen, "put_per_s", compact),
        "get/s": _figure(seen, "get_per_s", compact),
        "seen": _age(around, seen),
        "recent": _trend(seen, trend),
    }


def _kind(seen: Seen) -> str:
    """The kind of a queue, and the reason why it does not answer."""
    words = seen.reading.words
    return ": ".join(word.replace("_", " ") for word in (words.get("kind", ""), words.get("why", "")) if word)


def _socket(around: HostOverview, thing: Thing) -> Cells:
    seen = thing[1]
    return {
        "port": _name(around, thing),
        "verdict": verdict_words(seen.reading),
        "rate": rate(value(seen, "rate_mb_s")),
        "unread": size_of_bytes(value(seen, "recv_q_bytes")),
        "unsent": size_of_bytes(value(seen, "send_q_bytes")),
        "busy": percent(value(seen, "busy_pct")),
        "seen": _age(around, seen),
        "recent rate": _trend(seen, "rate_mb_s"),
    }


def _job(around: HostOverview, thing: Thing) -> Cells:
    seen = thing[1]
    words = seen.reading.words
    reason = words.get("reason", "")
    return {
        "job": f"{seen.reading.area.value} {seen.reading.name}",
        "state": words.get("state", "").lower(),
        "up": uptime(value(seen, "uptime_s")),
        "nodes": _figure(seen, "nodes", "{:.0f}".format),
        "title": words.get("title", ""),
        "reason": "" if reason.lower() == "none" else reason,
        "seen": _age(around, seen),
    }


def _poller(around: HostOverview, thing: Thing) -> Cells:
    words = thing[1].reading.words
    return {
        "source": _name(around, thing),
        "state": words.get("state", ""),
        "reason": words["why"].replace("_", " "),
        "seen": _age(around, thing[1]),
    }


# --- GPUs, hosts and queues in the `--json` document: numbers as numbers, by names with their unit ---

_BELOW = {Area.DISK: "disks", Area.NIC: "interfaces", Area.SOCKET: "sockets", Area.PROCESS: "processes"}
_QUEUES = (Area.QUEUE, Area.JOB, Area.NODE, Area.VALUE)


def machines_document(snapshot: Diagnosis) -> dict[str, Any]:
    """`gpus`, `hosts`, `queues` and `pollers` that get no answer: a list each, and only those that were observed.

    Every item has `host`, `name` and `age_s`, its age at the end of the run; then what was polled, under the names of
    `sources.pollers.Area`. What is not known is not there.
    """
    around = HostOverview.of(snapshot.seen, (), snapshot.run.end)
    lists = {
        "gpus": [_machine_object(around, seen) for _, seen in around.of_area(Area.GPU)],
        "hosts": [_host_object(around, host) for host in around.hosts if host.of(Area.HOST, *_BELOW)],
        "queues": [_machine_object(around, seen, kind=True) for _, seen in around.of_area(*_QUEUES)],
        "pollers": [
            _machine_object(around, one) for _, one in around.of_area(Area.POLLER) if "why" in one.reading.words
        ],
    }
    return {name: items for name, items in lists.items() if items}


def _machine_object(around: HostOverview, seen: Seen, *, kind: bool = False) -> dict[str, Any]:
    reading = seen.reading
    area = {"area": reading.area.value} if kind else {}
    head = {"host": seen.host, "name": reading.name, **area, "age_s": round(around.age_s(seen), 3)}
    return head | {key: value for key, value in (*reading.words.items(), *reading.values.items()) if key not in head}


def _host_object(around: HostOverview, host: Host) -> dict[str, Any]:
    made: dict[str, Any] = {"host": host.name, "name": "all"}
    if host.whole is not None:
        made = _machine_object(around, host.whole)
    else:
        newest = max(host.of(*_BELOW), key=lambda seen: seen.at)
        made["age_s"] = round(around.age_s(newest), 3)
    below = {name: [_machine_object(around, seen) for seen in host.of(area)] for area, name in _BELOW.items()}
    return made | {name: items for name, items in below.items() if items}
