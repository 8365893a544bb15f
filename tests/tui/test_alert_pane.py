"""The pane of alerts: what its rows say, where its cursor stands, what it asks for, and how little it repaints."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Self

import pytest
from hosts import PLAIN, SIZES, SKIN, Host, screen_text
from pictures import START, alert, picture
from rich.cells import cell_len
from snapshots import HOSTILE, finding, snapshot
from textual.events import MouseScrollUp
from textual.geometry import Region

from perfmon.core.model import Progress, Severity
from perfmon.textgraphics.cells import ASCII
from perfmon.tui.layout import shares
from perfmon.tui.panes.lists import AlertPane
from perfmon.tui.render.alerts import age_s, alert_row
from perfmon.tui.theme import ThemeStyles
from perfmon.viewmodel import Alert, AlertState, MonitorState

STATES = list(AlertState)


def several(count: int = 12) -> list[Alert]:
    """Alerts in all states, told apart by their titles."""
    return [
        alert(at, STATES[at % len(STATES)], finding=finding(title=f"Trouble {at}", signature=f"s{at}"), since=START)
        for at in range(1, count + 1)
    ]


class Shown(AlertPane):
    """Remembers what it repainted."""

    def __init__(self, shown: MonitorState, skin: ThemeStyles = SKIN) -> None:
        super().__init__(skin)
        self.regions: list[Region] = []
        self.show(shown)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """As it is, and remembered."""
        self.__dict__.setdefault("regions", []).extend(regions)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)


def requests(app: Host) -> list[tuple[str, int]]:
    """Requests, with the number of the alert."""
    return [(action, about.number) for action, about in app.requests]


@pytest.mark.parametrize("size", SIZES)
async def test_every_row_fills_the_width_and_says_state_severity_and_what(size: tuple[int, int]) -> None:
    app = Host(lambda: Shown(picture(*several(30))))
    async with app.run_test(size=size):
        lines = screen_text(app)
    assert [cell_len(line) for line in lines] == [size[0]] * size[1]
    row = next(line for line in lines if "Trouble 2 " in line or "acked: Trouble 2" in line)
    assert "●" in row
    assert "CRIT" in row
    assert "acked" in row
    assert "ALERTS" in lines[0]
    assert "4 firing" in lines[0]


@pytest.mark.parametrize("size", [*SIZES, (20, 5), (43, 2), (29, 1), (8, 3)])
@pytest.mark.parametrize(
    "skin", [SKIN, PLAIN, ThemeStyles(SKIN.theme, glyphs=ASCII)], ids=["colours", "plain", "ascii"]
)
async def test_hostile_text_stays_text(size: tuple[int, int], skin: ThemeStyles) -> None:
    bad = finding(title=HOSTILE, sentence=HOSTILE, identity={HOSTILE: HOSTILE}, signature=HOSTILE)
    alerts = [
        replace(alert(at, state, finding=bad, inhibited_by=HOSTILE), key=(HOSTILE, ((HOSTILE, HOSTILE),)))
        for at, state in enumerate(STATES)
    ]
    app = Host(lambda: Shown(picture(*alerts), skin))
    async with app.run_test(size=size):
        lines = screen_text(app)
    text = "".join(lines)
    assert {cell_len(line) for line in lines} == {size[0]}
    assert not set(text) & set("\x1b\x07\n\r\u202e\x00")
    assert size[0] < 43 or "[/x]" in text


async def test_it_says_what_each_state_means() -> None:
    alerts = [
        alert(1, AlertState.INHIBITED, inhibited_by="stall"),
        alert(2, AlertState.SILENCED, silenced_until=1795168233.0),
        alert(3, AlertState.RESOLVED, since=START, changed=START + 41.0),
        alert(4, AlertState.UNKNOWN),
        alert(5, AlertState.FIRING, flapping=True),
        alert(6, AlertState.PENDING, count=0, lost_s=0.0, severity=Severity.WARNING, since=START + 590.7),
    ]
    app = Host(lambda: Shown(picture(*alerts)))
    async with app.run_test(size=(200, 20)):
        text = screen_text(app)
    expected = (
        "⊘ .*explained by stall",
        "∅ .*silenced until 09:50:33",
        "○ .*resolved after 41.0 s",
        r"\? .*no log output",
        "≈ .*flapping",
        "◔ .*WARN +10s .*pending .* - ",
    )
    for row, words in zip(text[2:8], expected, strict=True):
        assert re.search(words, row), row


@pytest.mark.parametrize("machines", [False, True])
def test_beside_machines_on_80_columns_a_title_is_whole(machines: bool) -> None:
    left, right = (float(share.removesuffix("fr")) for share in shares(80, machines))
    width = int(80 * left / (left + right))
    found = alert(finding=finding(title="Front-end queue saturation"))
    row = alert_row(found, PLAIN, "background", width, picture())
    assert "Front-end queue saturation " in "".join(text for text, _ in row)


def test_no_figure_is_cut_in_two() -> None:
    message = "15 of 16 weight updates waited 12.4 s behind 128 in-flight generations"
    for width in range(74, 150):
        found = alert(finding=finding(sentence=message))
        row = "".join(text for text, _ in alert_row(found, PLAIN, "background", width, picture()))
        assert not re.search(r"\b(1|12\.|12)…", row), row
        assert len(row) == width


async def test_below_few_alerts_stands_what_the_chosen_one_says_and_what_to_do() -> None:
    message = "15 of 16 weight updates waited 12.4 s behind 128 in-flight generations, the RPC took 1.2 s"
    first = alert(1, finding=finding(sentence=message, advice=("Use a dedicated admin client.",)))
    second = alert(2, finding=finding(sentence="Another sentence.", advice=()))
    app = Host(lambda: Shown(picture(first, second)))
    async with app.run_test(size=(60, 10)) as pilot:
        text = screen_text(app)
        assert [row.strip() for row in text[3:7]] == [
            "",
            "15 of 16 weight updates waited 12.4 s behind 128",
            "in-flight generations, the RPC took 1.2 s",
            "▸ Use a dedicated admin client.",
        ]
        await pilot.press("j")
        await pilot.pause()
        assert screen_text(app)[4].strip() == "Another sentence."
        assert not any("weight updates" in row for row in screen_text(app))
        await pilot.press("k")
        await pilot.resize_terminal(40, 6)
        await pilot.pause()
        assert [row.strip() for row in screen_text(app)[4:]] == [
            "15 of 16 weight updates waited 12.4",
            "s behind 128 in-flight generations, …",
        ]
        await pilot.press("j")
        await pilot.resize_terminal(60, 5)
        await pilot.pause()
        assert [row.strip() for row in screen_text(app)[3:]] == ["", "Another sentence."]
        await pilot.resize_terminal(60, 4)
        await pilot.pause()
        assert not screen_text(app)[3].strip()


async def test_keys_move_the_cursor_and_ask_for_what_they_name() -> None:
    app = Host(lambda: Shown(picture(*several())))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("j", "down", "k", "enter", "a", "end", "S", "home", "u")
        await pilot.pause()
    assert requests(app) == [("alert", 2), ("ack", 2), ("silence", 12), ("undo", 1)]


async def test_the_cursor_follows_its_alert_but_stays_on_top_when_it_is_there() -> None:
    app = Host(lambda: Shown(picture(*several())))
    async with app.run_test(size=(80, 24)) as pilot:
        pane = app.query_one(Shown)
        pane.show(picture(*several()[::-1]))
        assert pane.selected is not None
        assert pane.selected.number == 12
        await pilot.press("j", "j")
        assert pane.selected.number == 10
        pane.show(picture(*several()))
        assert pane.selected.number == 10
        pane.show(picture(*several(3)))
        assert pane.selected.number == 3


async def test_the_cursor_stays_on_the_alert_that_was_acted_on_wherever_that_moves() -> None:
    first, second = several(2)
    app = Host(lambda: Shown(picture(first, second)))
    async with app.run_test(size=(80, 8)) as pilot:
        await pilot.press("a")
        pane = app.query_one(Shown)
        pane.show(picture(second, first))
        await pilot.press("S", "u")
        assert requests(app) == [("ack", 1), ("silence", 1), ("undo", 1)]


async def test_more_alerts_than_rows_scroll_with_keys_and_wheel() -> None:
    app = Host(lambda: Shown(picture(*several(40))))
    async with app.run_test(size=(80, 8)) as pilot:
        await pilot.press(*["j"] * 9)
        assert any("Trouble 10 " in line for line in screen_text(app))
        assert "4-10 of 40" in screen_text(app)[0]
        await pilot.press("end")
        assert "Trouble 40" in screen_text(app)[-1]
        await pilot.press("pageup")
        pane = app.query_one(Shown)
        before = pane.top
        pane.post_message(MouseScrollUp(pane, 5, 3, 0, 0, 0, False, False, False))
        await pilot.pause()
        assert pane.top == before - 3


async def test_a_click_chooses_and_a_double_click_opens() -> None:
    app = Host(lambda: Shown(picture(*several())))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.click(offset=(10, 4))
        assert requests(app) == []
        await pilot.press("a")
        await pilot.click(offset=(10, 6), times=2)
        await pilot.click(offset=(10, 20), times=2)
        await pilot.pause()
    assert requests(app) == [("ack", 4), ("alert", 6)]


async def test_a_second_later_only_ages_are_painted() -> None:
    base = picture(*several(4))
    app = Host(lambda: Shown(base))
    async with app.run_test(size=(120, 30)) as pilot:
        pane = app.query_one(Shown)
        await pilot.pause()
        pane.regions.clear()
        pane.show(base)
        assert pane.regions == []
        pane.show(replace(base, now=base.now + 1))
        assert {region.y for region in pane.regions} == {2, 3, 4, 5}
        assert {(region.width <= 14, region.height) for region in pane.regions} == {(True, 1)}, pane.regions


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "✓ no alerts in the last 10m "),
        ({"stale_s": 75.0}, "? no alerts, but the newest line is 75.0 s old"),
        ({"snapshot": None}, "… nothing read yet"),
    ],
)
async def test_no_alerts_is_told_too(changes: dict[str, Any], words: str) -> None:
    app = Host(lambda: Shown(replace(picture(), **changes)))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter", "j", "a")
        assert words in screen_text(app)[1]
    assert app.requests == []


@pytest.mark.parametrize(("lasted_s", "age"), [(86.0, 86.0), (0.0, 3600.0)])
def test_in_a_run_that_is_over_an_age_no_longer_grows(lasted_s: float, age: float) -> None:
    whole = snapshot()
    over = replace(whole, run=replace(whole.run, state=Progress.FINISHED))
    held = alert(state=AlertState.RESOLVING, began=START, since=START, last=START + lasted_s)
    assert age_s(held, replace(picture(held, snapshot=over), now=START + 3600.0)) == age
