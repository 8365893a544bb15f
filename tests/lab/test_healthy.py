"""What is kept of a run in which something was found that should not have been."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.healthy import _judged
from lab.plan import Plan
from lab.recorded import Recorded

pytestmark = pytest.mark.slow

RECORDED = Path(__file__).parent / "recorded"


@pytest.mark.parametrize(("case", "kept"), [("slow-load", True), ("healthy", False)])
def test_logs_of_a_run_with_an_alarm_are_kept(tmp_path: Path, case: str, kept: bool) -> None:
    recorded = Recorded.read(RECORDED / f"{case}.json.gz")
    folder = tmp_path / "run"
    for part in ("logs", "journal", "checkpoints"):
        (folder / part).mkdir(parents=True)
    for name, data in recorded.logs.items():
        (folder / "logs" / name).write_bytes(data)
    arrivals = "".join(json.dumps([one.at_s, one.log, one.size]) + "\n" for one in recorded.arrivals)
    (folder / "arrivals.jsonl").write_text(arrivals)
    (folder / "truth.json").write_text(json.dumps(dict(recorded.truth)))
    message = _judged(Plan(out=str(folder), seed=7, seconds=75.0), tmp_path / "evidence")
    assert bool(message["alarms"]) is kept
    found = sorted(path.name for path in (tmp_path / "evidence").glob("seed-7/*"))
    assert found == (["arrivals.jsonl", "journal", "logs", "truth.json"] if kept else [])
