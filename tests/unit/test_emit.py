"""What a run tells of itself: the lines word by word, and that nothing comes back from telling them."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perfmon import emit

Lines = list[str]


@pytest.fixture
def lines() -> Iterator[Lines]:
    result: Lines = []
    emit.configure(result.append)
    yield result
    emit.configure()


def shapes(result: Lines) -> Lines:
    """The lines with `#` for each digit and `ID` for a trace."""
    return [re.sub(r"\d+", "#", re.sub(r"\]\[\w+\]", "][ID]", line)) for line in result]


def test_a_weight_update_is_told_as_the_investigation_told_it(lines: Lines) -> None:
    with emit.weights_update("http://10.0.0.5:8000", "/models/run/step_42") as update:
        update.rpc_ms = 0.0
    assert shapes(lines) == [
        "[weights][ID] client.send url=http://#.#.#.#:# path=/models/run/step_# t=#.#",
        "[weights][ID] client.done wall_ms=#.# rpc_ms=#.# queue_ms=#.#",
    ]
    assert all(f"[weights][{update.trace}]" in line for line in lines)
    assert re.search(r" t=\d+\.\d{6}$", lines[0])
    assert re.search(r" wall_ms=\d+\.\d rpc_ms=0\.0 queue_ms=\d+\.\d$", lines[1])


def test_a_reload_says_that_it_is_one(lines: Lines) -> None:
    with emit.reload_weights("http://10.0.0.5:8000"):
        pass
    assert shapes(lines) == [
        "[weights][ID] client.send url=http://#.#.#.#:# t=#.# op=reload_weights",
        "[weights][ID] client.done wall_ms=#.# op=reload_weights",
    ]


def test_the_server_tells_when_the_engine_began_and_ended(lines: Lines) -> None:
    with emit.rpc("update_weights", trace="abc123") as call:
        assert call.headers == {}
    assert re.fullmatch(r"\[weights\]\[abc123\] rpc\.start op=update_weights t=\d+\.\d{6}", lines[0])
    assert re.fullmatch(r"\[weights\]\[abc123\] rpc\.done op=update_weights t=\d+\.\d{6} rpc_ms=\d+\.\d", lines[1])
    assert call.headers == {"x-perfmon-rpc-ms": lines[1].rpartition("=")[2]}


def test_a_server_without_a_trace_makes_none_up(lines: Lines) -> None:
    with emit.rpc():
        pass
    assert [line.partition(" op=")[0] for line in lines] == ["[weights] rpc.start", "[weights] rpc.done"]


def test_checkpoints_batches_and_rollouts(lines: Lines) -> None:
    with emit.checkpoint_write(42):
        pass
    with emit.checkpoint_wait(42):
        pass
    under_way = [1, 2, 3]
    with emit.generation_batch(lambda: len(under_way), 64) as batch:
        under_way.pop()
        batch.completions = 64
    emit.rollout(78.54, 10, 8)
    emit.rollout(0, current_step=5, ckpt_step=5, staleness=1)
    assert [re.sub(r"_ms=\d+\.\d\b", "_ms=#", line) for line in lines] == [
        "[ckpt] write.done step=42 write_ms=#",
        "[ckpt] wait.start target_step=42",
        "[ckpt] wait.done target_step=42 wait_ms=#",
        "[gen] batch.start inflight=3 target_batch=64",
        "[gen] batch.done completions=64 dur_ms=# inflight=2",
        "[rollout] trunc_pct=78.5 current_step=10 ckpt_step=8 staleness=2",
        "[rollout] trunc_pct=0.0 current_step=5 ckpt_step=5 staleness=1",
    ]


async def test_tasks_that_run_at_once_do_not_mix(lines: Lines) -> None:
    turn = asyncio.Barrier(20)

    async def update() -> str:
        async with emit.weights_update("http://h:1", "/w") as result:
            await turn.wait()
            return result.trace

    traces = await asyncio.gather(*(update() for _ in range(20)))
    assert len(set(traces)) == 20
    for trace in traces:
        assert [line.split()[1] for line in lines if trace in line] == ["client.send", "client.done"]


def test_threads_that_run_at_once_do_not_mix(lines: Lines) -> None:
    turn = threading.Barrier(8)

    def update() -> None:
        turn.wait()
        for _ in range(100):
            with emit.weights_update("http://h:1", "/w"):
                pass

    threads = [threading.Thread(target=update) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    legs = Counter(line.split(" ", 2)[0] for line in lines)
    assert len(legs) == 800
    assert set(legs.values()) == {2}


@pytest.mark.parametrize(
    ("stretch", "last"),
    [
        (lambda: emit.weights_update("http://h:1"), r"\[weights\]\[\w+\] client\.done wall_ms=\S+ error=KeyError"),
        (lambda: emit.rpc(trace="a"), r"\[weights\]\[a\] rpc\.done op=\S+ t=\S+ rpc_ms=\S+ error=KeyError"),
        (lambda: emit.checkpoint_write(7), r"\[ckpt\] write\.failed step=7 after_ms=\S+ error=KeyError"),
        (lambda: emit.checkpoint_wait(7), r"\[ckpt\] wait\.done target_step=7 wait_ms=\S+ error=KeyError"),
        (lambda: emit.generation_batch(3), r"\[gen\] batch\.done dur_ms=\S+ inflight=3 error=KeyError"),
    ],
)
def test_an_exception_of_the_training_is_named_and_goes_on(
    lines: Lines, stretch: Callable[[], emit.weights_update], last: str
) -> None:
    with pytest.raises(KeyError), stretch():
        raise KeyError("x")
    assert re.fullmatch(last, lines[-1])


async def test_a_cancelled_update_is_told_and_stays_cancelled(lines: Lines) -> None:
    begun = asyncio.Event()

    async def update() -> None:
        async with emit.weights_update("http://h:1"):
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(update())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert lines[-1].endswith(" error=CancelledError")


class Answer:
    """What a client library hands back."""

    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


@pytest.mark.parametrize(
    ("answer", "rpc_ms"),
    [
        ({"rpc_ms": 12.5}, 12.5),
        ({"rpc_ms": "12.5", "status": "ok"}, 12.5),
        (Answer(X_Perfmon_RPC_MS="12.5"), 12.5),
        ([(b"X-Perfmon-RPC-ms", b"12.5")], 12.5),
        (12.5, 12.5),
        ({"status": "ok"}, None),
        (Answer(content_type="text/plain"), None),
        (Answer(x_perfmon_rpc_ms="soon"), None),
        (None, None),
        (object(), None),
        ({"rpc_ms": None}, None),
    ],
)
def test_the_rpc_is_taken_from_what_the_server_answered(lines: Lines, answer: object, rpc_ms: float | None) -> None:
    with emit.weights_update() as update:
        update.answered(answer)
    assert update.rpc_ms == rpc_ms
    assert ("queue_ms=" in lines[-1]) == (rpc_ms is not None)


@pytest.mark.parametrize("rpc_ms", [float("nan"), float("inf"), -1.0, "soon", object()])
def test_an_rpc_that_cannot_be_meant_is_not_told(lines: Lines, rpc_ms: float) -> None:
    with emit.weights_update() as update:
        update.rpc_ms = rpc_ms
    assert "rpc_ms" not in lines[-1]


def test_an_rpc_longer_than_the_whole_leaves_no_queue(lines: Lines) -> None:
    with emit.weights_update() as update:
        update.rpc_ms = 1e9
    assert lines[-1].endswith("rpc_ms=1000000000.0 queue_ms=0.0")


@pytest.mark.parametrize(
    ("source", "trace"),
    [
        (emit.trace_headers("abc123"), "abc123"),
        ({"X-Perfmon-Trace": "abc123"}, "abc123"),
        ({"type": "http", "headers": [(b"host", b"h"), (b"x-perfmon-trace", b"abc123")]}, "abc123"),
        (Answer(x_perfmon_trace="abc123"), "abc123"),
        ({}, None),
        ({"x-perfmon-trace": ""}, None),
        ({"x-perfmon-trace": "a] [ckpt] write.done write_ms=1"}, None),
        ({"x-perfmon-trace": "a\nb"}, None),
        ({"x-perfmon-trace": "a" * 129}, None),
        (None, None),
        (7, None),
    ],
)
def test_a_trace_is_read_from_headers_when_it_is_one(source: object, trace: str | None) -> None:
    assert emit.read_trace(source) == trace


class Odd:
    """A value with which nothing can be done."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __float__ = __index__ = __bool__ = __sub__ = __call__ = __eq__ = __str__  # type: ignore[assignment]
    __hash__ = object.__hash__


