"""A run that ended some minutes ago lies in the same folder: what it left behind is no alarm."""

from __future__ import annotations

import pytest

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session

_STEP = "[ckpt] write.done step={0} write_ms=80.0"
_ROLLOUT = "[rollout] trunc_pct=2.0 current_step={0} ckpt_step={0} staleness=0"
_ENGINE = (
    "Engine 000: Avg prompt throughput: 2000.0 tokens/s, Avg generation throughput: {0}.0 tokens/s, "
    "Running: 60 reqs, Waiting: 0 reqs, GPU KV cache usage: 40.0%"
)


def _log(first_s: int, until_s: int, text: str) -> str:
    """A line every ten seconds."""
    return "".join(
        f"2026-03-02 {10 + s // 3600}:{s // 60 % 60:02d}:{s % 60:02d} INFO {text.format(s // 10)}\n"
        for s in range(first_s, until_s, 10)
    )


def _snapshots(logs: dict[str, str]) -> list[Diagnosis]:
    """As a file, and live ten minutes back from the last line."""
    session = Session(Config())
    for name, text in logs.items():
        session.feed(session.add_source(name), Block(text.encode(), 0, 1))
    now = max(state.last or 0.0 for state in session.store.sources)
    return [session.snapshot(), session.present((now - 600, now), align(session.store), now)]


def _result_of(logs: dict[str, str]) -> set[tuple[str, str | None]]:
    return {(f.signature, f.identity.get("source")) for snapshot in _snapshots(logs) for f in snapshot.findings}


_BEFORE = {"a/trainer.log": _log(0, 600, _STEP), "a/orchestrator.log": _log(0, 610, _ROLLOUT)}
_AFTER = {"b/trainer.log": _log(800, 1200, _STEP), "b/orchestrator.log": _log(790, 1200, _ROLLOUT)}


@pytest.mark.parametrize(
    "logs",
    [
        pytest.param({**_BEFORE, **_AFTER}, id="all logs are new"),
        pytest.param({**_BEFORE, **_AFTER, "server.log": _log(0, 1200, _ENGINE)}, id="the server goes on"),
        pytest.param(
            {**_BEFORE, "b/orchestrator.log": _AFTER["b/orchestrator.log"]}, id="its trainer is not there yet"
        ),
        pytest.param(
            {"trainer-1.log": _BEFORE["a/trainer.log"], "trainer-2.log": _AFTER["b/trainer.log"]}, id="of one component"
        ),
    ],
)
def test_a_run_that_was_followed_by_another_is_over(logs: dict[str, str]) -> None:
    assert not _result_of(logs)


def test_a_log_that_fell_silent_within_its_own_run_is_told() -> None:
    ended = {**_BEFORE, "a/trainer.log": _log(0, 300, _STEP)}
    assert ("source-silent", "a/trainer.log") in _result_of({**ended, **_AFTER})


def test_a_log_of_this_run_that_falls_silent_is_told() -> None:
    silent = {**_AFTER, "b/trainer.log": _log(800, 1005, _STEP)}
    assert ("source-silent", "b/trainer.log") in _result_of({**_BEFORE, **silent})


def test_an_update_that_was_open_when_its_run_ended_is_not_waited_for() -> None:
    client = (
        "2026-03-02 10:09:00 INFO [weights][aaa] client.send url=http://x t=540.0\n"
        "2026-03-02 10:09:01 INFO [weights][aaa] client.done wall_ms=1000 rpc_ms=990 queue_ms=10\n"
        "2026-03-02 10:10:01 INFO [weights][bbb] client.send url=http://x t=601.0\n"
    )
    served = (
        "2026-03-02 10:09:00 INFO [weights][aaa] server.recv path=/update_weights t=540.01\n"
        "2026-03-02 10:09:00 INFO [weights][aaa] rpc.start op=update_weights t=540.01\n"
        "2026-03-02 10:09:01 INFO [weights][aaa] rpc.done op=update_weights t=541.0 rpc_ms=990\n"
    )
    before = {**_BEFORE, "a/orchestrator.log": _BEFORE["a/orchestrator.log"] + client}
    server = {"server.log": _log(0, 540, _ENGINE) + served + _log(550, 1200, _ENGINE)}
    assert "frontend-queue" in {signature for signature, _ in _result_of({**before, **server})}
    assert not _result_of({**before, **server, **_AFTER})
