"""A run that begins from its start after another one had ended is a new one: nothing was lost or made again."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import diagnose_texts

_BEGIN = datetime(2026, 3, 2, 10)
_BANNER = (
    "W{stamp} {pid} torch/distributed/run.py:793] "
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default"
)


def _banner(second: float, pid: int) -> str:
    return _BANNER.format(stamp=f"{_BEGIN + timedelta(seconds=second):%m%d %H:%M:%S}.892892", pid=pid)


def _line(second: float, text: str) -> str:
    return f"{_BEGIN + timedelta(seconds=second):%Y-%m-%d %H:%M:%S},000 INFO: {text}"


def _run(second: float, first: int, last: int, interval: int = 50) -> list[str]:
    return [
        _line(second + 20 * at, f"step {step}: loss 0.5000, lr 1e-4")
        for at, step in enumerate(range(first, last + 1, interval))
    ]


def _result_of(*parts: list[str] | str) -> Diagnosis:
    lines = [line for part in parts for line in ([part] if isinstance(part, str) else part)]
    return diagnose_texts({"fit.log": "\n".join(lines)})


def _lost(snapshot: Diagnosis) -> dict[str, float]:
    return {row.cause: row.lost_s for row in snapshot.ledger}


@pytest.mark.parametrize("interval", [50, 100])
def test_a_counter_that_begins_from_its_start_resumes_nothing(interval: int) -> None:
    first = _run(30, interval, 40 * interval, interval)
    again = _run(9_000, interval, 30 * interval, interval)
    snapshot = _result_of(_banner(0, 7001), first, _line(850, "End of training."), _banner(8_970, 8002), again)
    assert snapshot.run.runs == 2
    assert not {"downtime", "wasted-progress"} & _lost(snapshot).keys()
    notes = " ".join(note for source in snapshot.run.sources for note in source.notes)
    assert "another run starts" in notes
    assert "again" not in notes


def test_a_counter_that_goes_on_from_a_checkpoint_resumes_the_run() -> None:
    snapshot = _result_of(_banner(0, 7001), _run(30, 50, 2_000), _banner(8_970, 8002), _run(9_000, 1_550, 3_000))
    assert _lost(snapshot)["wasted-progress"] > 0
    assert _lost(snapshot)["downtime"] > 0


_REFUSED = """Traceback (most recent call last):
  File "/opt/conda/bin/torchrun", line 33, in <module>
    sys.exit(main())
RuntimeError: The server socket has failed to listen on any local network address. port: 4321, useIpv6: 0, code: -98, \
name: EADDRINUSE, message: address already in use"""


def _failed(snapshot: Diagnosis) -> bool:
    return any(finding.signature == "run-failed" for finding in snapshot.findings)


@pytest.mark.parametrize("later", [[], _run(420, 50, 2_000)])
def test_a_launch_that_is_refused_while_an_earlier_one_lives_on_is_no_failure(later: list[str]) -> None:
    start = [_banner(0, 7001), _line(30, "Loading the data")]
    snapshot = _result_of(start, _banner(240, 8002), _REFUSED, later)
    assert not _failed(snapshot)
    assert snapshot.run.runs == 1
    assert "another launch was refused" in " ".join(note for one in snapshot.run.sources for note in one.notes)


def test_a_launch_that_is_refused_alone_is_one() -> None:
    assert _failed(_result_of(_banner(240, 8002), _REFUSED))


def test_a_launch_that_is_refused_long_after_another_run_is_one() -> None:
    assert _failed(_result_of(_banner(0, 7001), _run(30, 50, 2_000), _banner(90_000, 8002), _REFUSED))


def test_a_launch_that_is_refused_after_a_failure_is_one() -> None:
    died = 'Traceback (most recent call last):\n  File "/srv/fit.py", line 9, in <module>\nValueError: no such layer'
    assert _failed(_result_of(_banner(0, 7001), _line(30, "Loading"), died, _banner(240, 8002), _REFUSED))


def _notes(lines: list[str]) -> str:
    snapshot = _result_of(lines)
    return " ".join([snapshot.summary, *(note for source in snapshot.run.sources for note in source.notes)])


def test_two_runs_that_write_to_one_log_are_reported_and_counted_apart() -> None:
    pairs = [_line(20 * at, f"step {step}: loss 0.5000, lr 1e-4") for at in range(80) for step in (at + 1, 4_000 + at)]
    notes = _notes(pairs)
    assert "2 step counters advance at once (1 to 80, 4000 to 4079)" in notes
    assert "80 steps observed" in notes


@settings(max_examples=50, deadline=None)
@given(st.lists(st.booleans(), min_size=60, max_size=120), st.integers(0, 5000), st.sampled_from((1, 2, 50)))
def test_counters_that_advance_at_once_are_never_summed(turns: list[bool], lead: int, by: int) -> None:
    """However two runs take turns; near to each other they are one counter."""
    steps: tuple[list[float], list[float]] = ([0.0], [float(lead * by)])
    printed = []
    for turn in turns:
        steps[turn].append(steps[turn][-1] + by)
        printed.append(steps[turn][-1])
    longest = max(len(one) - 1 for one in steps)
    text = "\n".join(_line(20 * at, f"step {step:.0f}: loss 0.5000, lr 1e-4") for at, step in enumerate(printed))
    snapshot = diagnose_texts({"train.log": text})
    assert snapshot.run.runs == 1
    often = sum(a != b for a, b in pairwise(turns)) >= 0.45 * len(turns)
    if often and lead > 200 and 20 <= longest <= len(turns) - 20:
        assert f"{longest * by} steps observed; 2 runs" in snapshot.summary
    elif often and lead < 5:
        assert int(snapshot.summary.split(" steps")[0].rpartition(" ")[2]) <= max(printed)


def test_ranks_and_epochs_are_no_runs_at_once() -> None:
    ranks = [_line(20 * at, f"step {at + late}: loss 0.5") for at in range(80) for late in (1, 0, 1, 1)]
    epochs = [_line(20 * at, f"step {at % 10}: loss 0.5") for at in range(80)]
    for lines in (ranks, epochs):
        assert "advance at once" not in _notes(lines)


@pytest.mark.parametrize(("last", "is_short"), [(30, True), (100, False)])
def test_runs_that_never_reach_their_goal_are_reported(last: int, is_short: bool) -> None:
    runs = [
        _line(400 * run + 2 * step, f"step {step}/100 loss 0.5000 lr 1e-4 time 2.0s")
        for run in range(6)
        for step in range(1, last + 1)
    ]
    assert ("5 runs before the last one stopped short of step 100" in _notes(runs)) is is_short