ODD = [None, Odd(), object(), "x", "", b"\xff", float("nan"), float("inf"), -1, 1e300, 10**5000, [], {}, True, "\ud800"]


@pytest.mark.parametrize("json_lines", [False, True])
@pytest.mark.parametrize("value", ODD, ids=lambda value: type(value).__name__)
def test_any_value_is_told_or_left_out(lines: Lines, value: object, json_lines: bool) -> None:
    emit.configure(lines.append, json_lines=json_lines)
    with emit.weights_update(value, value, value) as update:  # type: ignore[arg-type]
        update.answered(value)
    with emit.rpc(value, value) as call:  # type: ignore[arg-type]
        pass
    with emit.checkpoint_write(value), emit.checkpoint_wait(value), emit.generation_batch(value, value) as batch:
        batch.completions = value
    emit.rollout(value, value, value, value)
    emit.rollout(value, value, value)
    assert len(lines) == 11
    assert emit.read_trace(value) is None
    assert update.trace
    assert call.rpc_ms is not None
    for line in lines:
        assert line.isprintable()
        if json_lines:
            json.loads(line, parse_constant=pytest.fail)


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("/my models/step_3", "/my_models/step_3"),
        ("/a\n[ckpt] write.done write_ms=1", "/a_ckpt_write.done_write_ms=1"),
        ("/a\x1b[31m;rm|,b", "/a_31m_rm_b"),
        (Path("/weights/step_3"), "/weights/step_3"),
        ("/" + "x" * 500, "/" + "x" * 199),
    ],
)
def test_a_word_cannot_forge_a_line(lines: Lines, path: object, result: str) -> None:
    with emit.weights_update(path=path):
        pass
    assert f" path={result} t=" in lines[0]


