"""`perfmon compare` of two jobs with logs of NCCL Inspector."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.nccl_logs import Faults, Plan, write
from perfmon.cli import main

pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")

PLAN = Plan(nodes=4, gpus=4, steps=24, layers=2)


def compared(tmp_path: Path, capsys: pytest.CaptureFixture[str], after: Plan, before: Plan = PLAN) -> dict[str, Any]:
    """The document of two jobs."""
    write(tmp_path / "before", before)
    write(tmp_path / "after", after)
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after"), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def moved(document: dict[str, Any], kind: str) -> list[str]:
    """Names of what became slower."""
    return [one["name"] for one in document["changes"] if (one["kind"], one["verdict"]) == (kind, "slower")]


def test_another_healthy_job_is_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = compared(tmp_path, capsys, replace(PLAN, seed=9))
    assert document["verdict"] == "unchanged"


def test_a_rank_that_became_slow_is_named_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = compared(tmp_path, capsys, replace(PLAN, seed=9, faults=Faults(slow_rank=6)))
    assert document["verdict"] == "regressed"
    assert moved(document, "rank") == ["rank 6"]
    assert moved(document, "link") == moved(document, "transfer") == []
    assert "rank 6" in document["sentence"]


def test_a_link_that_became_slow_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = compared(tmp_path, capsys, replace(PLAN, seed=9, faults=Faults(slow_adapter=2)))
    assert document["verdict"] == "regressed"
    assert moved(document, "link") == ["hca-only data of ranks 2, 6, 10 … 14"]
    assert set(moved(document, "transfer")) == {"hca-only ReduceScatter 24 MiB", "hca-only AllReduce 64 MiB"}
    (change,) = (one for one in document["changes"] if one["kind"] == "link" and one["verdict"] == "slower")
    assert change["ci95"][0] > 1


def test_few_operations_are_not_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = Plan(nodes=1, gpus=4, steps=2, layers=1)
    document = compared(tmp_path, capsys, replace(small, seed=9), small)
    assert document["verdict"] == "cannot tell"
    assert {one["verdict"] for one in document["changes"] if one["kind"] == "transfer"} == {"too few"}


def test_pages_and_gates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "a", PLAN)
    write(tmp_path / "b", replace(PLAN, faults=Faults(slow_adapter=2)))
    words = ["compare", str(tmp_path / "a"), str(tmp_path / "b")]
    assert main([*words, "--fail-on", "regression"]) == 1
    text = capsys.readouterr().out
    assert "\nREGRESSED  " in text
    assert "slower" in text
    assert main([*words, "-o", str(tmp_path / "page.md")]) == 0
    assert "## Verdict: regressed" in (tmp_path / "page.md").read_text()
    assert main([*words, "--skip", "1m"]) == 2
    (tmp_path / "other.log").write_text("step 1\n")
    assert main(["compare", words[1], str(tmp_path / "other.log")]) == 2
    assert "the other has not" in capsys.readouterr().err
