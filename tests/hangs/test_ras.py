"""NCCL RAS: its answers in JSON and text, over a real socket; no verdict that the counters do not give."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress

import pytest
from ras_server import answer, rank, serving

from perfmon.core import ConnectError, InputError, UsageError
from perfmon.hangs import Answer, Kind, ask, judge_ras, parse, query
from perfmon.hangs.ras import parse_target

TEXT = """\
NCCL version 2.27.3 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12090

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      4          8            1         32       32

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         4         8        32        32   RUNNING  MISMATCH

Errors
======

Warnings
========

#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different <AllReduce> operation counts
  {majority} ranks have launched up to operation {usual}
  {minority} ranks have launched up to operation {other}
  Rank 3 -- GPU 3 managed by process 483072 on node 10.0.0.1
  Rank 9 -- GPU 1 managed by process 483099 on node 10.0.0.2
"""


def test_one_query_names_the_rank_that_launched_less() -> None:
    with serving(answer([rank(at, 6 if at == 2 else 7) for at in range(4)])) as (port, received):
        verdict, places = judge_ras(query("127.0.0.1", port))
    assert received == [b"SET FORMAT json\nSTATUS\n"]
    assert (verdict.answer, verdict.ranks) == (Answer.NAMED, (2,))
    assert places[2] == "host 10.0.0.1, pid 102, GPU 2"
    assert verdict.causes[0].detail == "AllReduce 6 of 7 in communicator 0x0"


def test_a_server_without_json_answers_in_text() -> None:
    text = TEXT.format(majority=30, usual=6650, minority=2, other=6649)
    with serving("ERROR: Unknown command SET FORMAT json\n" + text) as (port, _):
        report = query("127.0.0.1", port)
    assert (report.version, report.communicators[0].size) == ("2.27.3", 32)
    assert judge_ras(report)[0].ranks == (3, 9)


def test_in_text_the_laggards_may_be_those_that_are_not_listed() -> None:
    text = TEXT.format(majority=30, usual=6649, minority=2, other=6650)
    verdict, _ = judge_ras(parse(text))
    assert verdict.answer is Answer.CANDIDATES
    assert not {3, 9} & set(verdict.candidates)
    assert len(verdict.candidates) == 30


def test_a_single_rank_and_several_kinds_in_text() -> None:
    text = TEXT.format(majority=30, usual=6650, minority=2, other=6649) + (
        "  Communicator ranks have different <Broadcast> operation counts\n"
        "  31 ranks have launched up to operation 5\n"
        "  Rank 7 has not launched any operations -- GPU 7 managed by process 77 on node 10.0.0.1\n"
        "#1-0 (aa) INCOMPLETE\n"
        "  Missing communicator data from 1 job process\n"
        "  Rank 21 -- GPU 5 managed by process 99 on node 10.0.0.3\n"
    )
    report = parse(text)
    counts = {one.rank: one.counts for one in report.communicators[0].ranks}
    assert (counts[7], counts[0], counts[3]) == (
        {"AllReduce": 6650, "Broadcast": 0}, {"AllReduce": 6650, "Broadcast": 5}, {"AllReduce": 6649, "Broadcast": 5}
    )  # fmt: skip
    assert [(one.rank, one.problem) for one in report.communicators[1].missing] == [(21, "no answer")]


def test_a_healthy_status_in_text_decides_nothing() -> None:
    text = TEXT.partition("Warnings")[0].replace("MISMATCH", "OK")
    assert judge_ras(parse(text))[0].answer is Answer.UNKNOWN


def test_a_rank_that_lags_and_waits_for_others_is_not_named() -> None:
    """Rank 1 lags in the large communicator and leads in the small one: it waits for rank 2 there."""
    world = [rank(0, 7), rank(1, 6), rank(2, 6), rank(3, 7)]
    pair = [{**rank(0, 5), "pid": 101}, {**rank(1, 4), "pid": 102}]
    assert judge_ras(parse(answer(world, pair)))[0].ranks == (2,)


def test_a_process_outside_of_the_largest_communicator_has_a_place() -> None:
    others = [{**rank(at, 9 if at else 8), "pid": 200 + at} for at in range(3)]
    verdict, places = judge_ras(parse(answer([rank(at, 7) for at in range(4)], others)))
    (number,) = verdict.ranks
    assert number < 0
    assert places[number] == "host 10.0.0.1, pid 200, GPU 0, rank 0 of communicator 0x1"


def test_equal_counters_decide_nothing() -> None:
    verdict, _ = judge_ras(parse(answer([rank(at, 7) for at in range(4)])))
    assert (verdict.answer, verdict.ranks, verdict.candidates) == (Answer.UNKNOWN, (), ())


def test_a_dead_rank_is_missing_and_the_missing_comma_is_repaired() -> None:
    dead = {"rank": 3, "host": "10.0.0.9", "pid": 9, "cuda_dev": 3, "nvml_dev": 3, "status": {"considered_dead": True}}
    text = answer([rank(at, 7) for at in range(3)], missing=[dead]).replace(
        '"nvml_dev": 3, "status"', '"nvml_dev": 3 "status"'
    )
    verdict, places = judge_ras(parse(text))
    assert (verdict.ranks, verdict.causes[0].kind, places[3]) == ((3,), Kind.MISSING, "host 10.0.0.9, pid 9, GPU 3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "closed the connection without an answer"),
        ("HTTP/1.1 400 Bad Request\r\n\r\n", "no status of NCCL RAS"),
        ('OK\n{"communicators": [', "ends early"),
        ("OK\n[]", "no status of NCCL RAS"),
        ("OK\n" + "[" * 100_000, "no status of NCCL RAS"),
    ],
)
def test_other_answers_are_one_clear_line(text: str, message: str) -> None:
    with serving(text) as (port, _), pytest.raises(InputError, match=message):
        query("127.0.0.1", port)


def test_no_answer_and_no_server_are_connection_errors() -> None:
    with serving(None) as (port, _), pytest.raises(ConnectError, match="no answer within"):
        query("127.0.0.1", port, 0.3)
    with pytest.raises(ConnectError, match="NCCL_RAS_ADDR"):
        query("127.0.0.1", port, 1.0)


def test_an_answer_that_trickles_without_end_is_given_up() -> None:
    """Every byte comes in time, the whole never does."""
    done = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def trickle() -> None:
            with server.accept()[0] as connection, suppress(OSError):
                while not done.wait(0.02):
                    connection.sendall(b" ")

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        try:
            with pytest.raises(ConnectError, match="no answer within"):
                query("127.0.0.1", server.getsockname()[1], 0.3)
        finally:
            done.set()
            thread.join(5)


def test_the_query_goes_through_any_stream() -> None:
    """A channel of a connection to another machine serves as well as a socket of this one."""
    opened: list[tuple[str, int]] = []

    async def elsewhere(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        opened.append((host, port))
        return await asyncio.open_connection("127.0.0.1", real)

    with serving(answer([rank(at, 6 if at == 2 else 7) for at in range(4)])) as (real, _):
        report = asyncio.run(ask(elsewhere, "gpu-1", 28028))
    assert opened == [("gpu-1", 28028)]
    assert judge_ras(report)[0].ranks == (2,)


def test_targets() -> None:
    assert parse_target("gpu-1:28028") == ("gpu-1", 28028)
    assert parse_target("[::1]:28028") == ("::1", 28028)
    assert parse_target("dumps/") is None
    with pytest.raises(UsageError, match="70000 is no port"):
        parse_target("gpu-1:70000")
