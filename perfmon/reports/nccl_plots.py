"""PNG plots of NCCL Inspector logs, with the names of NVIDIA's exporter.

By default only those that matter are drawn: sizes that take at least a hundredth of the kernel time.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from perfmon.core import MissingExtraError
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

_DPI = 100
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
    """Draw into `folder/summary`; with `every` each size of each collective. Returns the files.

    Raises MissingExtraError without matplotlib, OSError when the folder cannot be written.
    """
    if find_spec("matplotlib") is None:
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


def _figure(width: float = 10.0, height: float = 6.0) -> Figure:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=_DPI)
    FigureCanvasAgg(figure)
    return figure


def _save(figure: Figure, file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, pil_kwargs=_PNG)
    return file


def _name(text: str) -> str:
    """Text that the built-in font can draw."""
    return "".join(c if c < "\u0250" else "?" for c in one_line(text, 60)).lstrip("_")


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
    figure = _figure()
    axes = figure.subplots()
    for stats, points_of in zip(sizes, series, strict=True):
        _draw(axes, stats, points_of)
    axes.set_xlabel("Operation Sequence Number")
    axes.set_ylabel("Mean Collective Bus BW (GB/s)")
    axes.set_title(f"Comm Type: {comm_type}, Coll Type: {_name(collective)}", parse_math=False)
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
    figure.suptitle(f"Comm Type: {comm_type}, Coll Type: {_name(collective)}")
    figure.subplots_adjust(wspace=0.3, hspace=0.35)
    return figure


def _distributions(connection: DuckDBPyConnection, stats: CollectiveStats, summary: Path) -> list[Path]:
    import numpy as np

    bandwidths = values(connection, (stats.comm_type, stats.collective, stats.size))
    if not len(bandwidths):
        return []
    folder = summary / size_folder(stats.size)
    name = f"{stats.comm_type}_{file_part(stats.collective)}_{stats.size}.png"
    kind = f"CommType: {stats.comm_type}, Coll Type: {_name(stats.collective)}, Msg Size: {decimal_size(stats.size)}"
    figure = _figure()
    axes = figure.subplots()
    bins = max(1, min(_BINS, round(len(bandwidths) ** 0.5) * 2))
    counts, edges = np.histogram(bandwidths, bins=bins)
    axes.stairs(counts, edges, fill=True, alpha=0.7, color="b", edgecolor="black", linewidth=1.0)
    axes.set_xlabel("Mean Collective Bus BW (GB/s)")
    axes.set_ylabel("Frequency")
    axes.set_title(f"Mean Collective Bus BW Histogram\n{kind}", parse_math=False)
    written = [_save(figure, folder / "histograms" / f"histogram_{name}")]
    figure = _figure()
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
