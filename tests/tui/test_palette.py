"""The palette: what it offers first, what it finds, what it gives back; names out of logs stay names."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders import lane, with_metrics
from hosts import SIZES, SKIN, Host, screen_text
from hypothesis import given, strategies
from pictures import alert, bar, board, picture, source
from rich.cells import cell_len
from snapshots import HOSTILE, finding
from textual.events import Mount

from perfmon.themes.loader import load_themes
from perfmon.tui.commands import COMMANDS, split_words
from perfmon.tui.widgets.palette import Palette, choices, fitting, match_of
from perfmon.viewmodel import AlertState, MonitorState

THEMES = load_themes()


class Asking(Host):
    """Opens a palette and keeps what it gives."""

    def __init__(self, shown: MonitorState) -> None:
        super().__init__(lambda: Palette(SKIN, shown, THEMES, {}))
        self._shown = shown
        self.given: list[str | None] = []

    def on_mount(self, event: Mount) -> None:  # type: ignore[override]
        """Opens it, once."""
        event.prevent_default()
        self.push_screen(Palette(SKIN, self._shown, THEMES, {}), self.given.append)


def host(shown: MonitorState | None = None) -> Asking:
    return Asking(whole() if shown is None else shown)


def whole() -> MonitorState:
    made = picture(alert(1, AlertState.RESOLVED), alert(2, finding=finding(signature="kv-cache", title="KV cache")))
    made = replace(made, sources=(source(), source(index=1, name="inference server.log")))
    return with_metrics(made, lane("queue_ms"), lane("inflight", unit=""))


async def chosen(typed: str, *keys: str, shown: MonitorState | None = None) -> str | None:
    """What the palette gives when that is typed and Enter pressed."""
    app = host(shown)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*("space" if char == " " else char for char in typed), *keys, "enter")
        await pilot.pause()
    return app.given[0] if app.given else "nothing yet"


@pytest.mark.parametrize("size", SIZES)
async def test_what_there_is_now_goes_first(size: tuple[int, int]) -> None:
    app = host()
    async with app.run_test(size=size):
        lines = screen_text(app)
    assert [cell_len(line) for line in lines] == [size[0]] * size[1]
    kinds = [line.split("▸")[-1].split()[0] for line in lines[1:6]]
    assert kinds == ["alert", "run", "run", "run", "run"]
    assert "kv-cache" in lines[1]
    assert "CRIT firing" in lines[1]


def test_the_best_fit_is_on_top() -> None:
    offered = choices(whole(), THEMES, {})
    for typed, command in {
        "": "open #2",
        "frontq": "open #1",
        "queue_ms": "chart queue_ms",
        "ab14": "update ab14",
        "inference": 'source "inference server.log"',
        "theme day": "theme daylight",
        "day": "theme daylight",
        "strip": "layout strip",
        "maximise": "zoom",
        "previous alert": "previous-alert",
        "at 14:06:38": "at 14:06:38",
        ":last 30m": "last 30m",
        "snapshot": "snapshot",
        "silence kv 15m": "silence kv 15m",
        "q": "quit",
        ":q": "quit",
        ":wq": "quit",
        "quit": "quit",
        "D": "doctor",
        "at": "at",
    }.items():
        assert fitting(typed, offered)[0][0].command == command, typed
    assert fitting("nothing like that", offered) == []


async def test_choosing_gives_a_command() -> None:
    assert await chosen(":log a b.*c") == "log a b.*c"
    assert await chosen("nothing like that") == "nothing like that"
    assert await chosen("", "escape") is None


async def test_the_arrows_choose_another_one() -> None:
    assert await chosen("", *["down"] * 3, "ctrl+n", "ctrl+n", "up") == "open"
    assert await chosen("", "pagedown", "pageup", "ctrl+p") == "open #2"


async def test_a_command_that_wants_more_is_begun() -> None:
    assert await chosen("last") == "nothing yet"
    assert await chosen("last", "enter", "5", "m") == "last 5m"
    assert await chosen("ab14", "tab") == "update ab14"


async def test_what_is_wrong_is_told_while_it_is_typed() -> None:
    app = host()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*"log", "space", "(")
        assert "/(/ is not a valid regular expression" in screen_text(app)[-1]
        await pilot.press("backspace", "x")
        assert "log [REGEX]" in screen_text(app)[-1]


async def test_a_click_chooses() -> None:
    app = host()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.click(offset=(20, 5))
        await pilot.pause()
    assert app.given == ["open"]


@pytest.mark.parametrize("size", SIZES)
async def test_hostile_names_stay_names(size: tuple[int, int]) -> None:
    bad = replace(alert(7, finding=finding(title=HOSTILE)), key=(HOSTILE, ()))
    made = picture(bad, sources=(source(name=HOSTILE),), board=board(bar(1, 2.0, key=HOSTILE)))
    app = host(with_metrics(made, lane(HOSTILE, unit=HOSTILE)))
    async with app.run_test(size=size) as pilot:
        lines = screen_text(app)
        await pilot.press(*"[/x]")
        lines += screen_text(app)
    assert {cell_len(line) for line in lines} == {size[0]}
    assert not set("".join(lines)) & set("\x1b\x07\n\r\u202e\x00")
    assert await chosen("metric", shown=with_metrics(made, lane(HOSTILE))) is not None
    given_back = await chosen("", *["down"] * (1 + len(COMMANDS)), shown=with_metrics(made, lane(HOSTILE)))
    assert given_back is not None
    assert split_words(given_back) == ["chart", HOSTILE]


@given(strategies.text(), strategies.text())
def test_any_text_can_be_looked_through(typed: str, text: str) -> None:
    found = match_of(typed, text)
    if found is not None:
        assert all(0 <= at < len(text) for at in found.places)
    assert match_of(text[:50], text) is not None


def test_the_better_a_name_fits_the_more_it_is_worth() -> None:
    def worth(text: str) -> float:
        found = match_of("rpc", text)
        assert found is not None
        return found.score

    fits = ["rpc", "rpc_ms", "slow rpc", "xrpcs", "rare placement costs", "corpus practice"]
    assert sorted(fits, key=worth, reverse=True) == fits
    assert match_of("rpc", "cpr") is None
    assert match_of("a" * 200, "a" * 199) is None
