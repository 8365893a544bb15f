"""The pane of log lines: following, standing still, searching, filtering, jumping; hostile lines; little repainting."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from hosts import PLAIN, SIZES, SKIN, screen_text
from logs import Filler, stamped
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.events import Key
from textual.geometry import Region
from textual.pilot import Pilot

from perfmon.core.model import Block
from perfmon.diagnosis.result import EvidenceLine
from perfmon.logbuffer.lines import Filter
from perfmon.logbuffer.reader import View
from perfmon.sources.clock import SourceClock
from perfmon.textgraphics.cells import ASCII
from perfmon.tui.actions import by_key, chosen
from perfmon.tui.panes.logs import LogPane
from perfmon.tui.render.logs import Columns, clock_text, log_row, short_names
from perfmon.tui.terminal.suspend import Opened, command, opened_at, shown_elsewhere
from perfmon.tui.theme import ThemeStyles
from perfmon.tui.widgets.pane import Request

HOSTILE = (
    b"[/x] [bold red]no[/] [weights][a]",
    b"\x1b[2J\x1b[31mred\x1b[0m",
    b"\x1b]52;c;aGVsbG8=\x07copied",
    b"x" * 1_000_000,
    ("日本語" * 100).encode(),
    ("z" + "\u0301" * 500).encode(),
    "bidi \u202eabc\u202c zero\u200bwidth\ufeff\u009b2J".encode(),
    b"\xff\xfe\x00 odd",
    b" 10%|#\r 20%|##\r 30%|###",
    b"\t\ttabs",
    b"",
    b"token=sk-abcdefghijklmnopqrstuvwx",
)


class Watched(LogPane):
    """Remembers what it repainted."""

    def __init__(self, filler: Filler, skin: ThemeStyles = SKIN) -> None:
        self.regions: list[Region] = []
        super().__init__(skin, filler.book)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Watched:
        """As it is, and remembered."""
        self.regions.extend(regions)
        super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
        return self


class Host(App[None]):
    """Shows the pane as the app does."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "LogPane { height: 1fr; }"

    def __init__(self, filler: Filler, skin: ThemeStyles = SKIN) -> None:
        super().__init__()
        self.pane = Watched(filler, skin)
        self.requests: list[tuple[str, Any]] = []

    def compose(self) -> ComposeResult:
        """The pane alone."""
        yield self.pane

    def on_mount(self) -> None:
        """It has the keys."""
        self.pane.focus()

    def on_request(self, message: Request) -> None:
        """Keeps it."""
        self.requests.append((message.action, message.about))

    def on_key(self, event: Key) -> None:
        """Runs the action of a key as the app does."""
        if self.screen is not self.screen_stack[0]:
            return
        action = chosen(by_key({}).get(event.key, []), "log")
        if action is not None:
            getattr(self.pane, f"do_{action.id}", lambda: None)()


def filled(count: int = 100) -> Filler:
    """Lines of two logs in turn, a second apart; every tenth is an error, one in seven has a trace."""
    filler = Filler()
    for at in range(count):
        level = "ERROR" if at % 10 == 9 else "INFO"
        trace = f"[weights][ab{at // 7}] " if at % 7 == 0 else ""
        filler.add(at % 2, [stamped(1000 * at, f"{level} {trace}number {at:03d}.")])
    return filler


def numbers(app: App[None]) -> list[int]:
    """Which of the lines of `filled` are on the screen."""
    return [int(number) for line in screen_text(app)[1:] for number in re.findall(r"number (\d+)\.", line)]


async def shown(pilot: Pilot[None], *keys: str) -> list[int]:
    """What is on the screen after some keys and all searches."""
    await pilot.press(*keys)
    pane = pilot.app.query_one(LogPane)
    for _ in range(200):
        await pilot.pause()
        if not pane.view.searching and not pane.view.waiting:
            break
        pane._due()
    await pilot.pause()
    return numbers(pilot.app)


def selected(app: Host) -> int | None:
    """Number of the line that keys act on."""
    line = app.pane.view.current
    return None if line is None else int(re.findall(r"number (\d+)\.", line.text)[0])


