"""Every key of the table of actions does what the table says, and one sees it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePath
from typing import Any

import pytest
from hosts import page_of, screen_text
from machines import seen
from textual.pilot import Pilot
from textual.widgets import Input
from whole import BEGIN, played, running, until

from perfmon.core.user_state import load_state
from perfmon.demo.output import demo_timeline
from perfmon.monitor.feeds import Feed, FollowFeed, PlayerFeed
from perfmon.recording.format import open_recording
from perfmon.sources.replay import Player
from perfmon.tui.actions import ACTIONS
from perfmon.tui.app import PerfmonApp
from perfmon.tui.render.lanes import Geometry
from perfmon.tui.screens.chart import ChartPage
from perfmon.tui.screens.pages import AlertPage, DoctorPage, HelpPage, TracePage
from perfmon.tui.widgets.overlays import Prompt
from perfmon.tui.widgets.palette import Palette
from perfmon.viewmodel import AlertState


@dataclass
class Hands:
    """Presses keys, and looks."""

    app: PerfmonApp
    pilot: Pilot[int]

    async def press(self, *keys: str) -> None:
        """Presses keys and lets what follows from them happen."""
        await self.pilot.press(*keys)
        await self.pilot.pause()

    async def to(self, pane: str) -> None:
        """Gives a pane the keys."""
        while self.app.pane_name != pane:
            await self.press("tab")

    async def until(self, true: Callable[[], bool]) -> None:
        """Waits until that is so."""
        await until(self.pilot, true)

    async def shows(self, words: str) -> None:
        """Waits until these words stand on the screen."""
        await self.until(lambda: words in self.text)

    @property
    def text(self) -> str:
        """What stands on the screen."""
        return "\n".join(screen_text(self.app))

    @property
    def panes(self) -> str:
        """What stands below the first row, which tells the machine's load as soon as somebody has measured it."""
        return "\n".join(screen_text(self.app)[1:])

    @property
    def cursor(self) -> float:
        """Where the time cursor stands."""
        assert self.app.time_view.cursor is not None
        return self.app.time_view.cursor

    @property
    def selected(self) -> int:
        """The lane that the selection is on."""
        return self.app.board.selected

    @property
    def current(self) -> str:
        """The current line of the log."""
        line = self.app.log_pane.view.current
        assert line is not None
        return line.text


Check = Callable[[Hands, str], Awaitable[None]]
CHECKS: dict[str, Check] = {}
REPLAYS = ("faster", "pause", "slower", "seek_back", "seek_on", "step")
MONITORED = ("ack", "record", "silence", "thresholds", "undo")
"""What these do is done by the monitor."""


def check(function: Check) -> Check:
    """What the key of the action of that name does."""
    CHECKS[function.__name__] = function
    return function


def check_of(name: str) -> Check:
    """The check of an action's keys."""
    assert name in CHECKS, f"add a function `{name}` marked @check to this file: it presses the key and looks"
    return CHECKS[name]


def replayed() -> Feed:
    """The built-in run, stopped at its sixth minute."""
    player = Player(demo_timeline("frontend-queue", 0, 12.0, BEGIN), speed=1.0, paused=True, linger=True)
    player.seek(360.0)
    return PlayerFeed(player)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(("name", "key"), [(action.id, key) for action in ACTIONS for key in action.keys])
async def test_every_key(name: str, key: str) -> None:
    if name in REPLAYS:
        async with running(replayed) as (app, pilot):
            await until(pilot, lambda: app.picture.lines > 0)
            await check_of(name)(Hands(app, pilot), key)
    else:
        async with running(played if name in MONITORED else None, size=(120, 34)) as (app, pilot):
            await check_of(name)(Hands(app, pilot), key)


def test_there_is_no_check_of_what_is_no_action() -> None:
    ids = {action.id for action in ACTIONS}
    assert ids - CHECKS.keys() == set(), "actions without a function of their name, marked @check, in this file"
    assert CHECKS.keys() - ids == set(), "functions marked @check whose name is not the id of an action"


def _made(pattern: str) -> list[Path]:
    return list(Path().glob(pattern))


