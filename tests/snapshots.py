"""A hand-made snapshot for tests of what reads snapshots: 10 minutes with a front-end queue."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfmon.core.model import Progress, Severity, TimeBase
from perfmon.core.stats import summarise
from perfmon.diagnosis.result import (
    Assessment,
    ClockOffset,
    ConditionState,
    Diagnosis,
    EvidenceLine,
    Finding,
    Goal,
    LedgerEntry,
    MetricStats,
    RunInfo,
    SourceSummary,
    TimelineRow,
    Verdict,
)

SENTENCE = "14 of 15 weight updates waited 12.4 s behind 128 in-flight generations; 31 % of the last 10 minutes lost."
EVIDENCE = "12:00:01    INFO [weights][ab01] client.done wall_ms=13200.0 rpc_ms=1200.0 queue_ms=12000.0"
QUEUE = (0.2, *(12_000.0 + 100.0 * at for at in range(14)))
HOSTILE = (
    "[/x] [bold red]a|b[/] `tick` ```` fence <script>alert(1)</script> \x1b[31mred\x1b[0m \x1b]0;t\x07"
    "\n# heading\r\n| c | d |\n--- ![i](http://evil.example/x.png) <!-- & \u202e 日本語 $x_1$ \x00"
)
HUGE = "x" * 1_000_000


def metric(name: str, values: tuple[float, ...], unit: str, **bands: Any) -> MetricStats:
    """A metric whose samples are 40 s apart."""
    return MetricStats(
        name=name,
        unit=unit,
        summary=summarise(values),
        last=values[-1],
        series=tuple((40.0 * at, value) for at, value in enumerate(values)),
        **{"band": None, "band_shares": {}, **bands},
    )


def update(at: int, queue_ms: float, rpc_ms: float = 1200.0) -> TimelineRow:
    """The weight update of step `at`, with one generation batch beside it."""
    start, wall_ms = 40.0 * at, queue_ms + rpc_ms
    return TimelineRow(
        start_s=start,
        end_s=start + wall_ms / 1000,
        kind="weight-update",
        key=f"ab{at:02d}",
        fields={"wall_ms": wall_ms, "rpc_ms": rpc_ms, "queue_ms": queue_ms},
        overlaps=("generation-batch 7",),
        evidence=(
            EvidenceLine("orchestrator.log", 800 + at, f"[weights][ab{at:02d}] client.done queue_ms={queue_ms}"),
        ),
    )


def finding(**changes: Any) -> Finding:
    """The front-end queue."""
    made = Finding(
        signature="frontend-queue",
        title="Front-end queue saturation",
        severity=Severity.CRITICAL,
        state="firing",
        identity={"url": "http://10.0.0.5:8000"},
        first_s=40.0,
        last_s=590.0,
        count=14,
        lost_s=186.2,
        lost_share=0.31,
        sentence=SENTENCE,
        advice=("Use a dedicated admin client (own connection pool) for weight updates.",),
        evidence=(EvidenceLine("orchestrator.log", 812, EVIDENCE),),
        confidence=2 / 3,
        conditions=(
            ConditionState("queue_ms above 1000 in 14 of 15 updates", True),
            ConditionState("rpc_ms below 5000", True),
            ConditionState("inflight above 64", None),
        ),
        confused_with=("slow-weight-load",),
        proof=("weight-update", "queue_ms", "rpc_ms", "inflight"),
        unseen=("no inference log: the server side is inferred",),
    )
    return replace(made, **changes)


def snapshot(**changes: Any) -> Diagnosis:
    """The whole picture, with fields changed."""
    source = SourceSummary(
        "orchestrator.log", "trace+prime-rl", 52_000, 1000, 120, 2, 0, 0.0, 600.7, (), {"trace/weights": 75}
    )
    rows = tuple(update(at, queue) for at, queue in enumerate(QUEUE))
    made = Diagnosis(
        version="0.1.0",
        run=RunInfo(1795167633.2, 1795168233.9, 600.7, TimeBase.WALL, (source,)),
        verdict=Verdict(
            "frontend-queue", "Front-end queue saturation", Severity.CRITICAL, SENTENCE, 186.2, 0.31, 2 / 3
        ),
        findings=(finding(),),
        ledger=(
            LedgerEntry("frontend-queue", 186.2, 0.31),
            LedgerEntry("productive", 396.5, 0.66),
            LedgerEntry("unaccounted", 18.0, 0.03),
        ),
        metrics={
            "queue_ms": metric(
                "queue_ms",
                QUEUE,
                "ms",
                band="critical",
                band_shares={"good": 1 / 15, "warning": 0.0, "critical": 14 / 15},
                good=100.0,
                critical=1000.0,
                bands_from="seeds",
            ),
            "inflight": metric("inflight", (96.0, 128.0), ""),
        },
        traces_complete=15,
        traces_partial=0,
        clock_offsets=(ClockOffset("inference.log", 0.002, 0.004, 15),),
        skew_detected=False,
        timeline=(
            TimelineRow(38.0, 41.0, "generation-batch", "7", {"inflight": 128.0}, ("weight-update ab01",)),
            *rows,
        ),
        slowest=tuple(sorted(rows, key=lambda row: row.start_s - row.end_s)[:10]),
        summary=SENTENCE,
        assessment=Assessment.FINDING,
        unseen=("no trainer log: checkpoint writes were not observed",),
    )
    return replace(made, **changes)


def healthy() -> Diagnosis:
    """A run without findings."""
    return snapshot(
        verdict=None,
        findings=(),
        ledger=(LedgerEntry("productive", 600.7, 1.0),),
        summary="No bottleneck found.",
        assessment=Assessment.HEALTHY,
    )


def empty() -> Diagnosis:
    """Nothing was recognised."""
    return snapshot(
        run=RunInfo(0.0, 0.0, 0.0, TimeBase.NONE, ()),
        verdict=None,
        findings=(),
        ledger=(),
        metrics={},
        clock_offsets=(),
        timeline=(),
        slowest=(),
        summary="",
        assessment=Assessment.LEARNING,
        unseen=(),
    )


def hostile(text: str = HOSTILE) -> Diagnosis:
    """The same picture with `text` wherever a log, a file name or a user file can put text."""
    base = snapshot()
    assert base.verdict is not None
    bad = finding(
        sentence=text,
        identity={text: text},
        title=text,
        advice=(text,),
        evidence=(EvidenceLine(text, 1, text),),
        conditions=(ConditionState(text, True),),
        unseen=(text,),
        explained_by=text,
    )
    row = TimelineRow(0.0, 1.0, text, text, {text: text, "queue_ms": 5.0}, (text,), (EvidenceLine(text, 2, text),))
    return replace(
        base,
        run=replace(
            base.run,
            sources=(replace(base.run.sources[0], spec=text, notes=(text,), patterns={text: 3}),),
            components={text: Progress.RUNNING},
            goal=Goal(1.0, 2.0, text, 3.0),
        ),
        verdict=replace(base.verdict, sentence=text, title=text, chain=(text, text)),
        findings=(bad,),
        metrics={text: metric(text, (1.0, 2.0), text, band="good", bands_from=text)},
        ledger=(LedgerEntry(text, 600.7, 1.0),),
        clock_offsets=(ClockOffset(text, 0.0, 0.0),),
        timeline=(row,),
        slowest=(row,),
        summary=text,
        unseen=(text,),
        dropped={text: 7},
    )
