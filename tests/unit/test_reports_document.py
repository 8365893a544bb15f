"""The JSON document: its keys, its numbers, its safety."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
import snapshots

from perfmon.reports.json_report import document

_KEYS = {
    "schema", "perfmon", "run", "assessment", "verdict", "findings", "ledger", "goodput", "metrics", "traces", "clock",
    "summary", "unseen",
}  # fmt: skip


def _parsed(text: str) -> Any:
    def forbidden(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=forbidden)


def test_the_document_has_the_keys_of_schema_1() -> None:
    made = document(snapshots.snapshot())
    assert set(made) == _KEYS
    assert made["schema"] == 1
    assert made["run"]["time_base"] == "wall"
    assert made["run"]["end"] - made["run"]["start"] == pytest.approx(600.7)
    assert made["verdict"]["signature"] == made["findings"][0]["signature"] == "frontend-queue"
    assert made["findings"][0]["evidence"] == [{"source": "orchestrator.log", "line": 812, "text": snapshots.EVIDENCE}]
    assert made["findings"][0]["conditions"][2] == {"text": "inflight above 64", "held": None}
    assert made["metrics"]["queue_ms"]["count"] == 15
    assert made["metrics"]["queue_ms"]["band_shares"]["critical"] == pytest.approx(14 / 15)
    assert made["traces"]["clock_offsets"] == [{"source": "inference.log", "offset_s": 0.002, "uncertainty_s": 0.004}]
    assert made["ledger"][0] == {"cause": "frontend-queue", "lost_s": 186.2, "share": 0.31}


def test_without_findings_the_verdict_is_null() -> None:
    assert document(snapshots.healthy())["verdict"] is None
    assert document(snapshots.empty())["metrics"] == {}


def test_numbers_that_json_lacks_become_null() -> None:
    base = snapshots.snapshot()
    odd = replace(snapshots.metric("queue_ms", (1.0,), "ms"), last=math.nan)
    made = _parsed(json.dumps(document(replace(base, metrics={"queue_ms": odd})), allow_nan=False))
    assert made["metrics"]["queue_ms"]["last"] is None
    assert made["metrics"]["queue_ms"]["max"] == 1.0


@pytest.mark.parametrize("text", [snapshots.HOSTILE, snapshots.HUGE, "\udc80 lone"])
def test_hostile_text_stays_text(text: str) -> None:
    out = json.dumps(document(snapshots.hostile(text)), ensure_ascii=False, allow_nan=False)
    out.encode("utf-8")
    assert "\x1b" not in out
    assert "\\u001b" not in out
    assert len(out) < 500_000
    assert _parsed(out)["verdict"]["title"]