# --- what is on the screen --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("size", "skin"),
    [(size, SKIN) for size in (*SIZES, (20, 5), (29, 1), (8, 3))]
    + [((80, 24), PLAIN), ((43, 2), ThemeStyles(SKIN.theme, glyphs=ASCII))],
)
async def test_hostile_lines_are_shown_and_never_obeyed(size: tuple[int, int], skin: ThemeStyles) -> None:
    filler = Filler()
    filler.add(0, HOSTILE, name="[/evil]\x1b[2J.log")
    app = Host(filler, skin)
    async with app.run_test(size=size) as pilot:
        for keys in ((), ("up", "up"), ("greater_than_sign",), ("home",), ("r",), ("v",)):
            await pilot.press(*keys)
            await pilot.pause()
            lines = screen_text(app)
            assert {cell_len(line) for line in lines} == {size[0]}
            assert not set("".join(lines)) & set("\x1b\x07\n\r\x00\u202e\u200b\ufeff\u009b\t")
            assert "sk-abcdef" not in "".join(lines)


async def test_a_row_says_when_which_log_how_grave_and_what() -> None:
    filler = Filler()
    filler.add(0, [stamped(28_010, "INFO [weights][def456] client.send")], name="logs/orchestrator.log")
    filler.add(1, [stamped(58_343, "ERROR boom"), b"  File x.py"], name="logs/inference.log")
    app = Host(filler)
    async with app.run_test(size=(120, 6)) as pilot:
        app.pane.evidence([EvidenceLine("logs/orchestrator.log", 1, "")])
        await pilot.pause()
        lines = screen_text(app)
    assert "4 LOG" in lines[0]
    assert lines[1].startswith(" 10:00:28.010 orchestrator ▸  INFO [weights][def456] client.send")
    assert lines[2].startswith(" 10:00:58.343 inference     ✗ ERROR boom")
    assert lines[3].startswith("              inference         File x.py")


async def test_it_fills_up_and_follows() -> None:
    filler = filled(3)
    app = Host(filler)
    async with app.run_test(size=(80, 6)) as pilot:
        assert await shown(pilot) == [0, 1, 2]
        filler.add(0, [stamped(900_000 + at, f"number {at}.") for at in range(3, 9)])
        app.pane.update()
        app.pane._due()
        assert await shown(pilot) == [4, 5, 6, 7, 8]


async def test_only_what_changed_is_repainted() -> None:
    filler = filled(2)
    app = Host(filler)
    async with app.run_test(size=(80, 10)) as pilot:
        await pilot.pause()
        app.pane.regions.clear()
        app.pane.update()
        app.pane.redraw()
        assert app.pane.regions == []
        filler.add(0, [stamped(900_000, "number 7.")])
        app.pane.redraw()
        assert [region.y for region in app.pane.regions] == [3]
        await pilot.pause()
        assert numbers(app) == [0, 1, 7]


async def test_a_line_after_a_pause_is_painted_at_once_and_a_flood_waits() -> None:
    filler = filled(2)
    app = Host(filler)
    async with app.run_test(size=(80, 10)):
        app.pane._painted = float("-inf")
        filler.add(0, [stamped(900_000, "number 7.")])
        app.pane.update()
        assert len(app.pane.view.lines) == 3
        app.pane._painted = float("inf")
        filler.add(0, [stamped(900_001, "number 8.")])
        app.pane.update()
        app.pane.update()
        assert len(app.pane.view.lines) == 3
        assert app.pane._timer is not None
        app.pane._timer.stop()
        app.pane._due()
        assert len(app.pane.view.lines) == 4


# --- standing still ---------------------------------------------------------------------------------------------
async def test_keys_move_through_the_lines_and_back_to_the_newest() -> None:
    app = Host(filled(100))
    async with app.run_test(size=(80, 11)) as pilot:
        assert await shown(pilot) == [*range(90, 100)]
        assert await shown(pilot, "up") == [*range(90, 100)]
        assert selected(app) == 98
        assert await shown(pilot, *["k"] * 10) == [*range(88, 98)]
        assert selected(app) == 88
        assert await shown(pilot, "pageup") == [*range(79, 89)]
        assert selected(app) == 79
        assert await shown(pilot, "home") == [*range(10)]
        assert selected(app) == 0
        assert await shown(pilot, "pagedown") == [*range(9, 19)]
        assert await shown(pilot, *["j"] * 12) == [*range(12, 22)]
        assert selected(app) == 21
        assert await shown(pilot, "end") == [*range(90, 100)]
        assert app.pane.view.follow
        await shown(pilot, "up", "down", "down")
        assert app.pane.view.follow


