"""What logs print when something fails: prefixes are peeled, frames and details find their failure, nothing grows."""

from __future__ import annotations

import json

import pytest

from perfmon.core.config import Config
from perfmon.core.model import YEARLESS, Block, Progress
from perfmon.pipeline.offline import diagnose_texts
from perfmon.pipeline.session import Session
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.formats.timestamps import HeaderReader
from perfmon.sources.scan.scanner import Scanner
from perfmon.store.failures import Failure

PACKS = load_packs()
SCANNER = Scanner(PACKS)
HEADERS = HeaderReader(PACKS)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
PG = "[PG ID 0 PG GUID 0(default_pg) Rank {rank}]"


def failures(*lines: str) -> list[Failure]:
    """What a log of these lines says that failed."""
    session = Session(Config(), SCANNER)
    data = ("\n".join(lines) + "\n").encode()
    session.feed(session.add_source("a.log"), Block(data, 0, 1))
    return session.store.failures.kept


def result_of(*lines: str) -> list[tuple[str, str]]:
    """(cause, role) of the failures, context apart."""
    return [(failure.cause, failure.role) for failure in failures(*lines) if failure.role != "context"]


def traceback(last: str, *frames: str, prefix: str = "") -> list[str]:
    """A traceback with frames in these files."""
    lines = ["Traceback (most recent call last):"]
    for number, file in enumerate(frames or ("/opt/app/train.py",), 1):
        lines += [f'  File "{file}", line {number}, in call{number}', "    call()"]
    return [f"{prefix}{line}" for line in [*lines, last]]


@pytest.mark.parametrize(
    ("prefix", "named"),
    [
        ("", {}),
        ("[rank3]: ", {"rank": "3"}),
        ("[default2]:[rank10]: ", {"local_rank": "2", "rank": "10"}),
        ("  7: ", {"rank": "7"}),
        ("[1,7]<stderr>:", {"rank": "7"}),
        ("[prterun-node1-41@1,7]<stderr>: ", {"rank": "7"}),
        ("node07: ", {"host": "node07"}),
        ("12.3s\t45\t", {}),
        ("trainer-1  | ", {}),
        ("[pod/trainer-0/main] ", {}),
        ("2026-11-20T09:12:22.118204571Z stderr F ", {}),
        ("Nov 20 09:12:22 node07 train[4711]: ", {"host": "node07"}),
        ("2026-11-20T09:12:22+0000 node07 train[4711]: ", {"host": "node07"}),
        ("(RolloutActor pid=7, ip=10.0.0.4) ", {"actor": "RolloutActor", "pid": "7", "ip": "10.0.0.4"}),
        ("(APIServer pid=4) (EngineCore_DP0 pid=9) ", {"actor": "EngineCore_DP0", "pid": "9"}),
        (
            "(VllmWorker rank=3 pid=9) ERROR 11-20 09:12:22 [worker.py:470] ",
            {"actor": "VllmWorker", "pid": "9", "rank": "3"},
        ),
        ("[2026-11-20 09:12:22 DP1 TP0] ", {"actor": "DP1 TP0"}),
        ("2026-11-20 09:12:22,118 - trainer - ERROR - ", {}),
        ("2026-11-20 09:12:22.118 | ERROR    | trainer:run:12 - ", {}),
        ("ERROR:torch.distributed.elastic.multiprocessing.api:", {}),
        ("[2026-11-20 09:12:22,118] [ERROR] [launch.py:341:sigkill_handler] ", {}),
        ("[2026-11-20 09:12:22,118] torch.distributed.elastic.multiprocessing.api: [ERROR] ", {}),
        ("[912044.118204] ", {}),
        ("(raylet) [2026-11-20 09:12:22,118 E 2011 2040] ", {}),
    ],
)
def test_what_stands_before_a_message_is_peeled_and_named(prefix: str, named: dict[str, str]) -> None:
    assert HEADERS.message(f"{prefix}ValueError: x") == ("ValueError: x", named)


@pytest.mark.parametrize("month", ["419", "1003"])
def test_the_rank_within_a_group_is_not_the_global_one(month: str) -> None:
    text = f"[rank11]:[E{month} 10:00:00.123456789 ProcessGroupNCCL.cpp:633] [Rank 3] Watchdog caught"
    assert HEADERS.message(text) == ("[Rank 3] Watchdog caught", {"rank": "11"})
    stamp = HEADERS.read(text)
    assert stamp is not None
    assert stamp[0] == YEARLESS
    assert stamp[1] % 86_400 == pytest.approx(36_000.123456789)


