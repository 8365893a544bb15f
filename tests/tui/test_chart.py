"""The chart of a metric: its scale, its limits, its gaps, what is read off it, and that it stays live."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import pytest
from builders import lane, with_metrics
from hosts import PLAIN, SIZES, SKIN, Host, page_of, screen_text
from hypothesis import given, strategies
from pictures import picture
from rich.cells import cell_len
from snapshots import HOSTILE, hostile

from perfmon.core.model import TimeBase
from perfmon.textgraphics.cells import ASCII
from perfmon.tui.render.chart import Layers, chart_rows, resampled, scale_of
from perfmon.tui.render.rows import Row
from perfmon.tui.screens.chart import ChartPage
from perfmon.tui.theme import ThemeStyles
from perfmon.tui.widgets.overlays import PageScreen
from perfmon.viewmodel import Course, Level, MetricLane, MonitorState, Viewport

INFLIGHT = lane("inflight", (96.0, 128.0), unit="", good=None, critical=None, levels=bytes(100), now_level=Level.NONE)


class Shown(Host):
    """A chart over pictures that can be changed."""

    def __init__(self, shown: MonitorState | None = None, metric: str = "queue_ms", skin: ThemeStyles = SKIN) -> None:
        self.shown = with_metrics(picture(), lane(), INFLIGHT) if shown is None else shown
        super().__init__(lambda: PageScreen(ChartPage(skin, metric, self.shown)))

    @property
    def page(self) -> ChartPage:
        """The page."""
        return self.screen.query_one(ChartPage)


@pytest.mark.parametrize("size", SIZES)
async def test_scale_axis_and_figures_at_every_size(size: tuple[int, int]) -> None:
    app = Shown()
    async with app.run_test(size=size):
        lines = screen_text(app)
    text = "\n".join(lines)
    assert [cell_len(line) for line in lines] == [size[0]] * size[1]
    for words in ("chart ▸ queue_ms  13.0 s ✗ CRIT", "1 of 2", "15 values", "p50 12.6 s", "max 13.3 s", "✗ 93 %"):
        assert words in text
    assert "  1.0 s ┤" in text
    assert "09:4" in lines[-2]
    assert ("✗ from 1.0 s  (thresholds: seeds)" in text) == (size[1] >= 14)


async def test_gaps_stay_gaps_and_limits_are_dashed_where_nothing_stands_before_them() -> None:
    app = Shown(with_metrics(picture(), lane(values=(nan, nan, 60.0, 9000.0))))
    async with app.run_test(size=(110, 30)):
        lines = screen_text(app)
    limit = next(line for line in lines if "1.0 s ┤" in line)
    assert limit[10:18] == "┄┄┄█┄┄┄█"
    bottom = next(line for line in lines if "0.1 s ┤" in line)
    assert bottom[12] == "▁"
    marks = lines[-4]
    assert marks[10:18] == "   ✗   ✗"


async def test_where_nothing_was_measured_there_is_no_scale_but_the_limits() -> None:
    app = Shown(with_metrics(picture(), lane(values=(nan,), levels=bytes(100))))
    async with app.run_test(size=(110, 24)):
        text = screen_text(app)
    assert sum("┤" in line for line in text) == 2
    assert any("1.0 s ┤" in line for line in text)
    assert any("no data in view" in line for line in text)


async def test_the_cursor_reads_off_and_stays_on_its_moment() -> None:
    app = Shown(with_metrics(picture(), lane(values=(60.0, 200.0, nan, nan))))
    async with app.run_test(size=(110, 24)) as pilot:
        await pilot.press("left")
        assert "ago)  200 ms ! WARN" in screen_text(app)[-1]
        await pilot.press("left")
        assert "60 ms ✓ OK" in screen_text(app)[-1]
        moment = app.page.cursor
        await pilot.press("left")
        assert "no data" in screen_text(app)[-1]
        await pilot.press("right")
        assert app.page.cursor == moment
        port = app.shown.board.viewport
        later = replace(port, start=port.start + 60.0, end=port.end + 60.0)
        app.shown = replace(app.shown, number=2, board=replace(app.shown.board, viewport=later))
        app.page.show(app.shown)
        assert app.page.cursor == moment
        await pilot.press("shift+left", "shift+right")
        assert app.page.cursor == pytest.approx(moment)
        await pilot.click(offset=(10, 5))
        assert app.page.cursor == pytest.approx(later.start + 0.5 * (later.end - later.start) / 100)


async def test_it_shows_the_newest_picture() -> None:
    app = Shown()
    async with app.run_test(size=(80, 24)) as pilot:
        app.shown = with_metrics(replace(picture(), number=2), lane(now=77.0, now_level=Level.GOOD))
        app.page.show(app.shown)
        await pilot.pause()
        assert "77 ms ✓ OK" in screen_text(app)[0]
        app.shown = with_metrics(replace(picture(), number=3), INFLIGHT)
        app.page.show(app.shown)
        await pilot.pause()
        assert "no data in this time range" in screen_text(app)[1]


async def test_keys_turn_to_other_metrics_and_close() -> None:
    app = Shown()
    async with app.run_test(size=(80, 24)) as pilot:
        for key, name in (
            ("right_square_bracket", "inflight"),
            ("tab", "queue_ms"),
            ("left_square_bracket", "inflight"),
        ):
            await pilot.press(key)
            assert app.page.metric == name
        assert "no thresholds for this metric" in screen_text(app)[2]
        await pilot.press("escape")
        assert page_of(app) is None


@pytest.mark.parametrize("size", [*SIZES, (20, 4), (8, 3), (1, 1)])
@pytest.mark.parametrize(
    "skin", [SKIN, PLAIN, ThemeStyles(SKIN.theme, glyphs=ASCII)], ids=["colours", "plain", "ascii"]
)
async def test_hostile_names_and_no_data(size: tuple[int, int], skin: ThemeStyles) -> None:
    made = with_metrics(picture(snapshot=hostile()), lane(HOSTILE, (), unit=HOSTILE, now=None), lane("b", (nan,)))
    app = Shown(made, HOSTILE, skin)
    async with app.run_test(size=size) as pilot:
        lines = screen_text(app)
        await pilot.press("left", "tab", "left")
        lines += screen_text(app)
    assert {cell_len(line) for line in lines} == {size[0]}
    assert not set("".join(lines)) & set("\x1b\x07\n\r\u202e\x00")


@given(
    strategies.lists(strategies.floats(), max_size=30),
    strategies.sampled_from(["ms", "s", "%", "B", ""]),
    strategies.integers(1, 60),
    strategies.integers(3, 20),
    strategies.none() | strategies.floats(),
)
def test_any_values_fill_the_chart(
    values: list[float], unit: str, width: int, height: int, critical: float | None
) -> None:
    made = lane(values=(), unit=unit, critical=critical)
    made = replace(made, values=values, levels=bytes(len(values)))
    rows = chart_rows(made, Viewport(0.0, 600.0, 9), TimeBase.NONE, 600.0, (10 + width, height), 0, SKIN)
    assert [sum(cell_len(text) for text, _ in row) for row in rows] == [10 + width] * height


@pytest.mark.parametrize(
    ("values", "unit", "named"),
    [
        ((13_000.0,), "ms", [0.0, 5000.0, 10_000.0, 15_000.0]),
        ((100_000.0,), "ms", [0.0, 60_000.0, 120_000.0]),
        ((8.4, 3.0), "", [2.0, 4.0, 6.0, 8.0, 10.0]),
        ((8.4, 3.0), "%", [0.0, 5.0, 10.0]),
        ((2.31, 2.28), "", [2.2, 2.25, 2.3, 2.35, 2.4]),
        ((-0.4, 0.1), "", [-0.4, -0.2, 0.0, 0.2]),
        ((97.0,), "%", [0.0, 50.0, 100.0]),
        ((3.0,), "%", [0.0, 1.0, 2.0, 3.0]),
        ((0.0,), "", [0.0, 0.5, 1.0]),
        ((inf, 5.0), "", [4.8, 4.9, 5.0, 5.1, 5.2]),
        ((), "", [0.0, 0.5, 1.0]),
    ],
)
def test_the_scale_has_round_values(values: tuple[float, ...], unit: str, named: list[float]) -> None:
    made = lane(values=values, unit=unit, good=None, critical=None)
    assert scale_of(made, resampled(made, 100, 600.0), 9).values == pytest.approx(named)


def test_limits_nearby_are_within_the_scale() -> None:
    made = lane(values=(400.0,))
    assert scale_of(made, resampled(made, 10, 600.0), 9).high >= 1000.0
    far = lane(values=(20.0,))
    assert scale_of(far, resampled(far, 10, 600.0), 9).high < 100.0


def test_of_several_columns_the_worst_is_shown() -> None:
    values = (1.0, nan, 3.0, 2.0)
    assert resampled(lane(values=values), 50, 600.0).values[:4] == (1.0, 3.0, 1.0, 3.0)
    assert resampled(lane(values=values, lower_is_worse=True), 50, 600.0).values[1] == 2.0
    assert resampled(lane(values=values), 200, 600.0).levels[:2] == (Level.GOOD, Level.GOOD)


LOSS = lane("loss", tuple(2.5 - 0.005 * at for at in range(100)), unit="", good=None, critical=None, levels=bytes(100))


def plot(made: MetricLane, layers: Layers, skin: ThemeStyles = SKIN, height: int = 12) -> list[Row]:
    return chart_rows(made, Viewport(0.0, 600.0, 9), TimeBase.NONE, 600.0, (60, height), None, skin, layers)


def text_of(rows: list[Row]) -> str:
    return "\n".join("".join(text for text, _ in row) for row in rows)


def test_a_level_without_limits_is_a_line_over_a_scale_that_fits() -> None:
    drawn = text_of(plot(LOSS, Layers()))
    assert "2.60 ┤" in drawn
    assert "0.00 ┤" not in drawn
    assert "█" not in drawn
    assert set("⠉⠒⠤⣀") & set(drawn)


def test_of_a_finer_course_the_extremes_are_shown() -> None:
    flat = [2.0] * 100
    course = Course([1.0 if at == 50 else 2.0 for at in range(100)], flat, flat)
    rows = plot(LOSS, Layers(course))
    lowest = next(row for row in reversed(rows) if "┤" in "".join(text for text, _ in row))
    assert (lowest[0][0].strip(), lowest[1][0]) == ("1", "┤")
    assert "".join(text for text, _ in lowest)[10:].strip(), "one value of many"


def test_the_mean_is_above_and_a_baseline_behind() -> None:
    saw = [2.0 + at % 2 for at in range(100)]
    layers = Layers(Course(saw, saw, saw), 9, [1.5] * 100)
    styles = {style for row in plot(LOSS, layers) for text, style in row if text.strip()}
    assert {SKIN.style("accent"), SKIN.style("muted"), SKIN.style("stale")} <= styles
    ascii_skin = ThemeStyles(SKIN.theme, glyphs=ASCII)
    drawn = text_of(plot(LOSS, layers, ascii_skin))
    assert drawn.isascii()
    assert {"*", "o", "."} <= set(drawn)


def test_a_bar_does_not_hide_a_lower_baseline() -> None:
    full = lane(values=(9000.0,), critical=None, good=None)
    with_it, without = plot(full, Layers(baseline=[2000.0] * 100)), plot(full, Layers())
    assert len(set(text_of(with_it)) & {chr(at) for at in range(0x2800, 0x2900)}) == 1
    assert text_of(without).count("█") > text_of(with_it).count("█")


@pytest.mark.parametrize("size", [*SIZES, (30, 8)])
async def test_several_metrics_are_below_each_other(size: tuple[int, int]) -> None:
    shown = with_metrics(picture(), lane(), INFLIGHT, LOSS)

    class Several(Host):
        def __init__(self) -> None:
            super().__init__(lambda: PageScreen(ChartPage(SKIN, "queue_ms", shown, ("loss", "inflight"))))

    app = Several()
    async with app.run_test(size=size):
        lines = screen_text(app)
    assert [cell_len(line) for line in lines] == [size[0]] * size[1]
    if size[1] >= 24:
        assert [sum(line.startswith(f" {name}  ") for line in lines) for name in ("queue_ms", "loss")] == [1, 1]
        assert sum("┼" in line for line in lines) == 1, "one axis for all"