async def test_what_arrives_meanwhile_is_counted() -> None:
    filler = filled(100)
    app = Host(filler)
    async with app.run_test(size=(80, 11)) as pilot:
        await pilot.press("up")
        filler.add(0, [stamped(900_000 + at, f"number {at}.") for at in range(1982)])
        app.pane.redraw()
        assert await shown(pilot) == [*range(90, 100)]
        assert "+1\u202f982 lines" in screen_text(app)[0]
        assert await shown(pilot, "end") == [*range(1972, 1982)]
        assert "lines" not in screen_text(app)[0]


async def test_a_place_that_the_ring_forgets_gives_way_to_the_oldest_line() -> None:
    filler = Filler(100_000)
    filler.add(0, [stamped(at, f"number {at}.") for at in range(20)])
    app = Host(filler)
    async with app.run_test(size=(80, 6)) as pilot:
        await pilot.press("home")
        for at in range(100, 140):
            filler.add(0, [stamped(at, f"number {at}. " + "x" * 5000)])
        app.pane.redraw()
        seen = await shown(pilot)
        assert len(seen) == 5
        assert seen[0] > 100
        assert "older lines dropped" in screen_text(app)[0]


async def test_the_mouse_scrolls_selects_and_opens() -> None:
    app = Host(filled(100))
    async with app.run_test(size=(80, 11)) as pilot:
        await pilot._post_mouse_events([_wheel(up=True)], app.pane, (5, 5))
        assert await shown(pilot) == [*range(87, 97)]
        await pilot.click(LogPane, offset=(5, 3))
        assert selected(app) == 89
        await pilot.click(LogPane, offset=(5, 5), times=2)
        await pilot.pause()
        await pilot._post_mouse_events([_wheel(up=False)] * 2, app.pane, (5, 5))
        await pilot.pause()
        assert app.pane.view.follow
    assert [(action, line.number, line.trace) for action, line in app.requests] == [("line", 46, "ab13")]


def _wheel(*, up: bool) -> type:
    from textual.events import MouseScrollDown, MouseScrollUp

    return MouseScrollUp if up else MouseScrollDown


async def test_long_lines_are_read_sideways() -> None:
    filler = Filler()
    filler.add(0, [b"begin " + b"." * 100 + b" end"])
    app = Host(filler)
    async with app.run_test(size=(60, 3)) as pilot:
        assert "begin" in screen_text(app)[1]
        await pilot.press(*["greater_than_sign"] * 9)
        await pilot.pause()
        assert "end" in screen_text(app)[1]
        await pilot.press(*["less_than_sign"] * 9)
        await pilot.pause()
        assert "begin" in screen_text(app)[1]


# --- searching and filtering ------------------------------------------------------------------------------------
async def test_a_search_goes_from_match_to_match() -> None:
    app = Host(filled(100))
    async with app.run_test(size=(80, 11)) as pilot:
        await shown(pilot, "slash", *"/number 0.5/", "enter")
        assert selected(app) == 95
        assert "hit 10 of 10 for /number 0.5/" in screen_text(app)[0]
        assert await shown(pilot, "N") == [*range(82, 92)]
        assert selected(app) == 85
        assert "hit 9 of 10" in screen_text(app)[0]
        await shown(pilot, "n", "n")
        assert selected(app) == 5
        assert "hit 1 of 10" in screen_text(app)[0]
        assert "wrapped to the first" in screen_text(app)[0]
        await shown(pilot, "N")
        assert selected(app) == 95
        assert "wrapped to the last" in screen_text(app)[0]
        match = SKIN.style("match")
        assert any(style == match for row in app.pane._drawn for _, style in row)
        await shown(pilot, "slash", *["backspace"] * 12, *"nowhere", "enter")
        assert "no hits for nowhere" in screen_text(app)[0]


@pytest.mark.parametrize("key", ["e", "E"])
async def test_from_the_tail_the_nearest_error_is_the_last_one(key: str) -> None:
    app = Host(filled(103))
    async with app.run_test(size=(80, 11)) as pilot:
        await shown(pilot)
        seen = []
        for pressed in (key, "E", "E", "e"):
            await shown(pilot, pressed)
            seen.append(selected(app))
        assert seen == [99, 89, 79, 89]
        assert "error line 9 of 10" in screen_text(app)[0]


