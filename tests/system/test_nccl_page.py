"""The HTML report of `perfmon nccl` in a real browser, without a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from browser import needs_browser, opened

from lab.nccl_logs import Faults, Plan, write
from perfmon.cli import main

pytestmark = [pytest.mark.system, needs_browser]
pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")

OPERATING = """
(() => {
const done = {}, points = () => Number(canvas.dataset.points);
const send = (who, kind, x, y) => {
  const r = canvas.getBoundingClientRect(), at = { clientX: r.left + x, clientY: r.top + y, bubbles: true };
  who.dispatchEvent(new MouseEvent(kind, at));
};
done.all = points();
send(canvas, "mousedown", 300, 20); send(canvas, "mousemove", 120, 300); send(window, "mouseup", 120, 300);
done.zoomed = points();
send(canvas, "dblclick", 200, 100); done.reset = points();
const first = shown[0].points[0], s = scale();
send(canvas, "mousemove", s.X(first[0]), s.Y(first[1])); done.tip = tip.style.display + " " + tip.textContent;
el("sizes").querySelectorAll("input").forEach(box => box.click()); done.hidden = points();
el("kind").selectedIndex = 1; el("kind").dispatchEvent(new Event("change")); done.second = points();
const heading = [...document.querySelectorAll("#ranks th")].find(th => th.textContent === "rank");
const ranks = () => [...document.querySelectorAll("#ranks tbody tr")].map(tr => Number(tr.firstChild.textContent));
heading.click(); done.down = ranks(); heading.click(); done.up = ranks();
return JSON.stringify(done);
})()
"""


def report(folder: Path) -> Path:
    """The page about a job with a slow rank."""
    write(folder / "logs", Plan(nodes=2, gpus=4, steps=6, layers=2, faults=Faults(slow_rank=6)))
    assert main(["nccl", str(folder / "logs"), "-o", str(folder / "out")]) == 0
    return folder / "out" / "report.html"


def test_the_report_can_be_read_and_operated_offline(tmp_path: Path) -> None:
    file = report(tmp_path)
    with opened(file, tmp_path / "profile") as page:
        assert page.value("document.body.dataset.ready") == "yes"
        assert "rank 6 on node-" in page.value("document.body.innerText")
        assert page.value("document.querySelectorAll('option').length") >= 3
        assert page.value("Number(canvas.dataset.points)") > 10
        done = json.loads(page.value(OPERATING))
        assert page.messages == []  # no script failed, nothing was refused
        assert page.requests == [file.as_uri()]
    assert 0 < done["zoomed"] < done["all"] == done["reset"]
    assert done["tip"].startswith("block ")
    assert "GB/s" in done["tip"]
    assert done["hidden"] == 0
    assert done["second"] > 0
    assert done["down"] == sorted(done["up"], reverse=True)
    assert done["up"] == sorted(done["up"])
    assert len(done["up"]) > 1
