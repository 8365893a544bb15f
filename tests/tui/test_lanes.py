"""The rows of the board: what they say where the cursor stands."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from math import isnan, nan
from typing import Any

import pytest
from builders import lane, with_metrics
from hosts import PLAIN, SKIN
from pictures import START, bar, board, picture
from snapshots import finding, snapshot

from perfmon.core.model import Severity
from perfmon.textgraphics.cells import ASCII
from perfmon.textgraphics.charts import line, trace
from perfmon.themes.loader import load_themes
from perfmon.tui.render.lanes import Geometry, metric_lane
from perfmon.tui.render.rows import cells
from perfmon.tui.render.timeline import TimelineView, draw_board
from perfmon.tui.theme import ColorDepth, ThemeStyles
from perfmon.viewmodel import (
    AlertState,
    Bar,
    Level,
    MetricLane,
    MonitorState,
    RunState,
    SpanLane,
    Transition,
    Viewport,
    held,
)

THEMES = load_themes()
WRITE = Bar(
    "checkpoint-write", "7", START + 300.0, START + 304.0, False, Level.WARNING, (), {"write_ms": 4000.0}, (), 99
)


def shown() -> MonitorState:
    """Weight updates and one checkpoint."""
    made = board(*(bar(at, 12.0 + at, seq=at) for at in range(1, 14)))
    writes = SpanLane("checkpoint-write", "write_ms", (WRITE,))
    return picture(
        board=replace(
            made, spans=(*made.spans, writes), viewport=Viewport(START, START + 600.0, Geometry.of(120).chart)
        )
    )


def row(made: MonitorState, name: str, cursor: float | None) -> str:
    """The row of a lane, up to its chart."""
    sight = TimelineView(cursor)
    drawn = draw_board(made, 120, 14, sight, PLAIN)
    lines = ["".join(text for text, _ in one) for one in drawn.rows]
    return next(line[:30] for line in lines if line[1:].startswith(name))


def test_where_the_cursor_stands_a_lane_tells_the_span_there_and_none_where_there_is_none() -> None:
    made = shown()
    assert "4.0 s !" in row(made, "checkpoint write", None)
    assert "4.0 s !" in row(made, "checkpoint write", START + 301.0)
    assert row(made, "checkpoint write", START + 100.0).split()[2:] == ["-"]
    assert "14.2 s ✗" in row(made, "weights x", START + 45.0)
    assert row(made, "weights x", START + 20.0).split()[2:] == ["-"]


@pytest.mark.parametrize("width", [80, 120, 200])
def test_figures_end_below_the_names_of_their_columns(width: int) -> None:
    chart = Geometry.of(width).chart
    made = with_metrics(shown(), lane(values=(13_000.0,), levels=bytes(chart), p50=None))
    made = replace(made, board=replace(made.board, viewport=Viewport(START, START + 600.0, chart)))
    made = with_metrics(made, replace(made.board.metrics[0], values=(13_000.0,) * chart))
    lines = ["".join(text for text, _ in one) for one in draw_board(made, width, 14, TimelineView(), PLAIN).rows]
    axis, queue = lines[0].rstrip(), next(line for line in lines if line[1:].startswith("queue time")).rstrip()
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
    last = replace(ticks[0], time=made.board.viewport.end)
    drawn = draw_board(replace(made, board=replace(made.board, ticks=(last,))), 120, 14, TimelineView(), PLAIN)
    alerts = next(one for one in drawn.lanes if one and one.kind == "alerts")
    assert "".join(text for text, _ in alerts.runs).endswith("✗"), "the last moment has a column"


def test_a_strip_that_has_room_tells_names_apart() -> None:
    made = with_metrics(shown(), lane("batch_wait_s"), lane("batch_wait_share"))
    lines = ["".join(text for text, _ in one) for one in draw_board(made, 70, 9, TimelineView(), PLAIN, False).rows]
    assert any(line.startswith(" batch wait ") for line in lines)
    assert any(line.startswith(" batch_wait_share ") for line in lines)


def test_a_filter_that_no_lane_passes_says_so() -> None:
    drawn = draw_board(shown(), 80, 9, TimelineView(wanted="/x[y]/"), PLAIN)
    assert drawn.keys == []
    message = "".join(text for text, _ in drawn.rows[1])
    assert "no lane matches '/x[y]/'" in message
    assert len(drawn.rows) == len(drawn.lanes) == 2


def proven(*names: str) -> MonitorState:
    """Weight updates, a checkpoint and three metrics, of which the verdict rests on these."""
    metrics = (
        lane("kv_usage", (40.0,), critical_share=0.0),
        lane("queue_ms"),
        lane("write_ms", (60.0,), critical_share=0.0, now=60.0),
    )
    made = with_metrics(shown(), *(replace(one, now_level=Level.NONE) for one in metrics))
    return replace(made, snapshot=snapshot(findings=(finding(proof=names),)))


def names(made: MonitorState, height: int, sight: TimelineView | None = None, *, brief: bool = False) -> list[str]:
    """The names of the lanes in view, with the mark of what the verdict rests on."""
    drawn = draw_board(made, 80, height, sight or TimelineView(), PLAIN, not brief)
    return ["".join(text for text, _ in one)[:19].rstrip() for one in drawn.rows[not brief :]]


@pytest.mark.parametrize("brief", [True, False])
def test_what_the_verdict_rests_on_comes_first_and_is_marked(brief: bool) -> None:
    made = proven("kv_usage", "checkpoint-write")
    assert names(made, 2 + (not brief), brief=brief) == ["▌KV cache use", "▌checkpoint write"]
    edge = draw_board(made, 80, 9, TimelineView(), SKIN).rows[1][0]
    assert edge == ("▌", SKIN.level(Level.CRITICAL)), "in the colour of its severity"
    assert names(proven(), 9)[0] == " queue time", "what is critical, where the verdict rests on no lane"


def test_of_several_queues_the_one_that_the_verdict_is_about_is_marked() -> None:
    lanes = [lane(f"{group} queue_fill", (9.0,), group=group, critical_share=0.0, now=9.0) for group in ("a", "b")]
    for identity, marked in (({"group": "b"}, ["▌b queue fill"]), ({}, ["▌a queue fill", "▌b queue fill"])):
        found = finding(proof=("queue_fill",), identity=identity)
        made = replace(with_metrics(shown(), *lanes), snapshot=snapshot(findings=(found,)))
        assert [name for name in names(made, 9) if name.startswith("▌")] == marked


def test_then_comes_what_is_critical_and_the_rest_by_kind() -> None:
    assert names(proven("kv_usage"), 9) == ["▌KV cache use", " queue time", " weights x13", " checkpoint write"]
    kinds = names(proven("kv_usage"), 9, TimelineView(order="kind"))
    assert kinds == [" weights x13", " checkpoint write", "▌KV cache use", " queue time"]


def test_what_another_finding_rests_on_comes_next() -> None:
    made = proven("kv_usage")
    assert made.snapshot is not None
    other = finding(signature="slow-checkpoint-write", proof=("checkpoint-write",), severity=Severity.WARNING)
    made = replace(made, snapshot=replace(made.snapshot, findings=(*made.snapshot.findings, other)))
    assert names(made, 9) == ["▌KV cache use", " checkpoint write", " queue time", " weights x13"]


def test_the_selection_stays_on_its_lane() -> None:
    sight = TimelineView(chosen=("metric", "queue_ms"))
    assert draw_board(proven("kv_usage"), 80, 9, sight, PLAIN).selected == 1
    assert draw_board(proven("queue_ms"), 80, 9, sight, PLAIN).selected == 0
    assert draw_board(with_metrics(proven()), 80, 9, sight, PLAIN).selected == 0, "it is gone"


def test_weight_updates_share_a_row_of_heat_until_they_are_expanded() -> None:
    assert names(proven(), 30).count(" weights x13") == 1
    drawn = draw_board(proven(), 80, 30, TimelineView(expanded=True), PLAIN)
    assert sum(key[0] == "update" for key in drawn.keys) == 13
    shared = next(one for one in draw_board(proven(), 80, 30, TimelineView(), SKIN).lanes if one and one.bars)
    assert SKIN.level(Level.CRITICAL) in {style for text, style in shared.runs if text.strip()}


def test_a_level_holds_its_value_between_samples_and_a_duration_does_not() -> None:
    values = (50.0, nan, nan, 60.0, nan, nan)
    levels, _ = held(values * 3, bytes(18), "%", 1.0)
    assert list(levels) == [50.0, 50.0, 50.0, 60.0, 60.0, 60.0] * 3
    gap, _ = held((*values, *(nan,) * 12, *values), bytes(24), "%", 1.0)
    assert [at for at, value in enumerate(gap) if isnan(value)] == list(range(8, 18)), "for 1.5 times their distance"
    assert list(held((nan, 5.0, nan), bytes(3), "%", 1.0)[0][1:2]) == [5.0]
    drawn = {one: chart(lane(one, values, unit=unit, good=None)) for one, unit in (("kv", "%"), ("queue_ms", "ms"))}
    assert " " not in drawn["kv"].rstrip()
    assert drawn["queue_ms"].count(" ") > 60


def test_a_duration_has_the_columns_that_it_lasted_up_to_its_sample() -> None:
    values = (nan, nan, nan, 20.0, nan, nan, 200.0, 10.0, nan)
    seen, levels = held(values, bytes(range(9)), "s", 10.0)
    shown = [None if isnan(value) else value for value in seen]
    assert shown == [None, None, 20.0, 20.0, 200.0, 200.0, 200.0, 10.0, None], "never over another one, nor after it"
    assert list(levels) == [0, 0, 3, 3, 6, 6, 6, 7, 0]
    assert [at for at, value in enumerate(held(values, bytes(9), "ms", 0.01)[0]) if not isnan(value)] == [
        2,
        3,
        4,
        5,
        6,
        7,
    ]
    assert [at for at, value in enumerate(held(values, bytes(9), "ms", 10.0)[0]) if not isnan(value)] == [3, 6, 7]
    assert list(held((nan, float("inf")), bytes(2), "s", 1.0)[0]) == [float("inf")] * 2


def chart(shown_lane: MetricLane) -> str:
    return "".join(text for text, _ in metric_lane(shown_lane, 1.0, Geometry.of(120), PLAIN).runs)


def test_a_level_without_limits_is_a_line_that_fits_and_ascii_has_one_too() -> None:
    falling = tuple(3.0 - 0.01 * at for at in range(100))
    loss = lane("loss", falling, unit="", good=None, critical=None, levels=bytes(100))
    assert set(chart(loss)) <= set("⠉⠒⠤⣀⠑⠢⢄⠓⠦⠔") | {chr(at) for at in range(0x2800, 0x2900)}
    assert chart(loss)[0] == "⠉"
    assert chart(loss)[-1] == "⣀"
    plain = ThemeStyles(SKIN.theme, glyphs=ASCII)
    drawn = "".join(text for text, _ in metric_lane(loss, 1.0, Geometry.of(120), plain).runs)
    assert drawn.isascii()
    assert drawn[0] == "#" or drawn[0] == "*"
    assert drawn[-1] == "_"
    steady = lane("loss", (2.0, 2.001), unit="", good=None, critical=None, levels=bytes(100))
    assert set(chart(steady)) <= {"⠒", "⠤"}, "noise is no course"


def test_a_line_joins_its_neighbours_and_leaves_out_what_is_unknown() -> None:
    rows = trace([(0.0, 0.0), (8.0, 8.0), (nan, nan), (0.0, 8.0)], 0.0, 8.0, 2)
    assert [len(row) for row in rows] == [2, 2]
    assert rows[0][1] == "⢸"
    assert rows[1][1] == "⢸", "from the least value to the largest one"
    assert trace([], 0.0, 1.0, 1) == [""]
    values = (0.0, 8.0, 3.0, nan, 5.0, 2.0, 2.0)
    assert line(values, 0.0, 8.0) == trace([(value, value) for value in values for _ in range(2)], 0.0, 8.0, 1)[0]
    assert trace([(1.0, 1.0)] * 4, 1.0, 1.0, 1) == ["⠒⠒"]


def test_without_colours_no_bar_is_reversed() -> None:
    for skin in (ThemeStyles(THEMES["mono"]), ThemeStyles(THEMES["midnight"], ColorDepth.NONE)):
        runs = metric_lane(lane(), 1.0, Geometry.of(120), skin).runs
        assert not any(style.reverse for text, style in runs if text.strip())
        assert len({style for text, style in runs if text.strip()}) == 3, "each level has a style"


def test_under_the_cursor_the_last_value_keeps_its_age() -> None:
    made = shown()
    assert row(made, "checkpoint", START + 380.0).split()[1:] == ["w…", "4.0s", "77s", "ago"], (
        "it takes the end of the name"
    )
    count = made.board.viewport.columns
    made = with_metrics(made, lane(values=(13_000.0, *(math.nan,) * (count - 1)), levels=bytes(100)))
    port = made.board.viewport
    values = [row(made, "queue time", port.start + column * port.column_s) for column in (0.5, 5.5, 30.5)]
    assert [value[11:].strip() for value in values] == ["13.0 s", "13.0s 42s ago", "13.0 s (4m ago)"]


def test_a_wide_lane_words_the_age_in_full_and_never_as_a_range() -> None:
    count = Geometry.of(147).chart
    made = replace(shown(), board=replace(shown().board, viewport=Viewport(START, START + 600.0, count)))
    made = with_metrics(made, replace(lane("loss"), values=(9.0, *(math.nan,) * (count - 1)), levels=bytes(count)))
    port = made.board.viewport
    drawn = draw_board(made, 147, 20, TimelineView(cursor=port.start + 3.5 * port.column_s), PLAIN)
    (text,) = ["".join(part for part, _ in line) for line in drawn.rows if line[1][0].startswith("loss ")]
    assert re.search(r"loss +9 ms \(\d+ s ago\)", text)
    assert {sum(cells(part) for part, _ in line) for line in drawn.rows} == {147}


def test_a_value_that_is_no_number_is_marked_in_its_lane() -> None:
    drawn = metric_lane(replace(lane("loss"), now=math.nan, now_level=Level.CRITICAL), 1.0, Geometry.of(120), PLAIN)
    assert (drawn.now, drawn.level) == ("nan", Level.CRITICAL)


def test_a_filter_of_lanes_ignores_case() -> None:
    drawn = draw_board(shown(), 80, 9, TimelineView(wanted="CHECKP"), PLAIN)
    assert drawn.keys


@pytest.mark.parametrize(
    ("changes", "newest"),
    [({}, "now"), ({"actual": START + 2400.0}, "last line"), ({"state": RunState.ENDED}, "last line")],
)
def test_the_axis_ends_at_the_last_line_where_nothing_came_since(changes: dict[str, Any], newest: str) -> None:
    made = shown()
    made = replace(made, now=made.board.viewport.end, **changes)
    axis = "".join(text for text, _ in draw_board(made, 120, 14, TimelineView(), PLAIN).rows[0])
    assert f" {newest} " in f"{axis[31:]} ", axis
    assert axis[19:27].strip() == newest.partition(" ")[0], "the column of values is of that moment, too"


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_a_lane_has_one_name_in_plain_words_at_every_width(width: int) -> None:
    chart = Geometry.of(width).chart
    metrics = [lane(name, levels=bytes(100)) for name in ("orchestrator_step_s", "kv_usage", "rpc_ms")]
    made = with_metrics(shown(), *metrics)
    made = replace(made, board=replace(made.board, viewport=Viewport(START, START + 600.0, chart)))
    drawn = draw_board(made, width, 14, TimelineView(), PLAIN, header=False)
    heads = ["".join(text for text, _ in one)[1 : 1 + Geometry.of(width).label].rstrip() for one in drawn.rows]
    assert set(heads) == {"orchestrator step", "KV cache use", "load time", "weights x13", "checkpoint write"}


def test_lanes_of_the_verdict_have_its_mark_where_they_have_no_thresholds() -> None:
    waits = lane("policy_wait_s", (17.0,), unit="s", now_level=Level.NONE, levels=bytes(100), good=None, critical=None)
    loads = lane("rpc_ms", (900.0,), now=900.0, now_level=Level.GOOD)
    found = finding(proof=("policy_wait_s", "rpc_ms"))
    made = replace(with_metrics(shown(), waits, loads), snapshot=snapshot(findings=(found,)))
    assert row(made, "policy wait", None).rstrip().endswith("✗")
    assert row(made, "load time", None).rstrip().endswith("✓"), "its own level is known"
    (chart_of,) = [one[5:-1] for one in draw_board(made, 120, 14, TimelineView(), SKIN).rows if "policy" in one[1][0]]
    assert {style for text, style in chart_of if text.strip()} == {SKIN.level(Level.CRITICAL)}
    assert row(made, "policy wait", START + 20.0).rstrip()[-1] != "✗", "at another moment it may have been well"


def test_durations_without_thresholds_are_bars_as_high_as_they_are_long() -> None:
    def spans(kind: str, metric: str, seconds: float) -> SpanLane:
        bars = [
            Bar(kind, "", START + at, START + at + seconds, False, Level.NONE, (), {metric: seconds}, (), int(at))
            for at in (50.0, 150.0)
        ]
        return SpanLane(kind, metric, tuple(bars))

    lengths = {
        "policy-wait": ("policy_wait_s", 20.0),
        "weight-sync": ("weight_sync_s", 1.0),
        "batch-wait": ("batch_wait_s", 0.0),
    }
    figures = [
        lane(metric, (seconds,), unit="s", now_level=Level.NONE, good=None, critical=None, max=seconds)
        for metric, seconds in lengths.values()
    ]
    made = with_metrics(shown(), *figures)
    lanes = tuple(spans(kind, metric, seconds) for kind, (metric, seconds) in lengths.items())
    made = replace(made, board=replace(made.board, spans=lanes))
    drawn = draw_board(made, 120, 14, TimelineView(), PLAIN, header=False)
    bars = [set("".join(text for text, _ in one.runs)) - {" "} for one in drawn.lanes if one is not None]
    assert bars == [{"▇"}, {"▁"}, set()]


def test_the_cursor_reverses_no_bar() -> None:
    made = with_metrics(shown(), lane(values=(13_000.0,)))
    for skin in (ThemeStyles(THEMES["mono"]), ThemeStyles(THEMES["midnight"], ColorDepth.NONE), SKIN):
        drawn = draw_board(made, 120, 14, TimelineView(cursor=START + 300.0), skin)
        (queue,) = [one for one in drawn.rows if one[1][0].startswith("queue time")]
        assert not any(style.reverse for text, style in queue[5:] if text.strip())
        assert any("│" in text for text, _ in queue[5:]) or skin is SKIN