async def test_requests_that_were_served_are_folded_and_a_failed_one_is_not() -> None:
    filler = Filler()
    for at in range(6):  # as they come in: block by block
        filler.add(0, [stamped(at, f'10.0.0.3:5312 - "POST /v1/completions HTTP/1.1" 200 OK {at}')])
    filler.add(0, [stamped(7, 'INFO 10.0.0.3:5312 - "POST /v1/completions HTTP/1.1" 500 Internal Server Error')])
    filler.add(0, [stamped(8, 'INFO HTTP Request: POST http://localhost/v1 "HTTP/1.1 200 OK"')])
    app = Host(filler)
    async with app.run_test(size=(120, 9)) as pilot:
        lines = screen_text(app)
        assert "200 OK 0" in lines[1]
        assert lines[1].rstrip().endswith("5 more")
        assert "500 Internal" in lines[2]
        assert "HTTP Request" in lines[3]
        assert not lines[4].strip()
        await pilot.press("A")
        assert "200 OK 5" in screen_text(app)[6]
        await pilot.press("A")
        assert "500 Internal" in screen_text(app)[2]
        await shown(pilot, "slash", *"OK 3", "enter")
        assert "hit 1 of 1" in screen_text(app)[0]
        assert any("200 OK 3" in line for line in screen_text(app))


async def test_filters_narrow_and_are_cleared() -> None:
    app = Host(filled(100))
    async with app.run_test(size=(80, 11)) as pilot:
        assert await shown(pilot, "f") == [*range(80, 100, 2)]
        assert "only log0 " in screen_text(app)[0]
        assert await shown(pilot, "f") == [*range(81, 101, 2)]
        assert await shown(pilot, "v", "v") == [*range(9, 100, 10)]
        assert "error and worse" in screen_text(app)[0]
        assert await shown(pilot, "x") == [*range(90, 100)]
        app.pane.filter(Filter(texts=("number 09", "/[24]\\.$/")))
        assert await shown(pilot) == [92, 94]
        app.pane.filter(Filter(texts=("no such words",)))
        await pilot.pause()
        assert "no buffered line matches" in screen_text(app)[1]
        assert await shown(pilot, "x") == [*range(90, 100)]
        assert "/ find  e error  & only  f log" in screen_text(app)[0]


async def test_a_trace_shows_its_gaps() -> None:
    filler = Filler()
    for ms, source, leg, t in (
        (10, 0, "client.send", 5.0),
        (30_343, 1, "server.recv", 35.3334),
        (31_565, 0, "done", 0),
    ):
        filler.add(source, [stamped(ms, f"[weights][ab] {leg}" + (f" t={t}" if t else "")), stamped(ms, "other")])
    app = Host(filler)
    async with app.run_test(size=(120, 10)) as pilot:
        await pilot.press("home", "r")
        await pilot.pause()
        lines = screen_text(app)
        assert "update ab" in lines[0]
        assert [re.findall(r"[+-][\d.]+ m?s", line) for line in lines[1:4]] == [[], ["+30.33 s"], ["+1.22 s"]]
        assert not lines[4].strip()
        await pilot.press("r")
        await pilot.pause()
        assert "other" in screen_text(app)[2]


@pytest.mark.parametrize(
    ("text", "result"),
    [("/(/", "is not a valid regular expression"), ("/(a|a)+$/", "takes too long"), ("/(a+)+$/", "takes too")],
)
async def test_an_expression_that_is_wrong_or_endless_is_told_and_the_lines_stay(text: str, result: str) -> None:
    filler = filled(50)
    filler.add(0, [stamped(900_000, "a" * 60 + "! number 7.")])
    app = Host(filler)
    async with app.run_test(size=(200, 11)) as pilot:
        await shown(pilot)
        app.pane.filter(Filter(texts=(text,)))
        assert 49 in await shown(pilot)
        assert result in screen_text(app)[0]
        app.pane.search(text)
        assert 49 in await shown(pilot)


