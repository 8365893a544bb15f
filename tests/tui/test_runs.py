"""The list of runs: every size, choosing one, runs that come and change, and the way back from a monitor."""

from __future__ import annotations

import asyncio
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hosts import SIZES, screen_text
from terminals import PERFMON, Server
from textual.pilot import Pilot

from perfmon.core.config import Config
from perfmon.demo.output import write_demo
from perfmon.sources import LogGroup
from perfmon.status import RunRow, State, look, ordered, rows_of
from perfmon.status.state_file import state_of
from perfmon.themes.loader import load_themes
from perfmon.tui import AppOptions, RunsApp

HOSTILE = "\x1b[31m[red]evil[/red]\n\u202e"


def group(name: str, *paths: str) -> LogGroup:
    return LogGroup(name, (f"/runs/{name}",), paths or (f"/runs/{name}/x.log",))


ROWS = [
    RunRow(group("alpha"), 100.0, problem="cannot be read"),
    RunRow(group("beta"), 90.0),
    RunRow(group(HOSTILE), 80.0),
]


def app_of(rows: list[RunRow], find: Any = None, look_at: Any = None, *, together: bool = True) -> RunsApp:
    opening = AppOptions("/runs", load_themes(), "midnight")
    return RunsApp(rows, opening, find or (lambda: rows), look_at or (lambda row: row), together=together)


def played(app: RunsApp, size: tuple[int, int], *keys: str) -> str:
    """The text of the screen after these keys."""

    async def play() -> str:
        async with app.run_test(size=size) as pilot:
            await _press(pilot, keys)
            return "\n".join(screen_text(app))

    return asyncio.run(play())


async def _press(pilot: Pilot[Any], keys: tuple[str, ...]) -> None:
    await pilot.pause()
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


@pytest.mark.parametrize("size", SIZES)
def test_every_size_lists_runs_and_nothing_of_a_name_is_interpreted(size: tuple[int, int]) -> None:
    lines = played(app_of(ROWS), size).splitlines()
    assert len(lines) == size[1]
    assert any("alpha" in line or "…" in line for line in lines)
    assert lines[-1].lstrip().startswith("? help")
    assert "\x1b" not in "".join(lines)
    if size[0] >= 80 and size[1] >= 10:
        assert any("all of these as one run" in line for line in lines)
        assert any("[red]evil[/red]" in line for line in lines)


def row_of(name: str, age_s: float = 0.0, **known: Any) -> RunRow:
    """A run that was looked at, whose log was written to so long ago."""
    state = state_of((), None, "observed")._replace(observed=True, **known)
    return RunRow(group(name), time.time() - age_s, state)


def test_a_silent_run_stands_above_healthy_ones_and_is_counted() -> None:
    silent = row_of("quiet", 2040.0, progress="running", stale_s=2040.0)
    rows = [
        row_of("over", 1200.0, progress="finished"),
        row_of("old", 9e5, progress="running", stale_s=9e5),
        row_of("fine", progress="running", assessment="healthy"),
        silent,
    ]
    assert [row.group.name for row in ordered(rows)] == ["quiet", "fine", "over", "old"]
    assert "2 silent" in played(app_of(rows), (120, 30)).splitlines()[0]
    assert "4 runs in" in played(app_of(rows), (120, 30)).splitlines()[0]
    assert "3 of 9 runs" in played(app_of([*rows, *[silent] * 5], together=False), (60, 6)).splitlines()[0]


def test_the_count_of_a_row_fits_and_names_what_is_no_step() -> None:
    assert row_of("long", done=1484.0, total=250_000.0, counted="steps").steps == "1,484/250k"
    assert row_of("lit", done=4.0, total=4.0, counted="epochs").steps == "4/4 epochs"


def test_a_start_of_few_lines_is_not_called_unreadable() -> None:
    started = row_of("own", assessment="learning")
    assert started.state is not None
    unread = replace(started, state=started.state._replace(observed=False))
    assert unread.verdict == "too little progress to judge"


@pytest.mark.parametrize(("keys", "chosen"), [(("enter",), 0), (("j", "enter"), 1), (("G", "enter"), None)])
def test_enter_opens_the_run_under_the_cursor(keys: tuple[str, ...], chosen: int | None) -> None:
    app = app_of(ROWS)

    async def play() -> None:
        async with app.run_test(size=(120, 30)) as pilot:
            await _press(pilot, keys)

    asyncio.run(play())
    assert app.choice is not None
    assert app.choice.group == (None if chosen is None else ROWS[chosen].group)


