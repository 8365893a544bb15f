"""Hand-made pictures of a live monitor, for tests of what reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import snapshots

from perfmon.core.model import Severity, TimeBase
from perfmon.textgraphics.charts import Leg
from perfmon.viewmodel import (
    Alert,
    AlertState,
    Bar,
    Board,
    Freshness,
    Level,
    MonitorState,
    RunState,
    SourceStatus,
    SpanLane,
    Viewport,
)

START = snapshots.snapshot().run.start


def alert(number: int = 1, state: AlertState = AlertState.FIRING, **changes: Any) -> Alert:
    """An alert of the front-end queue, told apart by its number; `severity` changes its finding."""
    severity = changes.pop("severity", Severity.CRITICAL)
    finding = changes.pop("finding", snapshots.finding(severity=severity))
    made = Alert(
        number=number,
        key=(finding.signature, (("url", f"http://10.0.0.{number}:8000"),)),
        finding=finding,
        state=state,
        began=START + 40.0,
        last=START + 590.0,
        changed=START + 40.0,
        count=14,
        lost_s=186.2,
        activity=tuple(START + 40.0 * at for at in range(1, 15)),
    )
    return replace(made, **changes)


def source(**changes: Any) -> SourceStatus:
    """The orchestrator's log."""
    made = SourceStatus(
        index=0,
        name="orchestrator.log",
        freshness=Freshness.FRESH,
        format="trace+prime-rl",
        bytes=52_000,
        lines=1000,
        events=120,
        bytes_per_s=900.0,
        lines_per_s=12.0,
        age_s=0.4,
        last=START + 600.0,
        errors=0,
        skipped=2,
        offset_s=0.002,
    )
    return replace(made, **changes)


def bar(at: int, queue_s: float, rpc_s: float = 1.2, **changes: Any) -> Bar:
    """The weight update of a step with its legs."""
    start = START + 40.0 * at
    made = Bar(
        kind="weight-update",
        key=f"ab{at:02d}",
        start=start,
        end=start + queue_s + rpc_s,
        open=False,
        level=Level.CRITICAL,
        legs=(Leg("queue", start, start + queue_s), Leg("rpc", start + queue_s, start + queue_s + rpc_s)),
        values={"queue_ms": queue_s * 1e3, "rpc_ms": rpc_s * 1e3, "wall_ms": (queue_s + rpc_s) * 1e3},
    )
    return replace(made, **changes)


def board(*bars: Bar) -> Board:
    """A board with one lane of weight updates."""
    lane = SpanLane("weight-update", "wall_ms", bars)
    return Board(Viewport(START, START + 600.7, 100), (lane,), (), ())


def picture(*alerts: Alert, **changes: Any) -> MonitorState:
    """The whole picture, live."""
    made = MonitorState(
        number=1,
        state=RunState.LIVE,
        time_base=TimeBase.WALL,
        now=START + 600.7,
        window_s=600.0,
        snapshot=snapshots.snapshot(),
        alerts=alerts,
        board=board(bar(13, 13.2), bar(14, 13.3)),
        sources=(source(),),
        lines=1000,
        lines_per_s=12.0,
        progress=None,
        stale_s=None,
    )
    return replace(made, **changes)
