"""The rows of the board: what they say where the cursor stands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import lane, with_metrics
from hosts import PLAIN
from pictures import START, bar, board, picture

from perfmon.tui.render.lanes import Geometry
from perfmon.tui.render.timeline import TimelineView, draw_board
from perfmon.viewmodel.state import AlertState, Bar, Level, MonitorState, SpanLane, Transition, Viewport

WRITE = Bar(
    "checkpoint-write", "7", START + 300.0, START + 304.0, False, Level.WARNING, (), {"write_ms": 4000.0}, (), 99
)


def shown() -> MonitorState:
    """Weight updates and one checkpoint."""
    made = board(*(bar(at, 12.0 + at, seq=at) for at in range(1, 14)))
    writes = SpanLane("checkpoint-write", "write_ms", (WRITE,))
    return picture(board=replace(made, spans=(*made.spans, writes), viewport=Viewport(START, START + 600.0, 73)))


def row(made: MonitorState, name: str, cursor: float | None) -> str:
    """The row of a lane, up to its chart."""
    sight = TimelineView(cursor)
    drawn = draw_board(made, 120, 14, sight, PLAIN)
    lines = ["".join(text for text, _ in one) for one in drawn.rows]
    return next(line[:28] for line in lines if line.startswith(f" {name}"))


def test_where_the_cursor_stands_a_lane_tells_the_span_there_and_none_where_there_is_none() -> None:
    made = shown()
    assert "4.0 s !" in row(made, "ckpt write", None)
    assert "4.0 s !" in row(made, "ckpt write", START + 301.0)
    assert row(made, "ckpt write", START + 100.0).split()[2:] == ["-"]
    assert "14.2 s ✗" in row(made, "weights x", START + 45.0)
    assert row(made, "weights x", START + 20.0).split()[2:] == ["-"]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_figures_end_below_the_names_of_their_columns(width: int) -> None:
    chart = Geometry.of(width).chart
    made = with_metrics(shown(), lane(values=(13_000.0,), levels=bytes(chart), p50=None))
    made = replace(made, board=replace(made.board, viewport=Viewport(START, START + 600.0, chart)))
    made = with_metrics(made, replace(made.board.metrics[0], values=(13_000.0,) * chart))
    lines = ["".join(text for text, _ in one) for one in draw_board(made, width, 14, TimelineView(), PLAIN).rows]
    axis, queue = lines[0].rstrip(), next(line for line in lines if line.startswith(" queue_ms")).rstrip()
    assert len(axis) == len(queue)
    assert axis.index("p95") + len("p95") == queue.index("13.0 s", queue.index("13.0 s") + 1) + len("13.0 s")


def test_alerts_are_counted_where_they_are_seen() -> None:
    ticks = tuple(
        Transition(START + at, ("frontend-queue", ()), AlertState.FIRING, Level.CRITICAL) for at in (100.0, 900.0)
    )
    made = shown()
    made = replace(made, board=replace(made.board, ticks=ticks))
    drawn = draw_board(made, 120, 14, TimelineView(), PLAIN)
    assert any("1 fired" in "".join(text for text, _ in one) for one in drawn.rows)


def test_a_strip_that_has_room_tells_names_apart() -> None:
    made = with_metrics(shown(), lane("batch_fill"), lane("batch_wait_s"))
    lines = ["".join(text for text, _ in one) for one in draw_board(made, 70, 9, TimelineView(), PLAIN, False).rows]
    assert any(line.startswith(" batch_fill ") for line in lines)
    assert any(line.startswith(" batch_wait_s ") for line in lines)


def test_a_filter_that_no_lane_passes_says_so() -> None:
    drawn = draw_board(shown(), 80, 9, TimelineView(wanted="/x[y]/"), PLAIN)
    assert drawn.count == 0
    message = "".join(text for text, _ in drawn.rows[1])
    assert "no lane matches '/x[y]/'" in message
    assert len(drawn.rows) == len(drawn.lanes) == 2
