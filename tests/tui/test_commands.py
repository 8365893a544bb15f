"""What is typed after `:`: each command does what it says, and what is wrong is told in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hosts import page_of, screen_text
from hypothesis import given as examples
from hypothesis import strategies
from textual.pilot import Pilot
from whole import played, running, until

from perfmon.monitor.feeds import FollowFeed
from perfmon.tui.actions import ACTIONS
from perfmon.tui.app import PerfmonApp
from perfmon.tui.commands import COMMANDS, quoted, run_command, split_words
from perfmon.tui.screens.pages import AlertPage, HelpPage
from perfmon.tui.widgets.overlays import Prompt
from perfmon.viewmodel import AlertState

WORDS = "expected "


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


async def done(app: PerfmonApp, pilot: Pilot[Any], *texts: str) -> None:
    """Has commands run_commanded that are right."""
    for text in texts:
        assert run_command(app, text) is None, text
        await pilot.pause()


async def test_time() -> None:
    async with running(played) as (app, pilot):
        now = app.picture.now
        await done(app, pilot, "at 10:08:20")
        assert app.time_view.cursor is not None
        assert app.time_view.cursor % 86400 == 10 * 3600 + 500
        await done(app, pilot, ":at 2m")
        assert app.time_view.cursor == pytest.approx(now - 120, abs=1)
        await done(app, pilot, " last 30m ")
        assert (app.time_view.span_s, app.time_view.end) == (1800.0, None)
        await done(app, pilot, "window 2m")
        await until(pilot, lambda: app.monitor.picture.window_s == 120.0)
        await done(app, pilot, "zoom-reset")
        await until(pilot, lambda: round(app.picture.board.viewport.end - app.picture.board.viewport.start) == 120)


async def test_a_time_before_the_first_line_leads_to_it() -> None:
    async with running() as (app, pilot):
        await done(app, pilot, ":at 03:00")
        assert app.time_view.cursor == app.monitor.picture.begin
        assert app.time_view.cursor is not None
        assert app._message == "'03:00' is before the first line (10:00:00)"
        end, span = app.time_view.end, app.time_view.span_s
        assert end is not None
        assert span is not None
        assert end - span < app.time_view.cursor < end


async def test_alerts() -> None:
    async with running(played) as (app, pilot):

        def state() -> AlertState:
            return app.monitor.picture.alerts[0].state

        await done(app, pilot, "ack frontend-queue")
        await until(pilot, lambda: state() is AlertState.ACKED)
        await done(app, pilot, "undo #1")
        await until(pilot, lambda: state() is AlertState.FIRING)
        await done(app, pilot, 'silence "front-end QUEUE sat" 15m')
        await until(pilot, lambda: state() is AlertState.SILENCED)
        await done(app, pilot, "undo 1", "silence front")
        assert isinstance(app.screen, Prompt)
        await pilot.press("escape")
        await done(app, pilot, "open front")
        assert isinstance(page_of(app), AlertPage)


async def test_panes_and_themes() -> None:
    async with running() as (app, pilot):
        await done(app, pilot, "lane rpc")
        assert app.board.sight.wanted == "rpc"
        await done(app, pilot, "lane")
        assert app.board.sight.wanted == ""
        await done(app, pilot, r"log queue_ms=\d+ |rpc", "source infer")
        wanted = app.log_pane.view.wanted
        assert wanted.texts == (r"/queue_ms=\d+ |rpc/",)
        assert wanted.sources is not None
        assert [app.log_pane.book.names[at] for at in wanted.sources] == ["inference.log"]
        assert app.focused is app.log_pane
        await done(app, pilot, "log", "source")
        assert app.log_pane.view.wanted.texts == ()
        assert app.log_pane.view.wanted.sources is None
        await done(app, pilot, "theme day", "layout log")
        assert (app.theme_name, app.preset) == ("daylight", "log")
        await done(app, pilot, "zoom", "mark", "pane-alerts", "help")
        assert isinstance(page_of(app), HelpPage)


async def test_files(tmp_path: Path) -> None:
    async with running(played) as (app, pilot):
        page = tmp_path / "a page.md"
        await done(app, pilot, f"snapshot {page}")
        await until(pilot, page.exists)
        image = tmp_path / "a shot.svg"
        await done(app, pilot, f"svg {image}")
        await until(pilot, image.exists)
        assert "TIMELINE" in image.read_text()
        await done(app, pilot, "svg")
        await until(pilot, lambda: len([*tmp_path.glob("perfmon_*.svg")]) == 1)
        await done(app, pilot, f"svg {tmp_path}/none/x.svg")
        await until(pilot, lambda: "cannot be written" in app._message)
        await done(app, pilot, f'record "{tmp_path}/it.pmrec"')
        await until(pilot, lambda: app.monitor.picture.recording is not None)
        assert "being recorded already" in str(run_command(app, "record other.pmrec"))
        assert "being recorded already" in str(run_command(app, "record start"))
        await done(app, pilot, "record stop")
        await until(pilot, lambda: app.monitor.picture.recording is None)
        assert run_command(app, "record stop") == "no recording is running"
        assert (tmp_path / "it.pmrec").exists()


async def test_a_replay_is_steered() -> None:
    async with running(played) as (app, pilot):
        assert app.monitor.feed is not None
        player = app.monitor.feed.player
        assert player is not None
        await done(app, pilot, "pause", "speed x8")
        assert player.speed == 8.0
        await done(app, pilot, "seek 1:30")
        await until(pilot, lambda: abs(player.position_s - 90.0) < 5.0)
        await done(app, pilot, "seek 99:00:00")
        assert "'99:00:00' is past the end of the recording" in screen_text(app)[0]
        await until(pilot, lambda: player.ended)
        await done(app, pilot, "pause")
        await until(pilot, lambda: player.position_s < player.duration_s)
        assert not player.paused


async def test_what_is_wrong_is_told_in_one_line() -> None:
    async with running(played) as (app, _pilot):
        for text, result in {
            "at": "at: expected at TIME",
            "at 25:99": "'25:99' is not a valid time",
            "at tomorrow": "'tomorrow' is not a valid time",
            "at 23:59:59": "later than the newest line",
            "at 90000d": "long before the start of these logs",
            "last 5s": "'5s': expected 30.0 s to 7d 0h, as in 30m",
            "last nan": WORDS,
            "window -3": WORDS,
            "window 1e999": WORDS,
            "chart": "chart: expected chart METRIC",
            "chart nonsense": "no such metric: 'nonsense', expected one of queue_ms",
            "chart _ms": "is ambiguous: expected one of",
            "update zzz": "no such weight update in view with the id: 'zzz'",
            "ack nobody": "no such alert: 'nobody', expected one of frontend-queue",
            "ack #99": "no such alert: #99",
            "open ²": "no such alert: '²'",
            "silence front soon": "'soon' is no duration: type it as in 15m",
            "silence front 15m now": "silence: expected silence [ALERT [TIME]]",
            "log (": "/(/ is not a valid regular expression",
            "source nothing": "no such log: 'nothing', expected one of",
            "theme pink": "no such theme: 'pink', expected one of",
            "layout 7": "no such layout: '7', expected one of auto",
            "snapshot ~nobody-of-that-name/x": "unknown home folder",
            "speed fast": "'fast': expected a factor from 0.1 to 1000",
            "speed inf": WORDS,
            "seek soon": "as in 1:30",
            "snapshto": "no such command: 'snapshto': did you mean snapshot?",
            "[/x]": "no such command: '[/x]': ? lists all",
            "quit now": "quit takes no more arguments, got 'now'",
            'theme "\x1b[2J': "no such theme: '', expected",
        }.items():
            message = run_command(app, text)
            assert message is not None, text
            assert result in message, (text, message)
            assert message.isprintable()
        for text in ("", "  ", ":", " : "):
            assert run_command(app, text) is None


async def test_what_was_wrong_with_one_command_is_not_said_of_the_next() -> None:
    async with running(size=(120, 30)) as (app, pilot):
        await pilot.press("colon", *"theme", "space", *"nope", "enter")
        await until(pilot, lambda: "no such theme: 'nope'" in screen_text(app)[0])
        await pilot.press("colon", *"last", "space", *"5m", "enter")
        await until(pilot, lambda: "TIMELINE  5m," in "".join(screen_text(app)))
        assert "nope" not in screen_text(app)[0]


async def test_where_only_a_monotonic_clock_is_told_no_time_of_day_is_known(tmp_path: Path) -> None:
    log = tmp_path / "inference.log"
    log.write_text("[weights][aaa] rpc.start op=update_weights t=100.0\n")
    async with running(lambda: FollowFeed([str(log)])) as (app, _):
        assert (
            run_command(app, "at 10:00") == "these logs have no time of day: expected a duration before now, as in 10m"
        )


async def test_of_a_live_run_only_what_can_be_done_is_done(tmp_path: Path) -> None:
    log = tmp_path / "orchestrator.log"
    log.write_text("nothing of use\n")
    async with running(lambda: FollowFeed([str(log)])) as (app, pilot):
        for text in ("speed 2", "seek 10"):
            assert run_command(app, text) == "this run is live: only for replays"
        assert run_command(app, "trace a") == "no weight update in view (- zooms out)"
        assert "there are none yet" in str(run_command(app, "chart queue_ms"))
        await done(app, pilot, "ack", "silence", "undo", "open", "snapshot")


async def test_every_word_of_the_tables_is_a_command() -> None:
    async with running(played) as (app, pilot):
        for name in [action.word for action in ACTIONS] + [command.name for command in COMMANDS]:
            if name in ("quit", "pager"):
                continue
            message = run_command(app, name)
            await pilot.pause()
            while len(app.screen_stack) > 1:
                app.pop_screen()
            assert message is None or WORDS in message, (name, message)
        await done(app, pilot, "quit")
        assert app.return_value == 0


@examples(strategies.text())
def test_quoted_words_come_back_as_they_were(word: str) -> None:
    assert split_words(f"a {quoted(word)}  b") == ["a", word, "b"]


def test_words_are_those_of_a_shell_but_every_line_has_a_meaning() -> None:
    assert split_words(r"""a 'b c' "d \" \\" x\y it's """) == ["a", "b c", 'd " \\', r"x\y", "it's"]
    assert split_words("'never closed") == ["never closed"]
    assert split_words(" \t ") == []
