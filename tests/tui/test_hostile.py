"""Whatever logs say, every pane and screen shows it as text: nothing is obeyed, nothing breaks, every row fits."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
from builders import lane
from hosts import screen_text
from pictures import alert, bar, board, source
from rich.cells import cell_len
from snapshots import HOSTILE, hostile
from textual.pilot import Pilot
from whole import played, running, until

from perfmon.core.model import Block, TimeBase
from perfmon.demo.output import write_demo
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.monitor.feeds import FollowFeed
from perfmon.sources.clock import SourceClock
from perfmon.tui.app import PerfmonApp
from perfmon.viewmodel import AlertState, MonitorState, Transition
from perfmon.viewmodel import Level as PictureLevel

pytestmark = pytest.mark.slow

TEXTS = {
    "everything": HOSTILE,
    "markup": "[/x] [weights][a] [bold red]b[/] \\[c [@click=app.quit]d[/] $e {f}",
    "clearing": "\x1b[2J\x1b[Hgone \x9b2J\x1bc\x1b(0",
    "clipboard": "\x1b]52;c;ZXZpbA==\x07 \x1b]8;;http://evil.example\x1b\\link\x1b]8;;\x07 \x1b]0;title\x07",
    "bidi": "\u202eevil\u202c \u2066a\u2069 \u200f\u061c \u05d0\u05d1 \u0627\u0644",
    "zero-width": "a\u200b\u200db\ufeffc\u2060d\u00ade",
    "wide": "日本語" * 200,
    "combining": "e" + "\u0301" * 60 + " \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f",
    "nul": "a\x00b\x07c\x08\x08d\r\ne\tf\x7f\x85\u2028g",
    "long": "x" * 1_000_000,
    "surrogates": "a\ud800b\udfffc",
    "empty": "",
}
VIEWS = {
    "panes": ("L",),
    "alert": ("tab", "enter"),
    "trace": ("w",),
    "doctor": ("D",),
    "palette": ("colon",),
    "named": ("colon", "e"),
    "silence": ("tab", "S"),
    "alerts": ("tab", "z"),
    "sources": ("tab", "tab", "z"),
    "log": ("shift+tab", "z"),
    "help": ("question_mark",),
}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def harmless(app: PerfmonApp) -> None:
    """No row is wider or narrower than the screen, and none holds anything that a terminal obeys."""
    for row in screen_text(app):
        assert cell_len(row) == app.size.width
        odd = {char for char in row if unicodedata.category(char) in ("Cc", "Cf", "Cs", "Zl", "Zp")}
        assert not odd, row


def picture_of(text: str, base: MonitorState) -> MonitorState:
    """A picture with that text wherever a log can put some."""
    snapshot = hostile(text)
    firing = alert(finding=snapshot.findings[0])
    keyed = replace(firing, number=2, key=(text, ((text, text),)), inhibited_by=text, state=AlertState.INHIBITED)
    port = base.board.viewport
    bars = tuple(
        replace(bar(at, 12.0, key=text, seq=at), start=port.end - 20.0 * at, end=port.end - 20.0 * at + 13.0, legs=())
        for at in (3, 2, 1)
    )
    lanes = (lane(text or " "), lane(f"{text}2", unit=text), lane("queue_ms"))
    return replace(
        base,
        number=base.number + 1000,
        snapshot=snapshot,
        alerts=(firing, keyed),
        sources=(source(name=text, format=text, notes=(text,), unparsed=(text,), patterns={text: 3}, errors=2),),
        board=replace(
            board(*bars),
            viewport=port,
            metrics=tuple(replace(one, values=[one.values[0]] * port.columns, levels=one.levels[:1] * port.columns)
                          for one in lanes),
            ticks=(Transition(port.end - 60.0, keyed.key, AlertState.FIRING, PictureLevel.CRITICAL),),
        ),
        notices=(text,),
    )  # fmt: skip


def tell(book: LogBuffer, text: str) -> None:
    """Lines of a log of that name, with that text."""
    data = f"2026-08-21 10:12:00 {text} [weights][{text}] client.send\n".encode("utf-8", "surrogatepass")
    block = Block(data * (3 if len(data) < 10_000 else 1), 0, 1)
    book.append(7, text, block, SourceClock(), None, live=True)


async def shown(app: PerfmonApp, pilot: Pilot[int], text: str) -> None:
    """The picture of that text, and nothing after it."""
    app.monitor.stop()
    await pilot.pause()
    app.monitor.picture = picture_of(text, app.monitor.picture)
    tell(app.monitor.logbook, text)
    app.show(app.monitor.picture)
    app.log_pane.update()
    await pilot.pause()


@pytest.mark.parametrize("size", [(120, 30), (60, 10)])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_every_view_shows_it_as_text(text: str, size: tuple[int, int]) -> None:
    async with running(played, size=size) as (app, pilot):
        await shown(app, pilot, text)
        harmless(app)
        for view, keys in VIEWS.items():
            await pilot.press(*keys)
            harmless(app)
            await pilot.press("down", "pagedown", *(("enter",) if view not in ("palette", "named") else ()))
            harmless(app)
            app.close_overlays()
            app.choose_preset("auto")
            app.board.focus()
            await pilot.pause()
        harmless(app)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_chart_and_a_page_of_it(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with running(played) as (app, pilot):
        await shown(app, pilot, text)
        app.open_chart(text or " ")
        await pilot.pause()
        harmless(app)
        await pilot.press("left", "right_square_bracket")
        await pilot.pause()
        harmless(app)
        await pilot.press("s", "enter")
        await until(pilot, lambda: any(path.stat().st_size for path in tmp_path.glob("perfmon_*.md")))
        await pilot.pause()
        harmless(app)


async def test_hostile_logs_from_end_to_end(tmp_path: Path) -> None:
    logs = tmp_path / "lo[/gs]"
    write_demo(logs, "frontend-queue")
    lines = (logs / "orchestrator.log").read_text().splitlines()
    evil = [text.replace("\n", " ") for name, text in TEXTS.items() if name != "long"]
    mixed = [line.replace("10.0.0.5", f"10[/x]{evil[at % 3]}") for at, line in enumerate(lines)]
    mixed[5:5] = [*evil, *(f"INFO [weights][{text}] client.send t=1" for text in evil), "y" * 1_000_000]
    mixed[9:9] = [f"step=1 [/x]{text}=3.5 a[b]=4 loss\x1b[31m=2" for text in evil]
    name = "or\x1b[2J[che]\u202estr日本.log"
    (logs / name).write_text("\n".join(mixed), "utf-8", "surrogatepass")
    (logs / "orchestrator.log").unlink()
    for size in ((200, 50), (80, 24)):
        async with running(lambda: FollowFeed([str(logs)]), size=size) as (app, pilot):
            await until(pilot, lambda: len(app.picture.sources) == 3 and bool(app.picture.alerts))
            assert app.picture.time_base is TimeBase.WALL
            harmless(app)
            for keys in VIEWS.values():
                await pilot.press(*keys)
                harmless(app)
                app.close_overlays()
                app.choose_preset("auto")
                app.board.focus()
            for _ in range(10):
                await pilot.press("shift+left")
                harmless(app)
