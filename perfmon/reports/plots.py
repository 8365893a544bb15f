"""PNG plots of an analysis: the metrics that have bands over time, the timeline in lanes, the ledger as one bar.

Figures are drawn without pyplot, so nothing global changes in a program that embeds this.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import REST, format_share
from perfmon.diagnosis import Diagnosis, MetricStats, TimelineRow

from .layout import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SHOWN_METRICS = 12
_SHOWN_ROWS = 5000
_GOOD, _WARNING, _CRITICAL, _INK = "#2e8b57", "#d9920a", "#c0392b", "#33507a"
_CAUSES = ("#c0392b", "#d9920a", "#8e44ad", "#2471a3", "#b9770e", "#7b241c", "#1f618d", "#6c3483")
_LANES = (
    ("weight updates: queue", ("weight-update",)),
    ("weight updates: rpc", ("weight-update",)),
    ("checkpoints", ("checkpoint-write", "checkpoint-wait")),
    ("generation", ("generation-batch",)),
)


def available() -> bool:
    """Return true if matplotlib is installed."""
    return find_spec("matplotlib") is not None


def write_plots(snapshot: Diagnosis, folder: Path) -> list[Path]:
    """Writes what there is data for: `lost_time.png`, `timeline.png`, `metrics.png`. Raises OSError."""
    figures = {
        "lost_time.png": _ledger_figure(snapshot),
        "timeline.png": _timeline_figure(snapshot),
        "metrics.png": _metrics_figure(snapshot),
    }
    written = []
    for name, figure in figures.items():
        if figure is not None:
            figure.savefig(folder / name, dpi=110)
            written.append(folder / name)
    return written


def _figure(height: float) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.0, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _label(text: str, limit: int = 60) -> str:
    """Text that the built-in font can draw; missing glyphs and leading underscores bring warnings."""
    return "".join(c if c < "\u0250" or c in "–…←≥≤" else "?" for c in one_line(text, limit)).lstrip("_")


def _metrics_figure(snapshot: Diagnosis) -> Figure | None:
    drawn = [metric for metric in snapshot.metrics.values() if metric.series]
    drawn = ([metric for metric in drawn if metric.band is not None] or drawn)[:_SHOWN_METRICS]
    if not drawn:
        return None
    figure = _figure(0.6 + 1.5 * len(drawn))
    panels = figure.subplots(len(drawn), 1, sharex=True, squeeze=False)[:, 0]
    for axes, metric in zip(panels, drawn, strict=True):
        _draw_metric(axes, metric)
    panels[-1].set_xlabel("time since the start of the run [s]")
    return figure


def _draw_metric(axes: Axes, metric: MetricStats) -> None:
    marker = "." if len(metric.series) <= 200 or metric.of_several else ""
    times, values = [time for time, _ in metric.series], [value for _, value in metric.series]
    line = "" if metric.of_several else "-"
    axes.plot(times, values, color=_INK, linewidth=0.9, linestyle=line, markersize=4, marker=marker)
    for limit, colour in ((metric.good, _WARNING), (metric.critical, _CRITICAL)):
        if limit is not None:
            axes.axhline(limit, color=colour, linewidth=0.8, linestyle="--")
    unit = f" [{metric.unit}]" if metric.unit else ""
    axes.set_title(_label(metric.name + unit), loc="left", fontsize=9, parse_math=False)
    axes.grid(alpha=0.2)


def _timeline_figure(snapshot: Diagnosis) -> Figure | None:
    rows = [row for row in snapshot.timeline if row.end_s >= row.start_s][:_SHOWN_ROWS]
    lanes = [_lane(rows, at) for at in range(len(_LANES))]
    if not any(lanes):
        return None
    figure = _figure(3.2)
    axes = figure.subplots()
    colours = (_CRITICAL, _INK, _WARNING, _GOOD)
    for at, bars in enumerate(lanes):
        axes.broken_barh(bars, (at - 0.35, 0.7), facecolors=colours[at], alpha=0.75)
    axes.set_yticks(range(len(_LANES)), [name for name, _ in _LANES])
    axes.invert_yaxis()
    axes.set_xlabel("time since the start of the run [s]")
    axes.grid(axis="x", alpha=0.2)
    return figure


def _lane(rows: Sequence[TimelineRow], at: int) -> list[tuple[float, float]]:
    """(start, width) of the bars of lane `at`; an update without a known queue is all rpc."""
    bars = []
    for row in rows:
        if row.kind not in _LANES[at][1]:
            continue
        queue = row.fields.get("queue_ms", 0.0)
        split = min(row.end_s, row.start_s + max(0.0, queue if isinstance(queue, float | int) else 0.0) / 1000.0)
        start = split if at == 1 else row.start_s
        end = split if at == 0 else row.end_s
        bars.append((start, end - start))
    return bars


def _ledger_figure(snapshot: Diagnosis) -> Figure | None:
    entries = [entry for entry in snapshot.ledger if entry.share > 0]
    if not entries:
        return None
    figure = _figure(1.9)
    axes = figure.subplots()
    left, causes = 0.0, iter(_CAUSES * len(entries))
    for entry in entries:
        colour = {"productive": _GOOD, **dict.fromkeys(REST[1:], "#b0b7bd")}.get(entry.cause) or next(causes)
        name = f"{_label(entry.cause, 40)} {format_share(entry.share)}"
        axes.barh(
            0, 100 * entry.share, left=100 * left, color=colour, label=name, hatch="" if entry.cause in REST else "//"
        )
        left += entry.share
    axes.set_yticks([])
    axes.set_xlim(0, 100 * max(left, 1e-9))
    axes.set_xlabel("% of the observed time")
    handles, labels = axes.get_legend_handles_labels()
    for text in figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False).get_texts():
        text.set_parse_math(False)
    return figure
