"""PNG plots: written where there is data, whatever the names are."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
import snapshots

from perfmon.core.model import TimeBase
from perfmon.pipeline.offline import diagnose_texts
from perfmon.reports import plots
from perfmon.reports.files import write_analysis

pytestmark = pytest.mark.skipif(not plots.available(), reason="needs matplotlib (pip install 'perfmon-tui[plots]')")

PNG = b"\x89PNG\r\n"


def test_three_pictures_are_written_and_shown_in_the_page(tmp_path: Path) -> None:
    made = write_analysis(snapshots.snapshot(), tmp_path, datetime.now().astimezone())
    page = (made / "SUMMARY.md").read_text()
    for name in ("lost_time.png", "timeline.png", "metrics.png"):
        assert (made / name).read_bytes().startswith(PNG)
        assert f"![{name}]({name})" in page


@pytest.mark.parametrize("words", [snapshots.HOSTILE, "$\\frac{$", "_", "日本語"])
def test_hostile_names_are_drawn_as_text(tmp_path: Path, words: str) -> None:
    assert len(plots.write_plots(snapshots.hostile(words), tmp_path)) == 2


def test_without_data_there_is_no_picture(tmp_path: Path) -> None:
    run = replace(snapshots.empty().run, time_base=TimeBase.NONE)
    assert plots.write_plots(snapshots.snapshot(run=run, ledger=(), metrics={}, timeline=()), tmp_path) == []


def test_samples_of_several_engines_are_no_zigzag() -> None:
    line = (
        "INFO 11-20 09:12:{:02d} [loggers.py:336] Engine 00{}: Avg prompt throughput: 1.0 tokens/s, "
        "Avg generation throughput: 1.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV cache usage: {}%"
    )
    logs = {
        engines: "\n".join(line.format(second, engine, 90 * engine) for second in range(50) for engine in engines)
        for engines in ((0,), (0, 1))
    }
    styles = {}
    for engines, log in logs.items():
        figure = plots._metrics_figure(diagnose_texts({"run.log": log}))
        assert figure is not None
        styles[engines] = figure.axes[0].lines[0].get_linestyle()
    assert styles == {(0,): "-", (0, 1): "None"}
