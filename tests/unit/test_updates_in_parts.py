"""A weight update whose last line tells its parts, not what it lasted, costs what they add up to."""

from __future__ import annotations

import pytest
from feeding import feed

from perfmon.core.config import Config
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session

_AT = "2026-03-02 08:00:40 INFO "
_SENT = "2026-03-02 08:00:10 INFO [weights][a] client.send url=http://10.0.0.5:8000"


def _result_of(*blocks: str) -> Diagnosis:
    session = Session(Config())
    feed(session, "orchestrator.log", [f"{block}\n" for block in blocks])
    return session.snapshot()


@pytest.mark.parametrize("clock", [_AT, ""])
@pytest.mark.parametrize(
    ("parts", "wall_s"), [("rpc_ms=1000 queue_ms=20000", 21.0), ("queue_ms=20000", 20.0), ("queue_ms=2e4 t=9.0", 20.0)]
)
def test_an_update_without_its_wall_time_lasted_as_long_as_its_parts(clock: str, parts: str, wall_s: float) -> None:
    snapshot = _result_of(f"{clock}[weights][a] client.done {parts}")
    assert snapshot.run.wall_s == pytest.approx(wall_s, abs=1e-3)
    assert [finding.lost_s for finding in snapshot.findings] == [pytest.approx(19.9, abs=1e-3)]
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "frontend-queue"


def test_the_sum_of_parts_is_no_sample_of_the_wall_time() -> None:
    metrics = _result_of(f"{_AT}[weights][a] client.done rpc_ms=1000 queue_ms=20000").metrics
    assert set(metrics) == {"queue_ms", "rpc_ms"}


def test_what_two_lines_show_goes_before_the_parts() -> None:
    done = f"{_AT}[weights][a] client.done rpc_ms=1000 queue_ms=20000"
    for snapshot in (_result_of(f"{_SENT}\n{done}"), _result_of(_SENT, done), _result_of(done, _SENT)):
        assert snapshot.run.wall_s == 30.0


def test_a_line_without_a_clock_does_not_say_when_its_update_began() -> None:
    start, sent = "2026-03-02 08:00:10 INFO started", "[weights][a] client.send url=http://10.0.0.5:8000"
    done = f"{_AT}[weights][a] client.done wall_ms=2000.0 rpc_ms=1500.0 queue_ms=500.0"
    for blocks in ((f"{start}\n{sent}\n{done}",), (start, sent, done), (f"{start}\n{sent}", done), (start, done, sent)):
        [update] = _result_of(*blocks).timeline
        assert (update.start_s, update.end_s) == (28.0, 30.0)


def test_where_no_line_of_an_update_has_a_clock_it_began_with_the_line_before() -> None:
    start, sent = "2026-03-02 08:00:10 INFO started", "[weights][a] client.send url=http://10.0.0.5:8000"
    done = "[weights][a] client.done wall_ms=2000.0 rpc_ms=1500.0 queue_ms=500.0\n2026-03-02 08:00:40 INFO x"
    for blocks in ((f"{start}\n{sent}\n{done}",), (start, sent, done), (f"{start}\n{sent}", done)):
        [update] = _result_of(*blocks).timeline
        assert (update.start_s, update.end_s) == (0.0, 2.0)
