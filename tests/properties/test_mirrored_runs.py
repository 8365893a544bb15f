"""A run compared with itself is unchanged, exchanged runs give the mirror image, and nothing depends on luck."""

from __future__ import annotations

import math

import snapshots
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmon.comparison.comparing import compare
from perfmon.comparison.model import Comparison, Run, load_criteria
from perfmon.rules.bands import load_bands

BANDS, CRITERIA = load_bands(), load_criteria()
NAMES = st.sampled_from(["queue_ms", "rpc_ms", "throughput_tps", "staleness", "inflight", "kv_usage{engine 1}"])
VALUES = st.lists(st.floats(0.0, 1e5, allow_nan=False, width=32), min_size=1, max_size=80)
SAMPLES = st.dictionaries(NAMES, VALUES, min_size=1, max_size=3)
WHOLE = st.sampled_from([snapshots.snapshot(), snapshots.healthy(), snapshots.empty()])
MIRRORED = {"better": "worse", "worse": "better", "same": "same", None: None}


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """A run with any diagnosis and any samples."""
    samples = draw(SAMPLES)
    return Run(draw(WHOLE), BANDS, samples, {"weight-update": draw(st.integers(0, 9))})


def _compared(before: Run, after: Run) -> Comparison:
    return compare(before, after, CRITERIA)


@settings(max_examples=40, deadline=None)
@given(runs())
def test_a_run_is_unchanged_against_itself(run: Run) -> None:
    comparison = _compared(run, run)
    assert comparison.verdict in ("unchanged", "cannot tell")
    assert {change.verdict for change in comparison.metrics} <= {"same", None}
    assert not any(change.moved for change in comparison.metrics)
    assert {change.kind for change in comparison.findings} <= {"still"}


@settings(max_examples=40, deadline=None)
@given(runs(), runs())
def test_exchanged_runs_give_the_mirror_image(before: Run, after: Run) -> None:
    forth, back = _compared(before, after), _compared(after, before)
    for one, other in zip(forth.metrics, back.metrics, strict=True):
        assert (one.name, one.verdict) == (other.name, MIRRORED[other.verdict])
        for statistic, shift in one.shifts.items():
            mirror = other.shifts[statistic]
            assert shift.change == -mirror.change
            assert shift.ci95 == (None if mirror.ci95 is None else (-mirror.ci95[1], -mirror.ci95[0]))
    kinds = {"gone": "new", "new": "gone", "still": "still"}
    assert {(c.signature, c.kind) for c in forth.findings} == {(c.signature, kinds[c.kind]) for c in back.findings}
    good, bad = {"fixed", "improved"}, {"regressed"}
    assert (forth.verdict in bad) == (back.verdict in good)
    assert (forth.verdict == "mixed") == (back.verdict == "mixed")
    assert (forth.verdict == "cannot tell") == (back.verdict == "cannot tell")


@settings(max_examples=20, deadline=None)
@given(runs(), runs())
def test_the_same_runs_give_the_same_comparison(before: Run, after: Run) -> None:
    assert _compared(before, after) == _compared(before, after)


@settings(max_examples=40, deadline=None)
@given(runs(), runs())
def test_intervals_are_finite_and_in_order(before: Run, after: Run) -> None:
    for change in _compared(before, after).metrics:
        for shift in change.shifts.values():
            if shift.ci95 is not None:
                assert all(map(math.isfinite, shift.ci95))
                assert shift.ci95[0] <= shift.ci95[1]
