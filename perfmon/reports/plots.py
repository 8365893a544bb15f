"""PNG plots: of an analysis (metrics with thresholds, timeline, time breakdown), and of NCCL Inspector logs.

Figures are drawn without pyplot, so nothing global changes in a program that embeds this.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from perfmon.core import REST, MissingExtraError, format_share
from perfmon.diagnosis import Diagnosis, MetricStats, TimelineRow
from perfmon.nccl import (
    P2P,
    SINGLE,
    CollectiveStats,
    JobAnalysis,
    decimal_size,
    file_part,
    important_sizes,
    points,
    size_folder,
    values,
)

from .layout import one_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def available() -> bool:
    """Return true if matplotlib is installed."""
    return find_spec("matplotlib") is not None


def _figure(width: float, height: float, layout: Literal["constrained"] | None = None) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def _label(text: str, limit: int = 60) -> str:
    """Text that the built-in font can draw; missing glyphs and leading underscores bring warnings."""
    return "".join(c if c < "\u0250" or c in "–…←≥≤" else "?" for c in one_line(text, limit)).lstrip("_")


# --- Plots of an analysis ---

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


def _metrics_figure(snapshot: Diagnosis) -> Figure | None:
    drawn = [metric for metric in snapshot.metrics.values() if metric.series]
    drawn = ([metric for metric in drawn if metric.band is not None] or drawn)[:_SHOWN_METRICS]
    if not drawn:
        return None
    figure = _figure(11.0, 0.6 + 1.5 * len(drawn), "constrained")
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
    figure = _figure(11.0, 3.2, "constrained")
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
    figure = _figure(11.0, 1.9, "constrained")
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


# --- Plots of NCCL Inspector logs ---

_POINTS = 2000
_MOST_SIZES = 6
_LEGEND = 16
_PANELS = 48
_COLUMNS = 3
_BINS = 50
_OUTLIERS = 1000
_PNG = {"compress_level": 1}
"""Compressing well takes longer than drawing."""


def write_nccl_plots(connection: DuckDBPyConnection, found: JobAnalysis, folder: Path, *, every: bool) -> list[Path]:
    """Draw into `folder/summary` the sizes that take a hundredth of the kernel time, with `every` each size.

    Names are those of NVIDIA's exporter; returns the files.

    Raises MissingExtraError without matplotlib, OSError when the folder cannot be written.
    """
    if not available():
        raise MissingExtraError("drawing plots", "plots")
    drawn = [stats for stats in found.by if stats.collective not in P2P]
    chosen = drawn if every else important_sizes(found.by, _MOST_SIZES)
    if not chosen:  # a job of single ranks, or of one size that is small: then there is little to draw anyway
        chosen = [stats for stats in drawn if stats.comm_type != SINGLE][:1]
    known = points(connection, [(stats.comm_type, stats.collective, stats.size) for stats in chosen], _POINTS)
    summary = folder / "summary"
    summary.mkdir(parents=True, exist_ok=True)
    written = []
    for comm_type, collective in dict.fromkeys((stats.comm_type, stats.collective) for stats in chosen):
        mine = sorted(
            (stats for stats in chosen if (stats.comm_type, stats.collective) == (comm_type, collective)),
            key=lambda stats: stats.size,
        )
        series = [known.get((comm_type, collective, stats.size), []) for stats in mine]
        name = f"{comm_type}_{file_part(collective)}.png"
        written.append(_save(_scatter(comm_type, collective, mine, series), summary / f"scatter_plot_{name}"))
        if len(mine) > 1 or every:
            combined = _combined(comm_type, collective, mine[:_PANELS], series)
            written.append(_save(combined, summary / f"combined_scatter_plot_{name}"))
    for stats in chosen:
        written += _distributions(connection, stats, summary)
    return written


def _save(figure: Figure, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, pil_kwargs=_PNG)
    return file


def _draw(axes: Axes, stats: CollectiveStats, series: Sequence[tuple[int, float]]) -> None:
    axes.plot(
        [sn for sn, _ in series],
        [busbw for _, busbw in series],
        linestyle="",
        marker="o",
        markersize=5,
        markeredgewidth=0,
        alpha=0.5,
        label=f"MsgSize: {decimal_size(stats.size)} (Mean: {stats.busbw_mean:.2f} GB/s)",
    )


def _scatter(
    comm_type: str, collective: str, sizes: Sequence[CollectiveStats], series: Sequence[Sequence[tuple[int, float]]]
) -> Figure:
    figure = _figure(10.0, 6.0)
    axes = figure.subplots()
    for stats, points_of in zip(sizes, series, strict=True):
        _draw(axes, stats, points_of)
    axes.set_xlabel("Operation Sequence Number")
    axes.set_ylabel("Mean Collective Bus BW (GB/s)")
    axes.set_title(f"Comm Type: {comm_type}, Coll Type: {_label(collective)}", parse_math=False)
    handles, labels = axes.get_legend_handles_labels()
    more = f" ({len(labels) - _LEGEND} more)" if len(labels) > _LEGEND else ""
    axes.legend(handles[:_LEGEND], labels[:_LEGEND], title=f"Message Size{more}", loc="upper right", fontsize=8)
    return figure


def _combined(
    comm_type: str, collective: str, sizes: Sequence[CollectiveStats], series: Sequence[Sequence[tuple[int, float]]]
) -> Figure:
    columns = min(_COLUMNS, len(sizes))
    rows = -(-len(sizes) // columns)
    figure = _figure(5.0 * columns, 5.0 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).flatten().tolist()
    for axes, stats, points_of in zip(panels, sizes, series, strict=False):
        _draw(axes, stats, points_of)
        axes.set_xlabel("Op Seq No")
        axes.set_ylabel("Mean Collective Bus BW (GB/s)")
        axes.set_title(f"Message Size: {decimal_size(stats.size)}({stats.size})")
        axes.legend(loc="upper right", fontsize=8)
    for axes in panels[len(sizes) :]:
        axes.set_visible(False)
    figure.suptitle(f"Comm Type: {comm_type}, Coll Type: {_label(collective)}")
    figure.subplots_adjust(wspace=0.3, hspace=0.35)
    return figure


def _distributions(connection: DuckDBPyConnection, stats: CollectiveStats, summary: Path) -> list[Path]:
    import numpy as np

    bandwidths = values(connection, (stats.comm_type, stats.collective, stats.size))
    if not len(bandwidths):
        return []
    folder = summary / size_folder(stats.size)
    name = f"{stats.comm_type}_{file_part(stats.collective)}_{stats.size}.png"
    kind = f"CommType: {stats.comm_type}, Coll Type: {_label(stats.collective)}, Msg Size: {decimal_size(stats.size)}"
    figure = _figure(10.0, 6.0)
    axes = figure.subplots()
    bins = max(1, min(_BINS, round(len(bandwidths) ** 0.5) * 2))
    counts, edges = np.histogram(bandwidths, bins=bins)
    axes.stairs(counts, edges, fill=True, alpha=0.7, color="b", edgecolor="black", linewidth=1.0)
    axes.set_xlabel("Mean Collective Bus BW (GB/s)")
    axes.set_ylabel("Frequency")
    axes.set_title(f"Mean Collective Bus BW Histogram\n{kind}", parse_math=False)
    written = [_save(figure, folder / "histograms" / f"histogram_{name}")]
    figure = _figure(10.0, 6.0)
    axes = figure.subplots()
    low, middle, high = np.quantile(bandwidths, (0.25, 0.5, 0.75))
    inside = bandwidths[(bandwidths >= low - 1.5 * (high - low)) & (bandwidths <= high + 1.5 * (high - low))]
    outside = np.concatenate((bandwidths[bandwidths < inside[0]], bandwidths[bandwidths > inside[-1]]))
    box = {
        "med": middle,
        "q1": low,
        "q3": high,
        "whislo": inside[0],
        "whishi": inside[-1],
        "fliers": outside[np.linspace(0, len(outside) - 1, min(len(outside), _OUTLIERS), dtype=int)],
    }
    axes.bxp(
        [box],
        orientation="horizontal",
        patch_artist=True,
        boxprops={"facecolor": "#9db8dd", "linewidth": 2},
        flierprops={"marker": "o", "markersize": 4, "markerfacecolor": "red", "alpha": 0.5},
        medianprops={"linewidth": 2.5, "color": "orange"},
        whiskerprops={"linestyle": "--", "linewidth": 2, "color": "green"},
    )
    marks = (("Min", bandwidths[0]), ("Median", middle), ("Max", bandwidths[-1]))
    for at, (label, value) in enumerate(marks):
        axes.annotate(
            f"{label}: {value:.2f}", xy=(value, 1), xytext=(value, 1.15 + 0.06 * at), arrowprops={"arrowstyle": "->"}
        )
    axes.set_xlabel("Mean Coll Bus BW (GB/s)")
    axes.set_title(f"Box Plot of Coll Bus BW\n{kind}", parse_math=False)
    written.append(_save(figure, folder / "boxplots" / f"boxplot_{name}"))
    return written
