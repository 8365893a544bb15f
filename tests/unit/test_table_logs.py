"""Logs that are tables: what is one, what its rows tell, and that it does not matter how the log was cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmon.core.config import Config
from perfmon.core.model import SAMPLE, STEP, Block
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import Options, examine
from perfmon.pipeline.session import Session
from perfmon.sources import parallel
from perfmon.sources.blocks import LineSplitter
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.scan.scanner import Scanner, ScanResult
from perfmon.sources.scan.tables import BEGIN, Heading, columns_of

SCANNER = Scanner(load_packs())
TABLE = "epoch,step,train_loss,lr\n" + "".join(f"0,{step},{9 - step / 100:.3f},0.001\n" for step in range(10, 800, 10))
LAST = 790


def scanned(text: str) -> ScanResult:
    return SCANNER.scan(text.encode())


def steps(found: ScanResult) -> list[int]:
    return [result[2] for record in found.records for result in record[5] if result[0] == STEP]


def samples(found: ScanResult, metric: str) -> list[float]:
    return [result[2] for record in found.records for result in record[5] if result[:2] == (SAMPLE, metric)]


def test_rows_are_steps_with_their_lines() -> None:
    found = scanned(TABLE)
    assert steps(found) == list(range(10, 800, 10))
    assert samples(found, "loss")[:2] == [8.9, 8.8]
    assert [record[1] for record in found.records if record[0] >= 0][:2] == [2, 3]


@pytest.mark.parametrize("size", [1, 7, 64, 1000])
def test_it_does_not_matter_how_the_log_was_cut(size: int) -> None:
    heading, cutter, data = Heading(), LineSplitter(), TABLE.encode()
    items = [item for at in range(0, len(data), size) for item in cutter.feed(data[at : at + size])]
    blocks = [item for item in (*items, *cutter.finish()) if isinstance(item, Block)]
    assert len(blocks) > 1
    found = [SCANNER.scan(block.data, block.offset, block.line, heading) for block in blocks]
    assert [record for one in found for record in one.records] == scanned(TABLE).records


def test_ranges_know_the_columns_that_the_file_begins_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "metrics.csv").write_text(TABLE)
    monkeypatch.setattr(parallel, "LEAST", 1)
    monkeypatch.setattr(parallel, "RANGE", 300)
    monkeypatch.setattr(parallel, "_READ", 200)
    result = examine(Options((str(tmp_path / "metrics.csv"),), jobs=2))[0]
    assert _result_of(result) == _result_of(examine(Options((str(tmp_path / "metrics.csv"),), jobs=1))[0])
    assert result.run.goal is not None
    assert result.run.goal.done == LAST


def _result_of(snapshot: Diagnosis) -> object:
    return snapshot.metrics, snapshot.run, snapshot.findings


def test_a_log_that_begins_anew_has_other_columns() -> None:
    session = Session(Config())
    state = session.add_source("metrics.csv")
    session.feed(state, Block(b"step,loss\n10,0.5\n", 0, 1))
    session.feed(state, Block(b"loss,step\n0.25,20\n0.5,30\n", 0, 1))
    goal = session.snapshot().run.goal
    assert goal is not None
    assert goal.done == 30


def test_rows_of_an_evaluation_are_no_steps() -> None:
    found = scanned("epoch,step,train_loss,val_loss\n0,10,0.5,\n0,10,,0.7\n0,20,0.4,\n")
    assert steps(found) == [10, 20]
    found = scanned("phase,step,loss\ntrain,10,0.5\nval,10,0.7\ntrain,20,0.4\n")
    assert steps(found) == [10, 20]
    assert samples(found, "loss") == [0.5, 0.4]


def test_a_table_in_the_middle_of_a_log_is_text() -> None:
    before = "".join(f"2026-03-02 08:14:{at % 60:02d} INFO loading shard {at}\n" for at in range(200))
    assert len(before) > BEGIN
    assert steps(scanned(before + TABLE)) == []


def test_a_table_behind_a_prompt_is_text() -> None:
    assert steps(scanned("prompt: Which run is better?\n" + TABLE)) == []
    assert steps(scanned("Which run is better?\n| step | loss |\n|---:|---:|\n| 10 | 0.5 |\n| 20 | 0.4 |\n")) == []


def test_lines_between_rows_are_passed_over() -> None:
    text = "loading\nstep\tloss\n10\t8.5\nsaved\tcheckpoint\n10 of 20\n20\t7.5\nstep\tloss\n30\t6.5\n40\n"
    assert steps(scanned(text)) == [10, 20, 30]


def test_diverging_figures_are_kept() -> None:
    assert [str(loss) for loss in samples(scanned("step,loss\n1,2.5\n2,nan\n3,inf\n"), "loss")] == ["2.5", "nan", "inf"]


def test_rows_are_dated_by_their_column_or_by_what_stands_before_them() -> None:
    found = scanned("timestamp,step,loss\n2026-03-02T08:14:02,10,0.5\n2026-03-02T08:14:12,20,0.4\n")
    first, second = (record[3] for record in found.records if record[0] >= 0)
    assert first is not None
    assert second is not None
    assert second[1] - first[1] == 10
    found = scanned("step,loss\n5,0.6\n2026-03-02 08:14:02 INFO saving\n10,0.5\n")
    assert [record[3] for record in found.records if record[0] >= 0] == [None, first]


@pytest.mark.parametrize(
    "line",
    [
        "step", "step,step,loss", "step,7,loss", "name,loss", "step,name", "", ",", "|||", "a,b,c", "step " * 500,
        "step loss " * 900, "the step of the loss was small",
    ],
)  # fmt: skip
def test_other_lines_name_no_columns(line: str) -> None:
    assert columns_of(line) is None


def test_hostile_rows_cost_nothing() -> None:
    rows = ["9" * 5000, "1," + "9" * 5000, "-1,0.5", "1e99,0.5", "1,0x5", "1,0.5,", "1,\x00", "\x1b[31m1,0.5"]
    found = scanned("step,loss\n5,0.5\n" + "\n".join(rows) + "\n")
    assert steps(found) == [5, 1]
