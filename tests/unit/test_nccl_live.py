"""Logs of NCCL Inspector that are still being written give the findings of the complete ones, in bounded memory."""

from __future__ import annotations

import os
import re
import threading
import time
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path

import pytest
from handfed import HandFed

from lab import nccl_logs
from lab.nccl_logs import Faults, Plan, write
from perfmon.commands._remote import feed_of
from perfmon.core import Block, Config, Progress
from perfmon.monitor import INSPECTOR_HISTORY, Monitor, absent_folders, history_of
from perfmon.monitor.composite_feeds import LOG
from perfmon.nccl import Job, LiveJob
from perfmon.nccl import live as live_module
from perfmon.pipeline import Session
from perfmon.viewmodel import AlertState, MonitorState

PLAN = Plan(nodes=4, gpus=4, steps=80, layers=3, compute_us=60_000, jitter=0.003)
FAULTS = {
    "healthy": Faults(),
    "slow rank": Faults(slow_rank=3, delay_us=8_000),
    "slow adapter": Faults(slow_adapter=1),
    "later": Faults(slow_rank=6, delay_us=8_000, since=0.3),
}


def fed(folder: Path, size: int = 20_000) -> tuple[LiveJob, list[str]]:
    """All files in pieces of whole lines, in turns, evaluated after each round and some seconds after the last.

    Returns the job and the lines for the rule engine.
    """
    job, lines = LiveJob(), list[str]()
    texts = {path: path.read_bytes().splitlines(keepends=True) for path in sorted(folder.iterdir())}
    for path, text in texts.items():
        job.feed(path, b"".join(text[:1]))
    step = max(1, size // 400)
    rounds = [
        [(path, b"".join(text[at : at + step])) for at in range(1, len(text), step)] for path, text in texts.items()
    ]
    for pieces in zip_longest(*rounds):
        for piece in pieces:
            if piece is not None:
                job.feed(piece[0], piece[1], job.newest)
        lines += job.advance(caught_up=True)
    return job, lines + job.advance(caught_up=True, clock=(job.newest or 0.0) + 10)


def accused(lines: list[str]) -> list[tuple[str, str]]:
    """(signature, who) of the findings of the rule engine."""
    session = Session(Config())
    session.feed(session.add_source("nccl-inspector"), Block("".join(f"{line}\n" for line in lines).encode(), 0, 1))
    return [(f.signature, f.identity["group"]) for f in session.snapshot().findings if f.state != "pending"]


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("form", ["2.30", "4.3"])
def test_live_and_complete_logs_accuse_the_same(fault: str, form: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")
    write(tmp_path, replace(PLAN, form=form, faults=FAULTS[fault]))
    with Job([tmp_path]) as job:
        complete = [(f.signature, f.identity["group"]) for f in job.analyze().findings]
    assert bool(complete) == (fault != "healthy")
    assert accused(fed(tmp_path)[1]) == complete


def test_a_job_that_stands_still_is_evaluated_to_its_last_record(tmp_path: Path) -> None:
    write(tmp_path, replace(PLAN, faults=FAULTS["slow rank"]))
    job = LiveJob()
    for path in sorted(tmp_path.iterdir()):
        job.feed(path, path.read_bytes())
    lines = [line for clock in (0.0, 3.0, 9.0) for line in job.advance(caught_up=True, clock=clock)]
    assert [signature for signature, _ in accused(lines)] == ["nccl-slow-rank"]
    assert job.state(9.0).complete_ops == job.state(9.0).ops > 0


@pytest.mark.parametrize("at", [0.0, 0.3, 0.8])
@pytest.mark.parametrize("shape", [(1, 8), (2, 2)], ids=str)
def test_one_pause_accuses_no_one_live(shape: tuple[int, int], at: float, tmp_path: Path) -> None:
    faults = Faults(paused_rank=1, pause_us=8e6, pause_at=(at,))
    write(tmp_path, replace(PLAN, nodes=shape[0], gpus=shape[1], faults=faults))
    lines = fed(tmp_path)[1]
    assert any('waiting for="rank 1 ' in line for line in lines)
    assert accused(lines) == []


@pytest.mark.parametrize(
    ("seed", "steps", "pause_s", "stops"),
    [
        (63, 68, 1.8, (0.13, 0.49, 0.72)),
        (129, 52, 11, (0.15, 0.35, 0.62, 0.79)),
        (237, 60, 8.6, (0.1, 0.21, 0.71, 0.89)),
    ],
)
def test_pauses_that_are_most_of_a_job_of_two_ranks_accuse_no_one(
    seed: int, steps: int, pause_s: float, stops: tuple[float, ...], tmp_path: Path
) -> None:
    faults = Faults(paused_rank=1, pause_us=1e6 * pause_s, pause_at=stops)
    write(tmp_path, Plan(1, 2, steps, 2, seed, compute_us=80e3, jitter=0.01, faults=faults))
    assert accused(fed(tmp_path)[1]) == []


def test_a_rank_that_is_slow_in_the_last_seconds_of_a_job_is_named(tmp_path: Path) -> None:
    plan = replace(PLAN, gpus=2, steps=130, faults=Faults(slow_rank=3, delay_us=15_000, since=0.66))
    writer = write(tmp_path, plan)
    job, lines = fed(tmp_path)
    assert job.newest is not None
    assert job.newest - nccl_logs.START_US / 1e6 < 53  # it is slow for less than 18 s
    assert accused(lines) == [("nccl-slow-rank", f"rank 3 on {writer.hosts[1]} (pid {writer.pids[3]})")]


@pytest.mark.parametrize("form", ["2.30", "4.3"])
@pytest.mark.parametrize("lag", [-40, 0, 300])
def test_logs_that_are_there_twice_count_once(lag: int, form: str, tmp_path: Path) -> None:
    write(tmp_path, replace(PLAN, nodes=2, gpus=2, form=form, faults=FAULTS["slow rank"]))
    paths = sorted(tmp_path.iterdir())
    texts = {path: path.read_bytes().splitlines(keepends=True) for path in paths}
    once, twice = LiveJob(), LiveJob()
    expected, lines = list[str](), list[str]()
    for at in range(0, max(map(len, texts.values())) + 300, 50):
        for path in paths:
            once.feed(path, b"".join(texts[path][at : at + 50]))
            twice.feed(path, b"".join(texts[path][at : at + 50]))
        for path in paths[:3]:  # the copies are read behind the logs, or before
            twice.feed((path, "copy"), b"".join(texts[path][max(0, at - lag) : max(0, at - lag + 50)]))
        expected += once.advance(caught_up=True)
        lines += twice.advance(caught_up=True)
    assert accused(lines) == accused(expected) != []
    if lag >= 0:
        assert lines == expected
    was, state = once.state(2.0), twice.state(2.0)
    assert (
        (state.processes, state.unfinished, state.open_ops)
        == (was.processes, was.unfinished, was.open_ops)
        == (4, 0, 0)
    )
    assert state.repeated > was.repeated == 0


WITHOUT = {
    "its partner": (Plan(2, 2), [0], 0),
    "the host of its peer": (Plan(4, 2), [4, 5], 4),
    "one rank of each host": (Plan(4, 2), [0, 2, 4, 6], 4),
    "another rank": (Plan(2, 4), [0], 6),
    "another host": (Plan(3, 2), [0, 1], 3),
}
"""Jobs, the ranks whose logs are missing, and the slow rank."""


@pytest.mark.parametrize("name", WITHOUT)
def test_a_rank_that_may_wait_for_one_without_a_log_is_not_accused(name: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")
    plan, missing, slow = WITHOUT[name]
    plan = replace(PLAN, nodes=plan.nodes, gpus=plan.gpus, faults=Faults(slow_rank=slow, delay_us=20_000))
    writer = write(tmp_path, plan)
    for rank in missing:
        (tmp_path / f"{writer.hosts[rank // plan.gpus]}-pid{writer.pids[rank]}.log").unlink()
    with Job([tmp_path]) as job:
        found = job.analyze()
    names = [f"rank {rank} on {writer.hosts[rank // plan.gpus]} (pid {pid})" for rank, pid in enumerate(writer.pids)]
    wanted = [] if slow in missing else [("nccl-slow-rank", names[slow])]
    assert [(f.signature, f.identity["group"]) for f in found.findings] == wanted
    assert accused(fed(tmp_path)[1]) == wanted
    noted = [note for note in found.notes if "may have waited itself for ranks without records (rank" in note]
    # Ranks of a host come to its peers together, and leave the operation together.
    late = {"its partner": 1, "one rank of each host": 5}.get(name)
    assert [note.partition(" came last")[0] for note in noted] == ([] if late is None else [names[late]])


def test_logs_of_a_rank_that_come_late_change_no_origin(tmp_path: Path) -> None:
    """Its old records arrive together, after others were judged without them."""
    plan = replace(PLAN, nodes=2, gpus=2, faults=Faults(slow_rank=1, delay_us=8_000))
    writer = write(tmp_path, plan)
    late = f"{writer.hosts[0]}-pid{writer.pids[1]}.log"
    lines = sorted(
        (int(line.partition(b'"dump_timestamp_us":')[2].partition(b",")[0]), path.name, line)
        for path in tmp_path.iterdir()
        for line in path.read_bytes().splitlines(keepends=True)
    )
    job, half = LiveJob(), len(lines) // 2
    for first, last in ((0, half), (half, len(lines))):
        for _, name, line in lines[first:last]:
            if first or name != late:
                job.feed(name, line)
        if first == 0:
            assert job.advance(caught_up=True)
            for _, name, line in lines[:half]:
                if name == late:
                    job.feed(name, line)
    shares = [re.search(r'for="(rank \d+) .* origin_pct=([\d.]+)', one) for one in job.advance(caught_up=True)]
    assert {one[1] for one in shares if one is not None and float(one[2]) > 90} == {"rank 1"}


def test_stages_of_a_pipeline_that_wait_for_each_other_accuse_no_one(tmp_path: Path) -> None:
    write(tmp_path, Plan(nodes=4, gpus=2, steps=60, layers=1, compute_us=30_000, jitter=0.003, microbatches=3))
    job, lines = fed(tmp_path)
    assert sum('waiting for="' in line for line in lines) > 20
    assert accused(lines) == []
    # Their lateness is waiting for others in sends and receives.
    assert all(rank.own_lateness < 0.6 for rank in job.state(0.0).ranks if rank.share > 0.05)


def test_a_slow_rank_in_a_pipeline_is_named_live(tmp_path: Path) -> None:
    plan = Plan(nodes=4, gpus=2, steps=60, layers=1, compute_us=30_000, jitter=0.003, replicas=2, microbatches=3)
    writer = write(tmp_path, replace(plan, faults=Faults(slow_rank=3, delay_us=30_000)))
    wanted = [("nccl-slow-rank", f"rank 3 on {writer.hosts[1]} (pid {writer.pids[3]})")]
    assert accused(fed(tmp_path)[1]) == wanted
    with Job([tmp_path]) as job:
        assert [(f.signature, f.identity["group"]) for f in job.analyze().findings] == wanted


def test_each_communicator_counts_its_missing_ranks_once_and_not_at_its_start(tmp_path: Path) -> None:
    """Whatever the clock: communicators whose operations are all open are not forgotten."""
    write(tmp_path, PLAN)
    min(tmp_path.iterdir()).unlink()
    lines = sorted(
        (int(line.partition(b'"dump_timestamp_us":')[2].partition(b",")[0]), path.name, line)
        for path in tmp_path.iterdir()
        for line in path.read_bytes().splitlines(keepends=True)
    )
    job, begin, due = LiveJob(), lines[0][0], 0
    for at, name, line in lines:
        job.feed(name, line)
        if at < due:
            continue
        due = at + 1_000_000
        job.advance(caught_up=True)
        state = job.state(at / 1e6)
        labels = [one.label for one in state.missing]
        assert len(labels) == len(set(labels))
        assert {one.count for one in state.missing} <= {1}
        assert not labels or at - begin > 10_000_000
    assert len(labels) == 3


def test_open_operations_are_bounded_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, PLAN)
    monkeypatch.setattr(live_module, "MOST_OPEN", 64)
    job = LiveJob()
    first, *others = sorted(tmp_path.iterdir())
    for line in first.read_bytes().splitlines(keepends=True):
        job.feed(first, line)
        assert job.state(0.0).open_ops <= 64
    job.advance(caught_up=True)
    state = job.state(1.0)
    assert state.evicted > 400
    assert state.coverage == 0.0
    assert {one.count for one in state.missing} == {3, 15}
    for path in others:
        job.feed(path, path.read_bytes())
    assert job.state(2.0).processes == 16


def test_lines_that_are_no_records_are_counted_and_nothing_else_is_lost(tmp_path: Path) -> None:
    write(tmp_path, Plan(nodes=1, gpus=2, steps=4))
    job, bad = (
        LiveJob(),
        [b"null\n", b"12\n", b"{\n", b'{"header":{}}\n', b"\xff\n", b'{"coll_perf":{}}\n', b"[" * 9999],
    )
    expected = 0
    for path in sorted(tmp_path.iterdir()):
        lines = path.read_bytes().splitlines(keepends=True)
        expected += len(lines)
        job.feed(path, b"".join(lines[:3] + bad + [b"\n"] + lines[3:]))
    assert (job.counts.lines - job.counts.skipped, job.counts.skipped) == (expected, 2 * len(bad))
    job.advance(caught_up=True)
    assert job.state(1.0).unfinished == 0


HOUR_S = 3600.0


@pytest.mark.parametrize(
    ("records_s", "files_s"), [(HOUR_S, HOUR_S), (HOUR_S, 0.0), (-HOUR_S, HOUR_S)], ids=["moved", "copied", "ahead"]
)
def test_dumps_that_ended_an_hour_ago_are_old(
    records_s: float, files_s: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest record and the last write to a file are that long ago; a copy is newer than its records."""
    now = time.time()
    monkeypatch.setattr(nccl_logs, "START_US", int((now - records_s - 33.0) * 1e6))
    write(tmp_path, replace(PLAN, faults=FAULTS["slow rank"]))
    for path in tmp_path.iterdir():
        os.utime(path, (now - files_s,) * 2)
    pictures, judged = [], threading.Event()

    def listen(picture: MonitorState) -> None:
        if picture.alerts and picture.collectives is not None and picture.collectives.age_s is not None:
            pictures.append(picture)
            judged.set()

    monitor = Monitor(lambda: feed_of(None, (), inspector=(str(tmp_path),)), Config())
    monitor.listeners.append(listen)
    monitor.start()
    try:
        assert judged.wait(60.0)
    finally:
        monitor.stop()
    last = pictures[-1]
    assert {alert.state for alert in last.alerts} == {AlertState.UNKNOWN}
    assert last.past_s == pytest.approx(HOUR_S, abs=120.0)
    assert last.collectives is not None
    assert last.collectives.age_s == pytest.approx(HOUR_S, abs=120.0)


def test_folders_that_are_not_there_yet_are_known(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    specs = [str(tmp_path / "here"), str(tmp_path / "there"), str(tmp_path / "any*")]
    assert absent_folders(specs) == [specs[1]]


def test_more_is_read_back_of_few_logs_than_of_many(tmp_path: Path) -> None:
    for number in range(64):
        (tmp_path / f"node-{number}-pid{number}.log").write_text("{}\n")
    assert history_of([str(tmp_path)]) == INSPECTOR_HISTORY
    assert history_of([str(tmp_path / "node-1-pid1.log")]) == 16 * INSPECTOR_HISTORY
    assert history_of([str(tmp_path / "absent")]) == 16 * INSPECTOR_HISTORY


def test_the_end_of_records_alone_is_no_stall() -> None:
    run = HandFed(1_772_452_800.0)
    waits = 'waiting for="rank 1 on a (pid 7)" wait_pct=1.20 caused_pct=5.00 lead_pct=50.00 origin_pct=40.00'
    waits += " own_pct=5.00 link_ratio=1.000"
    for _ in range(20):
        run.feed.now += 3
        run.say(LOG, f"{datetime.fromtimestamp(run.feed.now):%Y-%m-%d %H:%M:%S}.000 [nccl] {waits}")
    run.feed.now += 400
    picture = run.look(60)
    assert picture.snapshot is not None
    assert picture.snapshot.metrics["nccl_wait_pct"].summary.count > 10
    assert picture.snapshot.run.state is not Progress.STALLED
    assert not picture.snapshot.findings
    assert picture.unused_since is None  # nor is it a server without requests