@pytest.mark.parametrize(
    ("url", "result"),
    [
        ("https://user:hunter2@10.0.0.5:8000/v1?token=hunter3", "https://10.0.0.5:8000/v1"),
        ("user:hunter2@10.0.0.5:8000", "10.0.0.5:8000"),
        ("https://user:hunter/2@10.0.0.5:8000/v1?a=b", "https://10.0.0.5:8000/v1"),
        ("https://user:hunter?2@10.0.0.5/v1", "https://10.0.0.5/v1"),
        ("https://10.0.0.5:8000/org@main", "https://10.0.0.5:8000/org@main"),
        ("https://h/v1#token=hunter3", "https://h/v1"),
        ("https://h/models/org@main", "https://h/models/org@main"),
    ],
)
@pytest.mark.parametrize("json_lines", [False, True])
def test_a_url_is_told_without_its_secrets(lines: Lines, url: str, result: str, json_lines: bool) -> None:
    emit.configure(lines.append, json_lines=json_lines)
    with emit.weights_update(url):
        pass
    assert f" url={result} " in lines[0]
    assert "hunter" not in lines[0]


@pytest.mark.parametrize(
    ("path", "result"),
    [
        ("s3://key:hunter2@bucket/step_3?X-Amz-Signature=hunter3", "s3://bucket/step_3"),
        ("/models/org@main/step?3#a", "/models/org@main/step?3#a"),
    ],
)
def test_weights_at_a_signed_address_keep_its_secret(lines: Lines, path: str, result: str) -> None:
    with emit.weights_update(path=path):
        pass
    assert f" path={result} " in lines[0]


def test_an_update_that_is_tried_again_is_another_one_of_which_nothing_is_known(lines: Lines) -> None:
    update = emit.weights_update("http://h")
    with update:
        update.answered(0.0)
        first = update.headers
    with update:
        assert update.headers == emit.trace_headers(update.trace) != first
    sent = [line.split("]")[1] for line in lines]
    assert sent[0] == sent[1] != sent[2] == sent[3]
    assert "queue_ms=" in lines[1]
    assert "queue_ms=" not in lines[3]


def test_an_update_that_is_tried_again_keeps_the_id_that_was_given(lines: Lines) -> None:
    update = emit.weights_update("http://h", trace="mine")
    for _ in range(2):
        with update:
            pass
    assert {line.split("]")[1] for line in lines} == {"[mine"}


def _raises(_: str) -> None:
    raise OSError(28, "No space left on device")


