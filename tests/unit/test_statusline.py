"""The line for status bars."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import snapshots

from perfmon.commands.status import plain_line, tmux_line
from perfmon.core.model import Severity
from perfmon.status.state_file import State, state_of


def state(**changes: Any) -> State:
    """The front-end queue."""
    return state_of(("/logs",), snapshots.snapshot(), "live")._replace(**changes)


def test_the_verdict_its_value_its_cost_and_its_trend() -> None:
    assert plain_line(state()) == "✗ FRONTEND-QUEUE 13.3s 31% lost ████████"
    assert tmux_line(state()) == "#[fg=red]✗ FRONTEND-QUEUE 13.3s 31% lost#[default] ████████"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"severity": "", "values": (), "assessment": "healthy"}, "#[fg=green]✓ OK#[default]"),
        ({"severity": "", "values": (), "assessment": "watch"}, "#[fg=yellow]! WATCH#[default]"),
        ({"severity": "", "values": (), "assessment": "learning"}, "#[fg=colour244]? LEARNING#[default]"),
        ({"severity": "", "values": (), "assessment": "unreadable"}, "#[fg=colour244]? UNREADABLE#[default]"),
        ({"severity": "", "assessment": "healthy", "progress": "finished"}, "#[fg=green]✓ FINISHED#[default]"),
        ({"severity": "", "progress": "stalled", "assessment": "watch"}, "#[fg=red]✗ STALLED#[default]"),
        (
            {"progress": "failed", "value": None, "lost_share": 0.0, "values": ()},
            "#[fg=red]✗ FAILED FRONTEND-QUEUE#[default]",
        ),
        (
            {"severity": "warning", "firing": 3, "values": ()},
            "#[fg=yellow]! FRONTEND-QUEUE 13.3s 31% lost +2#[default]",
        ),
        (
            {"severity": "", "values": (), "assessment": "healthy", "idle_s": 420.0},
            "#[fg=colour244]- IDLE 7m00s#[default]",
        ),
        (
            {"severity": "", "values": (), "assessment": "healthy", "overdue_s": 42.0},
            "#[fg=yellow]! WATCH no progress for 42.0s#[default]",
        ),
        (
            {"stale_s": 75.0, "progress": "stalled", "value": None, "lost_share": 0.0, "values": ()},
            "#[fg=red]✗ STALLED FRONTEND-QUEUE#[default]",
        ),
        ({"observed": False, "severity": ""}, "#[fg=colour244]? no data#[default]"),
        ({"run": "loading", "observed": False, "severity": ""}, "#[fg=colour244]? reading logs#[default]"),
        ({"stale_s": 14.0, "severity": ""}, "#[fg=colour244]? SILENT 14.0s#[default]"),
        (
            {"stale_s": 14.0, "value": None, "lost_share": 0.0, "values": ()},
            "#[fg=colour244]? SILENT 14.0s before: FRONTEND-QUEUE#[default]",
        ),
    ],
)
def test_states_are_told_apart_by_more_than_colour(changes: dict[str, Any], line: str) -> None:
    assert tmux_line(state(**changes)) == line


def test_the_line_has_the_progress_and_the_cause_of_a_failure() -> None:
    quiet = state(severity="", values=(), assessment="healthy", done=150.0, total=2000.0, counted="steps", left_s=600.0)
    assert plain_line(quiet) == "✓ OK step 150/2000 10m00s left"
    failed = state(progress="failed", severity="", values=(), done=9.0, counted="step", cause="ended by an exception")
    assert plain_line(failed) == "✗ FAILED step 9 (ended by an exception)"


def test_gaps_are_gaps() -> None:
    assert plain_line(state(values=(1.0, None, 4.0, None))).endswith(" ▃ █ ")


def test_log_text_is_no_format_of_tmux() -> None:
    hostile = "x#(touch /tmp/owned)#{pane_pid}#[fg=red]##[bg=red]\n\x1b[31m\u202e%H"
    line = tmux_line(state(signature=hostile, unit="#(x)", value=5.0))
    inner = line.removeprefix("#[fg=red]").rpartition("#[default]")[0]
    assert "#" not in inner
    assert inner.isprintable()


def test_the_metric_is_one_that_the_verdict_rests_on() -> None:
    base = snapshots.snapshot()
    only = replace(base, metrics={"inflight": base.metrics["inflight"]})
    assert state_of((), only, "live").metric == "inflight"
    assert state_of((), replace(base, metrics={}), "live").metric == ""
    assert base.verdict is not None
    assert state_of((), replace(base, verdict=replace(base.verdict, severity=Severity.INFO)), "x").severity == "info"
