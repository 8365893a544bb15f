"""A run of logs as a trace in Chrome's format, for Perfetto: spans, counters, flows of weight updates and of items in
queues, findings.

Every log is a process, and every kind of span a thread of it; of spans that overlap there are several threads. Times
are microseconds since 1970 where the logs have dates, as in traces of PyTorch's profiler, so that both can be opened
together.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

from perfmon.core import InputError, Update, plain, replacing
from perfmon.diagnosis import Diagnosis
from perfmon.rules import View

_UPDATE, _PUSH = "weight-update", "push"
_MOMENT_US = 1000
"""Length of a slice at the end of another one, for an arrow that ends there."""
_FINDINGS = "findings (perfmon)"
_COUNTERS = 0
"""The thread of counters and steps."""
_TEXT = 200
_FIELDS = 24

Event = dict[str, Any]


def chrome_trace_events(snapshot: Diagnosis, view: View) -> Iterator[Event]:
    """The events of a run, those of a thread by start.

    Raises InputError for logs without timestamps: nothing in them can be placed.
    """
    if not view.timed:
        raise InputError("no log has timestamps, so nothing can be placed in a trace (add a time to the log format)")
    places = _Places({state.index: plain(state.spec, _TEXT) for state in view.store.sources})
    yield from _spans(view, places)
    yield from _queues(view, places)
    yield from _steps(view, places)
    yield from _counters(view, places)
    yield from _findings(snapshot, places)
    yield from places.names()


def save_chrome_trace(snapshot: Diagnosis, view: View, target: Path | None, output: IO[str]) -> int:
    """Write the trace to a file, packed if its name ends in .gz, or to `output`; return the number of events.

    Raises InputError where it cannot be written, or nothing can be placed; what was there before is then still there.
    """
    if target is None:
        return _write(snapshot, view, output)
    try:
        with ExitStack() as held:
            raw = held.enter_context(replacing(os.path.realpath(target), 0o666))
            if target.suffix != ".gz":
                text = _Utf8(raw)
                return _write(snapshot, view, text)
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed:
                return _write(snapshot, view, _Utf8(packed))
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror or error} (choose another place)") from None


class _Utf8:
    """Text to a binary file."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, text: str) -> None:
        self._file.write(text.encode())


def _write(snapshot: Diagnosis, view: View, output: Any) -> int:
    about = {"perfmon": snapshot.version, "time_base": snapshot.run.time_base.value}
    output.write(f'{{"schemaVersion": 1, "displayTimeUnit": "ms", "otherData": {json.dumps(about)}, "traceEvents": [')
    count = 0
    for event in chrome_trace_events(snapshot, view):
        output.write(f"{',' if count else ''}\n{json.dumps(event, allow_nan=False)}")
        count += 1
    output.write("\n]}\n")
    return count


@dataclass
class _Places:
    """Numbers of processes and threads, and their names."""

    logs: Mapping[int, str]
    threads: dict[tuple[int, str, int], int] = field(default_factory=dict)
    ends: dict[tuple[int, str, int], int] = field(default_factory=dict)
    pushes: list[tuple[str, Event]] = field(default_factory=list)
    """Slices of items that were put into a queue, with the producer and its number of the item."""
    arrows: int = 0

    def pid(self, source: int) -> int:
        """The process of a log; that of findings is 1."""
        return source + 2

    def slice(self, source: int, kind: str, name: str, start: float, end: float, args: Mapping[str, object]) -> Event:
        """A slice on the first thread of its kind that is free; those of a kind come in order of their starts."""
        lane, at = 0, _us(start)
        until = max(_us(end), at + 1)  # an arrow binds to no slice without a length
        while self.ends.get((source, kind, lane), at) > at:
            lane += 1
        self.ends[source, kind, lane] = until
        number = self.threads.setdefault((source, kind, lane), len(self.threads) + 1)
        return {
            "ph": "X", "cat": "perfmon", "name": plain(name, _TEXT), "pid": self.pid(source), "tid": number,
            "ts": at, "dur": until - at, "args": dict(args),
        }  # fmt: skip

    def arrow(self, name: str, begin: tuple[Event, float], there: Event) -> Iterator[Event]:
        """From one slice, at these seconds or as near to them as lies inside of it, to the start of another.

        Perfetto lets arrows run from the slice that begins earlier, whatever the events are.
        """
        self.arrows += 1
        here, at = begin
        departs = max(here["ts"], min(_us(at), here["ts"] + here["dur"] - 1, there["ts"]))
        for phase, held, ts in (("s", here, departs), ("f", there, there["ts"])):
            event = {
                "ph": phase, "id": self.arrows, "cat": "perfmon", "name": name, "pid": held["pid"], "tid": held["tid"],
                "ts": ts,
            }  # fmt: skip
            yield event if phase == "s" else event | {"bp": "e"}

    def names(self) -> Iterator[Event]:
        """Events that name processes and threads."""
        for source in sorted({source for source, _, _ in self.threads} | set(self.logs)):
            name = self.logs.get(source, _FINDINGS)
            yield _meta("process_name", self.pid(source), 0, {"name": name})
            yield _meta("process_sort_index", self.pid(source), 0, {"sort_index": self.pid(source)})
            if source in self.logs:
                yield _meta("thread_name", self.pid(source), _COUNTERS, {"name": "steps"})
        for (source, kind, lane), number in self.threads.items():
            name = f"{kind} {lane + 1}" if lane else kind
            yield _meta("thread_name", self.pid(source), number, {"name": plain(name, _TEXT)})


