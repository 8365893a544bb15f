"""The built-in run as a timeline: the lines of the files, each at its moment, made while it is played."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from perfmon.core.errors import UsageError
from perfmon.core.model import Block
from perfmon.core.text import ESCAPES
from perfmon.demo.output import demo_timeline, write_demo
from perfmon.demo.scenarios import SCENARIOS
from perfmon.demo.simulation import Simulation
from perfmon.rules.signatures import load_signatures
from perfmon.sources.pollers.reading import is_poll

BEGIN = datetime.fromisoformat("2026-11-20T09:00:00")
CLOCK = re.compile(r"(?:^|\]:|\d )(\d\d):(\d\d):(\d\d) ")


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_it_has_the_lines_of_the_files_in_the_order_of_time(scenario: str, tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in write_demo(tmp_path, scenario, seed=3)}
    texts: dict[str, bytes] = {}
    last_s = 0.0
    for at_s, log, item in demo_timeline(scenario, seed=3, minutes=10, begin=BEGIN).items():
        assert isinstance(item, Block)
        assert at_s >= last_s
        last_s = at_s
        if is_poll(log):  # of no file
            continue
        text = texts.get(log, b"")
        assert (item.offset, item.line, item.data.count(b"\n")) == (len(text), text.count(b"\n") + 1, 1)
        texts[log] = text + item.data
    assert texts == files


def test_the_clock_in_a_line_is_that_of_the_moment() -> None:
    begin = datetime.fromisoformat("2025-02-28T23:50:00")
    timeline = demo_timeline("healthy", begin=begin)
    assert (timeline.start, timeline.duration_s) == (begin.timestamp(), 3600.0)
    dated = 0
    for at_s, log, item in timeline.items():
        assert isinstance(item, Block)
        if is_poll(log):
            assert item.data.startswith((begin + timedelta(seconds=at_s)).strftime("%Y-%m-%d %H:%M:%S.").encode())
            continue
        found = CLOCK.search(ESCAPES.sub("", item.data.decode()))
        if found:
            hour, minute, second = map(int, found.groups())
            dated += 1
            assert (3600 * hour + 60 * minute + second - 23 * 3600 - 3000) % 86400 == int(at_s)
    assert dated > 1000


def test_without_a_wish_it_begins_now() -> None:
    before = datetime.now().timestamp()
    assert before <= demo_timeline().start <= datetime.now().timestamp()


def test_it_is_simulated_step_by_step() -> None:
    simulation = Simulation(SCENARIOS["healthy"], 0, 600_000.0)
    steps = simulation.steps()
    ends = [next(steps), next(steps)]
    assert 0 < ends[0] < ends[1] < 300
    result = list(simulation.journal.take(ends[0]))
    assert [at for at, _, _ in result] == sorted(at for at, _, _ in result)
    assert 10 < len(result) < 200


def test_it_can_be_played_again() -> None:
    timeline = demo_timeline("stall", minutes=3)
    assert list(timeline.items()) == list(timeline.items())


UNPLAYED = {
    "no run tells of it, only what is around one": ("source-silent", "endpoint-down"),
    "the machines of the built-in run are well": (
        "disk-full", "gpu-idle", "gpu-lost", "gpu-memory-growth", "gpu-throttled", "host-memory-leak", "slow-transport",
    ),
    "the lab's real run shows it better": (
        "blocking-eval", "engine-stuck", "event-loop-lag", "long-tail-generation", "under-admission",
    ),
    "the built-in run does not die, and starts within seconds: tests/cases has real deaths, hangs and starts": (
        "collective-timeout", "out-of-memory", "retry-loop", "run-failed", "slow-start", "time-limit-ahead",
        "weight-sync-hung",
    ),
    "its trainer has one rank and one engine, a steady speed, a loss that converges and data at hand": (
        "data-starved", "engine-imbalance", "loss-diverged", "ranks-missing", "straggler-rank", "throughput-drift",
    ),
    "its one engine is not capped, and its rollouts need no tools, share no prefix and are all used": (
        "environment-bound", "prefix-cache-lost", "request-cap", "wasted-rollouts",
    ),
    "its updates wait for no requests: the example of the signature does": ("update-waits-for-requests",),
    "it is one run, not the trials of a search": ("trials-failed",),
    "its log holds no records of NCCL Inspector": ("nccl-slow-link", "nccl-slow-rank"),
    "it has no streaming pipeline: the lab has a real one": (
        "consumer-bound", "consumer-dead", "network-slow", "parse-bound", "producer-slow", "queue-growth",
        "queue-overhead",
    ),
    "they are found in traces of profilers": (
        "comm-bound", "host-stall", "launch-bound", "pageable-transfer", "transfer-bound",
    ),
}  # fmt: skip
"""Signatures without a scenario, by the reason."""


def test_every_signature_of_a_run_has_a_scenario() -> None:
    unplayed = {name for names in UNPLAYED.values() for name in names}
    assert len(unplayed) == sum(map(len, UNPLAYED.values()))
    assert {signature.id for signature in load_signatures()} - set(SCENARIOS) == unplayed
    assert set(SCENARIOS) - {signature.id for signature in load_signatures()} == {"healthy"}


def test_wrong_wishes_are_refused_before_anything_is_played() -> None:
    with pytest.raises(UsageError, match="no such scenario"):
        demo_timeline("fine")
    with pytest.raises(UsageError, match="minutes: expected"):
        demo_timeline(minutes=0)


def test_it_loads_no_screen() -> None:
    code = "import sys, perfmon.demo; sys.exit('textual' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
