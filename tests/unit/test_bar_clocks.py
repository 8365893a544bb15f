"""Which bars move the time of a log that has a clock of its own on."""

from __future__ import annotations

from perfmon.store.counters import Paces

SLOT = (0, "batches", "Loading")


def _times(*frames: tuple[float, float]) -> list[float]:
    """What a log has told of, up to 100 s by its own lines, after each frame (amount, seconds)."""
    paces = Paces()
    return [paces.along(SLOT, amount, elapsed_s, 100.0)[0] for amount, elapsed_s in frames]


def test_a_bar_that_goes_on_is_a_clock() -> None:
    assert _times((0, 0), (10, 5), (20, 10), (30, 15), (40, 20)) == [100.0, 100.0, 100.0, 115.0, 120.0]


def test_a_bar_whose_work_goes_back_while_its_time_goes_on_is_none() -> None:
    assert _times((80, 3), (20, 7), (30, 8), (40, 9), (50, 10), (60, 11))[-1] == 100.0


def test_a_bar_that_is_met_late_moves_nothing() -> None:
    assert _times((45, 7)) == [100.0]
