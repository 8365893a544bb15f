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


def _paces(each_s: float, total: int, left: bool) -> list[float]:
    """The paces of a bar that takes `each_s` for each of `total`, and shows whole seconds."""
    paces, found = Paces(), []
    for n in range(total + 1):
        left_s = int((total - n) * each_s) if left and n else None
        found.append(paces.shown(SLOT, n, int(n * each_s), 0.0, total, left_s)[1])
    return [pace for pace in found if pace is not None]


def test_the_time_left_makes_a_pace_in_whole_seconds_finer() -> None:
    usual = _paces(3.1, 400, left=True)[:-6]
    assert max(abs(pace - 3.1) for pace in usual) < 0.03
    assert max(abs(pace - 3.1) for pace in _paces(3.1, 400, left=False)) > 0.1


def test_a_time_left_that_lags_behind_does_not_change_a_pace() -> None:
    """As a mean since the start does, once the work is slower."""
    paces = Paces()
    paces.shown(SLOT, 0, 0, 0.0, 1000)
    paces.shown(SLOT, 100, 200, 0.0, 1000, 1800)
    assert paces.shown(SLOT, 110, 250, 0.0, 1000, 2022)[1] == 5.0
