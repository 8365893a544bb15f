"""The pane of sources, and the doctor: how fresh each log is, how well it is understood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hosts import PLAIN, SIZES, SKIN, Host, page_of, paged, screen_text
from pictures import picture, source
from rich.cells import cell_len
from snapshots import HOSTILE

from perfmon.textgraphics.cells import ASCII
from perfmon.tui.panes.lists import SourcesPane
from perfmon.tui.render.hosts.sections import summary_of
from perfmon.tui.render.logs import common_ending, source_row
from perfmon.tui.screens.pages import DoctorPage
from perfmon.tui.theme import ThemeStyles
from perfmon.tui.widgets.overlays import PageScreen
from perfmon.viewmodel import Freshness, MonitorState, SourceStatus, levels_text

LOGS = (
    source(patterns={"trace/weights": 75, "trace/gen": 45}),
    source(index=1, name="a/very/long/folder/of/the/run/inference.log", freshness=Freshness.STALE, age_s=314.0),
    source(index=2, name="trainer.log", freshness=Freshness.LAGGING, age_s=4.2, errors=2, notes=("rotated", "cut off")),
    source(index=3, name="new.log", freshness=Freshness.WAITING, age_s=None, events=0, lines=7, last=None,
           format="unknown", unparsed=("what is this", "and this"), offset_s=None),
    source(index=4, name="old.log", freshness=Freshness.ENDED),
)  # fmt: skip
BAD = tuple(
    replace(log, name=HOSTILE, format=HOSTILE, notes=(HOSTILE,), unparsed=(HOSTILE,), patterns={HOSTILE: 3}, errors=3)
    for log in LOGS
)
SKINS = [SKIN, PLAIN, ThemeStyles(SKIN.theme, glyphs=ASCII)]


def pane(sources: tuple[SourceStatus, ...], skin: ThemeStyles = SKIN) -> Host:
    def make() -> SourcesPane:
        made = SourcesPane(skin)
        made.show(picture(sources=sources))
        return made

    return Host(make)


def doctor(sources: tuple[SourceStatus, ...], skin: ThemeStyles = SKIN, about: SourceStatus | None = None) -> Host:
    return Host(lambda: PageScreen(DoctorPage(skin, picture(sources=sources), about)))


@pytest.mark.parametrize("size", [*SIZES, (50, 6), (30, 4)])
async def test_each_log_has_a_row_that_says_how_fresh_it_is(size: tuple[int, int]) -> None:
    app = pane(LOGS)
    async with app.run_test(size=size):
        lines = screen_text(app)
    assert {cell_len(line) for line in lines} == {size[0]}
    assert size[0] < 44 or "5 logs · 1 lagging" in lines[0]
    for mark, name, line in zip(
        "✓?~…", ("orchestrator.log", "inference.log", "trainer.log", "new.log"), lines[1:5], strict=False
    ):
        assert line.startswith(f" {mark} ")
        assert name in line or name[-6:] in line or name.removesuffix(".log")[-6:] in line
    assert " 5m14s" in lines[2]
    assert size[0] < 44 or "lagging" in lines[3]
    assert size[0] < 72 or "2 lost" in lines[3]


async def test_opening_one_asks_for_the_doctor() -> None:
    app = pane(LOGS)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "enter")
        await pilot.click(offset=(5, 3), times=2)
        await pilot.pause()
    assert app.requests == [("doctor", LOGS[1]), ("doctor", LOGS[2])]


async def test_no_logs_are_told_too() -> None:
    app = pane(())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        assert "no logs yet" in screen_text(app)[1]


async def test_the_doctor_tells_what_was_understood() -> None:
    app = doctor(LOGS)
    async with app.run_test(size=(120, 50)):
        text = "\n".join(screen_text(app))
    for words in (
        "── orchestrator.log  fresh ──",
        "trace+prime-rl; 120 of 1000 lines recognised (12 %)",
        "75 ████████████ trace/weights",
        "last timestamp 09:50:33; +2 ms against the client's clock",
        "! rotated",
        "2 errors, 2 lines with implausible values",
        "unknown; 0 of 7 lines recognised (0 %) - see `perfmon analyze LOG --explain-formats`",
        "no timestamp yet",
        "? what is this",
    ):
        assert words in text, words


@pytest.mark.parametrize("size", SIZES)
async def test_the_doctor_scrolls_and_begins_at_the_log_that_was_asked_for(size: tuple[int, int]) -> None:
    app = doctor(LOGS * 3, about=LOGS[3])
    async with app.run_test(size=size) as pilot:
        assert "new.log" in screen_text(app)[1]
        await pilot.press("end")
        assert "doctor" in screen_text(app)[0]
        await pilot.press("home", "down")
        assert "recognised" in screen_text(app)[1]
        await pilot.press("escape")
        assert page_of(app) is None


async def test_the_doctor_follows_what_is_read() -> None:
    app = doctor(LOGS)
    async with app.run_test(size=(80, 24)) as pilot:
        later: MonitorState = picture(number=2, sources=(source(events=500, lines=1234),))
        assert isinstance(app.screen, PageScreen)
        app.screen.show(later)
        await pilot.pause()
        assert "500 of 1234 lines recognised (41 %)" in "\n".join(screen_text(app))


@pytest.mark.parametrize("size", [*SIZES, (20, 20), (9, 3)])
@pytest.mark.parametrize("skin", SKINS, ids=["colours", "plain", "ascii"])
@pytest.mark.parametrize("make", [pane, doctor])
async def test_hostile_text_stays_text(make: Callable[..., Host], size: tuple[int, int], skin: ThemeStyles) -> None:
    app = make(BAD[:2], skin)
    async with app.run_test(size=size) as pilot:
        text = "".join(await paged(app, pilot))
    assert not set(text) & set("\x1b\x07\n\r\u202e\x00")


@pytest.mark.parametrize(
    ("names", "folder"),
    [
        (["/run/logs/a.log", "/run/logs/b.log"], "/run/logs/"),
        (["/run/logs/a.log", "/run/logs/x/b.log"], "/run/logs/"),
        (["/run/logs/a.log"], ""),
        (["a.log", "/run/b.log"], ""),
        (["/a/x.log", "/b/x.log"], "/"),
        ([], ""),
    ],
)
def test_the_folder_of_all_logs_is_not_repeated(names: list[str], folder: str) -> None:
    logs = tuple(source(name=name) for name in names)
    assert picture(sources=logs).folder == folder


def test_narrow_names_keep_both_ends() -> None:
    named = source(name="runs/inference-server-of-node-17.log")
    row = "".join(text for text, _ in source_row(named, SKIN, 30, "runs/", ".log"))
    assert cell_len(row) == 30
    assert "infer" in row
    assert "ode-17" in row
    assert common_ending(["a.log", "b.log"]) == ".log"
    assert common_ending(["a.log", "b.txt"]) == common_ending(["a.log"]) == ""


async def test_the_doctor_names_the_command_for_a_log_that_is_not_understood() -> None:
    app = doctor((source(name="my run.log", lines=900, events=3), source(name="known.log", lines=900, events=800)))
    async with app.run_test(size=(120, 50)):
        text = "\n".join(screen_text(app))
    assert "`perfmon formats learn 'my run.log'` or :learn" in text
    assert "learn known.log" not in text


@pytest.mark.parametrize(
    ("changes", "room", "shown"),
    [
        ({}, 30, ""),
        ({"error_lines": 1}, 30, "1 error"),
        ({"error_lines": 12, "warning_lines": 30}, 30, "12 errors, 30 warnings"),
        ({"error_lines": 12, "warning_lines": 30}, 15, "12 err 30 warn"),
        ({"error_lines": 12, "warning_lines": 30}, 9, "12 err"),
        ({"error_lines": 12, "levels_exact": False}, 30, "12+ errors"),
        ({"warning_lines": 30}, 4, ""),
    ],
)
def test_errors_and_warnings_are_counted_as_room_allows(changes: dict[str, Any], room: int, shown: str) -> None:
    assert levels_text((source(**changes), source(index=1)), room) == shown


def test_the_title_counts_what_it_has_room_for_in_whole_words() -> None:
    counts = ("3 logs", "3 silent", "3 ended")
    assert summary_of(None, "auto", counts, 33) == "3 logs · 3 silent"
    assert summary_of(None, "auto", counts, 60) == "3 logs · 3 silent · 3 ended"
