"""Watchdog lines of all ranks name the rank that is behind, or state that they do not decide."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from perfmon.hangs import Answer, Kind, Verdict, judge, summary
from perfmon.hangs.lines import read_lines

SIZE = "INFO started rank 0 with world_size=4"
ALL = "All distributed processes registered. Starting with 4 processes"
HEAD = "[E1003 10:10:{s:02d}.123456789 ProcessGroupNCCL.cpp:616]"


def timeout(rank: int, seq: int, op: str = "ALLREDUCE", numel: int = 4096) -> str:
    """A rank that waits."""
    return (
        f"[rank{rank}]:{HEAD.format(s=rank)} [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL("
        f"SeqNum={seq}, OpType={op}, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) ran for 600021"
        " milliseconds before timing out."
    )


def status(rank: int, seq: int, enqueued: int, completed: int, group: str = "0(default_pg)", place: int = -1) -> str:
    """Where it stands in a group."""
    return (
        f"[rank{rank}]:{HEAD.format(s=rank)} [PG ID 1 PG GUID {group} Rank {rank if place < 0 else place}]  failure"
        f" detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed"
        f" work: {completed}"
    )


def signal(rank: int, enqueued: int, completed: int) -> str:
    """A rank that did not time out."""
    return (
        f"[rank{rank}]:{HEAD.format(s=30 + rank)} [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Received a dump signal"
        f" due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued NCCL"
        f" work: {enqueued}, last completed NCCL work: {completed}.This is most likely caused by incorrect usages."
    )


def judged(folder: Path, *lines: str) -> Verdict:
    """The verdict about a log with these lines."""
    (folder / "run.log").write_text("\n".join(lines) + "\n")
    return judge(read_lines(folder))[0]


def test_the_rank_that_did_not_enqueue_it(tmp_path: Path) -> None:
    lines = [timeout(rank, 5) for rank in (0, 1, 3)] + [status(rank, 5, 5, 4) for rank in (0, 1, 3)]
    verdict = judged(tmp_path, *lines, signal(2, 4, 4))
    assert (verdict.answer, verdict.ranks) == (Answer.NAMED, (2,))
    assert verdict.confidence == "3 of 3 waiting ranks wait for it"


def test_the_rank_that_is_silent(tmp_path: Path) -> None:
    lines = [timeout(rank, 5) for rank in (0, 1, 3)]
    verdict = judged(tmp_path, SIZE, *lines)
    assert (verdict.ranks, verdict.causes[0].kind) == ((2,), Kind.MISSING)
    verdict = judged(tmp_path, *lines)
    assert (verdict.ranks, verdict.candidates) == ((), (2,))


def test_a_rank_that_only_echoed_the_signal_was_alive(tmp_path: Path) -> None:
    echo = (
        f"[rank2]:{HEAD.format(s=40)} [PG ID 0 PG GUID 0(default_pg) Rank 2] Observed flight recorder dump signal from"
    )
    verdict = judged(tmp_path, SIZE, *(timeout(rank, 5) for rank in (0, 1, 3)), f"{echo} another rank via TCPStore.")
    assert verdict.ranks == (2,)
    assert "rank 2 printed watchdog lines, so it was alive" in verdict.reasons


def test_the_lowest_number_is_behind(tmp_path: Path) -> None:
    lines = [timeout(rank, 166 if rank == 1 else 167) for rank in range(4)]
    assert judged(tmp_path, *lines).ranks == (1,)


FIRST = [line for rank in (0, 1, 3) for line in (timeout(rank, 500), status(rank, 500, 500, 499))] + [
    signal(2, 499, 499)
]
SECOND = [line for rank in (0, 2, 3) for line in (timeout(rank, 12), status(rank, 12, 12, 11))] + [signal(1, 11, 11)]


def later(lines: list[str]) -> list[str]:
    """The same half an hour later."""
    return [line.replace("E1003 10:1", "E1003 10:4") for line in lines]


def untimed(lines: list[str]) -> list[str]:
    """The same without times."""
    return [re.sub(r"\[E1003 [\d:.]+ ", "[E ", line) for line in lines]


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        (FIRST + later(SECOND), 1),
        (SECOND + later(FIRST), 2),
        (untimed(FIRST + SECOND), 1),
        (untimed(SECOND + FIRST), 2),
    ],
    ids=["lower numbers", "higher numbers", "lower, without times", "higher, without times"],
)
@pytest.mark.parametrize("by_rank", [False, True], ids=["one log", "a log of each rank"])
def test_of_a_job_that_restarted_the_last_attempt_is_judged(
    lines: list[str], named: int, by_rank: bool, tmp_path: Path
) -> None:
    for rank in range(4):
        mine = [line for line in lines if f"[rank{rank}]" in line] if by_rank else lines
        (tmp_path / (f"rank_{rank}.log" if by_rank else "run.log")).write_text("\n".join(mine) + "\n")
    evidence = read_lines(tmp_path)
    assert judge(evidence)[0].ranks == (named,)
    assert evidence.notes[0].endswith(" watchdog lines of earlier attempts of the job left out")


def test_a_rank_that_printed_lines_in_an_earlier_attempt_only_is_a_candidate(tmp_path: Path) -> None:
    for lines in (FIRST + later(SECOND[:-1]), untimed(FIRST + SECOND[:-1])):
        verdict = judged(tmp_path, *lines)
        assert (verdict.ranks, verdict.candidates) == ((), (1,))
    verdict = judged(tmp_path, *(timeout(rank, 5) for rank in (0, 1, 3)), *later([timeout(rank, 9) for rank in (0, 2)]))
    assert 2 not in verdict.ranks


def test_both_sides_of_a_transfer_are_no_mismatch(tmp_path: Path) -> None:
    verdict = judged(tmp_path, ALL, timeout(0, 7, "SEND", 100), timeout(1, 7, "RECV", 100))
    assert (verdict.ranks, [cause.kind for cause in verdict.causes if cause.kind is Kind.MISMATCH]) == ((), [])


def test_another_operation(tmp_path: Path) -> None:
    lines = [timeout(rank, 7, "_ALLGATHER_BASE" if rank == 3 else "ALLREDUCE") for rank in range(4)]
    assert judged(tmp_path, *lines).ranks == (3,)


def test_another_size(tmp_path: Path) -> None:
    assert judged(tmp_path, *(timeout(rank, 7, numel=5 if rank == 1 else 4) for rank in range(4))).ranks == (1,)


def test_all_arrived(tmp_path: Path) -> None:
    lines = [line for rank in range(4) for line in (timeout(rank, 7), status(rank, 7, 9, 6))]
    assert judged(tmp_path, ALL, *lines).answer is Answer.ARRIVED


@pytest.mark.parametrize(
    "line",
    ["config: {'world_size': 8, 'tp': 4}", "WORLD_SIZE=8", "worker 0 in world size 8 is DP rank 0", "[rank 0/8] ready",
     "tensor_parallel_world_size=4 local_world_size=4, local world size: 4, TP world size: 4", "step 1",
     "[PG ID 3 PG GUID 3(tp) Rank 0] ProcessGroupNCCL initialization options: size: 4, global rank: 0"],
)  # fmt: skip
def test_the_ranks_that_are_known_are_not_all(line: str, tmp_path: Path) -> None:
    """The rank that is behind may be among those that no line is of."""
    for count in (4, 1):
        lines = [text for rank in range(count) for text in (timeout(rank, 7), status(rank, 7, 7, 6))]
        verdict = judged(tmp_path, line, *lines)
        assert (verdict.answer in (Answer.UNKNOWN, Answer.CANDIDATES), verdict.ranks) == (True, ())
        assert not set(verdict.candidates) & set(range(count))


@pytest.mark.parametrize(
    "line",
    [ALL, "Initializing distributed: GLOBAL_RANK: 3, MEMBER: 4/4", "dist_world_size=4",
     "  role_world_sizes=[4, 4]\n  global_world_sizes=[4, 4]", "Num processes: 4\nProcess index: 0",
     "using world size: 4, data-parallel size: 2, tensor-model-parallel size: 2",
     "Training in distributed mode with multiple processes, 1 device per process.Process 0, total 4, device cuda:0.",
     "[PG ID 0 PG GUID 0(default_pg) Rank 0] ProcessGroupNCCL initialization options: size: 4, global rank: 0"],
)  # fmt: skip
def test_the_size_of_the_job_by_its_lines(line: str, tmp_path: Path) -> None:
    assert judged(tmp_path, line, *(timeout(rank, 7) for rank in range(4))).answer is Answer.ARRIVED


@pytest.mark.parametrize(
    "line",
    ["init tp group: {'world_size': 4}", 'env: {"WORLD_SIZE": "4"}', "worker 0 in world size 4 is DP", "[rank 0/4] up",
     "num_processes: 4"],
)  # fmt: skip
def test_a_size_that_may_be_that_of_a_group_does_not_prove_that_all_have_arrived(line: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("\n".join((line, *(timeout(rank, 7) for rank in range(4)))) + "\n")
    evidence = read_lines(tmp_path)
    assert summary(judge(evidence)[0], evidence) == (
        "cannot tell who is behind: all 4 ranks that are known have arrived in allreduce 7 in default_pg;"
        " the size of the job is unknown (a line states 4, which may be that of a group)"
    )


def test_the_answer_states_that_the_size_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "run.log").write_text("\n".join(timeout(rank, 7) for rank in range(7)))
    evidence = read_lines(tmp_path)
    assert summary(judge(evidence)[0], evidence) == (
        "cannot tell who is behind: all 7 ranks that are known have arrived in allreduce 7 in default_pg;"
        " the size of the job is unknown"
    )


def test_lines_of_one_rank_prove_nothing(tmp_path: Path) -> None:
    verdict = judged(tmp_path, timeout(5, 7), status(5, 7, 7, 6))
    assert (verdict.answer, verdict.ranks, verdict.candidates) == (Answer.UNKNOWN, (), ())


def test_the_silent_member_of_a_group_with_even_distances(tmp_path: Path) -> None:
    """Ranks 0, 2 and 6 of a group that has every second rank: of the silent ones the group waits for rank 4 alone."""
    lines = [
        line
        for place, rank in ((0, 0), (1, 2), (3, 6))
        for line in (timeout(rank, 7), status(rank, 7, 7, 6, "11(mesh_dp)", place))
    ]
    verdict = judged(tmp_path, *lines)
    assert (verdict.answer, verdict.candidates) == (Answer.CANDIDATES, (4,))


def test_a_desync_report_names_the_rank(tmp_path: Path) -> None:
    line = "\t  - [3] finished collective #17, but didn't join collective #18 (count from 1)"
    assert judged(tmp_path, timeout(0, 18), line).ranks == (3,)


def test_a_monitored_barrier_names_the_ranks(tmp_path: Path) -> None:
    verdict = judged(tmp_path, "RuntimeError: [Rank 0]: Ranks 2, 5 failed to pass monitoredBarrier in 30000 ms")
    assert (verdict.ranks, verdict.causes[0].kind) == ((2, 5), Kind.REPORTED)


def test_mismatched_collectives_are_counted(tmp_path: Path) -> None:
    def pair(a: int, b: int) -> str:
        names = {rank: "BROADCAST" if rank == 2 else "ALLREDUCE" for rank in range(4)}
        return (
            f"RuntimeError: Detected mismatch between collectives on ranks. Rank {a} is running collective:"
            f" CollectiveFingerPrint(SequenceNumber=41, OpType={names[a]}, TensorShape=[4], TensorDtypes=Float), but"
            f" Rank {b} is running collective: CollectiveFingerPrint(SequenceNumber=41, OpType={names[b]},"
            " TensorShape=[4])."
        )

    assert judged(tmp_path, pair(0, 2), pair(1, 2), pair(2, 0), pair(3, 2)).ranks == (2,)


def test_a_watchdog_that_is_stuck_itself_makes_its_rank_a_candidate(tmp_path: Path) -> None:
    line = (
        f"[rank4]:{HEAD.format(s=40)} [PG ID 0 PG GUID 0(default_pg) Rank 4] ProcessGroupNCCL's watchdog got stuck for"
        " 480 seconds without making progress in monitoring enqueued collectives."
    )
    verdict = judged(tmp_path, line)
    assert (verdict.answer, verdict.candidates) == (Answer.CANDIDATES, (4,))
    assert verdict.reasons[-1].startswith("the watchdog of rank 4 made no progress itself: [rank4]:")


def test_a_healthy_log_has_no_evidence(tmp_path: Path) -> None:
    assert judged(tmp_path, "step 1 loss 2.0", "step 2 loss 1.9").answer is Answer.NO_HANG