def test_a_sink_that_raises_costs_its_lines_alone() -> None:
    emit.configure(_raises)
    before = emit.lost()
    try:
        with emit.weights_update(), emit.checkpoint_write(3):
            done = True
        emit.rollout(1, 2, 3)
    finally:
        emit.configure()
    assert done
    assert emit.lost() - before == 4


def test_a_sink_may_be_interrupted() -> None:
    def interrupted(_: str) -> None:
        raise KeyboardInterrupt

    emit.configure(interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            emit.rollout(1, 2, 3)
    finally:
        emit.configure()


class Broken(logging.Handler):
    """A handler that does not mind the rules."""

    def emit(self, record: logging.LogRecord) -> None:
        raise ValueError(record.msg)


def test_a_handler_that_raises_costs_its_lines_alone() -> None:
    logger, handler = logging.getLogger("perfmon.emit"), Broken()
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    before = emit.lost()
    try:
        emit.rollout(1, 2, 3)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    assert emit.lost() == before + 1


def test_a_file_that_cannot_be_opened_is_no_business_of_the_training_whatever_the_log_does(tmp_path: Path) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise OSError("gone")

    log, broken = logging.getLogger("perfmon.emit"), Broken()
    log.addHandler(broken)
    try:
        emit.to_file(tmp_path / "missing" / "emit.jsonl")
    finally:
        log.removeHandler(broken)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_what_handlers_of_logging_cannot_write_they_say_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    handler = logging.FileHandler("/dev/full")
    logging.getLogger("perfmon.emit").addHandler(handler)
    logging.getLogger("perfmon.emit").setLevel(logging.INFO)
    before = emit.lost()
    try:
        emit.rollout(1, 2, 3)
    finally:
        logging.getLogger("perfmon.emit").setLevel(logging.NOTSET)
        logging.getLogger("perfmon.emit").removeHandler(handler)
        with suppress(OSError):
            handler.close()
    assert emit.lost() == before
    assert "No space left on device" in capsys.readouterr().err


def test_lines_go_to_logging_unless_told_otherwise(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "perfmon.emit"):
        emit.rollout(1, 2, 3)
    with caplog.at_level(logging.INFO, "perfmon.emit"):
        emit.rollout(100, 2, 2)
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("perfmon.emit", "INFO")
    assert record.getMessage() == "[rollout] trunc_pct=100.0 current_step=2 ckpt_step=2 staleness=0"


def test_json_lines_hold_the_line_and_its_parts(lines: Lines) -> None:
    emit.configure(lines.append, json_lines=True)
    with emit.weights_update("http://h:1", "/w/step_3", trace="abc") as update:
        update.rpc_ms = 0.0
    emit.rollout(float("nan"), 3, 2)
    sent, done, result = map(json.loads, lines)
    assert (sent["area"], sent["event"], sent["trace"], sent["url"]) == ("weights", "client.send", "abc", "http://h:1")
    assert sent["msg"] == f"[weights][abc] client.send url=http://h:1 path=/w/step_3 t={sent['t']:.6f}"
    assert done["queue_ms"] == done["wall_ms"]
    assert result["trunc_pct"] is None
    assert result["msg"].startswith("[rollout] trunc_pct=nan current_step=3")


def test_a_file_gets_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "emit.jsonl"
    path.write_text("first\n")
    emit.configure(emit.to_file(path), json_lines=True)
    try:
        emit.rollout(1, 2, 3)
    finally:
        emit.configure()
    first, result = path.read_text().splitlines()
    assert first == "first"
    assert json.loads(result)["current_step"] == 2


def test_a_file_that_cannot_be_opened_is_one_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = emit.lost()
    sink = emit.to_file(tmp_path / "missing" / "emit.jsonl")
    emit.configure(sink)
    try:
        emit.rollout(1, 2, 3)
        (tmp_path / "missing").mkdir()
        emit.rollout(4, 5, 6)
    finally:
        emit.configure()
    assert emit.lost() == before + 1
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "cannot be written" in caplog.text
    assert (tmp_path / "missing" / "emit.jsonl").read_text().startswith("[rollout] trunc_pct=4.0")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_no_business_of_the_training() -> None:
    before = emit.lost()
    emit.configure(emit.to_file(os.fspath("/dev/full")))
    try:
        emit.rollout(1, 2, 3)
    finally:
        emit.configure()
    assert emit.lost() == before + 1
