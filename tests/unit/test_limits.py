"""A value that no counter shows is told and left out, and the rest of its line stays."""

from __future__ import annotations

import pytest

from perfmon.model import SAMPLE
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.scan import Scanned, Scanner

SCANNER = Scanner(load_packs())


def samples(scanned: Scanned) -> dict[str, float]:
    """Metric to value."""
    return {told[1]: told[2] for record in scanned.records for told in record[5] if told[0] == SAMPLE}


@pytest.mark.parametrize(
    ("line", "told", "kept"),
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
def test_what_cannot_be_meant_is_left_out_and_told(line: str, told: str, kept: dict[str, float]) -> None:
    scanned = SCANNER.scan(line.encode())
    assert (1, told) in scanned.problems
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