# --- general ----------------------------------------------------------------------------------------------------------
@check
async def help(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert isinstance(page_of(hands.app), HelpPage)
    assert "every key and command" in hands.text


@check
async def palette(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert isinstance(hands.app.screen, Palette)
    assert "esc close" in hands.text


@check
async def snapshot(hands: Hands, key: str) -> None:
    await hands.press(key)
    await hands.shows("save this page as")
    await hands.press("escape")
    assert _made("perfmon_*.md") == []
    await hands.press(key, "enter")
    await hands.shows("written: perfmon_")
    (page,) = _made("perfmon_*.md")
    assert "frontend-queue" in page.read_text()


@check
async def record(hands: Hands, key: str) -> None:
    await hands.press(key)
    await hands.shows("recording to perfmon-")
    await hands.press(key)
    await hands.shows("recorded ")
    (path,) = _made("perfmon-*.pmrec")
    assert open_recording(path).note is None


@check
async def theme(hands: Hands, key: str) -> None:
    before = hands.app.theme_name
    await hands.press(key)
    assert hands.app.theme_name != before
    await hands.shows(f"theme: {hands.app.theme_name}")
    assert load_state("theme") == hands.app.theme_name


@check
async def doctor(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert isinstance(page_of(hands.app), DoctorPage)
    assert "parse coverage" in hands.text


@check
async def suspend(hands: Hands, key: str) -> None:
    before = hands.panes
    await hands.press(key)  # a screen without a terminal cannot be left: tests in real ones do
    assert hands.app.is_running
    assert hands.panes == before


@check
async def quit(hands: Hands, key: str) -> None:
    await hands.press(key)
    await hands.until(lambda: not hands.app.is_running)
    assert hands.app.return_value == 0


# --- panes ------------------------------------------------------------------------------------------------------------
@check
async def next_pane(hands: Hands, key: str) -> None:
    seen = []
    for _ in range(4):
        seen.append(hands.app.pane_name)
        await hands.press(key)
    assert seen == ["board", "alerts", "sources", "log"]
    assert hands.app.pane_name == "board"


@check
async def previous_pane(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert hands.app.pane_name == "log"


async def _goes_and_toggles(hands: Hands, key: str, title: str, pane: str) -> None:
    other = "log" if pane == "board" else "board"
    await hands.to(other)
    await hands.press(key)
    assert title in hands.text, "it is focused first"
    assert hands.app.pane_name == pane
    await hands.press(key)
    assert title not in hands.text
    assert screen_text(hands.app)[5].startswith("── ")
    assert hands.app.pane_name != pane
    await hands.press(key)
    assert title in hands.text
    assert hands.app.pane_name == pane


@check
async def pane_board(hands: Hands, key: str) -> None:
    await _goes_and_toggles(hands, key, "1 TIMELINE", "board")


@check
async def pane_alerts(hands: Hands, key: str) -> None:
    await _goes_and_toggles(hands, key, "2 ALERTS", "alerts")


@check
async def pane_sources(hands: Hands, key: str) -> None:
    await _goes_and_toggles(hands, key, "3 HOSTS/GPUS", "sources")


@check
async def pane_collectives(hands: Hands, key: str) -> None:
    await hands.press(key)
    await hands.shows("no logs of NCCL Inspector")


@check
async def pane_log(hands: Hands, key: str) -> None:
    await _goes_and_toggles(hands, key, "4 LOG", "log")


@check
async def next_view(hands: Hands, key: str) -> None:
    for title in ("3 GPUS", "3 HOSTS", "3 QUEUES", "3 SOURCES", "3 HOSTS/GPUS"):
        await hands.press(key)
        assert title in hands.text
        assert hands.app.pane_name == "sources"
    await hands.press("3")
    assert "3 HOSTS/GPUS" not in hands.text
    await hands.press(key)  # what was hidden comes as it was
    assert "3 HOSTS/GPUS" in hands.text


async def _view(hands: Hands, key: str, title: str) -> None:
    await hands.to("sources")
    await hands.press("M", "M")
    await hands.press(key)
    assert title in hands.text
    assert hands.app.pane_name == "sources"


@check
async def machines(hands: Hands, key: str) -> None:
    await _view(hands, key, "3 HOSTS/GPUS")
    assert hands.app.sources.view == "auto"


@check
async def gpus(hands: Hands, key: str) -> None:
    await _view(hands, key, "a100-1:1")


@check
async def hosts(hands: Hands, key: str) -> None:
    await hands.to("sources")
    await _view(hands, key, "3 HOSTS")


@check
async def queues(hands: Hands, key: str) -> None:
    await _view(hands, key, "vllm inference:8000")


@check
async def sources(hands: Hands, key: str) -> None:
    await _view(hands, key, "orchestrator.log")
    assert hands.app.sources.view == "sources"


@check
async def processes(hands: Hands, key: str) -> None:
    await hands.to("sources")
    picture = hands.app.monitor.picture
    hands.app.monitor.stop()
    hands.app.monitor.picture = replace(picture, seen=seen(picture.now))
    await hands.press("C", "z")
    below = [line for line in screen_text(hands.app) if "48123" in line]
    await hands.press(key)
    assert [line for line in screen_text(hands.app) if "48123" in line and line not in below]


@check
async def zoom(hands: Hands, key: str) -> None:
    await hands.to("log")
    await hands.press(key)
    assert "4 LOG" in screen_text(hands.app)[5]
    assert "TIMELINE" not in hands.text
    await hands.press("tab")
    assert "1 TIMELINE" in screen_text(hands.app)[5]
    await hands.press(key)
    assert "4 LOG" in hands.text


@check
async def preset(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert "timeline" in screen_text(hands.app)[-1]
    assert "2 ALERTS" not in hands.text
    await hands.press("2")
    assert "2 ALERTS" in hands.text
    assert "4 LOG" not in hands.text


@check
async def back(hands: Hands, key: str) -> None:
    await hands.press("space")
    await hands.press("left", "z")
    assert "2 ALERTS" not in hands.text
    await hands.press(key)
    assert "2 ALERTS" in hands.text
    assert hands.app.time_view.cursor is not None
    await hands.press(key)
    assert hands.app.time_view.cursor is None
    await hands.press(key, key)
    assert not hands.app.time_view.paused
    assert hands.app.is_running


# --- time -------------------------------------------------------------------------------------------------------------
@check
async def pause(hands: Hands, key: str) -> None:
    feed = hands.app.monitor.feed
    assert feed is not None
    assert feed.player is not None
    await hands.press(key)
    assert not feed.player.paused
    await hands.press(key)
    assert feed.player.paused


@check
async def live(hands: Hands, key: str) -> None:
    await hands.press("left")
    await hands.shows("PAUSED")
    await hands.press(key)
    assert "PAUSED" not in hands.text
    assert hands.app.log_pane.view.follow


async def _moved(hands: Hands, key: str, columns: int) -> None:
    await hands.press("shift+left", "shift+left")
    before, port = hands.cursor, hands.app.picture.board.viewport
    await hands.press(key)
    assert hands.cursor - before == pytest.approx(columns * port.column_s)
    assert "PAUSED" in screen_text(hands.app)[0]


@check
async def cursor_left(hands: Hands, key: str) -> None:
    await _moved(hands, key, -1)


@check
async def cursor_right(hands: Hands, key: str) -> None:
    await _moved(hands, key, 1)


@check
async def cursor_left_far(hands: Hands, key: str) -> None:
    await _moved(hands, key, -10)


@check
async def cursor_right_far(hands: Hands, key: str) -> None:
    await _moved(hands, key, 10)


@check
async def zoom_in(hands: Hands, key: str) -> None:
    await hands.press(key)
    await hands.shows("1 TIMELINE  5m,")


@check
async def zoom_out(hands: Hands, key: str) -> None:
    await hands.press(key)
    await hands.shows("1 TIMELINE  12m 22s,")
    await hands.press(key)
    assert "1 TIMELINE  12m 22s," in hands.text, "there is no more of the run than that"


@check
async def zoom_reset(hands: Hands, key: str) -> None:
    await hands.press("plus", "plus")
    await hands.shows("1 TIMELINE  2m 30s,")
    await hands.press(key)
    await hands.shows("1 TIMELINE  10m,")


@check
async def zoom_all(hands: Hands, key: str) -> None:
    assert "whole run" in hands.text
    await hands.press(key)
    await hands.shows("1 TIMELINE  12m 22s,")
    assert "whole run" not in hands.text
    assert "PAUSED" not in hands.text, "the present is in view"


@check
async def previous_update(hands: Hands, key: str) -> None:
    starts = [bar.start for bar in hands.app.updates()]
    await hands.press(key)
    assert hands.cursor == starts[-1]
    when = f"{datetime.fromtimestamp(starts[-1], UTC):%H:%M:%S}"
    await hands.until(lambda: "@cursor" in hands.text and hands.text.count(when) >= 2)  # the header, and the axis
    (axis,) = [row for row in screen_text(hands.app) if "@cursor" in row]
    assert f" {when} " in axis, "no other moment runs into it"
    await hands.press(key)
    assert hands.cursor == starts[-2]


@check
async def next_update(hands: Hands, key: str) -> None:
    starts = [bar.start for bar in hands.app.updates()]
    await hands.press("comma", "comma", "comma", key)
    assert hands.cursor == starts[-2]
    await hands.press(key, key)
    await hands.shows("no later weight update in view")


async def _turns(hands: Hands) -> list[float]:
    await hands.press("minus")
    await hands.shows("1 TIMELINE  12m 22s,")
    return [tick.time for tick in hands.app.picture.board.ticks if tick.state in ("firing", "resolved")]


@check
async def previous_alert(hands: Hands, key: str) -> None:
    turns = await _turns(hands)
    await hands.press(key)
    assert hands.cursor == max(turns)


@check
async def next_alert(hands: Hands, key: str) -> None:
    first = min(await _turns(hands))
    hands.app.point(first - 60.0)
    await hands.pilot.pause()
    await hands.press(key)
    assert hands.cursor == first


# --- moving -----------------------------------------------------------------------------------------------------------
@check
async def up(hands: Hands, key: str) -> None:
    await hands.press("down", "down", key)
    assert hands.selected == 1
    await hands.to("log")
    await hands.press(key, key)
    assert "not following" in hands.text


@check
async def down(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert hands.selected == 1
    await hands.to("log")
    await hands.press("up", key, key)
    assert hands.app.log_pane.view.follow


@check
async def page_up(hands: Hands, key: str) -> None:
    await hands.press("end", key)
    assert 0 < hands.selected < len(hands.app.board._drawn_board.keys) - 5
    await hands.to("log")
    last = hands.current
    await hands.press(key)
    assert last not in hands.text


@check
async def page_down(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert hands.selected > 5
    await hands.to("log")
    await hands.press("pageup", "pageup", key)
    above = hands.app.log_pane.view.unseen
    await hands.press(key, key)
    assert hands.app.log_pane.view.follow
    assert above == 0


@check
async def top(hands: Hands, key: str) -> None:
    await hands.press("down", "down", key)
    assert hands.selected == 0
    await hands.to("log")
    await hands.press(key)
    assert "10:00:0" in screen_text(hands.app)[-5]


@check
async def bottom(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert hands.selected == len(hands.app.board._drawn_board.keys) - 1
    await hands.to("log")
    await hands.press("home", key)
    assert hands.app.log_pane.view.follow


@check
async def open(hands: Hands, key: str) -> None:
    await hands.to("alerts")
    await hands.press(key)
    assert isinstance(page_of(hands.app), AlertPage)
    await hands.press(key)  # at its first line of evidence
    assert not hands.app.covered
    assert hands.app.pane_name == "log"
    finding = hands.app.picture.alerts[0].finding
    first = min(finding.evidence, key=lambda line: (line.source, line.line))
    assert hands.current.endswith(first.text[-30:])
    await hands.press(key)  # the line is about a weight update
    page = page_of(hands.app)
    assert isinstance(page, TracePage)
    assert page.bar.key in first.text
    await hands.press("escape")
    await hands.to("sources")
    await hands.press(key)  # every value of the first GPU
    await hands.shows("model NVIDIA")
    await hands.press(key, "F", key)
    assert isinstance(page_of(hands.app), DoctorPage)


# --- the timeline -----------------------------------------------------------------------------------------------------
@check
async def waterfall(hands: Hands, key: str) -> None:
    await hands.press(key)
    page = page_of(hands.app)
    assert isinstance(page, TracePage)
    assert page.bar == hands.app.updates()[-1]


@check
async def expand(hands: Hands, key: str) -> None:
    shared = sum("queue" in line and "%" in line for line in hands.text.splitlines())
    await hands.press(key)
    rows = [lane for lane in hands.app.board._drawn_board.lanes if lane is not None and lane.kind == "update"]
    assert len(rows) > 1
    assert sum("queue" in line and "%" in line for line in hands.text.splitlines()) == shared + len(rows)
    await hands.press(key)
    assert all(lane is None or lane.kind != "update" for lane in hands.app.board._drawn_board.lanes)


@check
async def sort(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert "by kind" in hands.text
    await hands.press(key)
    assert "by name" in hands.text
    await hands.press(key)
    assert "by name" not in hands.text


async def _charts(hands: Hands, *names: str) -> ChartPage:
    hands.app.open_chart(*names)
    await hands.shows(f"chart ▸ {names[-1]}")
    page = page_of(hands.app)
    assert isinstance(page, ChartPage)
    await until(hands.pilot, lambda: set(hands.app.picture.board.courses) == set(page.metrics))
    return page


@check
async def add_chart(hands: Hands, key: str) -> None:
    page = await _charts(hands, "reward")
    await hands.press(key)
    assert len(page.metrics) == 2
    await until(hands.pilot, lambda: set(hands.app.picture.board.courses) == set(page.metrics))
    assert all(f" {name}  " in hands.text for name in page.metrics)
    await hands.press("right_square_bracket")
    assert page.metrics[0] == "reward", "keys change the last one"


@check
async def remove_chart(hands: Hands, key: str) -> None:
    page = await _charts(hands, "reward", "kv_usage")
    await hands.press(key)
    assert page.metrics == ["reward"]
    await hands.press(key)
    assert page.metrics == ["reward"]


@check
async def smooth(hands: Hands, key: str) -> None:
    await _charts(hands, "gen_tps")
    before = hands.text
    await hands.press(key)
    assert "mean of 4 columns" in hands.text
    await hands.press(key, key)
    assert hands.text == before


def _before(path: Path) -> None:
    log = [f"2026-01-01 10:{at // 60:02d}:{at % 60:02d} INFO step {at} | loss 2.5 | reward 0.7" for at in range(600)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(log))


@check
async def baseline(hands: Hands, key: str) -> None:
    _before(Path("before.log"))
    page = await _charts(hands, "reward")
    await hands.press(key)
    assert isinstance(hands.app.screen, Prompt)
    await hands.press(*"nowhere", "enter")
    await hands.shows("nowhere")
    assert page.baseline is None
    hands.app.load_baseline("before.log")
    await until(hands.pilot, lambda: page.baseline is not None)
    await until(hands.pilot, lambda: "behind: before.log" in hands.text or "in common" in hands.text)
    _before(Path("healthy/logs/x.log"))
    hands.app.load_baseline("healthy/logs")
    await until(hands.pilot, lambda: page.baseline is not None and page.baseline.name == "healthy")
    await hands.press(key)
    assert not page.behind
    await hands.press(key)
    assert page.behind


@check
async def filter_lanes(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert isinstance(hands.app.screen, Prompt)
    await hands.press(*"rpc", "underscore", "enter")
    assert "lanes with 'rpc_'" in hands.text
    assert "load time " in hands.text
    assert "queue time" not in "\n".join(screen_text(hands.app)[4:15])


# --- alerts -----------------------------------------------------------------------------------------------------------
def _state(hands: Hands) -> AlertState:
    return hands.app.picture.alerts[0].state


@check
async def verdict(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert isinstance(page_of(hands.app), AlertPage)
    await hands.shows("WHAT TO DO")


@check
async def ack(hands: Hands, key: str) -> None:
    await hands.to("alerts")
    await hands.press(key)
    await hands.until(lambda: _state(hands) is AlertState.ACKED)
    await hands.shows("1 acked")


@check
async def silence(hands: Hands, key: str) -> None:
    await hands.to("alerts")
    await hands.press(key)
    assert isinstance(hands.app.screen, Prompt)
    await hands.press("enter")
    await hands.until(lambda: _state(hands) is AlertState.SILENCED)
    await hands.shows("silenced for 15m")
    await hands.press(key, *"5m", "enter")
    await hands.shows("silenced for 5m")  # what stood there was replaced by what was typed
    await hands.shows("1 silenced")


@check
async def undo(hands: Hands, key: str) -> None:
    await hands.to("alerts")
    await hands.press("a")
    await hands.shows("1 acked")
    await hands.press(key)
    await hands.shows("1 firing")


# --- the log ----------------------------------------------------------------------------------------------------------
async def _searched(hands: Hands, words: str) -> None:
    await hands.to("log")
    await hands.press("slash", *words, "enter")


@check
async def search(hands: Hands, key: str) -> None:
    await hands.to("log")
    await hands.press(key)
    assert isinstance(hands.app.screen, Prompt)
    await hands.press(*"recv", "enter")
    assert re.search(r"hit (\d+) of \1 for recv", hands.text)  # the last one
    assert "server.recv" in hands.current


@check
async def filter_text(hands: Hands, key: str) -> None:
    await hands.to("log")
    await hands.press(key)
    assert isinstance(hands.app.screen, Prompt)
    await hands.press(*"recv", "enter")
    assert "with recv" in hands.text
    assert all("server.recv" in line.text for line in hands.app.log_pane.view.lines)


@check
async def previous_match(hands: Hands, key: str) -> None:
    await _searched(hands, "recv")
    first = hands.app.log_pane.view.cursor
    await hands.to("board")
    await hands.press(key)
    assert "server.recv" in hands.current
    assert hands.app.log_pane.view.cursor != first


@check
async def next_match(hands: Hands, key: str) -> None:
    await _searched(hands, "recv")
    first = hands.app.log_pane.view.cursor
    await hands.press("N", key)
    assert hands.app.log_pane.view.cursor == first


@check
async def previous_error(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert "no error lines in the lines that are kept" in hands.text  # no line of this run is one


@check
async def next_error(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert "no error lines in the lines that are kept" in hands.text


@check
async def thresholds(hands: Hands, key: str) -> None:
    await hands.press(key)
    await until(hands.pilot, lambda: hands.app.monitor._watch is not None)
    watch = hands.app.monitor._watch
    assert watch is not None
    await until(hands.pilot, lambda: watch.session.config.baseline == "auto")
    await until(hands.pilot, lambda: "does not start healthy" in hands.text or "threshold" in hands.text)
    await hands.press(key)
    await until(hands.pilot, lambda: watch.session.config.baseline == "built-in")


@check
async def fold(hands: Hands, key: str) -> None:
    await hands.to("log")
    await hands.press(key)
    assert "access lines are shown" in hands.text
    await hands.press(key)
    assert "access lines are folded" in hands.text


@check
async def filter_source(hands: Hands, key: str) -> None:
    await hands.to("log")
    for source in sorted(hands.app.log_pane.book.names):
        await hands.press(key)
        assert f"only {PurePath(hands.app.log_pane.book.names[source]).stem}" in hands.text
        assert {line.source for line in hands.app.log_pane.view.lines} == {source}
    await hands.press(key)
    assert "only orchestrator" not in hands.text


@check
async def filter_level(hands: Hands, key: str) -> None:
    await hands.to("log")
    await hands.press(key)
    assert "warning and worse" in hands.text
    await hands.press(key)
    assert "error and worse" in hands.text
    await hands.press(key)
    assert "and worse" not in hands.text


@check
async def filter_trace(hands: Hands, key: str) -> None:
    await _searched(hands, "recv")
    line = hands.app.log_pane.view.current
    assert line is not None
    await hands.press(key)
    assert f"update {line.trace}" in hands.text
    assert {shown.trace for shown in hands.app.log_pane.view.lines} == {line.trace}
    await hands.press(key)
    assert f"update {line.trace}" not in hands.text


@check
async def clear_filters(hands: Hands, key: str) -> None:
    await hands.to("log")
    await hands.press("f", "v")
    await hands.press(key)
    assert "and worse" not in hands.text
    assert "only orchestrator" not in hands.text


@check
async def mark(hands: Hands, key: str) -> None:
    await hands.to("log")
    await hands.press("up")
    before = hands.panes
    await hands.press(key)
    assert hands.panes != before
    await hands.press(key)
    assert hands.panes == before


@check
async def next_mark(hands: Hands, key: str) -> None:
    await hands.to("log")
    await hands.press("up", "up", "m")
    marked = hands.app.log_pane.view.cursor
    await hands.press("home", key)
    assert hands.app.log_pane.view.cursor == marked


@check
async def scroll_right(hands: Hands, key: str) -> None:
    await _searched(hands, "server.recv")
    assert "[server.py" in hands.text
    await hands.press(key, key, key)
    assert "[server.py" not in hands.text


@check
async def scroll_left(hands: Hands, key: str) -> None:
    await scroll_right(hands, "greater_than_sign")
    await hands.press(key, key, key)
    assert "[server.py" in hands.text


@check
async def yank(hands: Hands, key: str) -> None:
    await hands.press(key)
    line = hands.app.log_pane.current
    assert line is not None
    assert hands.app.clipboard == f"{line.source}:{line.line} {line.text}"
    assert hands.app.clipboard.endswith(hands.current)
    await hands.shows("copied")


@check
async def pager(hands: Hands, key: str) -> None:
    await hands.press(key)  # there is no terminal to leave to it: tests in real ones do
    await hands.shows("cannot start another program on this terminal")
    assert _made("perfmon-*.log") == []


# --- replay -----------------------------------------------------------------------------------------------------------
def _player(hands: Hands) -> Player:
    feed = hands.app.monitor.feed
    assert feed is not None
    assert feed.player is not None
    return feed.player


@check
async def faster(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert _player(hands).speed == 2.0
    await hands.press("space")
    await hands.shows("REPLAY ▷ x2")


@check
async def slower(hands: Hands, key: str) -> None:
    await hands.press(key)
    assert _player(hands).speed == 0.5
    await hands.press("space")
    await hands.shows("REPLAY ▷ x0.5")


@check
async def seek_back(hands: Hands, key: str) -> None:
    await hands.press("left")
    await hands.shows("@cursor")
    await hands.press(key)
    await hands.shows(" 5:30/12:00")
    assert "@cursor" not in hands.text, "the moment that was asked for is in sight"


@check
async def seek_on(hands: Hands, key: str) -> None:
    await hands.press(key)
    await hands.shows(" 6:30/12:00")


@check
async def step(hands: Hands, key: str) -> None:
    await hands.shows(" 6:00/12:00")
    before, lines = _player(hands).position_s, hands.app.picture.lines
    await hands.press(key)
    await hands.until(lambda: hands.app.picture.lines > lines)
    assert before < _player(hands).position_s < before + 30.0
    assert _player(hands).paused


async def test_the_footer_is_that_of_the_pane_behind_what_is_asked() -> None:
    async with running() as (app, pilot):
        hands = Hands(app, pilot)
        await hands.to("log")
        await hands.shows("& only lines")
        await hands.press("slash", "q", "enter")
        assert "& only lines" in screen_text(app)[-1]
        await hands.press("slash")
        app.show_message("something is told meanwhile")
        await hands.press("escape")
        assert "& only lines" in screen_text(app)[-1]


# --- what keys do elsewhere -------------------------------------------------------------------------------------------
async def test_a_live_view_is_frozen_and_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("2026-08-21 10:00:00 first\n")
    async with running(lambda: FollowFeed([str(log)])) as (app, pilot):
        hands = Hands(app, pilot)
        await hands.shows("first")
        await hands.press("space")
        await hands.shows("PAUSED")
        with log.open("a") as file:
            file.write("2026-08-21 10:00:05 second\n")
        await hands.shows("+1 line ")
        await hands.press("space")
        await hands.shows("STARTING")


@pytest.mark.parametrize("opened", ["D", "w", "question_mark"])
async def test_under_what_is_open_nothing_changes(opened: str) -> None:
    async with running() as (app, pilot):
        hands = Hands(app, pilot)
        before = hands.text
        await hands.press(opened)
        assert app.covered
        await hands.press("1", "2", "3", "4", "z", "p", "left", "shift+right", "o", "tab", "slash")
        assert app.covered
        await hands.press(*["escape"] * (1 + (opened == "question_mark")))  # in the help, slash opened its search
        assert not app.covered
        assert app.time_view.cursor is None
        assert [line[:60] for line in screen_text(app)[1:]] == [line[:60] for line in before.splitlines()[1:]]


@pytest.mark.parametrize("opened", ["D", "w", "question_mark"])
async def test_what_is_said_is_seen_over_what_is_open(opened: str) -> None:
    async with running() as (app, pilot):
        hands = Hands(app, pilot)
        await hands.press(opened, "s", "enter")
        await hands.shows("written: perfmon_")
        assert "written: perfmon_" in screen_text(app)[0]


@pytest.mark.parametrize("size", [(20, 5), (30, 3), (40, 4), (60, 10)])
async def test_what_is_said_is_seen_in_a_strip(size: tuple[int, int]) -> None:
    async with running(size=size) as (app, pilot):
        hands = Hands(app, pilot)
        await hands.press("s", "enter")
        await hands.shows("written: ")


async def test_a_strip_shows_any_pane_alone() -> None:
    async with running(size=(60, 10)) as (app, pilot):
        hands = Hands(app, pilot)
        strip = hands.text
        for key, title in (("2", "2 ALERTS"), ("3", "3 HOSTS/GPUS"), ("4", "4 LOG")):
            await hands.press(key)
            assert title in hands.text
            assert app.pane_name == {"HOSTS/GPUS": "sources"}.get(title[2:], title[2:].lower())
            assert "10m" in screen_text(app)[3]
        await hands.press("tab")
        assert "1 TIMELINE" in hands.text
        await hands.press("escape")
        assert hands.text.splitlines()[4:8] == strip.splitlines()[4:8]


async def test_letters_are_letters_where_one_types() -> None:
    async with running() as (app, pilot):
        hands = Hands(app, pilot)
        await hands.press("slash", *"qs1zR", "tab", "ctrl+p")
        assert isinstance(app.screen, Prompt)
        assert app.screen.query_one(Input).value == "qs1zR"
        await hands.press("escape")
        assert app.board.sight.wanted == ""
        assert not _made("perfmon*")


async def test_keys_can_be_chosen() -> None:
    async with running(keys={"snapshot": "f5,x", "next_pane": "n"}) as (app, pilot):
        hands = Hands(app, pilot)
        await hands.press("s")
        assert not app.covered
        await hands.press("n", "f5", "enter")
        assert app.pane_name == "alerts"
        await hands.shows("written: ")
        assert "f5 snapshot" in screen_text(app)[-1]


async def test_a_notice_is_said_however_many_there_were() -> None:
    async with running(played) as (app, pilot):
        hands = Hands(app, pilot)
        for number in range(30):
            app.monitor.notices.append(f"notice {number}.")
            if number in (3, 29):
                app.monitor.ask(lambda _: None)
                await hands.shows(f"notice {number}.")


# --- the mouse --------------------------------------------------------------------------------------------------------
async def test_a_click_on_a_key_of_the_footer_does_what_it_does() -> None:
    async with running() as (app, pilot):
        hands = Hands(app, pilot)
        foot = screen_text(app)[-1]
        await pilot.click(offset=(foot.index("help"), app.size.height - 1))
        await hands.until(lambda: isinstance(page_of(app), HelpPage))
        await hands.press("escape")
        await hands.to("log")
        await hands.shows("& only lines")
        await pilot.click(offset=(screen_text(app)[-1].index("only lines") + 3, app.size.height - 1))
        await hands.until(lambda: isinstance(app.screen, Prompt))
        await hands.press("escape")
        await pilot.click(offset=(screen_text(app)[-1].rindex("overview"), app.size.height - 1))
        await pilot.click(offset=(0, app.size.height - 1))
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_a_click_chooses_a_lane_and_freezes_nothing() -> None:
    async with running() as (app, pilot):
        hands = Hands(app, pilot)
        row = next(y for y, line in enumerate(screen_text(app)) if line[1:].startswith("queue time"))
        await pilot.click(offset=(50, row))
        await pilot.pause()
        assert app.board.lane is not None
        assert app.board.lane.key == "queue_ms"
        assert not app.time_view.paused
        axis = next(y for y, line in enumerate(screen_text(app)) if line.startswith(" lane "))
        await pilot.click(offset=(50, axis))
        await pilot.pause()
        port = app.picture.board.viewport
        assert port.column(hands.cursor) == 50 - Geometry.of(120).begin
        lines = screen_text(app)
        assert "PAUSED" in lines[0]
        assert "L live" in lines[0]
        assert lines[1].startswith(" NOW   ✗ CRIT ")
        assert sum(" NOW " in line for line in lines) == 2  # the alerts and the gauges, in one row of titles
        assert any("1 TIMELINE  PAUSED: L live" in line for line in lines)
        value = next(line for line in lines if line[1:].startswith("queue time"))
        assert re.match(r".queue time +[\d.]+ ?s \d+ ?s ago ", value), value  # the last one before, with its age
        await hands.press("L")
        assert "NOW" not in hands.text


async def test_a_click_on_the_verdict_opens_its_alert() -> None:
    async with running() as (app, pilot):
        await pilot.click(offset=(30, 1))
        await pilot.pause()
        page = page_of(app)
        assert isinstance(page, AlertPage)
        assert page.alert.key[0] == "frontend-queue"


async def test_a_drag_shows_the_time_that_it_went_over() -> None:
    async with running() as (app, pilot):
        begin, port = Geometry.of(120).begin, app.picture.board.viewport
        await pilot.mouse_down(app.board, offset=(begin + 20, 4))
        await pilot.hover(app.board, offset=(begin + 39, 4))
        assert app.board.sight.dragged == (20, 39)
        await pilot.mouse_up(app.board, offset=(begin + 39, 4))
        await pilot.pause()
        await until(pilot, lambda: app.picture.board.viewport.end < port.end)
        shown = app.picture.board.viewport
        assert shown.end - shown.start == pytest.approx(20 * port.column_s)
        assert abs(shown.start - (port.start + 20 * port.column_s)) <= shown.column_s
        assert app.time_view.cursor is None, "a drag is no click"
        await pilot.press("L")
        await until(pilot, lambda: app.picture.board.viewport == port)


async def test_the_whole_run_moves_the_view() -> None:
    async with running() as (app, pilot):
        begin, whole = Geometry.of(120).begin, app.picture.overview
        assert whole is not None
        assert "whole run" in screen_text(app)[6]
        await pilot.click(app.board, offset=(begin + 5, 1))
        await pilot.pause()
        await until(pilot, lambda: app.picture.board.viewport.end < app.picture.now - 60.0)
        port = app.picture.board.viewport
        assert port.start <= whole.begin + port.column_s
        await pilot.mouse_down(app.board, offset=(begin + 20, 1))
        await pilot.hover(app.board, offset=(begin + 25, 1))
        await pilot.mouse_up(app.board, offset=(begin + 25, 1))
        await pilot.pause()
        span = 6 * whole.viewport.column_s
        await until(pilot, lambda: app.picture.board.viewport.end - app.picture.board.viewport.start < 1.01 * span)


async def test_a_double_click_opens() -> None:
    async with running() as (app, pilot):
        hands = Hands(app, pilot)
        row = next(y for y, line in enumerate(screen_text(app)) if line[1:].startswith("queue time"))
        await pilot.click(offset=(50, row), times=2)
        await hands.shows("chart ▸ queue_ms")
        await hands.press("escape", "L")
        row = next(y for y, line in enumerate(screen_text(app)) if "CRIT" in line and y > 10)
        await pilot.click(offset=(20, row), times=2)
        await pilot.pause()
        assert isinstance(page_of(app), AlertPage)


async def test_the_wheel_goes_through_what_is_under_it() -> None:
    async with running() as (app, pilot):
        from textual.events import MouseScrollDown, MouseScrollUp

        async def wheel(kind: Any, widget: str) -> None:
            target = app.query_one(f"#{widget}")
            await pilot._post_mouse_events([kind], target, button=0)
            await pilot.pause()

        await wheel(MouseScrollDown, "board")
        assert app.board.selected == 1
        await wheel(MouseScrollUp, "board")
        assert app.board.selected == 0
        await wheel(MouseScrollUp, "log")
        assert not app.log_pane.view.follow
        await wheel(MouseScrollDown, "log")
        await wheel(MouseScrollDown, "log")
        assert app.log_pane.view.follow


async def test_a_picture_that_comes_while_the_screens_go_is_no_fault() -> None:
    async with running() as (app, pilot):
        await until(pilot, lambda: app.picture.lines > 0)
    assert not app.screen_stack
    app.picture = replace(app.picture, number=-1)
    app.on_woken()
    assert app.fault is None


async def test_a_click_on_the_bar_of_a_replay_goes_there() -> None:
    async with running(replayed) as (app, pilot):
        await until(pilot, lambda: app.picture.lines > 0)
        player = app.monitor.feed.player if app.monitor.feed is not None else None
        assert player is not None
        begin = screen_text(app)[0].index("█")
        await pilot.click(offset=(begin + 9, 0))
        await until(pilot, lambda: player.position_s == pytest.approx(0.95 * player.duration_s, rel=0.01))
        await pilot.click(offset=(3, 0))  # elsewhere nothing happens
        assert player.position_s == pytest.approx(0.95 * player.duration_s, rel=0.01)


async def test_enter_on_the_lane_of_alerts_opens_one_and_esc_comes_back() -> None:
    async with running(size=(120, 34)) as (app, pilot):
        hands = Hands(app, pilot)
        assert await _turns(hands)
        await hands.to("board")
        await hands.press("g")
        for _ in range(60):
            if app.board.lane is None or app.board.lane.kind != "alerts":
                await hands.press("down")
        assert app.board.lane is not None
        assert app.board.lane.kind == "alerts"
        shown = app.shown_panes()
        await hands.press("enter")
        assert isinstance(page_of(app), AlertPage)
        await hands.press("escape")
        assert not app.covered
        assert app.shown_panes() == shown