def test_q_leaves_without_a_choice_and_the_help_explains_the_columns() -> None:
    assert "last line" in played(app_of(ROWS), (120, 30), "question_mark")
    app = app_of(ROWS)
    played(app, (80, 24), "q")
    assert app.choice is None


def test_newer_rows_keep_the_cursor_on_its_run() -> None:
    app = app_of(ROWS)

    async def play() -> str:
        async with app.run_test(size=(120, 30)) as pilot:
            await _press(pilot, ("j",))
            app.show_rows([RunRow(group("newest"), 200.0), *ROWS])
            await pilot.pause()
            return app.list.runs[app.list.cursor or 0].group.name

    assert asyncio.run(play()) == "beta"


def test_a_row_states_how_its_run_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    logs = write_demo(tmp_path / "a", "kv-cache-pressure", 0, 10)
    crash = tmp_path / "b" / "train.log"
    crash.parent.mkdir()
    crash.write_text("{'loss': 2.1, 'epoch': 0.1}\nTraceback (most recent call last):\n  File \"t.py\", line 3, in f\n"
                     "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")  # fmt: skip
    groups = [LogGroup("a", (str(tmp_path / "a"),), tuple(map(str, logs))), LogGroup("b", (str(crash),), (str(crash),))]
    seen = {row.group.name: look(row, Config()) for row in rows_of(groups)}
    assert (seen["a"].level, seen["a"].verdict[:17]) == ("critical", "KV cache pressure")
    assert (seen["b"].word, seen["b"].level, seen["b"].verdict) == (
        "failed",
        "critical",
        "Out of memory: ended because GPU memory ran out: tried to allocate 2.00 GiB (t.py:3 in f)",
    )
    crash.unlink()
    gone = look(seen["b"], Config())
    assert gone.word == "unreadable"
    assert "no such file" in gone.verdict


@pytest.mark.system
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_enter_opens_a_monitor_and_escape_comes_back(tmp_path: Path) -> None:
    for name in ("first", "second"):
        write_demo(tmp_path / "runs" / name, "kv-cache-pressure", 0, 10)
    server = Server(tmp_path)
    try:
        window = server.open(tmp_path / "runs", PERFMON)
        window.shows("2 runs in ")
        window.shows("KV cache pressure")
        window.press("j", "Enter")
        window.shows("KV CACHE PRESSURE")
        window.shows("esc: back to the list of runs")
        window.press("Escape")
        window.shows("2 runs in ")
        window.hides("TIMELINE")
        window.press("q")
        window.shows("left: 0")
    finally:
        server("kill-server")


@pytest.mark.system
@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")
def test_a_format_is_proposed_and_applied_at_once(tmp_path: Path) -> None:
    began = time.time() - 600
    stamps = [time.strftime("%H:%M:%S", time.localtime(began + 2 * at)) for at in range(300)]
    lines = [f"{stamp} ## it {at}/24000 ## zeta=2.{at:03d} ## gn 0.6{at}" for at, stamp in enumerate(stamps)]
    (tmp_path / "zeta.log").write_text("\n".join(lines) + "\n")
    formats = tmp_path / "perfmon" / "formats"
    server = Server(tmp_path)
    try:
        window = server.open(tmp_path, f"{PERFMON} watch zeta.log", XDG_CONFIG_HOME=str(tmp_path))
        window.shows("UNREADABLE")
        window.press(":", *"learn", "Enter")
        window.shows("SAMPLE LINES")
        assert not formats.exists(), "nothing is written before enter"
        window.press("Enter")
        window.hides("SAMPLE LINES")
        window.hides("UNREADABLE")
        window.shows("gradient norm")
        assert [path.name for path in formats.iterdir()] == ["zeta.toml"]
        window.press("q")
        window.shows("left: 0")
    finally:
        server("kill-server")


def test_a_list_that_does_not_fit_states_its_part_and_how_many_are_silent() -> None:
    state = State((), 0.0, "observed", "", "", "", "", 0.0, 0.0, 0, True, stale_s=900.0)
    since = time.time() - 900.0
    silent, fine = (
        RunRow(group(name), since, one) for name, one in (("q", state), ("f", state._replace(stale_s=None)))
    )
    many = [RunRow(group(f"run{at}"), 100.0) for at in range(9)]
    lines = played(app_of([*many, silent]), (60, 10)).splitlines()
    assert lines[0].rstrip().endswith("1 silent")
    assert lines[1].rstrip().endswith("1-7 of 11")
    assert ordered([fine, *many, silent])[0] is silent, "it needs a look"
    long = RunRow(group("long"), 90.0, state._replace(done=1493.0, total=250_000.0))
    assert long.steps == "1,493/250k"