async def test_marks_are_returned_to() -> None:
    app = Host(filled(100))
    async with app.run_test(size=(80, 11)) as pilot:
        await shown(pilot, "k", "m", "home", "m", "G", "apostrophe")
        assert selected(app) == 0
        await shown(pilot, "apostrophe")
        assert selected(app) == 98
        assert "•" in "".join(screen_text(app)[1:])
        await shown(pilot, "m", "apostrophe", "m", "apostrophe")
        assert "no marked lines" in screen_text(app)[0]


# --- going somewhere --------------------------------------------------------------------------------------------
async def test_evidence_is_jumped_to_even_when_a_filter_hides_it() -> None:
    app = Host(filled(100))
    async with app.run_test(size=(80, 11)) as pilot:
        await pilot.press("v")
        app.pane.jump("log1.log", 21)
        assert 41 in await shown(pilot)
        assert selected(app) == 41
        begin = app.pane.view.lines[0].time or 0.0
        app.pane.jump_time(begin + 10.5)
        await shown(pilot)
        assert selected(app) == numbers(app)[0] + 3


async def test_the_line_that_a_run_has_failed_by_is_shown_until_it_runs_again_or_the_user_goes_elsewhere() -> None:
    app, cause = Host(filled(100)), EvidenceLine("log1.log", 21, "")
    async with app.run_test(size=(80, 11)) as pilot:
        app.pane.show_cause(EvidenceLine("log1.log", 50, ""))
        assert (await shown(pilot))[-1] == 99, "it is in view already"
        app.pane.show_cause(None)
        app.pane.show_cause(cause)
        assert 41 in await shown(pilot)
        assert "the run failed here" in screen_text(app)[0]
        await shown(pilot, "end")
        app.pane.show_cause(cause)
        assert (await shown(pilot))[-1] == 99, "only once"
        app.pane.show_cause(None)
        app.pane.show_cause(cause)
        app.pane.show_cause(None)
        assert (await shown(pilot))[-1] == 99, "it runs again"
        await shown(pilot, "home")
        app.pane.show_cause(cause)
        assert (await shown(pilot))[0] == 0, "where the user reads nothing moves"


async def test_a_line_that_is_not_kept_is_read_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    lines = [stamped(at, f"number {at}.") for at in range(1000)]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    filler = Filler()
    data = lines[-1] + b"\n"
    clock = SourceClock()
    clock.resolve((3, 1787306400.999), None)
    filler.book.append(0, "a.log", Block(data, 0, 1000), clock, path)
    app = Host(filler)
    async with app.run_test(size=(80, 11)) as pilot:
        app.pane.jump("a.log", 301)
        await app.workers.wait_for_complete()
        assert 300 in await shown(pilot)
        assert selected(app) == 300
        assert "read from the file" in screen_text(app)[0]
        assert await shown(pilot, "end") == [999]
        app.pane.jump("a.log", 5000)
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "line 5000 no longer exists" in screen_text(app)[0]
        app.pane.jump("nowhere.log", 1)
        await pilot.pause()
        assert "nowhere.log:1 is no longer buffered" in screen_text(app)[0]


async def test_a_line_is_copied_and_opened_elsewhere() -> None:
    app = Host(filled(10))
    async with app.run_test(size=(80, 11)) as pilot:
        await pilot.press("k", "y", "O", "enter")
        await pilot.pause()
    copied, paged, opened = app.requests
    assert [action for action, _ in app.requests] == ["copy", "pager", "line"]
    assert copied[1] == paged[1]
    assert (copied[1].source, copied[1].line) == ("log0.log", 5)
    assert copied[1].text.endswith("number 008.")
    assert opened[1].number == 5


def test_what_opens_a_line_elsewhere_sees_no_option_in_a_path(tmp_path: Path) -> None:
    path = tmp_path / "-rf $(x).log"
    path.write_bytes(b"one\ntwo\n")
    filler = Filler()
    filler.book.append(0, "-rf", Block(b"one\ntwo\n", 0, 1), SourceClock(), path)
    opened = opened_at(filler.book, "-rf", 2, environment={"PAGER": "less -R"})
    assert opened is not None
    assert opened.argv == ("less", "-R", "+2", str(path))
    assert opened.temporary is None
    assert command(path, 2, {"PAGER": "lnav"}) == ("lnav", "-c", ":goto 1", str(path))
    assert command(path, 2, {"PAGER": "'broken"})[-1] == str(path)


