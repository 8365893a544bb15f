"""Values that cannot be meant: each line of them is told once, with all of them, and counted once."""

from __future__ import annotations

from feeding import feed

from perfmon.core.config import Config
from perfmon.pipeline.session import Session


def _result_of(*lines: str) -> tuple[int, tuple[str, ...]]:
    session = Session(Config())
    feed(session, "run.log", ["".join(f"{line}\n" for line in lines)])
    source = session.snapshot().run.sources[0]
    return source.skipped, source.notes


def test_a_line_with_several_is_one_line() -> None:
    skipped, notes = _result_of(
        "[rollout] trunc_pct=500 current_step=abc staleness=--", "[rollout] trunc_pct=2.0 current_step=4"
    )
    assert (skipped, notes) == (1, ("line 1: trunc_pct=500, staleness=--, current_step=abc is implausible: ignored",))


def test_lines_are_counted_beyond_the_first_few() -> None:
    skipped, notes = _result_of(*["[rollout] trunc_pct=500 current_step=abc"] * 5)
    assert skipped == 5
    assert notes[-1] == "2 more lines with implausible values"