def test_a_head_without_a_clock_is_peeled_too() -> None:
    assert HEADERS.message("[E ProcessGroupNCCL.cpp:828] [Rank 0] Watchdog") == ("[Rank 0] Watchdog", {})


def test_frames_keep_their_indentation() -> None:
    assert HEADERS.message('[rank1]:   File "x.py", line 5, in f') == ('  File "x.py", line 5, in f', {"rank": "1"})


def test_a_log_that_is_only_a_traceback_tells_exception_and_place() -> None:
    lines = traceback("ValueError: no such shard", "/opt/app/train.py", "/opt/env/lib/python3.12/site-packages/t.py")
    (head, failure) = failures(*lines)
    assert (head.cause, head.role) == ("exception", "context")
    assert (failure.cause, failure.role, failure.fatal) == ("exception", "cause", False)
    assert failure.fields == {"type": "ValueError", "message": "no such shard"}
    assert (failure.frame["file"], failure.frame["function"]) == (
        "/opt/env/lib/python3.12/site-packages/t.py", "call2",
    )  # fmt: skip
    assert (failure.frame["own_file"], failure.frame["own_line"]) == ("/opt/app/train.py", "1")


def test_a_death_in_the_first_line_is_found() -> None:
    assert result_of(OOM) == [("out-of-memory", "cause")]


@pytest.mark.parametrize("size", range(1, len(OOM)))
def test_a_line_that_is_cut_costs_nothing(size: int) -> None:
    assert all(cause in ("out-of-memory", "exception") for cause, _ in result_of("step 1", OOM[:size]))


def test_ranks_that_write_at_once_keep_their_own_frames() -> None:
    first = traceback("KeyError: 'a'", "/opt/app/a.py", prefix="[rank0]: ")
    second = traceback("KeyError: 'b'", "/opt/app/b.py", prefix="[rank1]: ")
    mixed = [line for pair in zip(first, second, strict=True) for line in pair]
    found = [failure for failure in failures(*mixed) if failure.role == "cause"]
    assert [(f.fields["rank"], f.frame["file"]) for f in found] == [("0", "/opt/app/a.py"), ("1", "/opt/app/b.py")]


def test_ranks_without_prefixes_have_the_same_frame() -> None:
    body = [line for _ in range(4) for line in traceback("", "/opt/app/a.py")[1:-1]]
    found = failures(*body, *["ValueError: same"] * 4)
    assert [failure.frame["file"] for failure in found] == ["/opt/app/a.py"] * 4


def test_an_old_frame_is_of_no_later_failure() -> None:
    found = failures(*traceback("ValueError: x")[:-1], *["step"] * 80, "RuntimeError: y")
    assert found[-1].frame == {}


@pytest.mark.parametrize(
    "lines",
    [
        ["ERROR:    Exception in ASGI application", *traceback("ValueError: bad request")],
        ["--- Logging error ---", *traceback("TypeError: not all arguments converted")],
        ["Exception ignored in: <function Pool.__del__ at 0x7f30>", *traceback("AttributeError: x")],
        ["(APIServer pid=4) ERROR 11-20 09:12:22 [serving.py:251] Error in preprocessing prompt inputs",
         *traceback("ValueError: too long", prefix="(APIServer pid=4) ERROR 11-20 09:12:22 [serving.py:251] ")],
        ["ERROR:    Exception in ASGI application", *traceback("KeyError: 'a'"), "",
         "During handling of the above exception, another exception occurred:", "", *traceback("ValueError: b")],
        ["ERROR:    Exception in ASGI application", *traceback("ValueError: x", *["/opt/app/a.py"] * 60)],
    ],
)  # fmt: skip
def test_what_a_server_or_the_interpreter_got_over_is_no_cause(lines: list[str]) -> None:
    assert result_of(*lines) == []


def test_a_traceback_long_after_one_that_was_handled_is_a_cause() -> None:
    handled = ["ERROR:    Exception in ASGI application", *traceback("ValueError: bad request")]
    assert result_of(*handled, *["GET /health"] * 20, *traceback("RuntimeError: x")) == [("exception", "cause")]


