"""All of one alert: what the page says, what its keys ask for, that it holds still and that it is never broken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hosts import PLAIN, SIZES, SKIN, Host, page_of, paged, screen_text
from pictures import START, alert, bar, board, picture
from snapshots import HOSTILE, finding, hostile
from whole import running

from perfmon.diagnosis.result import ConditionState, EvidenceLine, Moment
from perfmon.textgraphics.cells import ASCII
from perfmon.tui.render.alert_page import detail
from perfmon.tui.render.alerts import traces_of, waterfall
from perfmon.tui.screens.pages import AlertPage
from perfmon.tui.theme import ThemeStyles
from perfmon.tui.widgets.overlays import PageScreen
from perfmon.viewmodel import Alert, AlertState, Bar, Level, MonitorState

EVIDENCE = tuple(EvidenceLine("orchestrator.log", 812 + at, f"queue_ms={at}") for at in range(3))
FOUND = finding(
    conditions=(
        ConditionState("queue above", True),
        ConditionState("rpc below", False),
        ConditionState("flight", None),
    ),
    confused_with=("slow-weight-load: there the load takes long", "frontend-queue: itself", "an idle server"),
    evidence=EVIDENCE,
    moments=(Moment((12,), 520.0, 533.2, "ab13"), Moment((13, 0), 560.0, 573.2, "ab14")),
)


def shown(**changes: Any) -> tuple[Alert, MonitorState]:
    """An alert with two weight updates on the board, and two more alerts."""
    first = alert(1, finding=FOUND, since=START + 40.0)
    made = picture(first, alert(2, AlertState.ACKED), alert(3, AlertState.RESOLVED))
    lanes = board(bar(13, 13.2, seq=12), bar(14, 6.0, seq=13))
    return first, replace(made, board=lanes, **changes)


def host(first: Alert, made: MonitorState, skin: ThemeStyles = SKIN) -> Host:
    return Host(lambda: PageScreen(AlertPage(skin, first, made)))


def page(app: Host) -> AlertPage:
    shown = page_of(app)
    assert isinstance(shown, AlertPage)
    return shown


def requests(app: Host) -> list[tuple[str, int]]:
    """Requests, with the number of the line or alert."""
    return [(action, getattr(about, "line", None) or about.number) for action, about in app.requests]


def test_an_identity_with_a_name_as_long_as_a_log_line_takes_few_rows() -> None:
    first, made = shown()
    first = replace(first, key=("frontend-queue", (("n" * 100_000, "v" * 4000),)))
    rows = ["".join(text for text, _ in line.words) for line in detail(first, made, SKIN, 80)]
    assert len(rows) < 300
    assert [row for row in rows if len(row) > 80] == []


async def test_everything_is_told() -> None:
    app = host(*shown())
    async with app.run_test(size=(120, 50)):
        text = "\n".join(screen_text(app))
    for words in (
        "#1 frontend-queue",
        "✗ CRIT ● firing 9m 21s",
        "14 occurrences  first 09:41:13  last 09:50:23",
        "url: http://10.0.0.1:8000",
        "1 of 3 conditions met",
        "● queue above",
        "○ rpc below",
        "? flight",
        "• slow-weight-load: there the load takes long (ruled out)",
        "! frontend-queue: itself (also found: firing)",
        "• an idle server ",
        "3m 06s of the last 10m 01s (31 %); ≈ 18m 36s per hour",
        "1 Use a dedicated admin client",
        "? no inference log",
        "ab13 ",
        "queue   13.2 s  rpc    1.2 s",
        "12 more in this window",
        "$ perfmon rules explain frontend-queue",
        "orchestrator.log:812  queue_ms=0",
    ):
        assert words in text, words


@pytest.mark.parametrize("size", SIZES)
async def test_the_whole_page_can_be_read_at_every_size(size: tuple[int, int]) -> None:
    app = host(*shown())
    async with app.run_test(size=size) as pilot:
        seen = await paged(app, pilot)
    text = "\n".join(seen)
    for words in ("14 of 15", "WHY", "COST", "WHAT TO DO", "OCCURRENCES", "EVIDENCE", "queue_ms=2", "esc"):
        assert words in text, words


@pytest.mark.parametrize("size", SIZES)
async def test_going_down_line_by_line_reaches_the_last_line(size: tuple[int, int]) -> None:
    app = host(*shown())
    async with app.run_test(size=size) as pilot:
        for _ in range(45):
            page(app).do_down()
        await pilot.press("enter")
        await pilot.pause()
    assert requests(app) == [("jump", 814)]


async def test_only_whole_keys_and_the_place_are_shown_where_there_is_little_room() -> None:
    app = host(*shown())
    async with app.run_test(size=(60, 10)):
        foot = screen_text(app)[-1]
    assert foot.startswith(" esc back  [ ] other alerts  j k lines  ")
    assert foot.rstrip().endswith("1-7 of 28")


async def test_lines_are_jumped_to_copied_and_opened() -> None:
    app = host(*shown())
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.press("j", "enter", "y")
        await pilot.pause()
        assert app.requests == [("copy_text", "perfmon rules explain frontend-queue")]
        app.requests.clear()
        await pilot.press("j", "enter", "j", "y", "O")
        await pilot.pause()
    assert requests(app) == [("jump", 812), ("copy", 813), ("pager", 813)]
    assert app.requests[1] == ("copy", EvidenceLine("orchestrator.log", 813, "queue_ms=1"))


async def test_a_click_on_a_line_chooses_it() -> None:
    app = host(*shown())
    async with app.run_test(size=(120, 50)) as pilot:
        row = next(y for y, line in enumerate(screen_text(app)) if "queue_ms=2" in line)
        await pilot.click(offset=(40, row), times=2)
        await pilot.click(offset=(40, 3), times=2)
        await pilot.pause()
    assert requests(app) == [("jump", 814)]


async def test_alerts_are_acted_on_and_turned_over() -> None:
    app = host(*shown())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a", "right_square_bracket", "S", "left_square_bracket", "left_square_bracket", "u", "escape")
        await pilot.pause()
        assert page_of(app) is None
    assert requests(app) == [("ack", 1), ("silence", 2), ("undo", 3)]


async def test_it_holds_still_and_says_that_there_is_news() -> None:
    first, made = shown()
    app = host(first, made)
    async with app.run_test(size=(120, 50)) as pilot:
        before = screen_text(app)
        grown = replace(first, count=16, state=AlertState.RESOLVING, finding=replace(FOUND, sentence="Worse."))
        page(app).show(replace(made, now=made.now + 60, alerts=(grown,)))
        await pilot.pause()
        after = screen_text(app)
        assert "2 more since: L shows it" in after[0]
        assert "◑ resolving 10m21s" in after[1]
        assert after[2:] == before[2:]
        await pilot.press("L")
        assert "Worse." in screen_text(app)[2]
        assert "since" not in screen_text(app)[0]
        page(app).show(replace(made, alerts=()))
        await pilot.pause()
        assert "gone since" in screen_text(app)[0]


async def test_every_weight_update_of_a_run_is_an_occurrence_with_its_step() -> None:
    async with running() as (app, _):
        found = next(alert for alert in app.picture.alerts if alert.finding.signature == "frontend-queue")
        traces = traces_of(found, app.picture)
        assert len(traces) == len(found.finding.moments) == found.finding.count
        assert all(" s" in trace.key and trace.level is Level.CRITICAL for trace in traces)
        bars = [
            "".join(text for text, _ in row) for row in waterfall(found, app.picture, PLAIN, 120)[1:] if len(row) > 1
        ]
        assert len(bars) > 5
        assert all("●" in bar for bar in bars), bars


async def test_other_occurrences_are_told_one_by_one() -> None:
    other = replace(FOUND, moments=(Moment((1, 2, 3, 0), 30.0, 30.0), Moment((), 100.0, 400.0)), count=2)
    app = host(alert(1, finding=other), replace(shown()[1], board=board()))
    async with app.run_test(size=(120, 50)):
        text = "\n".join(screen_text(app))
    assert "09:42:13        3m 21s ago  took 5m 00s" in text
    assert "09:41:03        9m 31s ago" in text


async def test_a_leg_that_no_line_told_is_a_question() -> None:
    legs = bar(14, 6.0, seq=13)
    unknown: Bar = replace(legs, legs=(replace(legs.legs[0], kind="unknown"),), values={}, open=True, level=Level.NONE)
    first, made = shown()
    app = host(first, replace(made, board=board(unknown)))
    async with app.run_test(size=(120, 50)):
        text = "\n".join(screen_text(app))
    assert "▒▒▒▒" in text
    assert "queue        ?" in text


@pytest.mark.parametrize("size", [*SIZES, (20, 5), (9, 3)])
@pytest.mark.parametrize(
    "skin", [SKIN, PLAIN, ThemeStyles(SKIN.theme, glyphs=ASCII)], ids=["colours", "plain", "ascii"]
)
async def test_hostile_text_stays_text(size: tuple[int, int], skin: ThemeStyles) -> None:
    snap = hostile()
    bad = replace(
        snap.findings[0], confused_with=(HOSTILE,), moments=(Moment((1, 0), 0.0, 1.0, HOSTILE),), signature=HOSTILE
    )
    first = replace(alert(1, finding=bad, inhibited_by=HOSTILE), key=(HOSTILE, ((HOSTILE, HOSTILE),)))
    made = picture(first, snapshot=snap, board=board(bar(1, 2.0, seq=1, key=HOSTILE)))
    app = host(first, made, skin)
    async with app.run_test(size=size) as pilot:
        text = "".join(await paged(app, pilot))
    assert not set(text) & set("\x1b\x07\n\r\u202e\x00")
    assert size[0] < 60 or "[/x] [bold red]a|b[/]" in text
