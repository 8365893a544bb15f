"""A value that no counter shows is told and left out, and the rest of its line stays."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from perfmon.core.config import Config
from perfmon.core.model import CLOSE, SAMPLE, SPAN, STEP, Block
from perfmon.core.text import TO_SECONDS
from perfmon.pipeline.session import Session
from perfmon.sources.formats.emitters import maker
from perfmon.sources.formats.fields import AbsurdValueError
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.formats.schema import Emit
from perfmon.sources.scan.scanner import Scanner, ScanResult

SCANNER = Scanner(load_packs())


def samples(scanned: ScanResult) -> dict[str, float]:
    """Metric to value."""
    return {result[1]: result[2] for record in scanned.records for result in record[5] if result[0] == SAMPLE}


@pytest.mark.parametrize(
    ("line", "result", "kept"),
    [
        ("[rollout] trunc_pct=150 staleness=1", "trunc_pct=150", {"staleness": 1}),
        ("[rollout] trunc_pct=5 staleness=-3", "staleness=-3", {"trunc_pct": 5}),
        ("[gen] batch.start inflight=-5 target_batch=64", "inflight=-5", {}),
        ("[gen] batch.done completions=-4 dur_ms=100 inflight=5", "completions=-4", {"dur_ms": 100, "inflight": 5}),
        ("[gen] batch.done completions=1e400 dur_ms=100", "completions=inf", {"dur_ms": 100}),
        ("[gen] batch.done completions=4 dur_ms=100 t=nan", "t=nan", {"dur_ms": 100, "completions": 4}),
        ("[ckpt] write.done step=1 write_ms=5 t=1e300", "t=1e300", {"write_ms": 5}),
        ("kv_usage=300% running=-1 waiting=2 staleness=0", "kv_usage=300", {"waiting": 2, "staleness": 0}),
    ],
)
def test_what_cannot_be_meant_is_left_out_and_told(line: str, result: str, kept: dict[str, float]) -> None:
    scanned = SCANNER.scan(line.encode())
    assert (1, result) in scanned.problems
    assert samples(scanned) == kept


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("[rollout] trunc_pct=100.2 staleness=0", {"trunc_pct": 100.2, "staleness": 0}),
        ("kv_usage=101.5% waiting=0 staleness=40", {"kv_usage": 101.5, "waiting": 0, "staleness": 40}),
        ("step=4 step_time=1.0 data_time=1.5", {"step_s": 1.0, "data_wait_s": 1.5, "data_share": 150}),
    ],
)
def test_what_rounding_and_overlap_make_is_kept(line: str, kept: dict[str, float]) -> None:
    scanned = SCANNER.scan(line.encode())
    assert scanned.problems == []
    assert samples(scanned) == kept


def test_of_several_records_on_a_line_the_first_is_read_and_the_rest_told() -> None:
    line = (
        "[gen] batch.start inflight=8 url=http://[::1]:80 [gen] batch.start inflight=9 [ckpt][a] write.done write_ms=7"
    )
    scanned = SCANNER.scan(line.encode())
    assert scanned.problems == [(1, "what follows the first record on the line")]
    assert samples(scanned) == {"inflight": 8}
    alone = SCANNER.scan(b"[rollout][a] trunc_pct=2 staleness=1 [see the notes] more=1")
    assert (alone.problems, samples(alone)) == ([], {"trunc_pct": 2, "staleness": 1})


_DURATIONS = [
    pytest.param(replace(emit, when=None), field, id=f"{pattern.name}-{emit.kind}-{emit.name}-{field}")
    for pack in load_packs()
    for pattern in pack.patterns
    for emit in pattern.emit
    if emit.kind in ("span", "close", "step")
    for field in emit.duration
]


@pytest.mark.parametrize(("emit", "field"), _DURATIONS)
def test_no_span_lasts_for_days(emit: Emit, field: str) -> None:
    unit = emit.unit if emit.unit in TO_SECONDS else "s"
    hours = 3600 / TO_SECONDS[unit] / emit.scale
    values = {emit.field[0]: 4.0} if emit.kind == "step" else {}
    maker(emit)({**values, field: 40 * hours})
    with pytest.raises(AbsurdValueError, match=re.escape(f"{field}=")) as caught:
        maker(emit)({**values, field: 100 * hours})
    rest = caught.value.rest
    assert rest is None if emit.kind == "span" else rest is not None and "duration_s" not in str(rest)


@pytest.mark.parametrize(
    ("line", "kinds"),
    [
        ("[ckpt] wait.done target_step=3 wait_ms=360000000", [CLOSE]),
        ("[gen] batch.done completions=4 dur_ms=360000000", [CLOSE]),
        ("[ckpt] write.done step=3 write_ms=360000000", []),
        ("step=3 iter_time=360000s data_time=0.5s", [STEP, SPAN]),
    ],
)
def test_what_a_line_tells_beside_a_duration_without_end_stays(line: str, kinds: list[int]) -> None:
    result = [result for record in SCANNER.scan(line.encode()).records for result in record[5]]
    assert [one[0] for one in result if one[0] in (SPAN, CLOSE, STEP)] == kinds
    assert not [one for one in result if "360000" in str(one)]


def test_one_duration_without_end_takes_no_verdict() -> None:
    lines = [
        f"2026-03-02 08:{s // 60:02d}:{s % 60:02d} INFO [weights][{s:x}] client.done wall_ms=21000 rpc_ms=1000 "
        f"queue_ms=20000 t={s}.0"
        for s in range(30, 1500, 100)
    ]
    lines.append("2026-03-02 08:25:30 INFO [ckpt] write.done step=40 write_ms=360000000")
    session = Session(Config())
    session.feed(session.add_source("orchestrator.log"), Block("\n".join([*lines, ""]).encode(), 0, 1))
    snapshot = session.snapshot()
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "frontend-queue"
    assert snapshot.run.wall_s < 1600.0
