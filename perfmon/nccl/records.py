"""Lines of NCCL Inspector as records, one by one: for logs that are still being written."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from typing import Any, NamedTuple

from perfmon.core import plain

from .schema import HCA, MIXED, NVLINK, RANK_BITS, SINGLE

_WRAP = 1 << 64
_LONGEST_US = 10**12
_LATEST_US = 4_102_444_800_000_000
_PER_RANK = ("AllGather", "ReduceScatter", "AllGatherV")
"""Collectives whose size is that of one rank's part."""
_ONCE = ("Broadcast", "Reduce", "Send", "Recv", "SendRecv")
_CONTEXTS = 4096
_NAME = 64


@dataclass(frozen=True, slots=True, eq=False)
class Context:
    """Communicator and process of a line; the lines of one file share it."""

    comm: str
    name: str
    rank: int
    n_ranks: int
    nnodes: int
    host: str
    pid: int | None


class Record(NamedTuple):
    """One operation as one rank logged it."""

    context: Context
    at_us: int
    collective: str
    sn: int | None
    """None for sends and receives."""
    size: int
    exec_us: int
    busbw: float | None
    """Bus bandwidth in GB/s; None if unknown."""
    peer: int | None = None
    """Other rank of a send or receive."""


class Drops(NamedTuple):
    """Records of one communicator that the plugin of one process dropped so far."""

    context: Context
    at_us: int
    dropped: int


def type_of(n_ranks: int, nnodes: int) -> str:
    """Type of a communicator by its ranks and NVLink domains."""
    if n_ranks == 1:
        return SINGLE
    return NVLINK if nnodes == 1 else HCA if n_ranks == nnodes else MIXED


def bus_bandwidth(collective: str, size: int, n_ranks: int, exec_us: int) -> float:
    """Bus bandwidth in GB/s by the definition of the nccl-tests."""
    if exec_us <= 0:
        return 0.0
    if collective == "AllReduce":
        factor = 2.0 * (n_ranks - 1) / n_ranks
    elif collective in _PER_RANK:
        factor = float(n_ranks - 1)
    else:
        factor = 1.0 if collective in _ONCE else 0.0
    return size / 1e3 / exec_us * factor


@dataclass(slots=True)
class ReadCounts:
    """Lines read, and those that were no records."""

    lines: int = 0
    skipped: int = 0


class LineParser:
    """Parses the lines of one file in their order: from format v4.3 on the header is in an earlier line."""

    def __init__(self, counts: ReadCounts) -> None:
        self._counts = counts
        self._contexts: dict[tuple[Any, ...], Context] = {}
        self._positional: tuple[Context, int] | None = None
        self.proxy: tuple[Context, object] | None = None
        """The last proxy trace."""

    def restart(self) -> None:
        """The file holds another text."""
        self._positional = None

    def parse(self, data: bytes) -> list[Record | Drops]:
        """Records of whole lines. Whatever else there is, is counted and skipped."""
        found: list[Record | Drops] = []
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        counts = self._counts
        counts.lines += len(lines)
        for line in lines:
            try:
                item = self._item(json.loads(line if line.isascii() else line.decode(errors="replace")))
            except (ValueError, RecursionError, KeyError, TypeError, AttributeError, OverflowError):
                item = None
            if isinstance(item, Record | Drops):
                found.append(item)
            elif not item and line.strip():
                counts.skipped += 1
        return found

    def _item(self, line: dict[str, Any]) -> Record | Drops | bool | None:
        """The record of a line; None if it has none, True for a line that needs no count."""
        header = line.get("header")
        if header is not None:
            metadata = line["metadata"]
            key = (
                header["id"], header.get("comm_name"), header["rank"], header["n_ranks"], header["nnodes"],
                metadata.get("hostname"), metadata.get("pid"),
            )  # fmt: skip
            context = self._contexts.get(key) or self._context(key)
            at_us = metadata["dump_timestamp_us"]
            if context is None or not 1 <= at_us <= _LATEST_US:
                return None
        elif self._positional is not None:
            context, at_us = self._positional
        else:
            return None
        if (coll := line.get("coll_perf")) is not None:
            sn = coll["coll_sn"]
            return _record(
                context, at_us, coll["coll"], sn if sn >= 0 else sn + _WRAP, coll["coll_msg_size_bytes"],
                coll["coll_exec_time_us"], coll.get("coll_busbw_gbs"),
            )  # fmt: skip
        if (p2p := line.get("p2p_perf")) is not None:
            record = _record(
                context, at_us, p2p["p2p"], None, p2p["p2p_msg_size_bytes"], p2p["p2p_exec_time_us"],
                p2p.get("p2p_busbw_gbs"),
            )  # fmt: skip
            peer = p2p.get("p2p_peer")
            return record if record is None or type(peer) is not int else record._replace(peer=peer)
        if (stats := line.get("dump_stats")) is not None:
            self._positional = (context, at_us)
            dropped = int(stats.get("coll_dropped_total") or 0) + int(stats.get("p2p_dropped_total") or 0)
            return Drops(context, at_us, max(0, dropped))
        if (trace := line.get("proxy_trace")) is None:
            return None
        self.proxy = context, trace
        return True

    def _context(self, key: tuple[Any, ...]) -> Context | None:
        comm, name, rank, n_ranks, nnodes, host, pid = key
        numbers = all(type(value) is int for value in (rank, n_ranks, nnodes)) and (pid is None or type(pid) is int)
        if not (isinstance(comm, str) and numbers):
            return None
        if not (0 <= rank < n_ranks < 1 << RANK_BITS and 1 <= nnodes <= n_ranks):
            return None
        if len(self._contexts) >= _CONTEXTS:
            self._contexts.clear()
        name, host = (plain(value, _NAME) if isinstance(value, str) else "" for value in (name, host))
        made = self._contexts[key] = Context(plain(comm, _NAME), name, rank, n_ranks, nnodes, host, pid)
        return made


def _record(
    context: Context, at_us: int, collective: str, sn: int | None, size: int, exec_us: int, busbw: object
) -> Record | None:
    if not 0 <= exec_us <= _LONGEST_US or not isinstance(collective, str) or not 0 <= size < _WRAP:
        return None
    if size >= _WRAP >> 1:  # a data type that the plugin does not know (uint8): the count wraps around
        size = _WRAP - size
        busbw = bus_bandwidth(collective, size, context.n_ranks, exec_us)
    elif type(busbw) is not float or not isfinite(busbw):
        busbw = bus_bandwidth(collective, size, context.n_ranks, exec_us)
    return Record(context, at_us, _shown(collective), sn, size, exec_us, busbw)


@lru_cache(maxsize=256)
def _shown(name: str) -> str:
    return plain(name, _NAME)
