"""Proxy traces: what the threads that serve the network waited for, by rank, peer and direction.

A send waits for its GPU to produce the data, for the peer to have room (credit), then for the wire; a receive for the
wire, for the flush to the GPU's memory, and for the GPU to consume the data. The times are those of steps. Operations
may be recorded whole, in segments or in steps, nested or not: of what is nested only the innermost times count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .records import Context, LineParser, ReadCounts
from .repair import lines_of

WAITS = ("gpu_produce_us", "peer_credit_us", "wire_us", "flush_us", "gpu_consume_us")
_MARK = b'"proxy_trace"'
_CONTEXT = b'"dump_stats"'
_MOST_US = 10**12
_DEEPEST = 8
_DIRECTIONS = ("send", "recv")


@dataclass(slots=True)
class ProxyTime:
    """The steps of one rank with one peer, in one direction."""

    comm: str
    rank: int
    host: str
    pid: int | None
    peer: int
    """Rank in the same communicator."""
    direction: str
    """send or recv."""
    steps: int = 0
    waits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(WAITS, 0))
    """Microseconds by what was waited for."""

    @property
    def total_us(self) -> int:
        """All waits together."""
        return sum(self.waits.values())


def proxy_times(paths: Iterable[Path]) -> tuple[ProxyTime, ...]:
    """The waits in the proxy traces of some logs, the most time first; logs that cannot be read are left out."""
    found: dict[tuple[Context, int, str], ProxyTime] = {}
    for path in paths:
        parser = LineParser(ReadCounts())
        for line in lines_of(path):
            if _MARK in line or _CONTEXT in line:
                parser.proxy = None
                parser.parse(line)
                if (proxy := parser.proxy) is not None:
                    _add(*proxy, found)
    times = [one for one in found.values() if one.total_us]
    return tuple(sorted(times, key=lambda one: (-one.total_us, one.comm, one.rank, one.peer, one.direction)))


def _add(context: Context, trace: object, found: dict[tuple[Context, int, str], ProxyTime]) -> None:
    for step, peer, direction in _steps(trace, None, None, _DEEPEST):
        key = context, peer, direction
        held = found.get(key)
        if held is None:
            held = found[key] = ProxyTime(context.comm, context.rank, context.host, context.pid, peer, direction)
        held.steps += 1
        for name, value in step.items():
            held.waits[name] += value


def _steps(
    value: object, peer: int | None, direction: str | None, depth: int
) -> Iterator[tuple[Mapping[str, int], int, str]]:
    """The innermost objects with such times, and the peer and direction of those around them."""
    if depth == 0 or not isinstance(value, dict | list):
        return
    if isinstance(value, list):
        for one in value:
            yield from _steps(one, peer, direction, depth - 1)
        return
    own: dict[str, Any] = value
    peer = own["peer"] if type(own.get("peer")) is int else peer
    direction = own["direction"] if own.get("direction") in _DIRECTIONS else direction
    inner = False
    for one in own.values():
        for step in _steps(one, peer, direction, depth - 1):
            inner = True
            yield step
    times = {
        name: round(own[name])
        for name in WAITS
        if type(own.get(name)) in (int, float) and 0 <= own[name] <= _MOST_US  # NaN is neither
    }
    if times and not inner and peer is not None and direction is not None:
        yield times, peer, direction
