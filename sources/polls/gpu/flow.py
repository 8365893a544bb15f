"""What goes through a GPU's links, out of the driver's counters where it has them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .device import Device

_ALL_LINKS = 0xFFFFFFFF
_NVLINK_TX, _NVLINK_RX, _PCIE_TX, _PCIE_RX = 138, 139, 197, 198
_COUNTERS = {
    "nvlink_rx_mb_s": ((_NVLINK_RX, _ALL_LINKS), 1024e-6),
    "nvlink_tx_mb_s": ((_NVLINK_TX, _ALL_LINKS), 1024e-6),
    "pcie_rx_mb_s": ((_PCIE_RX, 0), 1e-6),
    "pcie_tx_mb_s": ((_PCIE_TX, 0), 1e-6),
}
"""Name → (field of nvml.h and its scope, MB of one unit). NVLink counts KiB, PCIe bytes."""
_WIDE = frozenset({2, 3, 4})
"""Types of values with 64 bits: narrower counters of bytes wrap several times within seconds."""
_TX, _RX = 0, 1


class Flow:
    """MB per second between two looks."""

    def __init__(self, nvml: ModuleType) -> None:
        self._nvml = nvml
        self._before: dict[str, tuple[float, int]] = {}

    def told(self, device: Device) -> Mapping[str, float | None]:
        """By name of the value; None for what the driver does not tell. Blocks for some ms."""
        counted = self._counted(device)
        if "pcie_rx_mb_s" not in self._before:
            # It takes a sample of 20 ms for each: only where there is no counter.
            counted["pcie_rx_mb_s"] = _megabytes(device.ask("nvmlDeviceGetPcieThroughput", _RX))
            counted["pcie_tx_mb_s"] = _megabytes(device.ask("nvmlDeviceGetPcieThroughput", _TX))
        return {
            name: counted.get(name) for name in ("pcie_rx_mb_s", "pcie_tx_mb_s", "nvlink_rx_mb_s", "nvlink_tx_mb_s")
        }

    def _counted(self, device: Device) -> dict[str, float | None]:
        fields = tuple(field for field, _ in _COUNTERS.values())
        answers = device.ask("nvmlDeviceGetFieldValues", fields)
        if answers is None:
            return {}
        now = time.monotonic()
        found: dict[str, float | None] = {}
        for (name, (_, unit)), answer in zip(_COUNTERS.items(), answers, strict=True):
            if answer.nvmlReturn == 0 and answer.valueType in _WIDE:
                found[name] = self._rate(name, int(answer.value.ullVal), unit, now)
        return found

    def _rate(self, name: str, count: int, unit: float, now: float) -> float | None:
        before = self._before.get(name)
        self._before[name] = (now, count)
        if before is None or count < before[1] or now <= before[0]:
            return None
        return unit * (count - before[1]) / (now - before[0])


def _megabytes(kilobytes: float | None) -> float | None:
    return None if kilobytes is None else kilobytes * 1e-3
