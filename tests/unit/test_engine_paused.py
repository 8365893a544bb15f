"""An engine that stands still while its weights are updated is not stuck, whoever tells of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from perfmon.pipeline.offline import diagnose_texts

BEGIN = datetime(2026, 3, 2, 8, 15)
PAUSED_AT = 120


def stamp(at: int) -> str:
    """A moment of the run."""
    return (BEGIN + timedelta(seconds=at)).strftime("%Y-%m-%d %H:%M:%S")


def polls(until: int, running: int = 96, tokens: float = 0.0, more: str = "", resumed: int | None = None) -> str:
    """An engine that is well for two minutes, then stands still, with as many that wait as before."""
    return "\n".join(_polls(until, running, tokens, more, until if resumed is None else resumed))


def _polls(until: int, running: int, tokens: float, more: str, resumed: int) -> Iterator[str]:
    line = "{}.118 [poll] queue host=head name=gpu-1:8000/0 running={} waiting={} kv_usage_pct={} gen_tps={}{}"
    for at in range(0, until, 5):
        if PAUSED_AT <= at < resumed:
            yield line.format(stamp(at), running, 40, 51.5, tokens, more)
        else:
            yield line.format(stamp(at), 90 + at // 5 % 7, 38 + at // 5 % 5, 50 + at // 5 % 3, 2300 + at, " paused=0")


def stuck(**logs: str) -> list[str]:
    """How the engine is said to be stuck."""
    snapshot = diagnose_texts({f"{name}.log": text for name, text in logs.items()})
    return [f.state for f in snapshot.findings if f.signature == "engine-stuck" and f.state != "pending"]


ROLLOUT = f"{stamp(60)} [rollout] trunc_pct=2.0 current_step=4 ckpt_step=3 staleness=1"
"""What proves that weights are updated, and says nothing of when."""


@pytest.mark.parametrize("seconds", [40, 90, 115])
@pytest.mark.parametrize("running", [96, 2, 0])
def test_a_pause_of_a_run_that_updates_weights_is_not_accused(seconds: int, running: int) -> None:
    assert stuck(polls=polls(PAUSED_AT + seconds, running), orchestrator=ROLLOUT) == []
    result = polls(PAUSED_AT + seconds + 60, running, resumed=PAUSED_AT + seconds)
    assert stuck(polls=result, orchestrator=ROLLOUT) == []


@pytest.mark.parametrize("running", [96, 2, 0])
def test_one_that_generates_nothing_for_longer_than_an_update_is(running: int) -> None:
    assert stuck(polls=polls(PAUSED_AT + 180, running), orchestrator=ROLLOUT) == ["firing"]


@pytest.mark.parametrize("running", [96, 2, 0])
def test_one_that_only_serves_is_stuck_after_a_few_polls(running: int) -> None:
    assert stuck(polls=polls(PAUSED_AT + 15, running)) == []
    assert stuck(polls=polls(PAUSED_AT + 30, running)) == ["firing"]


def test_one_that_generates_a_little_is_not_paused() -> None:
    assert stuck(polls=polls(PAUSED_AT + 60, 2, 61.0)) == ["firing"]


def test_one_that_says_that_it_sleeps_is_not_stuck_however_long() -> None:
    assert stuck(polls=polls(PAUSED_AT + 900, 2, more=" paused=1")) == []
    assert stuck(polls=polls(PAUSED_AT + 900, 2, more=" paused=0")) == ["firing"]


@pytest.mark.parametrize(
    "lines",
    [
        ["DEBUG All inference engines paused"],
        ["DEBUG Updating weights to step 12 [watcher.py::138]"],
    ],
)
def test_one_whose_orchestrator_says_that_weights_are_on_their_way_is_not_stuck(lines: list[str]) -> None:
    result = "\n".join(
        [f"{stamp(60)[11:]}    INFO Step 11 | Reward: 0.4 | Time: 30.2s"]
        + [f"{stamp(PAUSED_AT)[11:]}    {line}" for line in lines]
    )
    assert stuck(polls=polls(PAUSED_AT + 600), orchestrator=result) == []


def test_one_that_was_told_of_new_weights_two_minutes_ago_is_stuck() -> None:
    result = f"{stamp(PAUSED_AT)[11:]}    INFO Updating policy in-flight to v12"
    assert stuck(polls=polls(PAUSED_AT + 110), orchestrator=result) == []
    assert stuck(polls=polls(PAUSED_AT + 180), orchestrator=result) == ["firing"]


def test_one_that_an_update_was_sent_to_and_not_answered_is_not_stuck() -> None:
    sent = (
        f"{stamp(60)} [weights][u0] client.done url=http://i:8000 path=/update_weights op=update_weights wall_ms=900"
        " rpc_ms=850 queue_ms=50\n"
        f"{stamp(PAUSED_AT)} [weights][u1] client.send url=http://i:8000 path=/update_weights op=update_weights"
    )
    assert stuck(polls=polls(PAUSED_AT + 600), orchestrator=sent) == []
