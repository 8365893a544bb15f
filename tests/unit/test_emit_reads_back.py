"""perfmon reads what a run tells of itself: every figure comes back, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmon import emit
from perfmon.core.config import Config
from perfmon.core.model import Block, Span
from perfmon.pipeline.session import Session
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.scan.scanner import Scanner

SCANNER = Scanner(load_packs())
TIMES = st.floats(0, 1e6)
STEPS = st.integers(0, 10**9)
WORDS = st.text(max_size=300)


class Run:
    """The lines of a run, and what perfmon makes of them."""

    def __init__(self, json_lines: bool) -> None:
        self.lines: list[str] = []
        emit.configure(self.lines.append, json_lines=json_lines)

    def read(self, *, skipped: int = 0) -> Session:
        """The lines, read as perfmon reads a log, of which `skipped` values cannot be meant."""
        emit.configure()
        session = Session(Config(), SCANNER)
        state = session.add_source("run.log")
        session.feed(state, Block(("\n".join(self.lines) + "\n").encode(), 0, 1))
        assert state.skipped == skipped
        assert sum(state.patterns.values()) == len(self.lines)
        return session


def samples(session: Session) -> dict[str, list[float]]:
    """The values of every metric and group."""
    return {metric: list(series.values) for (metric, _), series in session.store.series.items()}


def spans(session: Session, kind: str) -> Sequence[Span]:
    """The spans of one kind."""
    return list(session.store.spans[kind])


@settings(max_examples=60, deadline=None)
@given(json_lines=st.booleans(), url=WORDS, path=WORDS, trace=WORDS, rpc_ms=TIMES, reload=st.booleans())
def test_an_update_over_both_sides_comes_back_whole(
    json_lines: bool, url: str, path: str, trace: str, rpc_ms: float, reload: bool
) -> None:
    run = Run(json_lines)
    client = (emit.reload_weights if reload else emit.weights_update)(url, path, trace)
    with client:
        with emit.rpc(client._op or "update_weights", emit.read_trace(client.headers)) as server:
            pass
        client.rpc_ms = rpc_ms
    (update,) = run.read().store.updates
    assert (update.key, update.op) == (client.trace, "reload_weights" if reload else "update_weights")
    assert update.legs == 0b11101
    assert update.rpc_ms == pytest.approx(rpc_ms, abs=0.051)
    assert update.wall_ms is not None
    assert update.queue_ms == pytest.approx(max(0.0, update.wall_ms - rpc_ms), abs=0.11)
    assert update.send_t is not None
    assert update.rpc_start_t is not None
    assert update.rpc_done_t is not None
    assert update.send_t <= update.rpc_start_t <= update.rpc_done_t
    assert (update.rpc_done_t - update.rpc_start_t) * 1000 == pytest.approx(server.rpc_ms, abs=0.01)


@settings(max_examples=60, deadline=None)
@given(json_lines=st.booleans(), step=STEPS, inflight=STEPS, target=STEPS, completions=STEPS)
def test_checkpoints_and_batches_come_back(
    json_lines: bool, step: int, inflight: int, target: int, completions: int
) -> None:
    run = Run(json_lines)
    with emit.checkpoint_write(step):
        pass
    with emit.checkpoint_wait(step):
        pass
    with emit.generation_batch(inflight, target) as batch:
        batch.completions = completions
    session = run.read()
    (write,), (wait,) = spans(session, "checkpoint-write"), spans(session, "checkpoint-wait")
    (made,) = spans(session, "generation-batch")
    assert (write.key, wait.key) == (str(step), str(step))
    result = samples(session)
    assert [result[metric] for metric in ("completions", "inflight")] == [[completions], [inflight, inflight]]
    for span, metric in ((write, "write_ms"), (wait, "wait_ms"), (made, "dur_ms")):
        assert span.duration_s == pytest.approx(result[metric][0] / 1000)


@settings(max_examples=60, deadline=None)
@given(json_lines=st.booleans(), cut=st.floats(0, 100), step=STEPS, behind=st.integers(0, 100))
def test_rollouts_come_back(json_lines: bool, cut: float, step: int, behind: int) -> None:
    run = Run(json_lines)
    emit.rollout(cut, step + behind, step)
    session = run.read()
    assert samples(session) == {"trunc_pct": [pytest.approx(cut, abs=0.051)], "staleness": [behind]}
    assert {name: list(steps.values) for name, steps in session.store.steps.items()} == {
        "orchestrator": [step + behind],
        "policy": [step],
    }


@settings(max_examples=60, deadline=None)
@given(
    json_lines=st.booleans(),
    name=WORDS,
    depths=st.lists(st.integers(0, 10**6), min_size=1, max_size=9),
    room=st.none() | st.integers(1, 10**6),
    produced=STEPS,
    consumed=STEPS,
)
def test_the_fill_of_a_queue_comes_back(
    json_lines: bool, name: str, depths: list[int], room: int | None, produced: int, consumed: int
) -> None:
    run = Run(json_lines)
    found = iter(depths)
    capacity = None if room is None else max(depths) + room
    queue = emit.QueueMonitor(lambda: next(found), name, capacity, looks=len(depths), low=0.0)
    queue.produced(produced)
    queue.consumed(consumed)
    for _ in depths:
        queue.look()
    session = run.read()
    mean = sum(depths) / len(depths)
    used = 0 if produced or consumed else next((at for at, depth in enumerate(depths) if depth), len(depths))
    result = {
        "queue_size": [pytest.approx(mean, abs=0.51)],
        "queue_empty_share": [pytest.approx(100 * depths[used:].count(0) / len(depths), abs=0.051)],
        "produced_batches": [produced],
        "consumed_batches": [consumed],
    }
    if capacity is not None:
        result["queue_fill"] = [pytest.approx(100 * mean / capacity, abs=0.051)]
    assert {**samples(session), **result} == samples(session)
    assert {group for _, group in session.store.series} == {queue.name[:200]}


@pytest.mark.parametrize("json_lines", [False, True])
def test_a_starved_queue_comes_back_as_one(json_lines: bool) -> None:
    run = Run(json_lines)
    queue = emit.QueueMonitor(lambda: 1, "rollouts", 10, looks=1)
    queue.look()
    assert list(run.read().store.marks) == [("starved", "rollouts")]


@pytest.mark.parametrize("json_lines", [False, True])
def test_a_process_that_dies_leaves_a_partial_update(json_lines: bool) -> None:
    run = Run(json_lines)
    emit.weights_update("http://h:1", "/w").__enter__()
    (update,) = run.read().store.updates
    assert (update.legs, update.queue_ms, update.end) == (0b00001, None, None)


def test_an_update_that_failed_has_no_queue() -> None:
    run = Run(False)
    with pytest.raises(TimeoutError), emit.weights_update("http://h:1", "/w"):
        raise TimeoutError
    (update,) = run.read().store.updates
    assert (update.legs, update.queue_ms, update.rpc_ms) == (0b10001, None, None)
    assert update.wall_ms is not None


def test_a_write_that_failed_is_no_write() -> None:
    run = Run(False)
    with pytest.raises(OSError, match="full"), emit.checkpoint_write(3):
        raise OSError("full")
    emit.rollout(1, 2, 2)
    session = Session(Config(), SCANNER)
    session.feed(session.add_source("run.log"), Block(("\n".join(run.lines) + "\n").encode(), 0, 1))
    emit.configure()
    assert "checkpoint-write" not in session.store.spans
    assert "write_ms" not in samples(session)


def test_perfmon_says_which_value_cannot_be_meant() -> None:
    run = Run(False)
    emit.rollout(float("nan"), 3, 2)
    session = run.read(skipped=1)
    assert samples(session) == {"staleness": [1]}
    assert "trunc_pct=nan is implausible" in session.store.sources[0].notes[0]
