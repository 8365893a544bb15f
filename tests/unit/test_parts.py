"""What a metric is in each log and group: one sick engine is not hidden among healthy ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.demo.output import write_demo
from perfmon.pipeline.offline import Options, read
from perfmon.pipeline.session import Session

_WELL = (
    "[2026-03-02 08:15:0{n}] Decode batch, #running-req: {n}, #token: 1, token usage: 0.{n}0, "
    "gen throughput (token/s): 9.0, #queue-req: 0"
)


def test_engines_and_logs_stay_apart() -> None:
    session = Session(Config())
    for name, rank in (("a.log", ""), ("b.log", " TP0"), ("b.log", " TP1")):
        known = next((state for state in session.store.sources if state.spec == name), None)
        lines = [_WELL.format(n=n).replace("]", f"{rank}]", 1) for n in (1, 2, 3 if rank else 9)]
        session.feed(known or session.add_source(name), Block("".join(f"{line}\n" for line in lines).encode(), 0, 1))
    result = {(part.source, part.group): part for part in session.parts((None, None), align(session.store))
            if part.metric == "kv_usage"}  # fmt: skip
    assert {key: part.summary.count for key, part in result.items()} == {
        ("a.log", ""): 3, ("b.log", "TP0"): 3, ("b.log", "TP1"): 3,
    }  # fmt: skip
    assert (result["a.log", ""].last, result["a.log", ""].level) == (90.0, "warning")
    assert (result["b.log", "TP1"].last, result["b.log", "TP1"].level) == (30.0, "good")
    assert (result["a.log", ""].unit, result["a.log", ""].good, result["a.log", ""].critical) == ("%", 80.0, 90.0)


def test_the_parts_of_a_metric_are_all_of_it(tmp_path: Path) -> None:
    write_demo(tmp_path / "run", "frontend-queue", 0, 10.0)
    session = read(Options(specs=(str(tmp_path / "run"),), jobs=1))
    whole = session.snapshot().metrics
    parts = session.parts((None, None), align(session.store))
    assert {part.metric for part in parts} == set(whole)
    for name, metric in whole.items():
        mine = [part.summary for part in parts if part.metric == name]
        assert sum(one.count for one in mine) == metric.summary.count
        assert max(one.max for one in mine) == metric.summary.max
        assert sum(one.mean * one.count for one in mine) == pytest.approx(metric.summary.mean * metric.summary.count)


def test_only_the_window_counts(tmp_path: Path) -> None:
    write_demo(tmp_path / "run", "frontend-queue", 0, 10.0)
    session = read(Options(specs=(str(tmp_path / "run"),), jobs=1))
    alignment, run = align(session.store), session.snapshot().run
    late = session.parts((run.end - 59.5, run.end), alignment)
    early = session.parts((run.start, run.end - 59.5), alignment)
    counted = {name: sum(p.summary.count for p in (*late, *early) if p.metric == name) for name in ("gen_tps", "loss")}
    assert counted == {name: session.snapshot().metrics[name].summary.count for name in counted}
    assert 0 < sum(part.summary.count for part in late) < sum(part.summary.count for part in early)
