"""The HTML report of `perfmon nccl` in a real browser, without a network."""

from __future__ import annotations

import json
import re
import subprocess
from html import unescape
from pathlib import Path
from shutil import which

import pytest

from lab.nccl_logs import Faults, Plan, write
from perfmon.cli import main

BROWSER = which("chromium") or which("chromium-browser") or which("google-chrome")
pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(BROWSER is None, reason="needs Chromium (apt-get install chromium)"),
]
pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")


def browse(page: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Open a page in a headless browser that reaches no host."""
    assert BROWSER is not None
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}", "--virtual-time-budget=3000",
        "--enable-logging=stderr", "--window-size=1200,1600", *options, page.as_uri(),
    ]  # fmt: skip
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_the_report_works_offline(tmp_path: Path) -> None:
    write(tmp_path / "logs", Plan(nodes=2, gpus=4, steps=6, layers=2, faults=Faults(slow_rank=6)))
    assert main(["nccl", str(tmp_path / "logs"), "-o", str(tmp_path / "out")]) == 0
    page = tmp_path / "out" / "report.html"
    assert "http" not in re.sub(r"http-equiv", "", page.read_text())
    done = browse(page, tmp_path / "profile", "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr  # no script failed, nothing was refused
    shown = unescape(done.stdout)
    assert 'data-ready="yes"' in shown
    assert "rank 6 on node-" in shown
    points = re.search(r'<canvas id="plot" data-points="(\d+)"', shown) or re.search(r'data-points="(\d+)"', shown)
    assert points is not None
    assert int(points[1]) > 10
    assert len(re.findall(r"<option>", shown)) >= 3
    picture = tmp_path / "page.png"
    browse(page, tmp_path / "profile", f"--screenshot={picture}")
    assert picture.stat().st_size > 20_000


OPERATING = """
<script>
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
document.body.append(make("pre", JSON.stringify(done), "done"));
</script>
"""


def test_the_plot_and_the_tables_can_be_operated(tmp_path: Path) -> None:
    write(tmp_path / "logs", Plan(nodes=2, gpus=4, steps=6, layers=2, faults=Faults(slow_rank=6)))
    assert main(["nccl", str(tmp_path / "logs"), "-o", str(tmp_path / "out")]) == 0
    page = tmp_path / "out" / "report.html"
    page.write_text(page.read_text().replace("</body>", f"{OPERATING}</body>"))
    browsed = browse(page, tmp_path / "profile", "--dump-dom")
    assert "CONSOLE" not in browsed.stderr, browsed.stderr
    found = re.search(r'<pre class="done">(.+?)</pre>', browsed.stdout)
    assert found is not None
    done = json.loads(unescape(found[1]))
    assert 0 < done["zoomed"] < done["all"] == done["reset"]
    assert done["tip"].startswith("block ")
    assert "GB/s" in done["tip"]
    assert done["hidden"] == 0
    assert done["second"] > 0
    assert done["down"] == sorted(done["up"], reverse=True)
    assert done["up"] == sorted(done["up"])
    assert len(done["up"]) > 1
