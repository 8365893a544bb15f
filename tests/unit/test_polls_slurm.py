"""Jobs and nodes as Slurm prints them: by its documented formats, old and new."""

from __future__ import annotations

import pytest

from perfmon.sources.pollers.slurm import (
    ended_of_lines,
    is_unwell,
    jobs_of_lines,
    nodes_of_lines,
    seconds,
)


def test_lines_of_squeue() -> None:
    text = (
        "2|PENDING|Resources|0:00|1||wrap\n"
        "81_[3-9]|PENDING|Priority|0:00|2||sweep\n"
        "1|RUNNING|None|1-02:03:04|2|gpu[01-02]|train: a|b; rm -rf /\n"
        "1|FAILED|NonZeroExitCode|5:00|1|gpu03|x\n"
        "slurm_load_jobs error: Unable to contact slurm controller\n\n"
    )
    waiting, _, running, failed = jobs_of_lines(text)
    assert (waiting.id, waiting.state, waiting.reason, waiting.on) == ("2", "PENDING", "Resources", "")
    assert (running.title, running.on) == ("train: a|b; rm -rf /", "gpu[01-02]")
    assert running.reading.values == {"uptime_s": 93784.0, "nodes": 2.0, "ended": 0.0}
    assert running.reading.words == {"state": "RUNNING", "reason": "", "title": "train: a|b; rm -rf /"}
    assert failed.reading.values["ended"] == 1.0


def test_lines_of_sacct() -> None:
    cancelled, failed = ended_of_lines("7|CANCELLED by 1000|0:15|61|1|a\n8|FAILED|1:0|3600|2|b|c\nnonsense\n")
    assert (cancelled.state, cancelled.reason, cancelled.used_s) == ("CANCELLED", "exit_0:15", 61.0)
    assert (failed.state, failed.reason, failed.title) == ("FAILED", "exit_1:0", "b|c")


def test_nodes() -> None:
    text = "gpu01|mixed|none\ngpu01|mixed|none\ngpu02|draining|Xid 79 | see ticket\ngpu03|down*|Not responding\nx\n"
    result = [(r.name, r.values["unwell"], r.words["state"], r.words["reason"]) for r in nodes_of_lines(text)]
    assert result == [
        ("gpu01", 0.0, "mixed", ""),
        ("gpu02", 1.0, "draining", "Xid 79 | see ticket"),
        ("gpu03", 1.0, "down*", "Not responding"),
    ]


@pytest.mark.parametrize(
    ("state", "unwell"),
    [("idle", False), ("allocated", False), ("completing", False), ("drained", True), ("idle*", True), ("fail", True)],
)
def test_states_of_nodes(state: str, unwell: bool) -> None:
    assert is_unwell(state) is unwell


@pytest.mark.parametrize(
    ("text", "value"),
    [("0:07", 7.0), ("10:00", 600.0), ("1:00:00", 3600.0), ("2-00:00:01", 172801.0), ("INVALID", None)],
)
def test_durations(text: str, value: float | None) -> None:
    assert seconds(text) == value