def test_what_was_made_for_another_program_goes_with_it(tmp_path: Path) -> None:
    seen, copy = tmp_path / "seen", tmp_path / "copy"
    copy.write_text("lines")
    assert shown_elsewhere(Opened(("cp", str(copy), str(seen)), copy)) == ""
    assert (seen.read_text(), copy.exists()) == ("lines", False)
    copy.write_text("lines")
    assert shown_elsewhere(Opened((str(tmp_path / "none"),), copy)).endswith("No such file or directory (set PAGER)")
    assert not copy.exists()


def test_an_interrupt_is_for_the_other_program() -> None:
    before = signal.getsignal(signal.SIGINT)
    program = "import os, signal; os.kill(os.getppid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGINT)"
    assert shown_elsewhere(Opened((sys.executable, "-c", program))) == ""
    assert signal.getsignal(signal.SIGINT) is before


def test_lines_without_a_file_are_opened_from_a_copy() -> None:
    filler = filled(10)
    opened = opened_at(filler.book, "log1.log", 3, environment={"PAGER": "less"})
    assert opened is not None
    assert opened.temporary is not None
    try:
        assert opened.argv == ("less", "+3", str(opened.temporary))
        assert opened.temporary.read_text().splitlines()[2].endswith("number 005.")
        assert len(opened.temporary.read_text().splitlines()) == 5
    finally:
        opened.temporary.unlink()
    assert opened_at(filler.book, "log1.log", 99) is None
    assert opened_at(filler.book, "nowhere", 1) is None


def test_a_name_that_has_no_room_is_seen_to_be_cut() -> None:
    names = {0: "orchestrator", 1: "trainer"}
    assert set(Columns.of(80, names).names.values()) == {"orchestrator", "trainer     "}
    assert Columns.of(70, names).names[0] == "orchestra…"


def test_names_are_told_apart_by_what_differs() -> None:
    names = {0: "logs/orchestrator.log", 1: "logs/rank_0/train.log", 2: "logs/rank_1/train.log", 3: "stdin"}
    assert short_names(names) == {0: "orchestrator", 1: "rank_0", 2: "rank_1", 3: "stdin"}


@pytest.mark.parametrize(
    ("time", "size", "wall", "text"),
    [
        (1787306408.0104, 12, True, "10:00:08.010"),
        (1787306408.9999, 8, True, "10:00:08"),
        (None, 8, True, " " * 8),
        (float("inf"), 12, True, " " * 12),
        (1240.1234, 12, False, "    1240.123"),
    ],
)
def test_times_fill_their_column(time: float | None, size: int, wall: bool, text: str) -> None:
    assert clock_text(time, size, wall) == text


@pytest.mark.parametrize("key", ["n", "N", "k", "home", "pageup", "end"])
async def test_no_key_fails_while_an_endless_expression_is_wanted(key: str) -> None:
    filler = filled(50)
    app = Host(filler)
    async with app.run_test(size=(80, 11)) as pilot:
        app.pane.search("/(a+)+$/")
        app.pane.filter(Filter(texts=("/(a+)+$|number/",)))
        await shown(pilot, "k")
        filler.add(0, [stamped(900_000, "a" * 60 + "! number 7.")])
        assert await shown(pilot, key)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("2026-08-21 10:00:03 INFO one", " 10:00:03     a    INFO one"),
        ("2026-08-21 10:00:03.250 INFO one", " 10:00:03.250 a    INFO one"),
        ("2026-08-21 10:00:03.000 INFO one", " 10:00:03.000 a    INFO one"),
        ("[trainer0]:10:00:03   INFO one", " 10:00:03     a    [trainer0]: INFO one"),
        ("(Engine pid=4) INFO 08-21 10:00:03 [x.py:1] one", " 10:00:03     a    (Engine pid=4) INFO [x.py:1] one"),
        ("10:00:03 INFO [gen]:10:00:04 one", " 10:00:03     a    INFO [gen]:10:00:04 one"),
    ],
)
def test_a_time_is_told_once_and_as_exactly_as_the_line_does(line: str, wanted: str) -> None:
    filler = Filler()
    filler.add(0, [line.encode()], name="a")
    result = View(filler.book, Filter()).tail(1).lines[-1]
    row = log_row(result, Columns.of(120, {0: "a"}), SKIN)
    assert "".join(text for text, _ in row).rstrip() == wanted
