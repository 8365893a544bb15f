"""Every fault of the lab, as it was recorded, is called by its name, in time, at its price; a healthy run by none."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest

from lab.cases import CASES, Case
from lab.evaluation import judge
from lab.faults import FAULTS
from lab.matrix import RECORDED, TOLERANCE, Row, line_of, row
from lab.page import PAGE, RESULTS, line, page
from lab.recorded import Recorded
from lab.variants import KINDS

pytestmark = pytest.mark.slow


def test_every_fault_is_recorded() -> None:
    assert {name for case in CASES for name in case.faults} | {"healthy"} == set(FAULTS)
    assert {path.name.removesuffix(".json.gz") for path in RECORDED.glob("*.gz")} == {case.name for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_judged_rightly(case: Case) -> None:
    judged: Row = row(case, Recorded.read(RECORDED / f"{case.name}.json.gz"))
    assert judged.right, line_of(judged)
    assert judged.right_first, line_of(judged)
    assert judged.in_time, line_of(judged)
    assert not judged.early, line_of(judged)
    assert abs(judged.error or 0.0) <= TOLERANCE, line_of(judged)
    if "clock-offset" in case.faults:
        assert judged.judgement.offsets["inference.log"] == pytest.approx(7.3, abs=0.1)
    assert f"{line(judged)}\n" in PAGE.read_text("utf-8"), "python -m lab.page writes the page anew"
    if not case.expected:
        assert not judged.judgement.found_at, line_of(judged)


def test_when_the_memory_is_full_is_told() -> None:
    recorded = Recorded.read(RECORDED / "memory-leak.json.gz")
    full = re.search(
        r"is full in (?:(\d+)m )?(\d+(?:\.\d+)?) ?s", judge(recorded, tick_s=recorded.arrivals[-1].at_s).sentence
    )
    assert full is not None
    full_in_s = 60.0 * float(full[1] or 0) + float(full[2])
    assert full_in_s == pytest.approx(float(recorded.truth["full_in_s"]), rel=TOLERANCE)


def _untabled(page: str) -> list[str]:
    return [each for each in page.splitlines() if not each.startswith("|")]


def test_the_page_is_the_generated_one_beside_its_tables() -> None:
    assert _untabled(PAGE.read_text("utf-8")) == _untabled(page(())), "python -m lab.page writes the page anew"


def test_the_confusion_matrix_is_that_of_the_runs() -> None:
    """Every row of the first table is compared with its run above."""
    tables = PAGE.read_text("utf-8").split("## Confusion")
    runs, (head, *called) = (
        [[cell.strip() for cell in each.strip("|").split("|")] for each in table.splitlines() if each.startswith("| ")]
        for table in (tables[0], tables[1].split("\n## ")[0])
    )
    full: Counter[tuple[str, str]] = Counter()
    for _, expected, verdict, detected, *_ in runs[1:]:
        several = len(detected.split(", ")) > 1
        for name, at in zip(expected.split(", "), detected.split(", "), strict=False):
            full[name, name if several and at != "never" else verdict] += 1
    counts = {(row[0], name): int(cell) for row in called for name, cell in zip(head[1:], row[1:], strict=True) if cell}
    assert counts == dict(full)
    assert {truth for truth, _ in counts} == {name for _, name in counts}


def test_what_must_be_reached_is_reached() -> None:
    cost = json.loads((RESULTS / "emit.json").read_text("utf-8"))
    for kind in ("healthy", "pipeline"):
        runs = json.loads((RESULTS / f"{kind}.json").read_text("utf-8"))["runs"]
        assert sum(run["observed_s"] for run in runs) >= 0.98 * 1800.0
        assert len({run["seed"] for run in runs}) == len(runs) > 1
        assert [run for run in runs if run["alarms"] or run["verdict"]] == []
    drawn = json.loads((RESULTS / "variants.json").read_text("utf-8"))["runs"]
    assert {run["run"] for run in drawn} == {"+".join(names) for names in KINDS}
    assert [run for run in drawn if not run["ok"]] == []
    assert cost["slowdown_pct"] + cost["error_pct"] <= 1.0
