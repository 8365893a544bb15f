"""One metric as a large chart, live, with the figures of the window that is judged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partialmethod
from math import isnan

from textual.events import Click

from perfmon.core import TimeBase, counted, format_seconds, format_share, format_value
from perfmon.sources.formats import meaning_of
from perfmon.textgraphics import compact_value
from perfmon.viewmodel import Level, MetricLane, MonitorState

from ..render.chart import LABEL, chart_rows, resampled
from ..render.header_footer import key_row
from ..render.rows import Row, Words, moment_text, panel_row, short_duration, styled
from ..theme import LEVEL_WORDS, ThemeStyles, level_style
from ..widgets.overlays import Overlay

_FAR = 10
_TALL = 10
"""Rows from which on there is room for the meaning of the metric."""
_KEYS = (("esc", "back"), ("[ ]", "other metrics"), ("← →", "cursor"), ("+ -", "time"))


class ChartPage(Overlay):
    """A metric of the board, in as much room as there is."""

    DEFAULT_CSS = "ChartPage { height: 1fr; }"
    ALLOW_SELECT = False

    def __init__(self, skin: ThemeStyles, metric: str, picture: MonitorState) -> None:
        super().__init__(skin, id="chart")
        self.metric = metric
        self.cursor: float | None = None
        """The moment that is read off, in seconds on the run's axis; it stays while time passes."""
        self._picture = picture

    def show(self, picture: MonitorState) -> None:
        """Show a newer picture."""
        self._picture = picture
        self.redraw()

    @property
    def lane(self) -> MetricLane | None:
        """The metric as the board has it."""
        return next((lane for lane in self._picture.board.metrics if lane.name == self.metric), None)

    # --- drawing ------------------------------------------------------------------------------------------------------
    def rows(self, width: int, height: int) -> Sequence[Row]:
        """Title, figures, chart, keys."""
        skin, lane = self.skin, self.lane
        rows = [self._head(lane, width)]
        figures = self._figures(lane, width)
        rows += [styled(words, skin, "background") for words in figures[: 1 + (height >= 14)]]
        meaning = meaning_of(self.metric)
        rows += [styled(((f" {meaning}", "text"),), skin, "background")] if meaning and height >= _TALL else []
        foot = [self._foot(lane, width)] if height >= 6 else []
        room = height - len(rows) - len(foot)
        if lane is not None and room >= 3 and width >= 2 * LABEL:
            picture = self._picture
            port, column = picture.board.viewport, self._column(width)
            rows += chart_rows(lane, port, picture.time_base, picture.now, (width, room), column, skin)
        rows += [()] * (height - len(rows) - len(foot))
        return [*rows, *foot]

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
        columns = resampled(lane, self._plot_width(width))
        value, level = columns.values[column], columns.levels[column]
        text = "no data" if isnan(value) else f"{format_value(value, lane.unit)} {self._judged(level)}"
        words: Words = (
            (f" {self._moment()}  ", "title"),
            (f"{text}  ", "muted" if isnan(value) else level_style(level)),
        )
        return key_row(_KEYS, styled(words, skin, "panel"), width, skin)

    def _moment(self) -> str:
        picture, at = self._picture, self.cursor or 0.0
        ago = f" ({format_seconds(max(0.0, picture.now - at))} ago)" if picture.time_base is TimeBase.WALL else ""
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

    def _step(self, by: int) -> None:
        """Move the cursor by columns; the first time, to the newest value."""
        lane, width = self.lane, self.size.width
        if lane is None:
            return
        count, at = self._plot_width(width), self._column(width)
        if at is None:
            known = [i for i, value in enumerate(resampled(lane, count).values) if not isnan(value)]
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
            self.metric = names[at % len(names)]
            self.redraw()

    do_next_alert = do_next_pane = do_down = partialmethod(_turn, 1)
    do_previous_alert = do_previous_pane = do_up = partialmethod(_turn, -1)
