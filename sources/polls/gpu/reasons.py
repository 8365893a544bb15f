"""Why a GPU's clocks are lower than they could be: the driver's bits and AMD's flags, in words."""

from __future__ import annotations

from collections.abc import Iterable

BUSY_PCT = 20.0
"""A GPU that does less is not held back by its clocks."""
_IDLE = 0x1
_WORDS = (
    (0x80, "power-brake"),  # the power supply, or the rack, pulls the brake
    (0x40, "hw-thermal"),
    (0x20, "sw-thermal"),
    (0x08, "hw-slowdown"),
    (0x04, "power-cap"),
    (0x10, "sync-boost"),
    (0x02, "app-clocks"),  # somebody set them
    (0x100, "display-clocks"),
)
"""Bits of nvmlClocksEventReasons (nvml.h), the gravest first. Bit 1, idle, is no throttling."""
_PRECISE = frozenset({"power-brake", "hw-thermal"})
HOLDS_BACK = frozenset({"power-brake", "hw-thermal", "sw-thermal", "hw-slowdown", "power-cap"})
"""Power, heat and hardware: what nobody asked for."""


def reasons(mask: int) -> tuple[str, ...]:
    """The words of a mask; `hw-slowdown` only where no other bit says what the hardware slows down for."""
    found = [word for bit, word in _WORDS if mask & bit]
    if _PRECISE.intersection(found):
        found = [word for word in found if word != "hw-slowdown"]
    return tuple(found)


def throttled(words: Iterable[str], util_pct: float | None) -> float:
    """1 where power, heat or hardware hold back a GPU that works, else 0."""
    busy = util_pct is None or util_pct >= BUSY_PCT
    return float(busy and not HOLDS_BACK.isdisjoint(words))


def read_mask(text: str) -> int | None:
    """The number in `0x0000000000000004`; None for `N/A`, `Not Active` and the like."""
    try:
        return int(text, 16) if text.lower().startswith("0x") else int(text)
    except ValueError:
        return None


def idle(mask: int) -> bool:
    """Nothing runs, says the driver."""
    return bool(mask & _IDLE)