def _meta(name: str, pid: int, tid: int, args: Mapping[str, object]) -> Event:
    return {"ph": "M", "name": name, "pid": pid, "tid": tid, "ts": 0, "args": args}


def _us(seconds: float) -> int:
    """Whole microseconds: a double holds no smaller parts of those since 1970, and slices must not overlap by them."""
    return round(seconds * 1e6)


def _end_of(held: Event, name: str, after: float) -> Event:
    """A slice within another, at its end, that begins behind a time where there is room."""
    until = held["ts"] + held["dur"]
    start = min(until - 1, max(held["ts"], _us(after) + 1, until - _MOMENT_US))
    return held | {"name": name, "ts": start, "dur": until - start, "args": {}}


def _spans(view: View, places: _Places) -> Iterator[Event]:
    for kind in sorted(view.span_kinds):
        if kind == _UPDATE:
            yield from _updates(view, places)
            continue
        for item in view.spans(kind):
            name = f"{kind} {item.key}" if item.key else kind
            args = {plain(key, 60): _value(value) for key, value in list(item.fields.items())[:_FIELDS]}
            args |= {key: value for key, value in item.values.items() if math.isfinite(value)}
            event = places.slice(item.source, kind, name, item.start, item.end, args)
            if kind == _PUSH:
                places.pushes.append((str(item.fields.get("producer", "")), event))
            yield event


def _value(value: object) -> object:
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return plain(str(value), _TEXT)


def _updates(view: View, places: _Places) -> Iterator[Event]:
    """The client's wait, the queue and the RPC, and arrows from the client to the server and back."""
    for item in view.spans(_UPDATE):
        update = item.span
        if not isinstance(update, Update):
            continue
        client = update.client if update.client is not None else item.source
        there = update.server if update.server is not None else client
        args = {key: value for key, value in item.values.items() if math.isfinite(value)} | {"trace": _value(item.key)}
        here = places.slice(client, _UPDATE, update.op, item.start, item.end, args)
        yield here
        if update.queue_ms is None or update.rpc_ms is None:
            continue
        called = item.start + max(0.0, update.queue_ms) / 1e3
        done = min(max(item.end, called), called + max(0.0, update.rpc_ms) / 1e3)
        if called > item.start:
            kind = "queue of weight updates"
            yield places.slice(there, kind, "queue", item.start, called, {"queue_ms": update.queue_ms})
        kind = "RPC of weight updates"
        call = places.slice(there, kind, f"RPC {update.op}", called, done, {"rpc_ms": update.rpc_ms})
        yield call
        yield from places.arrow("weight update sent", (here, item.start), call)
        yield (answer := _end_of(here, "answer", done))
        yield from places.arrow("weight update done", (call, done), answer)


# --- Queues: what was put in and taken out between two lines that count it, and the same items of both sides ---
@dataclass(frozen=True)
class _Count:
    """The count of one side up to a moment."""

    at: float
    first: int
    whole: int
    """The items of its slice, by their number among those of all processes of its side."""
    slice: Event


def _queues(view: View, places: _Places) -> Iterator[Event]:
    """Items of each queue, in the order of a queue: the nth that is put in is the nth that is taken out."""
    puts, gets = (_counters_of(view, metric) for metric in ("produced_batches", "consumed_batches"))
    # Without names of queues (PeakNet) producers and consumers are numbered, each for themselves.
    names = sorted(name for name in {group for _, group in puts} & {group for _, group in gets} if not name.isdigit())
    for name in [*names, ""]:
        own = [{key: held for key, held in side.items() if (key[1] in names) == bool(name)} for side in (puts, gets)]
        if name:
            own = [{key: held for key, held in side.items() if key[1] == name} for side in own]
        if not all(own):
            continue
        put, taken = list[_Count](), list[_Count]()
        pushed = [] if name else _pushed(places.pushes)
        if not pushed:
            yield from _counted(own[0], f"put into {name or 'the queue'}", places, put)
        yield from _counted(own[1], f"taken from {name or 'the queue'}", places, taken)
        yield from _flows(name or "queue", pushed or put, taken, places)