def test_the_original_exception_counts_not_that_of_the_hook() -> None:
    hook = ["Error in sys.excepthook:", *traceback("AttributeError: hook"), "", "Original exception was:"]
    assert result_of(*hook, *traceback("ValueError: x")) == [("exception", "record"), ("exception", "cause")]


def test_each_process_of_a_torchrun_block_is_one_record_with_its_place() -> None:
    def entry(rank: int, code: int, time: str) -> list[str]:
        return [
            f"[{rank}]:", f"  time      : 2026-11-20_09:12:{time}", "  host      : node07.cluster",
            f"  rank      : {rank + 8} (local_rank: {rank})", f"  exitcode  : {code} (pid: {31200 + rank})",
            "  error_file: <N/A>", "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic",
        ]  # fmt: skip

    head = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: "
    block = [head, "=" * 60, "train.py FAILED", "-" * 60, "Failures:", *entry(1, -6, "25"), "-" * 60]
    block += ["Root Cause (first observed failure):", *entry(0, 1, "22"), "=" * 60]
    for prefix in ("", "2: "):  # the task of the agent is not the rank of the process
        records = [f for f in failures(*[prefix + line for line in block]) if "time" in f.fields]
        assert [f.fields["rank"] for f in records] == ["9", "8"]
        assert records[1].fields == {
            "time": "2026-11-20_09:12:22", "host": "node07.cluster", "rank": "8", "local_rank": "0",
            "exitcode": "1", "pid": "31200",
        }  # fmt: skip


def test_details_of_a_watchdog_go_to_the_failure_of_their_rank() -> None:
    head = "[rank{rank}]:[E1003 10:00:0{rank}.123456789 ProcessGroupNCCL.cpp:633] "
    caught = (
        "[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, "
        "NumelOut=1, Timeout(ms)=600000) ran for 600032 milliseconds before timing out."
    )
    status = (
        f"{PG}  failure detected by watchdog at work sequence id: 7 PG status: last enqueued work: 1{{rank}}, "
        "last completed work: 6"
    )
    lines = [(head + text).format(rank=rank) for text in (caught, status) for rank in (0, 1)]
    found = failures(*lines)
    assert [(f.cause, f.role, f.fatal) for f in found] == [("collective-timeout", "cause", True)] * 2
    assert [(f.fields["rank"], f.fields["enqueued"]) for f in found] == [("0", "10"), ("1", "11")]
    assert found[0].fields.items() >= {
        "op": "ALLREDUCE", "seq": "7", "numel_in": "1", "timeout_ms": "600000", "ran_ms": "600032", "completed": "6",
        "process_group": "0", "group_name": "default_pg",
    }.items()  # fmt: skip


def test_many_alike_are_counted_and_crowd_out_nothing() -> None:
    lines = [f"RuntimeError: sample {number} is broken" for number in range(10_000)]
    lines += [f"Sending process {number} closing signal SIGTERM" for number in range(2_000)]
    found = failures(*lines, OOM)
    assert len(found) <= 60
    assert max(failure.count for failure in found) > 9_000
    assert found[-1].cause == "out-of-memory"


def test_many_kinds_of_echoes_leave_room_for_a_cause() -> None:
    words = ["".join(chr(97 + (number // 26**place) % 26) for place in range(4)) for number in range(2_000)]
    found = failures(*[f"BrokenPipeError: {word}" for word in words], OOM)
    assert len(found) <= 501
    assert found[-1].cause == "out-of-memory"


@pytest.mark.parametrize(
    "text",
    [
        "ValueError: " + "a" * 60_000,
        "Error" * 12_000,
        "[ | + " * 9_000 + "ValueError: x",
        "a." * 20_000 + "Error",
        "A" * 50_000 + "Error",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate " + "1" * 50_000,
        "  File \"" + "x" * 50_000 + "\", line 3, in f",
        "(" * 20_000 + "Error: x",
        "slurmstepd: error: *** JOB 1 ON " + "n" * 30_000 + " CANCELLED AT " + "x" * 20_000,
        "ValueError: \x1b]0;title\x07\u202ered",
        "NCCL WARN " * 5_000,
    ],
)  # fmt: skip
def test_hostile_lines_are_read_at_once_and_kept_short(text: str) -> None:
    for failure in failures(text):
        assert all(len(str(value)) <= 400 for value in failure.fields.values())
        assert len(failure.text) <= 1000


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"prompt": "Traceback (most recent call last):\nValueError: x"}),
        json.dumps({"messages": [{"content": OOM}]}),
        f"assistant: the log says {OOM}",
        f'timeout: 300, watchdog: true, note: "{OOM}"',
        "    raise ValueError(message)",
        "    ValueError: If the input is empty.",
        "INFO 11-20 09:12:22 [config.py:88] args: {'oom_kill_step': False, 'nccl_timeout': 600}",
        "INFO:     10.0.0.4:39831 - \"POST /v1/completions HTTP/1.1\" 500 Internal Server Error",
        "Epoch 3: 12 errors, 0 exceptions",
        "WARNING: destroy_process_group() was not called before program exit, which can leak resources.",
    ],
)  # fmt: skip
def test_what_only_talks_of_failures_is_none(text: str) -> None:
    assert failures(text) == []


