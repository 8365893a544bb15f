"""Metrics as large charts over one time axis, live, with the figures of the window that is judged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partialmethod
from math import isnan, nan

from textual.events import Click

from perfmon.core import TimeBase, counted, format_seconds, format_share, format_value, plain, short_duration
from perfmon.sources.formats import meaning_of
from perfmon.textgraphics import compact_value
from perfmon.viewmodel import BaselineRun, Level, MetricLane, MonitorState

from ..render.chart import LABEL, Layers, chart_rows, is_line, resampled
from ..render.header_footer import key_row
from ..render.rows import Row, Words, moment_text, panel_row, styled
from ..theme import LEVEL_WORDS, ThemeStyles, level_style
from ..widgets.overlays import Overlay
from ..widgets.pane import Request

_FAR = 10
_TALL = 10
"""Rows from which on there is room for the meaning of the metric."""
_KEYS = (
    ("esc", "back"), ("[ ]", "other metrics"), ("c", "add"), ("t", "smooth"), ("b", "baseline"), ("← →", "cursor"),
    ("+ -", "time"),
)  # fmt: skip
_WINDOWS = (0, 9, 41)
"""Points over which the mean is drawn, by the key that smooths."""
_MOST_CHARTS, _LEAST_ROWS = 6, 4
"""Charts on a page, and rows of each but the last one."""


class ChartPage(Overlay):
    """One metric of the board, or several above each other, in as much room as there is.

    Posts `Request("view")` when it needs the courses of other metrics, `Request("baseline")` when it is to show a run
    behind this one and none is loaded.
    """

    DEFAULT_CSS = "ChartPage { height: 1fr; }"
    ALLOW_SELECT = False

    def __init__(
        self, skin: ThemeStyles, metric: str, picture: MonitorState, others: Sequence[str] = (),
        baseline: BaselineRun | None = None,
    ) -> None:  # fmt: skip
        super().__init__(skin, id="chart")
        self.metrics = [metric, *others][:_MOST_CHARTS]
        """From top to bottom; keys change the last one."""
        self.baseline = baseline
        self.behind = True
        """The baseline run is shown."""
        self.cursor: float | None = None
        """The moment that is read off, in seconds on the run's axis; it stays while time passes."""
        self._window = 0
        self._picture = picture

    @property
    def charted(self) -> tuple[tuple[str, ...], int]:
        """The metrics whose courses it shows, and in how many points."""
        return tuple(self.metrics), 2 * self._plot_width(self.size.width)

    @property
    def metric(self) -> str:
        """The one that keys change."""
        return self.metrics[-1]

    def on_mount(self) -> None:
        """Request the courses."""
        self.call_after_refresh(self.post_message, Request("view"))

    def show(self, picture: MonitorState) -> None:
        """Show a newer picture."""
        self._picture = picture
        self.redraw()

    def on_resize(self) -> None:
        """Other points."""
        super().on_resize()
        self.post_message(Request("view"))

    def _lane_of(self, metric: str) -> MetricLane | None:
        return next((lane for lane in self._picture.board.metrics if lane.name == metric), None)

    @property
    def lane(self) -> MetricLane | None:
        """The metric that keys change, as the board has it."""
        return self._lane_of(self.metric)

    # --- drawing ------------------------------------------------------------------------------------------------------
    def rows(self, width: int, height: int) -> Sequence[Row]:
        """Title, figures, charts, keys."""
        skin, lane = self.skin, self.lane
        rows = [self._head(lane, width)]
        foot = [self._foot(lane, width)] if height >= 6 else []
        room = height - len(rows) - len(foot)
        several = self.metrics[: max(1, room // (_LEAST_ROWS + 1))] if len(self.metrics) > 1 else []
        if len(several) > 1 and width >= 2 * LABEL:
            rows += self._charts(several, width, room)
        else:
            figures = self._figures(lane, width)
            rows += [styled(words, skin, "background") for words in figures[: 1 + (height >= 14)]]
            meaning = meaning_of(self.metric if lane is None else lane.metric)
            rows += [styled(((f" {meaning}", "text"),), skin, "background")] if meaning and height >= _TALL else []
            room = height - len(rows) - len(foot)
            if lane is not None and room >= 3 and width >= 2 * LABEL:
                rows += self._chart(lane, width, room)
        rows += [()] * (height - len(rows) - len(foot))
        return [*rows, *foot]

    def _charts(self, metrics: Sequence[str], width: int, room: int) -> list[Row]:
        """One below the other: a heading each, and the axis below the last one."""
        rows: list[Row] = []
        each = max(3, (room - len(metrics) - 2) // len(metrics))
        for at, name in enumerate(metrics):
            lane, last = self._lane_of(name), at == len(metrics) - 1
            rows.append(styled(self._heading(lane, name), self.skin, "background"))
            left = max(3, room - len(rows)) if last else each
            rows += self._chart(lane, width, left, axis_below=last) if lane is not None else [()] * left
        return rows[:room]

    def _heading(self, lane: MetricLane | None, name: str) -> Words:
        title = (f" {plain(name, 60)}", "title")
        if lane is None:
            return (title, (f"  {self.skin.glyph('unknown')} no data in this time range", "stale"))
        now = "" if lane.now is None else f"  {format_value(lane.now, lane.unit)} "
        parts = [(label, value) for label, value in (("p50", lane.p50), ("p95", lane.p95), ("max", lane.max))]
        figures = "  ".join(
            f"{label} {compact_value(value, lane.unit, 9)}" for label, value in parts if value is not None
        )
        judged = (self._judged(lane.now_level), level_style(lane.now_level))
        return (title, (now, "text"), judged, (f"  {figures}", "muted"))

    def _chart(self, lane: MetricLane, width: int, room: int, *, axis_below: bool = True) -> list[Row]:
        picture = self._picture
        port, column = picture.board.viewport, self._column(width)
        size, layers = (width, room), self._layers(lane, width)
        return chart_rows(
            lane, port, picture.time_base, picture.now, size, column, self.skin, layers, axis_below=axis_below
        )

    def _layers(self, lane: MetricLane, width: int) -> Layers:
        picture, count = self._picture, 2 * self._plot_width(width)
        behind: Sequence[float] = ()
        if self.baseline is not None and self.behind and picture.begin is not None:
            behind = self.baseline.course(lane.metric, picture.board.viewport, picture.begin, count)
        return Layers(picture.board.courses.get(lane.name), self._window, behind)

    def _head(self, lane: MetricLane | None, width: int) -> Row:
        skin = self.skin
        now: Words = ()
        if lane is not None and lane.now is not None:
            now = (
                (f" {format_value(lane.now, lane.unit)} ", "text"),
                (self._judged(lane.now_level), level_style(lane.now_level)),
            )
        names = self._names()
        place = f"{names.index(self.metric) + 1} of {len(names)} " if self.metric in names else ""
        if self._window:
            place = f"mean of {self._window // 2} columns  {place}"
        if self.baseline is not None and self.behind:
            place = f"{skin.glyph('dot')} behind: {plain(self.baseline.name, 30)}  {place}"
        left = ((f" chart {skin.glyph('next')} {self.metric} ", "title"), *now)
        return panel_row(left, ((place, "muted"),), width, skin)

    def _judged(self, level: Level) -> str:
        return f"{self.skin.mark(level)} {LEVEL_WORDS[level]} " if level is not Level.NONE else ""

    def _figures(self, lane: MetricLane | None, width: int) -> list[Words]:
        """Of the window that is judged, and where its limits come from; on one line where there is room."""
        if lane is None:
            return [((f" {self.skin.glyph('unknown')} no data in this time range", "stale"),)]
        snapshot = self._picture.snapshot
        stats = snapshot.metrics.get(lane.metric) if snapshot is not None else None
        if stats is None:
            return [((" no statistics: no data in the analysis window", "muted"),)]
        summary = stats.summary
        share = stats.band_shares.get("critical")
        parts = [counted(summary.count, "value")]
        parts += [
            f"{name} {compact_value(value, stats.unit, 9)}"
            for name, value in (("p50", summary.p50), ("p95", summary.p95), ("max", summary.max))
        ]
        parts += (
            [f"{self.skin.mark(Level.CRITICAL)} {format_share(share)}"]
            if share is not None and stats.critical is not None
            else []
        )
        figures: Words = ((" " + "  ".join(parts), "text"),)
        limits = self._limits(lane, stats.bands_from)
        whole = "of all queues " if lane.group else ""
        window = (f"   {whole}in the last {short_duration(self._picture.window_s)}", "muted")
        if width >= 130:
            return [(*figures, window, ("   ", "text"), *limits)]
        return [(*figures, window) if width >= 80 else figures, ((" ", "text"), *limits)]

    def _limits(self, lane: MetricLane, source: str) -> Words:
        if lane.critical is None and lane.good is None:
            return (("no thresholds for this metric", "muted"),)
        skin, word = self.skin, "below" if lane.lower_is_worse else "from"
        words: list[tuple[str, str]] = []
        for limit, level in ((lane.good, Level.WARNING), (lane.critical, Level.CRITICAL)):
            if limit is not None:
                words.append((f"{skin.mark(level)} {word} {format_value(limit, lane.unit)}  ", level_style(level)))
        return (*words, (f"(thresholds: {source})" if source else "", "muted"))

    def _foot(self, lane: MetricLane | None, width: int) -> Row:
        skin, column = self.skin, self._column(width)
        if lane is None or column is None:
            return key_row(_KEYS, (), width, skin)
        columns = resampled(lane, self._plot_width(width), self._span_s)
        value, level = columns.values[column], columns.levels[column]
        if is_line(lane) and isnan(value):
            value = self._mean_at(lane, column, width)
        text = "no data" if isnan(value) else f"{format_value(value, lane.unit)} {self._judged(level)}"
        words: Words = (
            (f" {self._moment()}  ", "title"),
            (f"{text}  ", "muted" if isnan(value) else level_style(level)),
        )
        return key_row(_KEYS, styled(words, skin, "panel"), width, skin)

    def _mean_at(self, lane: MetricLane, column: int, width: int) -> float:
        """The mean in a column of the finer course; NaN without one."""
        course = self._picture.board.courses.get(lane.name)
        if course is None or len(course.means) != 2 * self._plot_width(width):
            return nan
        known = [value for value in course.means[2 * column : 2 * column + 2] if not isnan(value)]
        return sum(known) / len(known) if known else nan

    def _moment(self) -> str:
        picture, at = self._picture, self.cursor or 0.0
        ago = f" ({format_seconds(max(0.0, picture.present - at))} ago)" if picture.time_base is TimeBase.WALL else ""
        return f"{moment_text(at, picture.time_base)}{ago}"

    # --- the cursor ---------------------------------------------------------------------------------------------------
    @staticmethod
    def _plot_width(width: int) -> int:
        return max(1, width - LABEL - 1)

    def _column(self, width: int) -> int | None:
        """The column of the chart that the cursor is on; None where it is out of sight."""
        port, count = self._picture.board.viewport, self._plot_width(width)
        if self.cursor is None or not port.start <= self.cursor < port.end:
            return None
        return min(count - 1, int((self.cursor - port.start) / (port.end - port.start) * count))

    @property
    def _span_s(self) -> float:
        port = self._picture.board.viewport
        return port.end - port.start

    def _step(self, by: int) -> None:
        """Move the cursor by columns; the first time, to the newest value."""
        lane, width = self.lane, self.size.width
        if lane is None:
            return
        count, at = self._plot_width(width), self._column(width)
        if at is None:
            known = [i for i, value in enumerate(resampled(lane, count, self._span_s).values) if not isnan(value)]
            at = (known[-1] if known else count - 1) - by // abs(by)
        self._point(min(count - 1, max(0, at + by)))

    def _point(self, column: int) -> None:
        port = self._picture.board.viewport
        self.cursor = port.start + (column + 0.5) * (port.end - port.start) / self._plot_width(self.size.width)
        self.redraw()

    do_cursor_left = partialmethod(_step, -1)
    do_cursor_right = partialmethod(_step, 1)
    do_cursor_left_far = partialmethod(_step, -_FAR)
    do_cursor_right_far = partialmethod(_step, _FAR)

    def on_click(self, event: Click) -> None:
        """Read off the column."""
        if LABEL < event.x < self.size.width:
            event.stop()
            self._point(event.x - LABEL - 1)

    # --- other metrics ------------------------------------------------------------------------------------------------
    def _names(self) -> list[str]:
        return [lane.name for lane in self._picture.board.metrics]

    def _turn(self, by: int) -> None:
        names = self._names()
        if names:
            at = names.index(self.metric) + by if self.metric in names else 0
            self.metrics[-1] = names[at % len(names)]
            self._changed()

    def _changed(self) -> None:
        self.redraw()
        self.post_message(Request("view"))

    def do_add_chart(self) -> None:
        """Show the next metric, too, below this one."""
        names = [name for name in self._names() if name not in self.metrics]
        if not names or len(self.metrics) >= _MOST_CHARTS:
            return
        every = self._names()
        after = every[every.index(self.metric) + 1 :] if self.metric in every else []
        self.metrics.append(next((name for name in after if name in names), names[0]))
        self._changed()

    def do_remove_chart(self) -> None:
        """Take the last of several metrics away."""
        if len(self.metrics) > 1:
            self.metrics.pop()
            self._changed()

    def do_smooth(self) -> None:
        """Draw the mean over more columns, or none."""
        self._window = _WINDOWS[(_WINDOWS.index(self._window) + 1) % len(_WINDOWS)]
        self.redraw()

    def do_baseline(self) -> None:
        """Show or hide the baseline run; request one where none is loaded."""
        if self.baseline is None:
            self.post_message(Request("baseline"))
        else:
            self.behind = not self.behind
            self.redraw()

    do_next_alert = do_next_pane = do_down = partialmethod(_turn, 1)
    do_previous_alert = do_previous_pane = do_up = partialmethod(_turn, -1)
