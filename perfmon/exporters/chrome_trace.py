"""A run of logs as a trace in Chrome's format, for Perfetto: spans, counters, flows of weight updates, findings.

Every log is a process, and every kind of span a thread of it; of spans that overlap there are several threads. Times
are microseconds since 1970 where the logs have dates, as in traces of PyTorch's profiler, so that both can be opened
together.
"""

from __future__ import annotations

import gzip
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from perfmon.core import InputError, Update, plain, replacing
from perfmon.diagnosis import Diagnosis
from perfmon.rules import View

_UPDATE = "weight-update"
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
    ends: dict[tuple[int, str, int], float] = field(default_factory=dict)

    def pid(self, source: int) -> int:
        """The process of a log; that of findings is 1."""
        return source + 2

    def seat(self, source: int, kind: str, start: float, end: float) -> tuple[int, int]:
        """Process and thread for a span of a kind: the first thread that is free, by start of spans."""
        lane = 0
        while self.ends.get((source, kind, lane), -math.inf) > start:
            lane += 1
        self.ends[source, kind, lane] = end
        number = self.threads.setdefault((source, kind, lane), len(self.threads) + 1)
        return self.pid(source), number

    def names(self) -> Iterator[Event]:
        """What processes and threads are called."""
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


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _slice(name: str, seat: tuple[int, int], start: float, end: float, args: Mapping[str, object]) -> Event:
    pid, tid = seat
    length = round(max(0.0, end - start) * 1e6, 3)
    return {
        "ph": "X", "cat": "perfmon", "name": plain(name, _TEXT), "pid": pid, "tid": tid, "ts": _us(start),
        "dur": length, "args": dict(args),
    }  # fmt: skip


def _spans(view: View, places: _Places) -> Iterator[Event]:
    for kind in sorted(view.span_kinds):
        if kind == _UPDATE:
            yield from _updates(view, places)
            continue
        for item in view.spans(kind):
            name = f"{kind} {item.key}" if item.key else kind
            args = {plain(key, 60): _value(value) for key, value in list(item.fields.items())[:_FIELDS]}
            args |= {key: value for key, value in item.values.items() if math.isfinite(value)}
            yield _slice(name, places.seat(item.source, kind, item.start, item.end), item.start, item.end, args)


def _value(value: object) -> object:
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return plain(str(value), _TEXT)


def _updates(view: View, places: _Places) -> Iterator[Event]:
    """The client's wait, the queue and the RPC, and arrows from the client to the server and back."""
    for number, item in enumerate(view.spans(_UPDATE), 1):
        update = item.span
        if not isinstance(update, Update):
            continue
        client = update.client if update.client is not None else item.source
        there = update.server if update.server is not None else client
        args = {key: value for key, value in item.values.items() if math.isfinite(value)} | {"trace": _value(item.key)}
        here = places.seat(client, _UPDATE, item.start, item.end)
        yield _slice(update.op, here, item.start, item.end, args)
        if update.queue_ms is None or update.rpc_ms is None:
            continue
        called = item.start + max(0.0, update.queue_ms) / 1e3
        done = min(max(item.end, called), called + max(0.0, update.rpc_ms) / 1e3)
        if called > item.start:
            seat = places.seat(there, "queue of weight updates", item.start, called)
            yield _slice("queue", seat, item.start, called, {"queue_ms": update.queue_ms})
        seat = places.seat(there, "RPC of weight updates", called, done)
        yield _slice(f"RPC {update.op}", seat, called, done, {"rpc_ms": update.rpc_ms})
        yield from _arrow(2 * number, "sent", (here, item.start), (seat, called))
        yield from _arrow(2 * number + 1, "done", (seat, done), (here, item.end))


def _arrow(
    number: int, name: str, begin: tuple[tuple[int, int], float], end: tuple[tuple[int, int], float]
) -> Iterator[Event]:
    for phase, ((pid, tid), time) in (("s", begin), ("f", end)):
        event = {
            "ph": phase, "id": number, "cat": _UPDATE, "name": f"weight update {name}", "pid": pid, "tid": tid,
            "ts": _us(time),
        }  # fmt: skip
        yield event if phase == "s" else event | {"bp": "e"}


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
            yield _slice(finding.title, places.seat(-1, finding.signature, start, end), start, end, args)
