"""The HTML report of a run in a real browser, without a network: read, zoomed, filtered, sorted."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from browser import Page, needs_browser, opened
from snapshots import HOSTILE, hostile

from perfmon.cli import main
from perfmon.core.model import Block
from perfmon.demo.output import write_demo
from perfmon.recording.writer import RecordingWriter
from perfmon.reports.report_page import run_page

pytestmark = [pytest.mark.system, needs_browser]
MADE = datetime(2026, 8, 21, 9, 10, tzinfo=UTC)


def recorded(folder: Path, file: Path) -> None:
    """The logs of a folder as a recording."""
    with RecordingWriter(file, ["logs"]) as writer:
        for log in sorted(folder.glob("*.log")):
            data = log.read_bytes()
            writer.write(0.0, f"logs/{log.name}", Block(data, 0, 1))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a recorded run under cache pressure, with a healthy run as its baseline."""
    folder = tmp_path_factory.mktemp("report")
    write_demo(folder / "logs", "kv-cache-pressure", 0, 10)
    write_demo(folder / "good", "healthy", 0, 10)
    recorded(folder / "logs", folder / "run.pmrec")
    arguments = [
        "report",
        str(folder / "run.pmrec"),
        "--baseline",
        str(folder / "good"),
        "-o",
        str(folder / "run.html"),
    ]
    assert main(arguments) == 0
    return folder / "run.html"


@pytest.fixture
def page(written: Path, tmp_path: Path) -> Iterator[Page]:
    """The report, open; nothing failed, nothing was refused and nothing but the file was loaded at the end."""
    with opened(written, tmp_path / "profile") as shown:
        assert shown.value("document.body.dataset.ready") == "yes"
        yield shown
        assert shown.messages == []
        assert shown.requests == [written.as_uri()]


def view(page: Page) -> tuple[float, float]:
    """The part of the axis that is shown, in seconds since the start."""
    begin, end = page.value("[Number(document.body.dataset.from), Number(document.body.dataset.to)]")
    return begin, end


def texts(page: Page, selector: str) -> list[str]:
    """The texts of all elements that a selector finds."""
    found: list[str] = page.value(f"[...document.querySelectorAll({selector!r})].map(e => e.innerText)")
    return found


def test_the_report_answers_what_why_where_and_what_to_do(page: Page) -> None:
    text: str = page.value("document.body.innerText")
    assert "CRITICAL KV cache pressure" in text
    assert "--max-num-seqs" in texts(page, "#verdict ol")[0]
    assert any(line.startswith("inference.log:") for text in texts(page, "pre") for line in text.splitlines())
    assert texts(page, "#ledger tbody tr")[0].startswith("productive")  # it never had room: no cost is known
    assert {"progress", "time per step", "loss"} <= {tile.splitlines()[0] for tile in texts(page, ".tile")}
    assert page.value("Number(document.getElementById('lanes').dataset.bars)") > 50
    assert page.value("document.querySelectorAll('#charts .chart canvas').length") == 8


def test_dragging_zooms_all_charts_and_a_double_click_shows_the_whole_run(page: Page) -> None:
    whole, bars = view(page), page.value("Number(document.getElementById('lanes').dataset.bars)")
    page.drag("#charts .chart .u-over", 0.25, 0.5)
    page.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    begin, end = view(page)
    length = whole[1] - whole[0]
    assert begin == pytest.approx(whole[0] + 0.25 * length, abs=0.01 * length)
    assert end == pytest.approx(whole[0] + 0.5 * length, abs=0.01 * length)
    assert 0 < page.value("Number(document.getElementById('lanes').dataset.bars)") < bars
    shown = page.value("[...plots].map(p => [p.scales.x.min, p.scales.x.max])")
    assert all(range_ == pytest.approx([begin, end]) for range_ in shown)
    left, top, width, height = page.place("#lanes .u-over")
    for clicks in (1, 2):
        page.mouse("mousePressed", left + width / 2, top + height / 2, button="left", clicks=clicks)
        page.mouse("mouseReleased", left + width / 2, top + height / 2, button="left", clicks=clicks)
    assert view(page) == pytest.approx(whole)


def test_buttons_and_findings_move_the_timeline(page: Page) -> None:
    whole = view(page)
    page.click("#zoom-in")
    begin, end = view(page)
    assert end - begin == pytest.approx((whole[1] - whole[0]) / 2)
    page.click("#later")
    assert view(page)[0] > begin
    page.click("#zoom-all")
    assert view(page) == pytest.approx(whole)
    page.click("#finding-0 button")
    assert view(page)[0] > -20
    assert view(page) != pytest.approx(whole)


def test_a_bar_names_what_it_is(page: Page) -> None:
    left, top, width, height = page.place("#lanes .u-over")
    rows = page.value("lanes.length")
    page.mouse("mouseMoved", left + width * 0.5, top + height * 2.5 / rows)
    assert "generation-batch" in page.value("tip.textContent")
    assert page.value("tip.style.display") == "block"


def test_metrics_can_be_filtered_and_sorted(page: Page) -> None:
    page.click("#more")
    everything = texts(page, "#charts h3")
    assert len(everything) > 20
    page.click("#filter")
    page.value("document.getElementById('filter').value = 'step_s', document.getElementById('filter').oninput()")
    assert texts(page, "#charts h3") == [name for name in everything if "step_s" in name]
    page.click("#metrics th:nth-child(3)")
    counts = [int(text.replace(",", "")) for text in texts(page, "#metrics tbody td:nth-child(3)")]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) > 3


def test_a_baseline_run_is_compared_and_drawn(page: Page) -> None:
    assert "KV cache pressure is new" in texts(page, "#change")[0]
    changed = {row.split("\t")[0]: row.split("\t")[1] for row in texts(page, "#changes tbody tr")}
    assert changed["kv_usage"] == "worse"
    names = page.value("[...plots].map(p => p.series.map(s => s.label))")
    assert ["time", "this run", "baseline"] in names


def test_text_of_logs_is_shown_and_never_run(tmp_path: Path) -> None:
    evil: Any = hostile()
    file = tmp_path / "hostile.html"
    file.write_text(run_page(evil, MADE), encoding="utf-8")
    with opened(file, tmp_path / "profile") as page:
        assert page.value("document.body.dataset.ready") == "yes"
        assert "<script>alert(1)</script>" in HOSTILE
        assert "<script>alert(1)</script>" in page.value("document.body.innerText")
        assert page.value("document.querySelectorAll('a, img, iframe, form').length") == 0
        assert page.messages == []
        assert page.requests == [file.as_uri()]
        page.value("document.body.append(Object.assign(document.createElement('script'), {text: 'window.ran = 1'}))")
        page.value("document.body.append(Object.assign(new Image(), {src: 'http://127.0.0.1/x.png'}))")
        assert page.value("window.ran === undefined") is True
        assert len(page.messages) == 2
        assert all("Content Security Policy" in message for message in page.messages)