def _counters_of(view: View, metric: str) -> dict[tuple[int, str], list[tuple[float, int]]]:
    """By log and group the counters that only grow: one that falls is of several processes."""
    track = view.metrics.get(metric)
    found = {}
    for key, column in track.streams.items() if track is not None else ():
        # A process that is on the other side of the queue counts none.
        rows = [(time, int(value)) for time, value in zip(column.times, column.values, strict=True) if value > 0]
        if len(rows) > 1 and all(before[1] <= after[1] for before, after in pairwise(rows)):
            found[key] = rows
    return found


def _counted(
    streams: Mapping[tuple[int, str], Sequence[tuple[float, int]]], kind: str, places: _Places, found: list[_Count]
) -> Iterator[Event]:
    """A slice between each two counts, and in `found` what all of them come to."""
    grown = sorted(
        (after[0], before[0], before[1], after[1], key)
        for key, rows in streams.items()
        for before, after in pairwise(rows)
        if after[1] > before[1]
    )
    whole = sum(rows[0][1] for rows in streams.values())
    for at, start, low, high, (source, group) in grown:
        lane = f"{kind} by {group}" if kind.endswith("the queue") else kind
        event = places.slice(source, lane, f"items {low + 1} to {high}", start, at, {"first": low + 1, "last": high})
        yield event
        found.append(_Count(at, whole + 1, whole + high - low, event))
        whole += high - low


def _pushed(pushes: Sequence[tuple[str, Event]]) -> list[_Count]:
    """Every item that was pushed; none where the first ones of several producers are missing: then nothing counts."""
    first: dict[str, int] = {}
    for producer, event in pushes:
        first.setdefault(producer, int(number) if (number := str(event["args"].get("batch", ""))).isdigit() else -1)
    if not first or min(first.values()) < 0 or (len(first) > 1 and any(first.values())):
        return []
    done = sorted(((event["ts"] + event["dur"]) / 1e6, at) for at, (_, event) in enumerate(pushes))
    begin = next(iter(first.values())) if len(first) == 1 else 0
    return [_Count(end, begin + number, begin + number, pushes[at][1]) for number, (end, at) in enumerate(done, 1)]


def _flows(name: str, put: Sequence[_Count], taken: Sequence[_Count], places: _Places) -> Iterator[Event]:
    """Arrows from the slice in which an item was put in, through the queue, to the one in which it was taken out.

    Of all items the last one of each slice of consumers, and of those in the queue one at a time.
    """
    free = -math.inf
    for one in taken:
        at = bisect_left(put, one.whole, key=lambda count: count.whole)
        if at == len(put) or put[at].at > one.at or put[at].first > one.whole:
            continue  # it was put in before the logs begin, or by a producer that they do not have
        begin, item = put[at], f"item {one.whole}"
        source = one.slice["pid"] - places.pid(0)
        yield (end := _end_of(one.slice, f"{item} taken", begin.at))
        if begin.at < free or one.at == begin.at:
            yield from places.arrow(f"{item} of {name}", (begin.slice, begin.at), end)
            continue
        free = one.at
        args = {key: begin.slice["args"][key] for key in ("producer", "batch") if key in begin.slice["args"]}
        args["at_most_s"] = round(one.at - begin.at, 6)
        waited = places.slice(source, f"in {name}", item, begin.at, one.at, args)
        yield waited
        yield from places.arrow(f"{item} put into {name}", (begin.slice, begin.at), waited)
        yield from places.arrow(f"{item} taken from {name}", (waited, one.at), end)


def _steps(view: View, places: _Places) -> Iterator[Event]:
    for component, track in view.steps.items():
        for at, (time, value) in enumerate(zip(track.times, track.values, strict=True)):
            yield {
                "ph": "i", "s": "t", "cat": "perfmon", "name": plain(f"{component} step {value:g}".strip(), _TEXT),
                "pid": places.pid(track.source(at)), "tid": _COUNTERS, "ts": _us(time),
            }  # fmt: skip


def _counters(view: View, places: _Places) -> Iterator[Event]:
    for metric, track in sorted(view.metrics.items()):
        for (source, group), column in track.streams.items():
            name = plain(f"{metric} {group}".strip(), _TEXT)
            for time, value in zip(column.times, column.values, strict=True):
                if math.isfinite(value):
                    yield {
                        "ph": "C", "cat": "perfmon", "name": name, "pid": places.pid(source), "tid": _COUNTERS,
                        "ts": _us(time), "args": {metric: value},
                    }  # fmt: skip


def _findings(snapshot: Diagnosis, places: _Places) -> Iterator[Event]:
    for finding in snapshot.findings:
        args = {"severity": finding.severity.value, "sentence": plain(finding.sentence, 400), "lost_s": finding.lost_s}
        times: Iterable[tuple[float, float]] = finding.lost or [(finding.first_s, finding.last_s)]
        for low, high in sorted(times):
            start, end = snapshot.run.start + low, snapshot.run.start + high
            yield places.slice(-1, finding.signature, finding.title, start, end, args)
