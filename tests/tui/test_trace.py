"""The page of a weight update: legs to scale, lines out of every log with their gaps, and what is not known."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hosts import PLAIN, SIZES, SKIN, Host, page_of, paged, screen_text
from hypothesis import given, strategies
from logs import Filler
from pictures import START, bar, board, picture
from rich.cells import cell_len
from snapshots import HOSTILE, hostile, snapshot, update

from perfmon.diagnosis.result import ClockOffset
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.logbuffer.reader import View
from perfmon.textgraphics.cells import ASCII
from perfmon.textgraphics.charts import Leg
from perfmon.tui.render.trace import in_order, leg_marks
from perfmon.tui.screens.pages import TracePage
from perfmon.tui.theme import ThemeStyles
from perfmon.tui.widgets.overlays import PageScreen
from perfmon.viewmodel import Bar, Level, MonitorState, SpanLane

WAITED = bar(
    13, 12.0, key="ab13", seq=13, values={"queue_ms": 12e3, "rpc_ms": 1200.0, "wall_ms": 13200.0, "step": 13.0}
)
SHOWN = (
    (0, 0.0, "client.send url=http://x", None),
    (1, 12.0, "server.recv path=/update_weights", 70.0),
    (1, 12.001, "rpc.start op=update_weights", 70.0004),
    (1, 13.2, "rpc.done rpc_ms=1200.0", 71.2004),
    (0, 13.25, "client.done wall_ms=13200.0", None),
)


def book(key: str = "ab13", start: float = WAITED.start, budget: int = 16 << 20) -> LogBuffer:
    """The lines of an update in two logs, between others."""
    filler = Filler(budget)
    for source, after, text, mono in SHOWN:
        ticks = "" if mono is None else f" t={mono}"
        name = ("orchestrator.log", "inference.log")[source]
        lines = (dated(start + after, f"[weights][{key}] {text}{ticks}"), dated(start + after, "[gen] batch.start"))
        filler.add(source, lines, name=name)
    return filler.book


def dated(time: float, text: str) -> bytes:
    """A line that was printed then."""
    return f"{datetime.fromtimestamp(time, UTC):%Y-%m-%d %H:%M:%S.%f} {text}".encode()


class Shown(Host):
    """A page."""

    def __init__(
        self, held: LogBuffer, shown: Bar = WAITED, made: MonitorState | None = None, skin: ThemeStyles = SKIN
    ) -> None:
        whole = (
            picture(board=board(bar(12, 0.1, key="ab12", seq=12, level=Level.GOOD), shown)) if made is None else made
        )
        super().__init__(lambda: PageScreen(TracePage(skin, shown, whole, held)))

    @property
    def page(self) -> TracePage:
        """The page."""
        return self.screen.query_one(TracePage)


async def test_legs_are_to_scale_with_their_shares() -> None:
    app = Shown(book())
    async with app.run_test(size=(120, 30)):
        lines = screen_text(app)
    assert "weight update ▸ ab13 s13  13.2 s ✗ CRIT  from 09:49:13" in lines[0]
    assert "2 of 2 in view" in lines[0]
    assert "longer than 1 of 1 other in view, whose p50 is " in lines[1]
    assert "12.0 s   91 %  p50 " in lines[3], lines[3]
    queue, rpc = lines[3], lines[4]
    assert queue.split()[0] == "queue"
    assert "12.0 s   91 %" in queue
    assert " 1.2 s  9.1 %" in rpc
    assert queue.index("○") == 9
    assert queue.count("░") + 1 == pytest.approx(rpc.count("█") * 10, abs=12)
    assert rpc.index("█") >= queue.rindex("░")


@pytest.mark.parametrize("size", SIZES)
async def test_lines_of_all_logs_with_the_gaps_between_them(size: tuple[int, int]) -> None:
    app = Shown(book())
    async with app.run_test(size=size) as pilot:
        text = "\n".join(await paged(app, pilot))
    for words in ("5 lines of 2 logs", "+12.00 s", "◂ queue", "+1.20 s", "◂ rpc", "client.done"):
        assert words in text
    assert "batch.start" not in text


async def test_enter_jumps_to_the_line_and_y_copies_it() -> None:
    app = Shown(book())
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.press("j", "j", "y", "O", "enter")
        await pilot.pause()
    assert [(action, line.source, line.line) for action, line in app.requests] == [
        (action, "inference.log", 1) for action in ("copy", "pager", "jump")
    ]
    assert "[weights][ab13] server.recv" in app.requests[0][1].text


async def test_other_updates() -> None:
    app = Shown(book())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("comma")
        assert "ab12" in screen_text(app)[0]
        assert any("no buffered line belongs to it" in line for line in screen_text(app))
        await pilot.press("comma")
        assert "no earlier update in view" in screen_text(app)[0]
        await pilot.press("full_stop")
        assert "ab13" in screen_text(app)[0]
        await pilot.press("escape")
        assert page_of(app) is None


async def test_what_is_not_known_is_said() -> None:
    alone = replace(
        WAITED, legs=(Leg("unknown", WAITED.start, WAITED.end),), missing=("server.recv", "rpc.start", "rpc.done")
    )
    contradictory = snapshot(clock_offsets=(ClockOffset("inference.log", -0.2, 0.004, 3, True),))
    app = Shown(LogBuffer(), alone, picture(board=board(alone), snapshot=contradictory))
    async with app.run_test(size=(120, 30)):
        text = "\n".join(screen_text(app))
    for words in (
        " wait    ○▒",
        "queue or network (no server log)",
        "? not in the logs: server.recv, rpc.start, rpc.done: add the server's log",
        "no buffered line belongs to it",
        "! inference.log: its clock is 0.2 s behind the client's, ± 4 ms, by 3 updates; estimates disagree",
    ):
        assert words in text
    assert "orchestrator.log:813" in text


async def test_lines_that_are_not_kept_any_more() -> None:
    held = book(budget=1 << 12)
    filler = Filler()
    filler.book = held
    for at in range(40):
        filler.add(7, [dated(WAITED.end + at, "x" * 2000)])
    assert held.totals().lost_lines > 0
    app = Shown(held, made=picture(board=board(WAITED), snapshot=snapshot(slowest=(update(13, 12e3),))))
    async with app.run_test(size=(120, 30)):
        text = "\n".join(screen_text(app))
    assert "its first lines are no longer buffered" in text
    assert "orchestrator.log:813" in text


async def test_without_an_id_nothing_is_looked_up() -> None:
    app = Shown(book(), replace(WAITED, key=""))
    async with app.run_test(size=(80, 24)):
        text = "\n".join(screen_text(app))
    assert "no id" in text
    assert "its lines carry no id" in text


async def test_an_id_that_was_given_twice_shows_the_lines_nearby() -> None:
    held = book(start=WAITED.start - 3600.0)
    app = Shown(held)
    async with app.run_test(size=(120, 30)):
        assert any("5 lines of 2 logs" in line for line in screen_text(app))
    filler = Filler()
    filler.book = held
    filler.add(9, [dated(WAITED.start + 1.0, "[weights][ab13] client.send")])
    app = Shown(held)
    async with app.run_test(size=(120, 30)):
        assert any("1 line of 1 log" in line for line in screen_text(app))


async def test_an_update_under_way_grows() -> None:
    growing = replace(WAITED, open=True, legs=WAITED.legs[:1], end=WAITED.start + 12.0)
    app = Shown(book(), growing)
    async with app.run_test(size=(120, 30)) as pilot:
        assert "still open" in screen_text(app)[0]
        longer = replace(growing, end=WAITED.start + 20.0, legs=(replace(growing.legs[0], end=WAITED.start + 20.0),))
        app.screen.query_one(TracePage).show(picture(number=2, board=board(longer)))
        await pilot.pause()
        assert "20.0 s" in screen_text(app)[0]
        app.page.show(picture(number=3, board=board(WAITED)))
        app.page.show(picture(number=4, board=board()))
        await pilot.pause()
        assert "13.2 s ✗ CRIT  from" in screen_text(app)[0]


async def test_what_ran_beside_it() -> None:
    batch = Bar("generation-batch", "7", WAITED.start - 3.0, WAITED.start + 6.6, False, Level.WARNING, seq=1)
    lanes = (
        *board(WAITED).spans,
        SpanLane("generation-batch", "dur_ms", (batch, replace(batch, end=WAITED.start - 1))),
    )
    app = Shown(book(), made=picture(board=replace(board(), spans=lanes)))
    async with app.run_test(size=(120, 30)):
        companion = [line for line in screen_text(app) if "generation batch 7" in line]
    assert len(companion) == 1
    assert "9.6 s !   50 % of it  from 09:49:10" in companion[0]


@pytest.mark.parametrize("size", [*SIZES, (20, 4), (8, 3), (1, 1)])
@pytest.mark.parametrize(
    "skin", [SKIN, PLAIN, ThemeStyles(SKIN.theme, glyphs=ASCII)], ids=["colours", "plain", "ascii"]
)
async def test_hostile_text_stays_text(size: tuple[int, int], skin: ThemeStyles) -> None:
    filler = Filler()
    filler.add(0, [dated(WAITED.start, f"[weights][{HOSTILE}] {HOSTILE}"), HOSTILE.encode()], name=HOSTILE)
    bad = replace(WAITED, key=HOSTILE, missing=(HOSTILE,), legs=(replace(WAITED.legs[0], kind=HOSTILE),))
    companion = replace(bad, kind=HOSTILE, seq=99)
    spans = (SpanLane("weight-update", "wall_ms", (bad,)), SpanLane(HOSTILE, "x", (companion,)))
    app = Shown(filler.book, bad, picture(snapshot=hostile(), board=replace(board(), spans=spans)), skin)
    async with app.run_test(size=size) as pilot:
        lines = await paged(app, pilot)
    assert {cell_len(line) for line in lines} == {size[0]}
    assert not set("".join(lines)) & set("\x1b\x07\n\r\u202e\x00")


def test_lines_of_one_second_follow_each_other_like_the_legs_do() -> None:
    filler = Filler()
    for source, leg in enumerate(("client.done", "rpc.done", "server.recv", "client.send")):
        filler.add(source, [dated(START, f"[weights][ab13] {leg}")])
    lines = View(filler.book).head(10).lines
    legs = [line.text.split()[-1] for line in in_order(lines)]
    assert legs == ["client.send", "server.recv", "rpc.done", "client.done"]


def test_gaps_are_named_by_the_lines_around_them() -> None:
    assert leg_marks(["client.send", "x", "server.recv", "rpc.start", "rpc.done", "client.done"]) == {
        2: "queue",
        4: "rpc",
    }
    assert leg_marks(["client.send", "client.done"]) == {}


@given(strategies.lists(strategies.text()))
def test_any_lines_can_be_marked(texts: list[str]) -> None:
    assert set(leg_marks(texts)) <= set(range(len(texts)))
