"""TCP connections of a port: what waits in them, and who holds them up."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from .base import ScriptPoller
from .reading import Area, Machine, NotAvailableError, Reading

# --- TCP connections as `ss -tinmH` prints them: two lines each, the second one begins with a blank ---

_SKMEM = re.compile(r"skmem:\(r(\d+),rb(\d+),t(\d+),tb(\d+)")
_BUSY = re.compile(r"\bbusy:(\d+)ms")
_RWND = re.compile(r"\brwnd_limited:(\d+)ms")
_SENT = re.compile(r"\bbytes_acked:(\d+)")
_RECEIVED = re.compile(r"\bbytes_received:(\d+)")
_RETRANS = re.compile(r"\bretrans:\d+/(\d+)")
_LASTRCV = re.compile(r"\blastrcv:(\d+)")
_MOST = 2000


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """One end of a connection; what is cumulative counts since it was made."""

    local: str
    peer: str
    recv_q: int
    """Bytes that the application has not read."""
    send_q: int
    """Bytes that are not sent, or not acknowledged."""
    recv_share: float
    """Memory taken by what was received, as a share of its limit."""
    busy_ms: float
    rwnd_limited_ms: float
    acked: int
    received: int
    retrans: int
    lastrcv_ms: float | None


def sockets_of(text: str) -> Iterator[TcpSocket]:
    """The established connections."""
    lines, count = text.split("\n"), 0
    for at, line in enumerate(lines):
        words = line.split()
        if len(words) < 5 or words[0] != "ESTAB" or not (words[1].isdigit() and words[2].isdigit()):
            continue
        detail = lines[at + 1] if at + 1 < len(lines) and lines[at + 1][:1].isspace() else ""
        yield _socket(words, f"{' '.join(words[5:])} {detail}")
        count += 1
        if count >= _MOST:
            return


def _socket(words: list[str], detail: str) -> TcpSocket:
    memory = _SKMEM.search(detail)
    used, limit = (int(memory[1]), int(memory[2])) if memory else (0, 0)
    return TcpSocket(
        local=words[3],
        peer=words[4],
        recv_q=int(words[1]),
        send_q=int(words[2]),
        recv_share=used / limit if limit else 0.0,
        busy_ms=_number(_BUSY, detail),
        rwnd_limited_ms=_number(_RWND, detail),
        acked=int(_number(_SENT, detail)),
        received=int(_number(_RECEIVED, detail)),
        retrans=int(_number(_RETRANS, detail)),
        lastrcv_ms=_number(_LASTRCV, detail) if _LASTRCV.search(detail) else None,
    )


def _number(pattern: re.Pattern[str], text: str) -> float:
    match = pattern.search(text)
    return float(match[1]) if match else 0.0


# --- Who holds up a stream of data, as the ends of its connections that are visible ---
#
# Measured in two network namespaces: an application that reads too slowly leaves its receive memory full and its sender
# limited by the window; a link that is too slow leaves the sender busy all the time with nothing left to read; a sender
# that has too little to send is hardly ever busy. From the receiver alone the last two look the same.

_FULL, _LIMITED = 0.5, 0.5
_BUSY_SHARE, _CALM = 0.8, 0.2
_GAP_MS = 50.0
"""Milliseconds without data after which a reader with an empty receive queue is waiting."""
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


HOLDERS = ("consumer", "network", "producer", "upstream")
"""Those who may hold up a stream; upstream is the producer or the network, seen from the receiver alone: then which of
the two it is remains open.
"""


def verdict(periods: Sequence[Sequence[Flow]]) -> str:
    """producer, network, consumer, upstream, healthy or idle: what most of the last periods show."""
    writers, readers = _ends(periods)
    if not writers and not readers:
        return "idle"
    if _most(readers, lambda flow: flow.recv_share > _FULL) or _most(
        writers, lambda flow: flow.limited > _LIMITED and flow.busy > _CALM
    ):
        return "consumer"
    if not writers:
        return "upstream"
    if _most(writers, lambda flow: flow.send_q > 0 and flow.busy > _BUSY_SHARE):
        return "network"
    starved = _most(readers, lambda flow: not flow.recv_q and (flow.lastrcv_ms or 0.0) > _GAP_MS)
    if _most(writers, lambda flow: flow.busy < _CALM):
        return "producer" if starved else "healthy"
    return "healthy"


def _ends(periods: Sequence[Sequence[Flow]]) -> tuple[list[Flow], list[Flow]]:
    """The writing and the reading ends of the connections that carry something."""
    flows = [flow for period in periods for flow in period]
    moving = [flow for flow in flows if flow.sent + flow.received >= _SOME or flow.send_q or flow.recv_q]
    return [flow for flow in moving if not flow.reads or flow.send_q], [
        flow for flow in moving if flow.reads or flow.recv_q
    ]


def holders(periods: Sequence[Sequence[Flow]]) -> dict[str, float]:
    """100 for the one that holds up the data, 0 for those that do not, by `HOLDERS`.

    What the ends in view cannot show is left out: of the network the sender alone knows, of the producer both together.
    """
    found = verdict(periods)
    if found == "idle":
        return {}
    writers, readers = _ends(periods)
    shown = {"consumer": True, "network": bool(writers), "producer": bool(writers and readers), "upstream": not writers}
    return {f"{who}_pct": 100.0 * (who == found) for who in HOLDERS if shown[who]}


def _most(flows: Sequence[Flow], what: Callable[[Flow], bool]) -> bool:
    return bool(flows) and sum(map(what, flows)) >= _HALF * len(flows)


# --- The TCP connections of a port: what waits in them on either side, and who holds them up ---

EVERY_S = 2.0
_PERIODS = 5
"""The verdict is about so many."""
_NO_SS = 127
_MB = 1e6


class SocketPoller(ScriptPoller):
    """Runs `ss` for all connections of which either end is the port."""

    every_s = EVERY_S

    def __init__(self, machine: Machine, port: int) -> None:
        super().__init__(machine)
        self.name, self._port = f"net:{port}", port
        self._last: dict[tuple[str, str], TcpSocket] = {}
        self._at = 0.0
        self._periods: deque[list[Flow]] = deque(maxlen=_PERIODS)

    async def poll(self) -> Sequence[Reading]:
        """One round. Raises NotAvailableError where there is no `ss`, and what `Script` raises."""
        output = await self._shell.run(f"ss -tinmH 'sport = :{self._port} or dport = :{self._port}'")
        if output.code == _NO_SS:
            raise NotAvailableError(f"{self.name}: no ss on {self._machine.name}: install iproute2")
        if output.code:
            raise NotAvailableError(
                f"{self.name}: ss of {self._machine.name} does not support -tinmH: install a newer iproute2"
            )
        now = time.monotonic()
        since, self._at = now - self._at, now
        held = {(one.local, one.peer): one for one in sockets_of(output.text)}
        last, self._last = self._last, held
        known = [(last[key], one) for key, one in held.items() if key in last]
        values = _levels(list(held.values()))
        words: Mapping[str, str] = {} if held else {"verdict": "idle"}
        if known:
            flows = [_flow(before, after, since) for before, after in known]
            self._periods.append(flows)
            values.update(_rates(flows))
            values["retrans_per_s"] = sum(max(0, after.retrans - before.retrans) for before, after in known) / since
            words = {"verdict": verdict(self._periods)}
            values.update(holders(self._periods))
        return [Reading(Area.SOCKET, str(self._port), values, words)]


def _levels(held: Sequence[TcpSocket]) -> dict[str, float]:
    """Bytes that wait in all connections; of the shares the largest."""
    return {
        "connections": float(len(held)),
        "recv_q_bytes": float(sum(one.recv_q for one in held)),
        "recv_q_share_pct": 100.0 * max((one.recv_share for one in held), default=0.0),
        "send_q_bytes": float(sum(one.send_q for one in held)),
    }


def _rates(flows: Sequence[Flow]) -> dict[str, float]:
    """Over the last period; a connection of which both ends are here carries its data once."""
    return {
        "busy_pct": 100.0 * max(flow.busy for flow in flows),
        "rwnd_limited_pct": 100.0 * max(flow.limited for flow in flows),
        "rate_mb_s": max(sum(flow.sent for flow in flows), sum(flow.received for flow in flows)) / _MB,
    }


def _flow(before: TcpSocket, after: TcpSocket, seconds: float) -> Flow:
    busy_ms, limited_ms = after.busy_ms - before.busy_ms, after.rwnd_limited_ms - before.rwnd_limited_ms
    return Flow(
        recv_share=after.recv_share,
        recv_q=after.recv_q,
        send_q=after.send_q,
        busy=min(1.0, max(0.0, busy_ms / 1e3 / seconds)),
        limited=min(1.0, max(0.0, limited_ms / busy_ms)) if busy_ms > 0 else 0.0,
        sent=max(0, after.acked - before.acked) / seconds,
        received=max(0, after.received - before.received) / seconds,
        lastrcv_ms=after.lastrcv_ms,
    )
