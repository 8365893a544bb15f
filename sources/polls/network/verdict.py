"""Who holds up a stream of data, as the ends of its connections that can be seen tell.

Measured in two network namespaces: an application that reads too slowly leaves its receive memory full and its sender
limited by the window; a link that is too slow leaves the sender busy all the time with nothing left to read; a sender
that has too little to say is hardly ever busy. From the receiver alone the last two look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_FULL, _LIMITED = 0.5, 0.5
_BUSY, _CALM = 0.8, 0.2
_GAP_MS = 50.0
"""Who reads all that comes, and gets nothing for so long, waits."""
_SOME = 1000.0
"""Bytes a second below which a connection is idle."""
_HALF = 0.5


@dataclass(frozen=True, slots=True)
class Flow:
    """A connection over one period."""

    recv_share: float
    recv_q: int
    send_q: int
    busy: float
    """Share of the period in which there was something to send."""
    limited: float
    """Share of that in which the peer's window was full."""
    sent: float
    received: float
    """Bytes a second."""
    lastrcv_ms: float | None

    @property
    def reads(self) -> bool:
        """This end is the one that data flows to."""
        return self.received > self.sent


def verdict(periods: Sequence[Sequence[Flow]]) -> str:
    """producer, network, consumer, upstream, healthy or idle: of the last periods, what most of them say."""
    flows = [flow for period in periods for flow in period]
    moving = [flow for flow in flows if flow.sent + flow.received >= _SOME or flow.send_q or flow.recv_q]
    if not moving:
        return "idle"
    writers = [flow for flow in moving if not flow.reads or flow.send_q]
    readers = [flow for flow in moving if flow.reads or flow.recv_q]
    if _most(readers, lambda flow: flow.recv_share > _FULL) or _most(
        writers, lambda flow: flow.limited > _LIMITED and flow.busy > _CALM
    ):
        return "consumer"
    if not writers:
        return "upstream"
    if _most(writers, lambda flow: flow.send_q > 0 and flow.busy > _BUSY):
        return "network"
    starved = _most(readers, lambda flow: not flow.recv_q and (flow.lastrcv_ms or 0.0) > _GAP_MS)
    if _most(writers, lambda flow: flow.busy < _CALM):
        return "producer" if starved else "healthy"
    return "healthy"


def _most(flows: Sequence[Flow], what: Callable[[Flow], bool]) -> bool:
    """Whether it holds for half of them at least."""
    return bool(flows) and sum(map(what, flows)) >= _HALF * len(flows)
