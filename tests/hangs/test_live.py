"""A run that hangs while it is watched: the finding names the rank that is behind soon after its dumps are there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from handfed import HandFed
from ras_server import answer, serving
from ras_server import rank as ras_rank

from perfmon.diagnosis import Finding
from perfmon.monitor import HangSources
from perfmon.monitor.hang_watch import HangWatch
from perfmon.sources.discovery import LogFile
from perfmon.viewmodel import MonitorState

from .test_analyze import STEP, finding
from .test_lines import timeout

GLOO = Path(__file__).parent / "gloo"
BEGIN = datetime(2026, 10, 3, 10, tzinfo=UTC)
SILENT_AT_S = 570.0
"""The last step ends that long after the begin."""


class Run:
    """A run in a folder, and a monitor of it; seconds are those since the begin."""

    def __init__(self, folder: Path, *, at_once: bool = True) -> None:
        self.folder, self.log = folder, LogFile("train.log", folder / "train.log")
        self.fed = HandFed(BEGIN.timestamp())
        self.fed.feed.specs = (str(folder),)
        self.searches: list[Callable[[], None]] = []
        self.hangs.start = (lambda search: search()) if at_once else self.searches.append
        self._pictures = 0
        for number in range(20):
            self.say(STEP.format(clock=f"10:{number // 2:02d}:{number % 2 * 30:02d}", n=number), number * 30.0)

    @property
    def hangs(self) -> HangWatch:
        """The part of the monitor that is tested."""
        return self.fed.watch._hangs

    def say(self, line: str, at_s: float) -> None:
        """A line of the log, as it is written."""
        self.fed.feed.now = BEGIN.timestamp() + at_s
        with self.log.path.open("a") as file:
            file.write(f"{line}\n")
        os.utime(self.log.path, (self.fed.feed.now, self.fed.feed.now))
        self.fed.say(self.log, line)
        self.fed.watch.judge_if_due(self.fed.feed.now)

    def beat(self, at_s: float) -> None:
        """A line that shows that the process lives."""
        self.say(f"{BEGIN + timedelta(seconds=at_s):%Y-%m-%d %H:%M:%S} INFO heartbeat", at_s)

    def dump(self, fault: str, at_s: float, ranks: tuple[int, ...] = (0, 1, 2)) -> None:
        """Ranks write their dumps."""
        for rank in ranks:
            path = self.folder / f"comm_lib_trace_rank_{rank}"
            shutil.copyfile(GLOO / fault / path.name, path)
            os.utime(path, (BEGIN.timestamp() + at_s,) * 2)

    def pass_until(self, at_s: float) -> MonitorState:
        """The picture at that time, after one every half second."""
        state = self.fed.look(self._pictures)
        while self.fed.feed.now < BEGIN.timestamp() + at_s:
            self.fed.feed.now += 0.5
            self._pictures += 1
            state = self.fed.look(self._pictures)
        return state


def found(state: MonitorState, signature: str) -> Finding:
    """The finding of a signature."""
    assert state.snapshot is not None
    return next(one for one in state.snapshot.findings if one.signature == signature)


def alerts(state: MonitorState, signature: str) -> list[tuple[int, str]]:
    """Numbers and sentences of the alerts of a signature."""
    return [(one.number, one.finding.sentence) for one in state.alerts if one.key[0] == signature]


def test_a_stall_names_the_rank_and_the_same_folder_is_analysed_alike(tmp_path: Path) -> None:
    """Dumps come while the looks of a stall last; once they were quiet for three seconds the rank is named."""
    run = Run(tmp_path)
    run.beat(600.0)
    began = next(at for at in range(600, 1000) if alerts(run.pass_until(float(at)), "stall"))
    run.pass_until(began + 7.0)
    run.dump("late", began + 7.0)
    assert "behind" not in found(run.pass_until(began + 12.0), "stall").sentence
    named = alerts(run.pass_until(began + 30.0), "stall")
    assert [number for number, _ in named] == [1]
    assert "; behind: rank 2 (all_reduce 5 in default_pg; 2 of 2 waiting ranks wait for it)" in named[0][1]
    for at_s in (900.0, 1000.0, 1100.0):  # the end of a log alone proves no stall
        run.beat(at_s)
    assert named[0][1].partition("; behind")[2] == finding(tmp_path).sentence.partition("; behind")[2]


def test_a_time_out_names_the_rank_in_the_alert_that_is_there_already(tmp_path: Path) -> None:
    """The lines of ranks 0 and 2 make rank 1 a suspect; its dump, which comes last, shows that rank 0 is in its way."""
    run = Run(tmp_path)
    run.beat(900.0)
    run.pass_until(1170.0)
    run.say(timeout(2, 5, numel=4).replace("E1003 10:10", "E1003 10:20"), 1225.0)
    first = alerts(run.pass_until(1228.0), "collective-timeout")
    assert len(first) == 1
    assert "waiting ranks" not in first[0][1]
    run.dump("chain", 1229.0)
    state = run.pass_until(1229.0 + 30.0)
    (named,) = alerts(state, "collective-timeout")
    assert named[0] == first[0][0]
    assert "; behind: rank 1 (all_reduce 5 in default_pg;" in named[1]
    assert found(state, "collective-timeout").identity["rank"] == "1"
    assert found(state, "collective-timeout").sentence == finding(tmp_path).sentence


def test_dumps_that_are_still_coming_name_no_rank(tmp_path: Path) -> None:
    """Without the dump of rank 1 another rank would be named: a missing one is waited for, and then believed."""
    run = Run(tmp_path)
    run.pass_until(1224.0)
    run.say(timeout(2, 5, numel=4).replace("E1003 10:10", "E1003 10:20"), 1225.0)
    run.dump("late", 1226.0, (0, 1))
    assert "waiting ranks" not in found(run.pass_until(1240.0), "collective-timeout").sentence
    run.dump("late", 1241.0, (2,))
    assert "; behind: rank 2 (all_reduce 5" in found(run.pass_until(1271.0), "collective-timeout").sentence


def test_the_name_goes_with_the_hang(tmp_path: Path) -> None:
    """The run continues, and stalls again without new dumps."""
    run = Run(tmp_path)
    run.dump("late", SILENT_AT_S + 20.0)
    run.beat(600.0)
    assert "; behind: rank 2" in found(run.pass_until(760.0), "stall").sentence
    for number in range(20):
        at_s = 770.0 + 30.0 * number
        run.say(STEP.format(clock=f"{BEGIN + timedelta(seconds=at_s):%H:%M:%S}", n=20 + number), at_s)
    run.beat(1400.0)
    state = run.pass_until(1700.0)
    assert "behind" not in found(state, "stall").sentence
    assert run.fed.watch.session.store.hang is None


def test_a_slow_file_system_does_not_block_the_monitor_and_is_not_asked_twice(tmp_path: Path) -> None:
    run = Run(tmp_path, at_once=False)
    run.dump("late", SILENT_AT_S + 20.0)
    run.beat(600.0)
    state = run.pass_until(800.0)
    assert "behind" not in found(state, "stall").sentence
    (search,) = run.searches
    run.hangs.start = lambda search: search()
    search()
    assert "; behind: rank 2" in found(run.pass_until(830.0), "stall").sentence


def test_dumps_that_are_too_large_are_a_notice(tmp_path: Path) -> None:
    """They name no rank, and are not read."""
    run = Run(tmp_path)
    run.dump("late", SILENT_AT_S + 20.0)
    with (tmp_path / "comm_lib_trace_rank_1").open("ab") as file:
        file.truncate(25 << 20)
    os.utime(tmp_path / "comm_lib_trace_rank_1", (BEGIN.timestamp() + SILENT_AT_S + 20.0,) * 2)
    run.beat(600.0)
    state = run.pass_until(800.0)
    assert "behind" not in found(state, "stall").sentence
    assert state.notices == ("3 dumps too large for the monitor: run perfmon nccl --hang on their folder",)


BEHIND = answer([ras_rank(at, 6 if at == 2 else 7) for at in range(4)])


def test_ras_is_queried_once_where_no_dump_names_a_rank(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with serving(BEHIND) as (port, received):
        run.fed.watch.allow(HangSources(f"127.0.0.1:{port}"))
        run.beat(600.0)
        began = next(at for at in range(600, 1000) if alerts(run.pass_until(float(at)), "stall"))
        assert "behind" not in found(run.pass_until(began + 14.0), "stall").sentence
        assert received == []
        sentence = found(run.pass_until(began + 30.0), "stall").sentence
        assert "; behind: rank 2 (AllReduce 6 of 7 in communicator 0x0; host 10.0.0.1, pid 102, GPU 2;" in sentence
        assert "by NCCL RAS 2.29.2)" in sentence
        assert len(received) == 1
    # The server is gone, as a second query would find; the name stays.
    state = run.pass_until(began + 90.0)
    assert found(state, "stall").sentence.partition("; behind")[2] == sentence.partition("; behind")[2]
    assert state.notices == ()


def test_ras_is_not_queried_without_an_address_nor_where_dumps_name_the_rank(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with serving(BEHIND) as (port, received):
        run.beat(600.0)
        run.pass_until(700.0)
        run.dump("late", 700.0)
        run.fed.watch.allow(HangSources(f"127.0.0.1:{port}"))
        run.pass_until(800.0)
        assert received == []
    assert run.fed.watch.session.store.hang is not None


def test_ras_is_not_queried_for_a_run_that_ended_before(tmp_path: Path) -> None:
    """At that address may be another job by now."""
    log, fed = LogFile("train.log", tmp_path / "train.log"), HandFed(BEGIN.timestamp() + 5000.0)
    fed.feed.changed_at = lambda _log: BEGIN.timestamp() + 1225.0  # type: ignore[method-assign,assignment]
    fed.watch.allow(HangSources("127.0.0.1:1", stacks=True))
    for number in range(20):
        fed.say(log, STEP.format(clock=f"10:{number // 2:02d}:{number % 2 * 30:02d}", n=number))
    fed.say(log, timeout(2, 5, numel=4).replace("E1003 10:10", "E1003 10:20"))
    for second in range(60):
        fed.feed.now += 1.0
        state = fed.look(second)
    assert found(state, "collective-timeout").state == "firing"
    assert state.notices == ()


def test_a_query_that_fails_is_a_notice_and_not_repeated(tmp_path: Path) -> None:
    run = Run(tmp_path)
    with serving("HTTP/1.1 400 Bad Request\r\n\r\n") as (port, _):
        run.fed.watch.allow(HangSources(f"127.0.0.1:{port}"))
        run.beat(600.0)
        state = run.pass_until(900.0)
    assert state.notices == (f"NCCL RAS: 127.0.0.1:{port}: the answer is no status of NCCL RAS",)
    assert "behind" not in found(state, "stall").sentence


def test_the_stack_of_the_rank_that_is_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """py-spy needs ptrace, which some containers do not allow; that is a notice."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    script = tmp_path / "hung.py"
    script.write_text("import time\ndef wait_for_data(): time.sleep(60)\nprint('up', flush=True)\nwait_for_data()\n")
    environment = {**os.environ, "RANK": "2", "WORLD_SIZE": "3"}
    run = Run(tmp_path)
    run.fed.watch.allow(HangSources(stacks=True))
    with subprocess.Popen([sys.executable, script], env=environment, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
            run.dump("late", SILENT_AT_S + 20.0)
            run.beat(600.0)
            state = run.pass_until(760.0)
        finally:
            process.kill()
    sentence = found(state, "stall").sentence
    assert "wait for it; rank 2 is in wait_for_data (hung.py:2) < <module> (hung.py:4))" in sentence or any(
        "ptrace" in notice for notice in state.notices
    )
