"""Traces of PyTorch's profiler (Kineto) in Chrome's format: `.json` and `.json.gz`, read in pieces."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

import msgspec

from perfmon.core import counted

from .trace import (
    BLOCKING,
    COLLECTIVE,
    COMMUNICATION,
    COMPUTE,
    COPY,
    LOADER,
    LONG_CALL_NS,
    MEMSET,
    MOST_HOST_EVENTS,
    Group,
    Interval,
    Trace,
    TraceError,
    is_non_synchronizing,
)

_PIECE = 4 << 20
_GZIP = 16 + zlib.MAX_WBITS
_CUT = "the file ends in the middle; what was read up to there is evaluated"
_MOST_OPEN = 64 << 20
"""Bytes without the end of an event, from which on a file is none of a profiler."""
_TRIES = 8
_BEGIN = re.compile(rb'"traceEvents"\s*:\s*\[|^\s*\[')
_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*"\w+"\s*:)')
"""Between two objects of an array. No string can hold it: a quote within a string has a backslash before it."""
_BETWEEN_TEXT = re.compile(_BETWEEN.pattern.decode())
_SPACE = re.compile(r"[, \t\r\n]*")
_LENIENT = json.JSONDecoder(strict=False)
"""Reads also NaN, Infinity and control characters in strings."""
_NOT_FINITE = re.compile(r'"(?:[^"\\]|\\.)*"|-?\b(?:nan|inf(?:inity)?)\b', re.IGNORECASE | re.DOTALL)
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})?')
"""Names of files of Windows are in traces as they are."""
_FOREIGN = re.compile("[\udc80-\udcff]")
_GPU = {
    "kernel": COMPUTE, "mtia_ccp_events": COMPUTE,
    "memcpy": COPY, "gpu_memcpy": COPY, "memset": MEMSET, "gpu_memset": MEMSET,
}  # fmt: skip
_RUNTIME = re.compile(r"(?:.+_)?(?:runtime|driver)")
"""Calls of CUDA, HIP, MTIA, XPU and private backends; `Runtime` alone until 2021."""
_PYTHON = "python_function"
_HOST = frozenset(("operator", "cpu_op", "user_annotation", _PYTHON))
_TO_DEVICE = re.compile(r"HtoD|Host ?-> ?Device|Host_?To_?Device|\bM2D\b", re.IGNORECASE)
"""Copies from the host, as CUDA, ROCm by its versions, and XPU name them."""
_MEMORY = re.compile(r"Memcpy|Memset|dma")
"""Work of copy engines among kernels."""
_NUMBER = re.compile(r"-?\d{1,20}")
_MOST_NUMBER = 1 << 62
_FROM_NS, _TO_NS = 10**17, 10**19
_MOST_US = 10**15 * 9
_BROKEN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Args(msgspec.Struct):
    stream: Any = None
    device: Any = None
    correlation: Any = None
    bytes: Any = None
    collective: Any = msgspec.field(default=None, name="Collective name")
    group: Any = msgspec.field(default=None, name="Process Group Name")
    purpose: Any = msgspec.field(default=None, name="Process Group Description")
    ranks: Any = msgspec.field(default=None, name="Process Group Ranks")


class _Event(msgspec.Struct):
    ts: int | float | None = None
    """Microseconds; whole ones, or with nanoseconds behind the point."""
    dur: int | float | None = None
    name: str = ""
    cat: str = ""
    ph: str = ""
    pid: Any = None
    tid: Any = None
    args: _Args | None = None


class _Info(msgspec.Struct):
    rank: Any = None


class _Device(msgspec.Struct):
    id: Any = None
    name: str = ""


class _Head(msgspec.Struct):
    """The document around the events."""

    distributed: _Info | None = msgspec.field(default=None, name="distributedInfo")
    devices: list[_Device] = msgspec.field(default_factory=list, name="deviceProperties")
    early: list[_Device] = msgspec.field(default_factory=list, name="computeProperties")
    """The same in the first versions of PyTorch's profiler."""


_EVENTS = msgspec.json.Decoder(list[_Event])


def read_kineto(path: Path) -> Trace:
    """Read a trace; what cannot be read of it is reported in its notes.

    Raises:
        TraceError: Nothing in it can be evaluated.
    """
    trace, wrong = Trace(str(path)), 0
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        texts = _unpacked(raw, trace) if packed else iter(lambda: raw.read(_PIECE), b"")
        for events in _pieces(texts, trace):
            trace.events += len(events)
            for event in events:
                if event.ph == "X":
                    try:
                        _add(event, trace)
                    except (OverflowError, ValueError):
                        wrong += 1
    trace.settle()
    if trace.damaged:
        trace.cut(
            f"the file is damaged in {counted(trace.damaged, 'place')}: {counted(trace.damaged_bytes, 'byte')} left out"
        )
    if trace.malformed:
        trace.notes.append(f"{counted(trace.malformed, 'event')} with values of a wrong type: left out")
    if wrong:
        trace.notes.append(f"{counted(wrong, 'event')} with times out of range: left out")
    if not trace.events and trace.is_partial:
        raise TraceError(f"{path}: {trace.notes[0].partition(';')[0]}, before its first event")
    if not trace.events:
        raise TraceError(f"{path}: no trace events; expected a trace of PyTorch's profiler or an nsys export to SQLite")
    return trace


