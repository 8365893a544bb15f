"""`perfmon report`: one HTML file about a run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from snapshots import empty, finding, healthy, metric, snapshot

from perfmon.cli import main
from perfmon.core.errors import ExitCode
from perfmon.core.model import TimeBase
from perfmon.demo.output import write_demo
from perfmon.reports.report_page import run_page

from perfmon.diagnosis.result import EvidenceLine  # isort: skip

MADE = datetime(2026, 8, 21, 9, 10, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PERFMON_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def document(page: str) -> dict[str, Any]:
    """The data of a page."""
    block = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert block is not None
    found: dict[str, Any] = json.loads(block[1])
    return found


def test_the_policy_admits_the_scripts_and_styles_of_the_page_and_nothing_else() -> None:
    page = run_page(snapshot(), MADE)
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    for kind, tag in (("script-src", "script"), ("style-src", "style")):
        inside = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digests = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in inside]
        admitted = re.search(rf"{kind} ([^;]*)", policy[1])
        assert admitted is not None
        assert admitted[1].split() == [f"'sha256-{digest}'" for digest in digests]
    assert policy[1].startswith("default-src 'none';")
    assert "unsafe" not in policy[1]
    assert not re.search(r"<(?:script|link|img)[^>]* (?:src|href)=", page)


def test_credentials_are_masked_and_names_where_wanted() -> None:
    line = EvidenceLine(
        "/data/alice/run.log", 3, "login alice@gpu-7 with HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789"
    )
    page = run_page(snapshot(findings=(finding(evidence=(line,)),)), MADE)
    assert "hf_abcdefghij" not in page
    assert "alice@gpu-7" in page
    redacted = run_page(snapshot(findings=(finding(evidence=(line,)),)), MADE, redact=True)
    assert "alice" not in redacted
    assert "gpu-7" not in redacted


def test_a_healthy_run_and_an_empty_one_have_a_page_too() -> None:
    found = document(run_page(healthy(), MADE))
    assert (found["verdict"]["level"], found["verdict"]["badge"]) == ("good", "healthy")
    assert found["findings"] == []
    nothing = document(run_page(empty(), MADE))
    assert nothing["verdict"]["level"] == "unknown"
    assert (nothing["tiles"], nothing["lanes"], nothing["axis"]["start"]) == ([], [], None)


def test_long_courses_keep_their_extremes_and_what_is_not_finite_is_left_out() -> None:
    values = [1.0] * 9_000
    values[4_321], values[7_000] = 99.0, -99.0
    long = metric("queue_ms", tuple(values), "ms")
    odd = metric("loss", (1.0, float("nan"), float("inf"), 2.0), "")
    found = {
        row["name"]: row["course"]
        for row in document(run_page(snapshot(metrics={"queue_ms": long, "loss": odd}), MADE))["metrics"]
    }
    assert len(found["queue_ms"][0]) <= 1_500
    assert {99.0, -99.0} <= set(found["queue_ms"][1])
    assert found["queue_ms"][0] == sorted(found["queue_ms"][0])
    assert found["loss"] == [[0.0, 120.0], [1.0, 2.0]]


def test_without_timestamps_the_axis_counts_samples() -> None:
    found = document(run_page(snapshot(run=replace(snapshot().run, time_base=TimeBase.NONE)), MADE))
    assert (found["axis"]["samples"], found["axis"]["end"], found["lanes"]) == (True, 14, [])
    assert found["metrics"][0]["course"][0] == [float(at) for at in range(15)]


def test_a_log_or_a_recording_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = write_demo(tmp_path / "logs", "healthy", 0, 3)[0]
    before = log.read_bytes()
    assert main(["report", "logs", "-o", str(log)]) == ExitCode.USAGE
    assert "would overwrite" in capsys.readouterr().err
    assert log.read_bytes() == before


def test_the_file_has_to_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "logs"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "perfmon: report: name the file to write: -o run.html (-: standard output)\n"


def test_a_folder_gets_a_file_with_a_dated_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_demo(tmp_path / "logs", "healthy", 0, 3)
    (tmp_path / "out").mkdir()
    assert main(["report", "logs", "-o", "out"]) == ExitCode.DONE
    (made,) = (tmp_path / "out").iterdir()
    assert re.fullmatch(r"perfmon_\d{8}_\d{6}\.html", made.name)
    assert f"wrote out/{made.name}" in capsys.readouterr().err


def test_a_finding_brings_its_commands() -> None:
    (found,) = document(run_page(snapshot(findings=(finding(commands=("py-spy dump --pid PID",)),)), MADE))["findings"]
    assert found["commands"] == ["py-spy dump --pid PID"]
