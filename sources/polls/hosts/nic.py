"""Rates of network interfaces, out of what they have counted."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..reading import Area, Reading
from .procfs import NicCounts

_INNER = re.compile(r"lo\d*$|veth|docker|br-|virbr|cali|cni|flannel|vnet|ifb|dummy|tun|tap|kube|cilium|lxc|nerdctl")
"""Interfaces through which nothing leaves the machine, or what passes another one as well."""
_MOST = 16
_MB = 1e6


class NicRates:
    """Remembers the last counts."""

    def __init__(self) -> None:
        self._last: dict[str, NicCounts] = {}
        self._at = 0.0

    def take(self, nics: Mapping[str, NicCounts], speeds: Mapping[str, float], at: float) -> list[Reading]:
        """The rates since the last time, at `at` seconds of a steady clock; of those that ever carried something."""
        since, last, self._at, self._last = at - self._at, self._last, at, dict(nics)
        used = [name for name, counts in nics.items() if counts.rx_bytes + counts.tx_bytes and not _INNER.match(name)]
        used.sort(key=lambda name: -(nics[name].rx_bytes + nics[name].tx_bytes))
        readings = []
        for name in sorted(used[:_MOST]):
            values = {"speed_mb_s": speeds[name]} if name in speeds else {}
            before, now = last.get(name), nics[name]
            if before is not None and since > 0:
                values = {
                    "rx_mb_s": _rate(now.rx_bytes, before.rx_bytes, since) / _MB,
                    "tx_mb_s": _rate(now.tx_bytes, before.tx_bytes, since) / _MB,
                    **values,
                    "errors_per_s": _rate(now.errors, before.errors, since),
                    "drops_per_s": _rate(now.drops, before.drops, since),
                }
            if values:
                readings.append(Reading(Area.NIC, name, values))
        return readings


def _rate(now: float, before: float, seconds: float) -> float:
    """A counter that fell began anew."""
    return (now - before if now >= before else now) / seconds