def is_kineto(path: Path) -> bool:
    """Return true if a file begins like a trace in Chrome's format."""
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            head = next(_unpacked(raw, Trace("")), b"") if packed else raw.read(_PIECE)
    except OSError:
        return False
    found = _BEGIN.search(head)
    return found is not None and re.search(rb'"ph"\s*:', head[found.end() :]) is not None


def _unpacked(raw: IO[bytes], trace: Trace) -> Iterator[bytes]:
    """The text of a gzip file, up to where it is damaged."""
    unpack, is_whole = zlib.decompressobj(_GZIP), False
    while packed := raw.read(_PIECE // 8):
        while packed:
            try:
                text = unpack.decompress(packed, _PIECE)
            except zlib.error as error:
                trace.cut(f"the file is damaged: {error}; what was read up to there is evaluated")
                return
            if text:
                yield text
            packed, is_whole = unpack.unconsumed_tail, unpack.eof
            if is_whole:  # another member may follow
                packed, unpack = unpack.unused_data, zlib.decompressobj(_GZIP)
    if not is_whole:
        if text := unpack.flush():
            yield text
        trace.cut(_CUT)


def _pieces(texts: Iterator[bytes], trace: Trace) -> Iterator[list[_Event]]:
    """Events in lists, as the file is read."""
    text, begun = b"", False
    while True:
        piece = next(texts, b"")
        text += piece
        if not begun:
            found = _BEGIN.search(text)
            if found is None:
                if not piece or len(text) > _MOST_OPEN:
                    return
                continue
            _describe(text[: found.start()].rstrip().rstrip(b",") + b"}", trace)
            text, begun = text[found.end() :], True
        if not piece:
            events, rest = _one_by_one(text, trace)
            yield events
            if rest.startswith(b"]"):
                _describe(b"{" + rest[1:].lstrip().lstrip(b","), trace)
            elif not trace.is_partial:
                trace.cut(_CUT)
            return
        cuts = [found.start() + 1 for found in _BETWEEN.finditer(text, max(0, len(text) - _PIECE))]
        for cut in reversed(cuts[-_TRIES:]):
            try:
                events = _decode(b"[" + text[:cut] + b"]", trace)
            except _BROKEN:
                continue  # objects within an event, or behind the events; or the piece is damaged
            yield events
            text = text[cut:].lstrip(b", \t\r\n")
            break
        else:
            events, text = _one_by_one(text, trace)
            yield events
            if len(text) > _MOST_OPEN:
                trace.cut("an event of more than 64 MiB, or no JSON; what was read up to there is evaluated")
                return


def _decode(text: bytes, trace: Trace) -> list[_Event]:
    try:
        return _EVENTS.decode(text)
    except msgspec.ValidationError:
        return _converted(msgspec.json.decode(text), trace)


def _converted(objects: list[Any], trace: Trace) -> list[_Event]:
    found = []
    for one in objects:
        try:
            found.append(msgspec.convert(one, _Event, strict=False))
        except (msgspec.ValidationError, ArithmeticError):
            trace.malformed += 1
    return found


def _one_by_one(text: bytes, trace: Trace) -> tuple[list[_Event], bytes]:
    """The events of a text that is no JSON as a whole, and what is left: an open event, or the end of the array.

    A damaged event is left out where a sound one follows.
    """
    raw = text.decode("utf-8", "surrogateescape")
    sound = _repaired(raw)
    found, at = list[Any](), 0
    while True:
        at = _SPACE.match(sound, at).end()  # type: ignore[union-attr]
        if at == len(sound) or sound[at] == "]":
            break
        try:
            one, at = _LENIENT.raw_decode(sound, at)
        except (ValueError, RecursionError):
            after = _next_sound(sound, at)
            if after is None:
                break
            trace.damaged += 1
            trace.damaged_bytes += len(raw[at:after].encode("utf-8", "surrogateescape"))
            at = after
        else:
            found.append(one)
    return _converted(found, trace), raw[at:].encode("utf-8", "surrogateescape")


def _next_sound(text: str, at: int) -> int | None:
    """The place of the next event that can be read."""
    for found in _BETWEEN_TEXT.finditer(text, at):
        with suppress(ValueError, RecursionError):
            one, _ = _LENIENT.raw_decode(text, found.end())
            if isinstance(one, dict) and "ph" in one:
                return found.end()
    return None


def _repaired(text: str) -> str:
    """The same with as many characters: of C's numbers that are none, of single backslashes and of foreign bytes."""
    text = _FOREIGN.sub("\N{REPLACEMENT CHARACTER}", text)
    text = _ESCAPE.sub(lambda found: found[0] if len(found[0]) > 1 else "/", text)
    return _NOT_FINITE.sub(lambda found: found[0] if found[0][0] == '"' else "NaN".ljust(len(found[0])), text)


def _describe(text: bytes, trace: Trace) -> None:
    try:
        head = msgspec.json.decode(text, type=_Head)
    except _BROKEN:
        try:
            head = msgspec.convert(_LENIENT.decode(_repaired(text.decode("utf-8", "surrogateescape"))), _Head)
        except (ValueError, RecursionError):
            return
    if head.distributed is not None and isinstance(head.distributed.rank, int):
        trace.rank = head.distributed.rank
    trace.devices |= {one.id: one.name for one in (*head.early, *head.devices) if isinstance(one.id, int)}


def _whole(value: object) -> int | None:
    if isinstance(value, int):
        return value if abs(value) < _MOST_NUMBER else None
    found = _NUMBER.search(value) if isinstance(value, str) else None
    return _whole(int(found[0])) if found else None


def _nanoseconds(microseconds: float) -> int:
    """Convert in two parts: nanoseconds since 1970 are more than a float holds. Raises OverflowError, ValueError."""
    whole = int(microseconds)
    if abs(whole) > _MOST_US:
        raise OverflowError
    return whole * 1000 + round((microseconds - whole) * 1000)


def _add(event: _Event, trace: Trace) -> None:
    if event.ts is None or event.dur is None or event.dur < 0:
        return
    if _FROM_NS <= event.ts < _TO_NS:  # no microseconds since 1970 are so many
        if not trace.is_ns:
            trace.is_ns = True
            trace.notes.append("times are nanoseconds, instead of the microseconds of this format: read as such")
        start = int(event.ts)
        end = start + int(event.dur)
    else:
        start, end = _nanoseconds(event.ts), _nanoseconds(event.ts + event.dur)
    category = event.cat.lower()
    args = event.args
    if (kind := _GPU.get(category)) is not None:
        _add_work(event, args or _Args(), kind, (start, end), trace)
        return
    if "ProfilerStep" in event.name:  # also those of the GPU's own annotations
        trace.step(event.name, start)
    is_call = _RUNTIME.fullmatch(category) is not None
    if not is_call and category not in _HOST:
        return
    if category == _PYTHON and end - start < LONG_CALL_NS:
        return  # there are millions of them, and only those that explain long gaps are of interest
    thread = trace.thread((event.pid, event.tid))
    if is_call:
        if args is not None and (correlation := _whole(args.correlation)) is not None:
            trace.launches.add(correlation, start, end, thread)
        if BLOCKING.match(event.name):
            trace.syncs.append((start, end))
    elif LOADER.match(event.name):
        trace.loads.append((start, end))
    elif category == "user_annotation" or event.name.startswith("ProfilerStep"):
        trace.named(event.name, (start, end))
        if event.name.startswith("ProfilerStep"):
            return
    if len(trace.host.start) < MOST_HOST_EVENTS:
        trace.host.add(start, end, thread, trace.name(event.name))


@lru_cache(8192)
def _of_kernel(name: str) -> int:
    return COMMUNICATION if COLLECTIVE.match(name) else COPY if _MEMORY.match(name) else COMPUTE


@lru_cache(4096)
def _group(name: str, purpose: str, ranks: str) -> Group:
    members = () if "..." in ranks else tuple(sorted({int(rank) for rank in _NUMBER.findall(ranks)}))
    words = purpose if purpose not in ("", "undefined", name) else ""
    return Group(f"{name} ({words})" if words else name, members)


def _add_work(event: _Event, args: _Args, kind: int, interval: Interval, trace: Trace) -> None:
    device, stream = _whole(args.device), _whole(args.stream)
    device = device if device is not None else _whole(event.pid) or 0
    if kind == COMPUTE:
        kind = _of_kernel(event.name)
    correlation = _whole(args.correlation)
    correlation = -1 if correlation is None else correlation
    work = trace.work(device) if stream is not None else trace.streamless(device)
    stream = stream if stream is not None else _whole(event.tid) or 0
    if kind == COMMUNICATION:
        row = len(work.start)
        if is_non_synchronizing(args.collective if isinstance(args.collective, str) else event.name):
            work.non_synchronizing.add(row)
        if isinstance(args.group, str | int) and args.group != "":
            work.groups[row] = _group(str(args.group), str(args.purpose or ""), str(args.ranks or ""))
    work.add(*interval, stream, correlation, kind, trace.name(event.name))
    if kind == COPY and _TO_DEVICE.search(event.name):
        trace.copy(device, interval, _whole(args.bytes) or 0, correlation, pageable="Pageable" in event.name)
