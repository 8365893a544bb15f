"""Every terminal gets a layout that fills it, and the answers come first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path

import pytest
from failures import failures_of
from hosts import screen_text
from whole import running, until

from perfmon.monitor.feeds import FollowFeed
from perfmon.tui.layout import LAYOUTS, Layout, layout_for

PANES = ("board", "alerts", "sources", "log")
SIZES = [
    (w, h) for w in (8, 20, 40, 60, 71, 72, 80, 109, 110, 120, 200) for h in (2, 3, 4, 5, 10, 17, 18, 24, 30, 50, 90)
]


def rows(layout: Layout) -> int:
    lower = max(layout.alerts, layout.sources)
    return layout.header + layout.answer + layout.board + lower + layout.log + layout.footer


def _uses_every_row(width: int, height: int, preset: str) -> None:
    for count in range(4):
        for hidden in combinations(PANES, count):
            layout = layout_for(width, height, preset, hidden)
            assert rows(layout) <= height
            assert rows(layout) == height or width < 40 or height < 4
            assert layout.answer >= min(height, 2)


def test_every_row_is_used() -> None:
    cases = [(f"{w}x{h} {preset}", w, h, preset) for w, h in SIZES for preset in LAYOUTS]
    assert failures_of(_uses_every_row, cases) == []


def _gives_all_the_room(width: int, height: int, pane: str) -> None:
    layout = layout_for(width, height, zoomed=pane)
    assert rows(layout) <= max(height, 3)
    if height >= 4:
        assert getattr(layout, pane) >= 1
        assert rows(layout) == height


def test_a_pane_can_have_all_the_room() -> None:
    cases = [(f"{w}x{h} {pane}", w, h, pane) for w, h in SIZES for pane in PANES]
    assert failures_of(_gives_all_the_room, cases) == []


def test_all_four_panes_from_80x24_on() -> None:
    layout = layout_for(80, 24)
    assert layout.board
    assert layout.alerts
    assert layout.log
    assert layout_for(120, 30).sources


def test_the_strip_is_for_a_split_below_the_run() -> None:
    layout = layout_for(60, 10)
    assert layout.bare
    assert (layout.answer, layout.board, layout.log) == (4, 4, 0)


def test_a_tall_strip_has_more_panes_than_the_timeline() -> None:
    layout = layout_for(70, 40, listed=(2, 3), lanes=12)
    assert layout.bare
    assert (layout.board, layout.alerts, layout.sources) == (12, 3, 0)
    assert rows(layout) == 40
    assert layout_for(60, 10, listed=(2, 3), lanes=3).log == 0
    assert layout_for(39, 40, listed=(2, 3), lanes=3).log == 0
    assert layout_for(70, 40, listed=(2, 3)).log == 0, "nobody knows yet how many lanes there are"


async def test_a_tall_narrow_terminal_shows_the_log_too(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    times = [f"{now - timedelta(seconds=60 - at):%Y-%m-%d %H:%M:%S}" for at in range(60)]
    lines = [f"{time} INFO [gen] batch.done completions=64 dur_ms=3000" for time in times]
    (tmp_path / "a.log").write_text("".join(f"{line}\n" for line in lines))
    async with running(lambda: FollowFeed([str(tmp_path / "a.log")]), size=(70, 40)) as (app, pilot):
        await until(pilot, lambda: sum(not row.strip() for row in screen_text(app)) <= 1)
        text = screen_text(app)
        assert any("2 ALERTS" in row for row in text)
        assert sum("batch.done" in row for row in text) > 20
        assert "HEALTHY" in text[0] or "No bottleneck" in text[0]
        await pilot.resize_terminal(60, 10)
        await until(pilot, lambda: not any("4 LOG" in row for row in screen_text(app)))


def test_rows_that_no_alert_and_no_source_needs_are_the_boards() -> None:
    few, many, all_of_them = (layout_for(200, 50, listed=(count, 1)) for count in (1, 5, 30))
    assert few.alerts < many.alerts < all_of_them.alerts == layout_for(200, 50).alerts
    assert few.alerts == 3  # a title, the names of columns, and the alert
    assert layout_for(200, 50, listed=(0, 1)).alerts == 2
    assert layout_for(200, 50, listed=(1, 5)).alerts == 6  # sources have a title alone
    assert layout_for(120, 30, listed=(1, 1)).alerts == 2  # which has no names of columns
    assert layout_for(120, 30, listed=(4, 1)).alerts == layout_for(120, 30, listed=(1, 4)).alerts == 5
    assert few.board - all_of_them.board == all_of_them.alerts - few.alerts


@pytest.mark.parametrize("size", [(80, 24), (120, 30), (200, 50)])
def test_rows_that_lanes_do_not_need_show_lines_of_the_log(size: tuple[int, int]) -> None:
    usual, few = layout_for(*size, listed=(1, 3)), layout_for(*size, listed=(1, 3), lanes=7)
    assert few.board == 9
    assert few.board + few.log == usual.board + usual.log
    assert layout_for(*size, listed=(1, 3), lanes=60) == usual
    assert layout_for(*size, "timeline", lanes=7) == layout_for(*size, "timeline")
    assert layout_for(*size, hidden={"log"}, lanes=7) == layout_for(*size, hidden={"log"})


async def test_a_run_of_few_metrics_leaves_no_row_empty(tmp_path: Path) -> None:
    lines = [f"2026-03-02 10:00:{at:02d} INFO [gen] batch.done completions=64 dur_ms=3000" for at in range(60)]
    (tmp_path / "a.log").write_text("".join(f"{line}\n" for line in lines))
    async with running(lambda: FollowFeed([str(tmp_path / "a.log")]), size=(120, 40)) as (app, pilot):
        await until(pilot, lambda: all(row.strip() for row in screen_text(app)))
        assert any("completions  " in row for row in screen_text(app)), "lanes keep their rows"
