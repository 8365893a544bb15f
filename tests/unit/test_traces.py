"""Legs, spans and times are put together whatever is missing, doubled, late or out of order."""

from __future__ import annotations

import gc

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block, Update
from perfmon.pipeline.session import Session

SEND = "[weights][a1] client.send url=http://10.0.0.5:8000 path=/m/step_3 t=100.000000"
RECV = "[weights][a1] server.recv path=/update_weights t=112.000000"
START = "[weights][a1] rpc.start op=update_weights t=112.000100"
DONE_RPC = "[weights][a1] rpc.done op=update_weights t=113.200000 rpc_ms=1199.9"
DONE = "[weights][a1] client.done wall_ms=13201.0 rpc_ms=1199.9 queue_ms=12001.1"
ALL = [SEND, RECV, START, DONE_RPC, DONE]


def _fed(*logs: list[str]) -> Session:
    session = Session(Config())
    for number, lines in enumerate(logs):
        state = session.add_source(f"{number}.log")
        session.feed(state, Block(("\n".join(lines) + "\n").encode(), 0, 1))
    return session


def _only(session: Session) -> Update:
    (update,) = session.store.updates
    return update


def test_five_lines_make_one_update() -> None:
    update = _only(_fed(ALL))
    assert update.complete
    assert (update.wall_ms, update.rpc_ms, update.queue_ms) == (13201.0, 1199.9, 12001.1)
    assert update.start == 100.0
    assert update.end == pytest.approx(113.201)


def test_two_logs_in_either_order_make_the_same_update() -> None:
    client, server = [SEND, DONE], [RECV, START, DONE_RPC]
    for logs in ((client, server), (server, client)):
        update = _only(_fed(*logs))
        assert update.complete
        assert update.start == 100.0
        assert update.end == pytest.approx(113.201)


@pytest.mark.parametrize("missing", range(5))
def test_a_missing_line_leaves_a_partial_update_never_a_wrong_one(missing: int) -> None:
    update = _only(_fed([line for at, line in enumerate(ALL) if at != missing]))
    assert not update.complete
    assert update.queue_ms in (12001.1, None)
    assert update.queue_ms is not None or missing == 4
    assert update.rpc_ms == pytest.approx(1199.9)


def test_doubled_lines_count_once() -> None:
    session = _fed([line for line in ALL for _ in range(2)])
    assert _only(session).complete


def test_a_trace_id_that_is_used_again_is_another_update() -> None:
    again = [line.replace("t=1", "t=2").replace("13201.0", "1201.0").replace("12001.1", "1.1") for line in ALL]
    session = _fed([*ALL, *again])
    assert [update.queue_ms for update in session.store.updates] == [12001.1, 1.1]
    assert all(update.complete for update in session.store.updates)


def test_queue_is_wall_less_rpc_where_no_line_tells_it() -> None:
    assert _only(_fed(["[weights][x] client.done wall_ms=5000 rpc_ms=1000"])).queue_ms == 4000.0


def test_a_reload_is_told_apart_by_its_operation() -> None:
    lines = [line.replace("update_weights", "reload_weights") for line in ALL]
    session = _fed(lines)
    assert _only(session).op == "reload_weights"
    assert "rpc_ms.reload_weights" in session.snapshot().metrics


def test_waits_are_paired_by_their_step() -> None:
    session = _fed(
        [
            "2026-03-02 10:00:00 [ckpt] wait.start target_step=1",
            "2026-03-02 10:00:01 [ckpt] wait.start target_step=2",
            "2026-03-02 10:00:05 [ckpt] wait.done target_step=2 wait_ms=4000",
            "2026-03-02 10:00:09 [ckpt] wait.done target_step=1 wait_ms=9000",
        ]
    )
    spans = sorted(session.store.spans["checkpoint-wait"], key=lambda span: span.key)
    assert [(span.key, span.duration_s) for span in spans] == [("1", 9.0), ("2", 4.0)]


def test_without_any_clock_durations_follow_each_other() -> None:
    session = _fed(["[ckpt] write.done step=1 write_ms=3000", "[ckpt] write.done step=2 write_ms=4000"])
    assert [(span.start, span.end) for span in session.store.spans["checkpoint-write"]] == [(0.0, 3.0), (3.0, 7.0)]
    assert session.snapshot().run.time_base == "none"


def test_the_first_date_dates_what_was_told_before_it() -> None:
    session = _fed(
        ["[ckpt] write.done step=1 write_ms=3000", "2026-03-02 10:00:10 [ckpt] write.done step=2 write_ms=4000"]
    )
    snapshot = session.snapshot()
    assert snapshot.run.time_base == "wall"
    assert snapshot.run.wall_s < 60


def test_of_updates_that_there_is_no_room_for_only_their_ids_are_known() -> None:
    def legs(number: int, *wanted: str) -> list[str]:
        trace, sent = f"{number:08x}", 1000.0 + 10 * number
        result = {
            "send": f"client.send url=http://10.0.0.5:8000 path=/m/step_{number} t={sent}",
            "recv": f"server.recv path=/update_weights t={sent + 1}",
            "done": "client.done wall_ms=2000.0 rpc_ms=900.0 queue_ms=1100.0",
        }
        return [f"[weights][{trace}] {result[leg]}" for leg in wanted]

    def alive() -> int:
        return sum(isinstance(one, Update) and len(one.key) == 8 for one in gc.get_objects())

    gc.collect()
    others = alive()  # of runs that other tests of this process keep
    session = Session(Config(memory_mb=1))
    clients, servers = session.add_source("client.log"), session.add_source("server.log")
    every = [line for number in range(3000) for line in legs(number, "send", "done")]
    for at in range(0, len(every), 200):
        session.feed(clients, Block(("\n".join(every[at : at + 200]) + "\n").encode(), at, at))
    held = len(session.store.updates)
    assert held < 1500
    assert alive() - others < 2 * held
    old, newest = legs(1, "recv"), legs(2999, "recv")
    session.feed(servers, Block(("\n".join([*old, *newest, *legs(1, "send", "done")]) + "\n").encode(), 0, 1))
    updates = list(session.store.updates)
    assert len(updates) == held
    assert updates[-1].server == servers.index
    session.feed(clients, Block(b"[weights][00000001] client.send url=http://a path=/m/step_9 t=999999.0\n", 0, 1))
    assert len(session.store.updates) == held + 1  # another update that has the same id


def test_a_step_without_a_clock_holds_the_waits_that_were_told_before_it() -> None:
    step = "{'loss': '0.02', 'learning_rate': '1e-06', 'step_time': '40', 'queue_wait_time_s': '30', 'epoch': '0.2'}"
    wait = "INFO:trl:waited 30.0s for sample (qsize=0)"
    sync = ["INFO:trl:Weight sync: pausing vLLM...", "INFO:trl:Weight sync: done. Total 4.0s"]
    snapshot = _fed([wait, *sync, step, wait, step, wait, wait, step]).snapshot()
    assert snapshot.run.wall_s == pytest.approx(40 + 40 + 60)
    assert _fed([step, step]).snapshot().run.wall_s == pytest.approx(80)


def test_what_a_step_without_a_clock_tells_of_itself_begins_with_it() -> None:
    waited = "Loop collection completed: 8/8 samples, total wait time: 70.00 seconds.mq_len: 3"
    step = "step:{} - timing_s/gen:70.0 - timing_s/update_actor:20.0 - timing_s/step:100.0"
    lines = [line for number in range(3) for line in (waited, step.format(number))]
    assert _fed(lines).snapshot().run.wall_s == pytest.approx(300)
