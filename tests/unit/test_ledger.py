"""The ledger: every moment belongs to one cause, the shares sum to the window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmon.core.intervals import (
    DOWNTIME,
    PRODUCTIVE,
    UNACCOUNTED,
    LostInterval,
    attribute_time,
    length,
    union,
    without,
)

MOMENTS = st.integers(-20, 120).map(float)
INTERVALS = st.lists(st.tuples(MOMENTS, MOMENTS), max_size=12)
CLAIMS = st.lists(
    st.builds(LostInterval, st.integers(0, 4), st.sampled_from([1.0, 2.0, 3.0]), MOMENTS, MOMENTS), max_size=15
)
WINDOW = (0.0, 100.0)


def owner_at(claims: list[LostInterval], moment: float) -> int | None:
    """Who has a moment, worked out the slow way."""
    there = [claim for claim in claims if claim.start <= moment < claim.end]
    return min(there, key=lambda claim: (claim.rank, claim.owner)).owner if there else None


@given(CLAIMS, INTERVALS)
def test_the_shares_sum_to_the_window(claims: list[LostInterval], dark: list[tuple[float, float]]) -> None:
    shares = attribute_time(WINDOW, claims, [(PRODUCTIVE, union(dark))])
    parts = [*shares.lost.values(), *shares.rest.values()]
    assert min(parts) >= 0
    assert sum(parts) == pytest.approx(100.0)


@given(CLAIMS)
def test_no_moment_is_counted_twice_and_the_smallest_rank_has_it(claims: list[LostInterval]) -> None:
    shares = attribute_time(WINDOW, claims, [])
    for moment in range(100):
        owners = [who for who, kept in shares.kept.items() if any(a <= moment + 0.5 < b for a, b in kept)]
        wanted = owner_at(claims, moment + 0.5)
        assert owners == ([] if wanted is None else [wanted])


@given(INTERVALS, INTERVALS)
def test_what_is_cut_out_is_gone_and_nothing_else(
    some: list[tuple[float, float]], cut: list[tuple[float, float]]
) -> None:
    left, gone = without(union(some), union(cut)), union(cut)
    assert all(not (a < stop and start < b) for a, b in left for start, stop in gone)
    assert length(union([*left, *gone])) == pytest.approx(length(union([*some, *cut])))


def test_what_nothing_proves_is_unaccounted_for() -> None:
    proven = [(DOWNTIME, [(8.0, 9.0)]), (PRODUCTIVE, [(3.0, 8.5)])]
    shares = attribute_time((0.0, 10.0), [LostInterval(0, 1.0, 2.0, 4.0)], proven, outside=[(9.5, 10.0)])
    assert shares.lost == {0: 2.0}
    assert {name: s for name, s in shares.rest.items() if s} == {PRODUCTIVE: 4.0, DOWNTIME: 1.0, UNACCOUNTED: 2.5}


def test_a_run_without_time_has_no_shares() -> None:
    shares = attribute_time((5.0, 5.0), [LostInterval(0, 1.0, 0.0, 9.0)], [(PRODUCTIVE, [(0.0, 9.0)])])
    assert (shares.lost, sum(shares.rest.values())) == ({}, 0.0)
