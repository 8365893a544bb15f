"""Lines that come late, alone or in a batch, make no silence and hide none, however a log is cut."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from feeding import feed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfmon.core.config import Config
from perfmon.pipeline.session import Session
from perfmon.reports.json_report import document
from perfmon.sources.scan.block_times import COARSE_S

BEGIN = datetime(2026, 5, 11, 10)


def _line(at_s: float, message: str, clock: str) -> str:
    at = BEGIN + timedelta(seconds=at_s)
    heads = {"iso": f"{at:%Y-%m-%d %H:%M:%S},000 - root - INFO - ", "day": f"{at:%H:%M:%S}    INFO "}
    return f"{heads.get(clock, '')}{message}\n"


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[str], list[str]]:
    """Lines of a run with silences, without and with late lines between."""
    clock = draw(st.sampled_from(["iso", "day"]))
    at = first = draw(st.sampled_from([1.0, 400.0]))
    clean: list[str] = []
    late: list[str] = []
    for number in range(draw(st.integers(4, 60))):
        at += draw(st.sampled_from([1, 1, 1, 2, 5, 5, 7, 60, 400])) if number else 0
        message = draw(st.sampled_from(["chatter", "chatter", "[rollout] trunc_pct=2.0 staleness=1"]))
        clean.append(_line(at, message, clock))
        late.append(clean[-1])
        if number and draw(st.integers(0, 6)) == 0:
            since = max(first, at - draw(st.sampled_from([3, 30, 350, 395])))
            message = draw(st.sampled_from(["chatter that comes late", "[rollout] trunc_pct=2.0 staleness=1"]))
            late += [_line(min(at, since + step), message, clock) for step in range(draw(st.integers(1, 12)))]
    clean.append(_line(at + 1, "chatter", clock))
    late.append(clean[-1])
    return clean, late


def _result_of(blocks: list[str]) -> Any:
    session = Session(Config())
    state = feed(session, "run.log", blocks)
    result = document(session.snapshot())
    first = state.first or 0.0
    gaps = sorted((round(gap.start - first), round(gap.end - first)) for gap in state.gaps)
    return {"gaps": gaps, **json.loads(json.dumps({key: result[key] for key in ("findings", "ledger")}))}


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(run=runs(), cuts=st.lists(st.integers(0, 90), max_size=4))
def test_silences_are_those_of_the_run_without_them(run: tuple[list[str], list[str]], cuts: list[int]) -> None:
    clean, late = run
    expected = _result_of(["".join(late)])
    edges = sorted({0, len(late), *(min(cut, len(late)) for cut in cuts)})
    clean_gaps = _result_of(["".join(clean)])["gaps"]
    assert len(expected["gaps"]) == len(clean_gaps)
    for (start, end), (clean_start, clean_end) in zip(expected["gaps"], clean_gaps, strict=True):
        assert (start, end) == (pytest.approx(clean_start, abs=COARSE_S), clean_end)
    assert _result_of(late) == expected
    assert _result_of(["".join(late[low:high]) for low, high in pairwise(edges)]) == expected


@pytest.mark.parametrize("cut", range(6))
def test_a_late_line_behind_those_that_ended_a_silence_does_not_hide_it(cut: int) -> None:
    known = "[rollout] trunc_pct=2.0 staleness=1"
    result = [(0, known), (400, "up"), (401, "up"), (402, "up"), (5, known), (403, known)]
    lines = [_line(at_s, message, "iso") for at_s, message in result]
    assert _result_of(["".join(lines[:cut]), "".join(lines[cut:])])["gaps"] == [(0, 400)]
