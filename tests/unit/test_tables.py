"""Tables over many lines: what Megatron prints with `--timing-log-option all`, a line a rank."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

from perfmon.core.config import Config
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session
from perfmon.sources.blocks import LineSplitter

_STEP = (
    " [2026-03-02 08:{minute:02d}:07] iteration {step:8d}/   50000 | consumed samples: 25600 | "
    "elapsed time per iteration (ms): 812.4 | lm loss: 7.9E+00 |"
)


def _table(name: str, rows: Sequence[float]) -> list[str]:
    return [f"  {name}:", *(f"     rank {rank:2d}: {row:.2f}" for rank, row in enumerate(rows))]


def _log(prefix: str = "") -> bytes:
    lines: list[str] = []
    for minute in range(4):
        lines += [_STEP.format(minute=minute, step=100 * (minute + 1)), "times across ranks (ms):"]
        lines += _table("forward-backward", [741.0, 745.0])
        lines += _table("forward-compute", [400.0, 520.0 + minute, 410.0])
        lines += _table("batch-generator", [1.0, 2.0, 250.0 + minute])
        lines += ["times across ranks (ms):", *_table("save-checkpoint", [18000.0, 18444.5, 17000.0])]
    return "".join(f"{prefix}{line}\n" for line in lines).encode()


def _read(data: bytes, cuts: Sequence[int] = ()) -> Diagnosis:
    session, cutter = Session(Config()), LineSplitter()
    state = session.add_source("run.log")
    edges = [0, *sorted(cuts), len(data)]
    for begin, end in pairwise(edges):
        for block in cutter.feed(data[begin:end]):
            session.feed(state, block)  # type: ignore[arg-type]  # no line is too long
    state.ended = True
    return session.snapshot()


def _values(snapshot: Diagnosis, metric: str) -> list[float]:
    return [value for _, value in snapshot.metrics[metric].series]


def test_the_extremes_of_each_table_count() -> None:
    for prefix in ("", "[default15]:", "7: "):
        snapshot = _read(_log(prefix))
        assert _values(snapshot, "data_wait_s") == [0.25, 0.251, 0.252, 0.253]
        assert _values(snapshot, "slowest_rank_pct") == [130.0, 130.25, 130.5, 130.75]
        assert _values(snapshot, "write_ms") == [18444.5] * 4


def test_the_line_of_the_slowest_rank_is_the_proof() -> None:
    snapshot = _read(_log("[default15]:"))
    (finding,) = [finding for finding in snapshot.findings if finding.signature == "slow-checkpoint-write"]
    assert finding.evidence[0].text == "[default15]:  save-checkpoint: [default15]:     rank  1: 18444.50"
    assert _log().splitlines()[finding.evidence[0].line - 1] == b"     rank  1: 18444.50"


def test_rows_of_other_timers_and_of_other_writers_are_left_out() -> None:
    lines = _log().decode().splitlines()
    at = lines.index("  batch-generator:") + 2
    result = "\n".join([*lines[:at], "something else prints here", *lines[at:]]).encode() + b"\n"
    assert _values(_read(result), "data_wait_s") == [0.001, 0.251, 0.252, 0.253]
    alone = b"     rank  0: 12.50\n     rank  1: 13.50\n"
    assert _read(alone).metrics == {}


def test_cuts_change_nothing() -> None:
    data = _log()
    whole = _read(data)
    for seed in range(20):
        rng = random.Random(seed)
        result = _read(data, rng.sample(range(1, len(data)), rng.randint(1, 30)))
        assert {name: stats.series for name, stats in result.metrics.items()} == {
            name: stats.series for name, stats in whole.metrics.items()
        }
        assert [finding.sentence for finding in result.findings] == [finding.sentence for finding in whole.findings]