def test_a_record_that_is_wrapped_in_json_is_opened() -> None:
    record = {"log": f"{OOM}\n", "stream": "stderr", "time": "2026-11-20T09:12:22.118204571Z"}
    assert result_of(json.dumps(record)) == [("out-of-memory", "cause")]


ECHOES = [
    ("torch.distributed.DistStoreError: Socket Timeout", "network"),
    ("vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.", "engine-dead"),
    ("[rank2]: BrokenPipeError: [Errno 32] Broken pipe", "network"),
    ("W1120 09:12:22.118000 311 torch/elastic/x.py:900] Sending process 312 closing signal SIGTERM", "killed"),
    ("srun: Terminating StepId=4711.0", "killed"),
    ("terminate called after throwing an instance of 'c10::DistBackendError'", "crashed"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "cause"), ECHOES)
def test_echoes_of_other_failures_are_cascades(text: str, cause: str) -> None:
    assert result_of(text) == [(cause, "cascade")]


def test_orders_from_outside_end_a_process_for_good() -> None:
    bar = " 52%|█████▏    | 520/1000 [1:02:03<57:17,  7.16s/it]"
    clock = "[2026-11-20T09:12:22.118]"
    torn = f"{clock} error: *** STEP 4711.0 ON node7 CANCELLED {clock} error: *** JOB"
    for line in (
        "slurmstepd: error: *** JOB 4711 ON node7 CANCELLED AT 2026-11-20T09:12:22 DUE TO TIME LIMIT ***",
        f"{bar}slurmstepd: error: *** JOB 4711 ON node7 CANCELLED AT 2026-11-20T09:12:22 DUE TO TIME LIMIT ***",
        f"{bar}{torn} 4711 ON node7 CANCELLED AT 2026-11-20T09:12:22 DUE TO TIME LIMIT ***",
    ):
        (failure,) = failures(line)
        assert (failure.cause, failure.role, failure.fatal) == ("time-limit", "order", True)
        assert (failure.fields["job"], failure.fields["host"]) == ("4711", "node7")


_PARTS = {"frame", "handled", "raised", "chained", "backtrace", "quoted", "unquoted"}
"""Lines around a failure, and of texts that quote one."""


def test_every_failure_has_a_cause_that_is_known() -> None:
    causes = {
        "out-of-memory", "host-out-of-memory", "collective-timeout", "exception", "gpu-error", "disk-full",
        "time-limit", "preempted", "cancelled", "node-failure", "killed", "interrupted", "engine-dead",
        "startup-refused", "not-finite", "network", "process-died", "crashed", "data-error",
        "configuration", "missing-module", "missing-command", "shared-memory",
    }  # fmt: skip
    emits = [emit for pack in PACKS for pattern in pack.patterns for emit in pattern.emit]
    assert {emit.name for emit in emits if emit.kind == "failure"} <= causes
    assert {emit.name for emit in emits if emit.kind == "detail"} <= causes | _PARTS


def test_no_command_looks_at_a_process_of_a_run_that_died() -> None:
    caught = (
        "[rank{rank}]:[E1126 15:07:23.412233411 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=48121, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran "
        "for 600029 milliseconds before timing out."
    )
    steps = [f"2026-11-26 14:{at // 6:02d}:{at % 6}0 step {at} loss 2.1" for at in range(340)]
    died = diagnose_texts({"train.log": "\n".join([*steps, *(caught.format(rank=rank) for rank in (0, 3))])})
    assert died.run.state is Progress.FAILED
    (finding,) = (one for one in died.findings if one.signature == "collective-timeout")
    assert finding.commands == ("perfmon nccl --hang DUMPS",)
