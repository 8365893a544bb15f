"""Bandwidth that hardware reaches at best, from `ceilings.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import UsageError

from .schema import HCA, NVLINK

if TYPE_CHECKING:
    from .model import CollectiveStats

_FILE = Path(__file__).with_name("ceilings.toml")
_LARGE = 16 << 20
"""Bytes from which on bandwidth, and not latency, determines the time."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Bus bandwidths in GB/s of one generation of hardware."""

    id: str
    title: str
    nvlink: float
    nvlink_allreduce: float
    hca: float

    def of(self, stats: CollectiveStats) -> float | None:
        """Return the ceiling of a large message; None where there is none (mixed communicators, small messages)."""
        if stats.size < _LARGE:
            return None
        if stats.comm_type == NVLINK:
            return self.nvlink_allreduce if stats.collective == "AllReduce" else self.nvlink
        return self.hca if stats.comm_type == HCA else None


def ceilings() -> dict[str, Ceiling]:
    """All of them by id."""
    import tomli

    table = tomli.loads(_FILE.read_text(encoding="utf-8"))["hardware"]
    return {name: Ceiling(name, **values) for name, values in table.items()}


def ceiling(name: str) -> Ceiling:
    """Return the one of this id. Raises UsageError."""
    known = ceilings()
    if name not in known:
        raise UsageError(f"--hardware {name}: unknown (expected one of {', '.join(known)})")
    return known[name]
