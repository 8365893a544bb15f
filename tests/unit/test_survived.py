"""What a log goes on behind is no death: failures that it is used to, and such as were only just printed."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block, Progress
from perfmon.pipeline.offline import diagnose_texts
from perfmon.pipeline.session import Session

_BEGIN = datetime(2026, 3, 2, 10)
_TRACEBACK = """Traceback (most recent call last):
  File "/srv/agent/sandbox.py", line 41, in call_tool
    return reply(timeout=30)
TimeoutError: the sandbox gave no answer within 30 s"""


def _steps(first: int, count: int) -> list[str]:
    return [f"{_BEGIN + timedelta(seconds=20 * at)} INFO step={at} loss=1.5" for at in range(first, first + count)]


@pytest.mark.parametrize(("survived", "verdict"), [(4, None), (0, "run-failed")])
def test_a_failure_that_a_run_went_on_behind_time_and_again_is_not_its_last_word(
    survived: int, verdict: str | None
) -> None:
    lines = _steps(0, 10)
    for at in range(survived):
        lines += [_TRACEBACK, *_steps(10 + 2 * at, 2)]
    snapshot = diagnose_texts({"run.log": "\n".join([*lines, _TRACEBACK])})
    assert (snapshot.verdict.signature if snapshot.verdict is not None else None) == verdict
    assert (snapshot.run.state is Progress.FAILED) == (verdict is not None)


@pytest.mark.parametrize(("waited_s", "state"), [(1.0, Progress.RUNNING), (45.0, Progress.FAILED)])
def test_who_watches_is_told_once_nothing_goes_on_behind_it(waited_s: float, state: Progress) -> None:
    session = Session(Config())
    log = session.add_source("run.log")
    session.feed(log, Block("\n".join([*_steps(0, 10), _TRACEBACK, ""]).encode(), 0, 1))
    now = (log.last or 0.0) + waited_s
    assert session.present((now - 600.0, now), align(session.store), now).run.state is state


_BAR = "Loading shards: {share:3}%|####      | {done}/100 [00:{elapsed:02d}<00:09,  3.60it/s]"


def test_bars_that_have_no_one_clock_move_no_time() -> None:
    """Each of them is of a download of its own; the lines between say what time it is."""
    shown = [(18, 8), (90, 0), (57, 7), (25, 5), (65, 5), (22, 2), (93, 3), (13, 3)]
    lines = []
    frames = [_BAR.format(share=done, done=done, elapsed=elapsed) for done, elapsed in shown]
    for line in _steps(0, 30):
        lines += [line, *frames * 6]
    run = diagnose_texts({"run.log": "\n".join(lines)}).run
    assert run.wall_s == pytest.approx(29 * 20.0, abs=2.0)


def test_an_exception_of_a_task_names_the_task_not_the_component_of_the_log_that_prints_it() -> None:
    driver = """Traceback (most recent call last):
  File "/srv/run.py", line 30, in <module>
    ray.get(handle)
ray.exceptions.RayTaskError(KeyError): \x1b[36mray::Sampler.draw()\x1b[39m (pid=7310, ip=10.0.0.9, actor_id=ab12)
  File "/srv/sampler.py", line 12, in draw
    return self.table[key]
KeyError: 'missing'"""
    (finding,) = diagnose_texts({"run.log": "\n".join([*_steps(0, 10), driver])}).findings
    assert "ended by an uncaught exception in Sampler.draw on host 10.0.0.9 (pid 7310)" in finding.sentence
    assert "component" not in finding.identity


@pytest.mark.parametrize(("entry", "flushed", "state"), [
    ("<module>", 3, Progress.FAILED), ("<module>", 30, Progress.RUNNING), ("retry", 3, Progress.RUNNING),
])  # fmt: skip
def test_what_workers_print_behind_the_end_of_their_driver_does_not_hide_it(
    entry: str, flushed: int, state: Progress
) -> None:
    driver = f"""Traceback (most recent call last):
  File "/srv/run.py", line 30, in {entry}
    ray.get(handle)
ray.exceptions.RayTaskError(KeyError): ray::Sampler.draw() (pid=7310, ip=10.0.0.9, actor_id=ab12)
  File "/srv/sampler.py", line 12, in draw
    return self.table[key]
KeyError: 'missing'"""
    snapshot = diagnose_texts({"run.log": "\n".join([*_steps(0, 10), driver, *_steps(10, flushed)])})
    assert snapshot.run.state is state
