"""Jobs and nodes as Slurm prints them: by its documented formats, old and new."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.reading import Area
from perfmon.sources.pollers.slurm import (
    SlurmPoller,
    ended_of_json,
    ended_of_lines,
    is_unwell,
    jobs_of_json,
    jobs_of_lines,
    nodes_of_json,
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


OLD = {
    "job_id": 7, "array_job_id": 0, "array_task_id": None, "job_state": "RUNNING", "state_reason": "None",
    "name": "grpo", "nodes": "gpu[01-02]", "node_count": 2, "start_time": 1000, "user_name": "me",
}  # fmt: skip
NEW = {
    "job_id": 12, "array_job_id": {"set": True, "infinite": False, "number": 10},
    "array_task_id": {"set": True, "infinite": False, "number": 2}, "job_state": ["PENDING", "REQUEUED"],
    "state_reason": "Priority", "name": "sweep", "nodes": "", "user_name": "me",
    "node_count": {"set": True, "infinite": False, "number": 4},
    "start_time": {"set": False, "infinite": False, "number": 0},
}  # fmt: skip


def test_json_of_old_and_new_versions() -> None:
    document = json.dumps({"jobs": [OLD, NEW, {**OLD, "user_name": "other"}, "odd", {"job_id": None}]})
    running, waiting = jobs_of_json(document, "me", 1090.0)
    assert (running.id, running.used_s, running.nodes, running.reason) == ("7", 90.0, 2.0, "")
    assert (waiting.id, waiting.state, waiting.used_s, waiting.nodes) == ("10_2", "PENDING+REQUEUED", None, 4.0)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"jobs": 3, "nodes": 3}', '{"jobs": [', "slurm_load_jobs error"])
@pytest.mark.parametrize("read", [lambda text: jobs_of_json(text, "me", 0.0), ended_of_json, nodes_of_json])
def test_json_that_is_none(read: Callable[[str], Iterable[object]], text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        list(read(text))


def test_json_of_the_accounting_old_and_new() -> None:
    old = {
        "job_id": 7, "name": "a", "allocation_nodes": 1, "state": {"current": "CANCELLED", "reason": "None"},
        "time": {"elapsed": 61}, "exit_code": {"status": "SIGNALED", "return_code": 0, "signal": {"signal_id": 15}},
    }  # fmt: skip
    new = {
        "job_id": 8, "name": "b|c", "allocation_nodes": 2, "state": {"current": ["FAILED"], "reason": "None"},
        "time": {"elapsed": 3600}, "exit_code": {
            "status": ["ERROR"], "return_code": {"set": True, "infinite": False, "number": 1},
            "signal": {"id": {"set": False, "infinite": False, "number": 0}, "name": ""},
        },
    }  # fmt: skip
    done = {"job_id": 9, "state": {"current": ["COMPLETED"]}, "exit_code": {"return_code": {"set": True, "number": 0}}}
    document = json.dumps({"jobs": [old, new, done, {"job_id": None}, "odd", {"job_id": 3, "state": 4, "time": []}]})
    cancelled, failed, completed, odd = ended_of_json(document)
    assert (cancelled.id, cancelled.state, cancelled.reason, cancelled.used_s) == ("7", "CANCELLED", "exit_0:15", 61.0)
    assert (failed.state, failed.reason, failed.title, failed.nodes) == ("FAILED", "exit_1:0", "b|c", 2.0)
    assert (completed.state, completed.reason, completed.reading.values) == ("COMPLETED", "", {"ended": 1.0})
    assert odd.state == "UNKNOWN"


def test_json_of_nodes_old_and_new() -> None:
    nodes = [
        {"name": "gpu01", "state": "mixed", "state_flags": [], "reason": ""},
        {"name": "gpu02", "state": "idle", "state_flags": ["DRAIN"], "reason": "Xid 79 | see ticket"},
        {"name": "gpu03", "state": ["DOWN", "NOT_RESPONDING"], "reason": "Not responding"},
        {"name": "gpu04", "state": ["IDLE", "NOT_RESPONDING"], "reason": None},
        {"name": "gpu05", "state": ["ALLOCATED", "COMPLETING"], "reason": "none"},
        {"name": "", "state": ["IDLE"]},
        {"name": "gpu06"},
        7,
    ]
    told = nodes_of_json(json.dumps({"nodes": nodes}))
    assert [(r.name, r.values["unwell"], r.words["state"], r.words["reason"]) for r in told] == [
        ("gpu01", 0.0, "mixed", ""),
        ("gpu02", 1.0, "idle+drain", "Xid 79 | see ticket"),
        ("gpu03", 1.0, "down+not_responding", "Not responding"),
        ("gpu04", 1.0, "idle+not_responding", ""),
        ("gpu05", 0.0, "allocated+completing", ""),
    ]


def test_nodes() -> None:
    text = "gpu01|mixed|none\ngpu01|mixed|none\ngpu02|draining|Xid 79 | see ticket\ngpu03|down*|Not responding\nx\n"
    told = [(r.name, r.values["unwell"], r.words["state"], r.words["reason"]) for r in nodes_of_lines(text)]
    assert told == [
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


FAKES = {
    "squeue": """
case "$*" in
*--version*) echo "slurm 23.11.4" ;;
*--json*) printf '{"jobs": [{"job_id": 12, "name": "grpo", "nodes": "gpu[01-02]", "user_name": "%s",
  "job_state": ["RUNNING"], "state_reason": "None", "node_count": {"set": true, "number": 2}}]}' "$(id -un)" ;;
*) exit 1 ;;
esac
""",
    "sacct": """
case "$*" in
*--json*) [ -e no-json ] && exit 1
  echo '{"jobs": [{"job_id": 7, "name": "a", "state": {"current": ["FAILED"]},
    "exit_code": {"return_code": {"set": true, "number": 1}}}]}' ;;
*) echo '7|FAILED|1:0|61|1|a' ;;
esac
""",
    "scontrol": """
[ -e no-json ] && exit 1
[ "$*" = "show node gpu[01-02] --json" ] || exit 2
echo '{"nodes": [{"name": "gpu01", "state": ["MIXED"]}, {"name": "gpu02", "state": ["IDLE", "DRAIN"], "reason": "x"}]}'
""",
    "sinfo": "echo 'gpu01|mixed|none'; echo 'gpu02|drained|x'",
}


@pytest.mark.parametrize("json_told", [True, False])
async def test_a_slurm_that_offers_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, json_told: bool) -> None:
    for name, script in FAKES.items():
        (tmp_path / name).write_text(f"#!/bin/sh\ncd {tmp_path} || exit 3\n{script}")
        (tmp_path / name).chmod(0o755)
    if not json_told:
        (tmp_path / "no-json").touch()
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    poller = SlurmPoller(LocalMachine())
    try:
        told = {(reading.area, reading.name): reading for reading in await poller.poll()}
    finally:
        await poller.close()
    assert told[Area.JOB, "12"].words == {"state": "RUNNING", "reason": "", "title": "grpo"}
    assert told[Area.JOB, "7"].words == {"state": "FAILED", "reason": "exit_1:0", "title": "a"}
    assert told[Area.NODE, "gpu01"].values == {"unwell": 0.0}
    assert told[Area.NODE, "gpu02"].values == {"unwell": 1.0}
    assert told[Area.NODE, "gpu02"].words["state"] == ("idle+drain" if json_told else "drained")
