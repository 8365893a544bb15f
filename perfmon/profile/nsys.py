"""Exports of Nsight Systems to SQLite: `nsys export --type sqlite`. Times in them are nanoseconds."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from perfmon.core import counted

from .trace import (
    BLOCKING,
    COLLECTIVE,
    COMMUNICATION,
    COMPUTE,
    COPY,
    LONG_CALL_NS,
    MEMSET,
    MOST_HOST_EVENTS,
    Trace,
    TraceError,
    is_non_synchronizing,
)

_KERNEL, _MEMCPY, _MEMSET, _GRAPH, _RUNTIME = (
    f"CUPTI_ACTIVITY_KIND_{name}" for name in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE", "RUNTIME")
)
_TEXTS = "StringIds"
_TEXT_COLUMNS = ("text", "value", "name")
_UNKNOWN = ("correlationId", "srcKind", "shortName", "demangledName", "nameId", "textId")
"""Columns in which 0 is a value."""
_IS_TIMED = (
    "typeof(start) = 'integer' and typeof(end) = 'integer' and abs(start) < 1 << 60 and end between start and 1 << 60"
)
_VERSION = re.compile(r"_v\d+$")
_HOST_TO_DEVICE = 1
_WHOLE_GRAPH = "CUDA graph"
"""The name of graphs that were traced as one piece of work."""
_RANGES = (59, 60)
"""Types of NVTX events with a start and an end: push/pop and start/end."""
_PROCESS = ~0xFFFFFF
"""Of a global thread the low 24 bits are the thread, the rest is the process."""


def read_nsys(path: Path) -> list[Trace]:
    """Read an export: a trace for each process that uses GPUs. A table without rows is absent from it.

    Raises:
        TraceError: It is no such export, or has no work of a GPU.
    """
    try:
        with sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True) as database:
            database.text_factory = lambda raw: raw.decode("utf-8", "replace")
            return _read(database, path)
    except sqlite3.Error as error:
        raise TraceError(
            f"{path}: not readable as SQLite: {error}; export it again with nsys export --type sqlite"
        ) from error
    finally:
        if "database" in locals():
            database.close()


def is_nsys(path: Path) -> bool:
    """Return true if a file begins like a database of SQLite."""
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def _read(database: sqlite3.Connection, path: Path) -> list[Trace]:
    tables = {name for (name,) in database.execute("select name from sqlite_master")}
    if not tables & {_KERNEL, _MEMCPY, _MEMSET, _GRAPH}:
        what = "no GPU work was traced (nsys profile --trace=cuda,nvtx)" if _TEXTS in tables else "no export of nsys"
        raise TraceError(f"{path}: {what}")
    if _TEXTS not in tables:  # nvprof has tables of the same names
        raise TraceError(f"{path}: no export of nsys; record with nsys profile instead of nvprof")
    texts: dict[int, str] = {number: text for number, text in _rows(database, tables, _TEXTS, "id,value") if text}
    traces: dict[int, Trace] = {}
    threads = _rows(database, tables, _RUNTIME, "globalTid")
    processes = {thread & _PROCESS for (thread,) in threads} if _RUNTIME in tables else set()
    only = processes.pop() if len(processes) == 1 else 0

    def of(process: int) -> Trace:
        process = process or only  # work without a process is that of the only one
        found = traces.get(process)
        if found is None:
            found = traces[process] = Trace(str(path), rank=None)
        return found

    graphs = _read_gpus(database, tables, texts, of)
    for start, end, thread, correlation, name in _rows(
        database, tables, _RUNTIME, "start,end,globalTid,correlationId,nameId"
    ):
        trace = of(thread & _PROCESS)
        number, text = trace.thread(thread), _VERSION.sub("", texts.get(name, "?"))
        if correlation >= 0:
            trace.launches.add(correlation, start, end, number)
        _host(trace, start, end, number, text)
        if BLOCKING.match(text):
            trace.syncs.append((start, end))
    for start, end, thread, kind, text, name in _rows(
        database, tables, "NVTX_EVENTS", "start,end,globalTid,eventType,text,textId"
    ):
        if kind not in _RANGES:
            continue
        trace = of(thread & _PROCESS)
        shown = text if text is not None else texts.get(name, "?")
        trace.named(shown, (start, end))
        _host(trace, start, end, trace.thread(thread), shown)
    for start, end, thread, name in _rows(database, tables, "OSRT_API", "start,end,globalTid,nameId"):
        if end - start >= LONG_CALL_NS:
            trace = of(thread & _PROCESS)
            _host(trace, start, end, trace.thread(thread), texts.get(name, "?"))
    products = _rows(database, tables, "TARGET_INFO_GPU", "id,name")
    named = {number: name for number, name in products if name}
    found = [trace for _, trace in sorted(traces.items()) if trace.gpus]
    left_out = sum(
        count
        for table in tables & {_KERNEL, _MEMCPY, _MEMSET, _GRAPH, _RUNTIME}
        if {"start", "end"} <= _columns(database, table)
        for (count,) in database.execute(f"select count(*) from {table} where not ({_IS_TIMED})")  # noqa: S608
    )
    if left_out and found:
        found[0].notes.append(f"{counted(left_out, 'row')} without a valid time: left out")
    if graphs and found:
        found[0].notes.append(
            f"{counted(graphs, 'CUDA graph')} without the kernels inside: they count as compute, "
            "collectives and gaps in them are not seen (nsys profile --cuda-graph-trace=node)"
        )
    for rank, trace in enumerate(found):
        trace.settle()
        trace.devices = named
        if len(found) > 1:
            trace.rank = rank
    return found


def _read_gpus(
    database: sqlite3.Connection, tables: set[str], texts: dict[int, str], of: Callable[[int], Trace]
) -> int:
    """Add the work of all GPUs to the traces of their processes; return the number of graphs traced as a whole."""
    sources = {0}
    if "ENUM_CUDA_MEM_KIND" in tables:  # CUPTI counts from 1, the export from 0: the file says what it does
        sources = {
            key
            for key, name in _rows(database, tables, "ENUM_CUDA_MEM_KIND", "id,name")
            if "PAGEABLE" in (name or "").upper()
        }
    collective = {number for number, text in texts.items() if COLLECTIVE.match(text)}
    for start, end, device, stream, correlation, process, name, long_name in _rows(
        database, tables, _KERNEL, "start,end,deviceId,streamId,correlationId,globalPid,shortName,demangledName"
    ):
        trace, text = of(process), texts.get(name, texts.get(long_name, "?"))
        kind = COMMUNICATION if name in collective or long_name in collective else COMPUTE
        work = trace.work(device)
        if kind == COMMUNICATION and is_non_synchronizing(text):
            work.non_synchronizing.add(len(work.start))
        work.add(start, end, stream, correlation, kind, trace.name(text))
        trace.events += 1
    graphs = 0
    for start, end, device, stream, correlation, process in _rows(
        database, tables, _GRAPH, "start,end,deviceId,streamId,correlationId,globalPid"
    ):
        trace = of(process)
        trace.work(device).add(start, end, stream, correlation, COMPUTE, trace.name(_WHOLE_GRAPH))
        trace.events += 1
        graphs += 1
    for start, end, device, stream, correlation, process, size, way, source in _rows(
        database, tables, _MEMCPY, "start,end,deviceId,streamId,correlationId,globalPid,bytes,copyKind,srcKind"
    ):
        trace = of(process)
        trace.work(device).add(start, end, stream, correlation, COPY, trace.name("Memcpy"))
        trace.events += 1
        if way == _HOST_TO_DEVICE:
            trace.copy(device, (start, end), size, correlation, pageable=source in sources)
    for start, end, device, stream, correlation, process in _rows(
        database, tables, _MEMSET, "start,end,deviceId,streamId,correlationId,globalPid"
    ):
        trace = of(process)
        trace.work(device).add(start, end, stream, correlation, MEMSET, trace.name("Memset"))
        trace.events += 1
    return graphs


def _rows(database: sqlite3.Connection, tables: set[str], table: str, columns: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table by their start; numbers that an older version has not, or that are none, are 0 or -1."""
    has = _columns(database, table) if table in tables else set()
    timed = columns.startswith("start,end,")
    if not has or (timed and not {"start", "end"} <= has):
        return
    wanted = ",".join(_column(name, name in has) for name in columns.split(","))
    limits = f" where {_IS_TIMED} order by start" if timed else ""
    yield from database.execute(f"select {wanted} from {table}{limits}")  # noqa: S608 - all of it are constants


def _columns(database: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in database.execute(f"pragma table_info({table})")}


def _column(name: str, is_there: bool) -> str:
    """The expression of a column: of a wrong type it counts as missing."""
    kind, default = ("text", "null") if name in _TEXT_COLUMNS else ("integer", "-1" if name in _UNKNOWN else "0")
    return f"case typeof({name}) when '{kind}' then {name} else {default} end" if is_there else default


def _host(trace: Trace, start: int, end: int, thread: int, name: str) -> None:
    if len(trace.host.start) < MOST_HOST_EVENTS:
        trace.host.add(start, end, thread, trace.name(name))
