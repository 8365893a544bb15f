"""How figures are worded: counts with their noun, shares, condition by condition the same."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 step`, `3 steps`."""
    return f"{count} {plural_of(count, noun, plural)}"


def plural_of(count: float, noun: str, plural: str = "") -> str:
    """The noun for so many: `batch`, or `batches` when `plural` says so, else with an s."""
    return noun if count == 1 else plural or f"{noun}s"


def format_share(share: float) -> str:
    """A fraction as `31 %`; one below ten keeps a decimal."""
    value = 100.0 * share
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"
