"""The TCP connections of a port: what waits in them on either side, and who holds them up."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence

from ..poller import AbsentError, Machine, Poller
from ..reading import Area, Reading
from ..script import Script
from .ss import TcpSocket, sockets_of
from .verdict import Flow, verdict

EVERY_S = 2.0
_PERIODS = 5
"""The verdict is about so many."""
_NO_SS = 127
_MB = 1e6


def socket_pollers(machine: Machine, port: str) -> list[Poller]:
    """The one poller of a port."""
    return [SocketPoller(machine, int(port))]


class SocketPoller:
    """Asks `ss` for all connections of which either end is the port."""

    every_s = EVERY_S

    def __init__(self, machine: Machine, port: int, shell: Script | None = None) -> None:
        self.name = f"net:{port}"
        self._machine, self._port, self._shell = machine, port, shell or Script(machine)
        self._last: dict[tuple[str, str], TcpSocket] = {}
        self._at = 0.0
        self._periods: deque[list[Flow]] = deque(maxlen=_PERIODS)

    async def poll(self) -> Sequence[Reading]:
        """One round. Raises AbsentError where there is no `ss`, and what `Script` raises."""
        output = await self._shell.run(f"ss -tinmH 'sport = :{self._port} or dport = :{self._port}'")
        if output.code == _NO_SS:
            raise AbsentError(f"{self.name}: no ss on {self._machine.name}: install iproute2")
        if output.code:
            raise AbsentError(
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
        return [Reading(Area.SOCKET, str(self._port), values, words)]

    async def close(self) -> None:
        """Ends the shell."""
        await self._shell.close()


def _levels(held: Sequence[TcpSocket]) -> dict[str, float]:
    """What waits in all of them; of the shares the largest."""
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
