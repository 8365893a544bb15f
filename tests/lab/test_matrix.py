"""Every fault of the lab, as it was recorded, is called by its name, in time, at its price; a healthy run by none."""

from __future__ import annotations

import pytest

from lab.cases import CASES, Case
from lab.faults import FAULTS
from lab.matrix import RECORDED, TOLERANCE, Row, row, told
from lab.page import PAGE, line
from lab.recorded import Recorded


def test_every_fault_is_recorded() -> None:
    assert {name for case in CASES for name in case.faults} | {"healthy"} == set(FAULTS)
    assert {path.name.removesuffix(".json.gz") for path in RECORDED.glob("*.gz")} == {case.name for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_it_is_judged_rightly(case: Case) -> None:
    judged: Row = row(case, Recorded.read(RECORDED / f"{case.name}.json.gz"))
    assert judged.right, told(judged)
    assert judged.right_first, told(judged)
    assert judged.in_time, told(judged)
    assert not judged.early, told(judged)
    assert abs(judged.error or 0.0) <= TOLERANCE, told(judged)
    if "clock-offset" in case.faults:
        assert judged.said.offsets["inference.log"] == pytest.approx(7.3, abs=0.1)
    assert f"{line(judged)}\n" in PAGE.read_text("utf-8"), "python -m lab.page writes the page anew"
    if not case.expected:
        assert not judged.said.found_at, told(judged)
