"""What is painted before the app is there stands where the app will paint it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hosts import SIZES
from whole import running, settled, until

from perfmon.demo.output import write_demo
from perfmon.monitor.feeds import FollowFeed
from perfmon.textgraphics.cells import UNICODE
from perfmon.themes.loader import load_themes
from perfmon.tui.layout import USUALLY_LISTED, layout_for
from perfmon.tui.terminal.splash import frame

_TITLE = re.compile(r"─ (\d) ([A-Z]+) ")
_PLACED = re.compile(r"\x1b\[(\d+);(\d+)H([^\x1b]*)")


def painted(size: tuple[int, int], preset: str = "auto") -> list[str]:
    """The rows that the curtain paints, without colours."""
    layout = layout_for(*size, preset, listed=USUALLY_LISTED)
    result = "".join(frame("run", load_themes()["midnight"], UNICODE, {}, layout, size[0]))
    rows = [" " * size[0]] * size[1]
    for row, column, text in _PLACED.findall(re.sub(r"\x1b\[[\d;]*m|\x1b\[2J", "", result)):
        at, begin = int(row) - 1, int(column) - 1
        rows[at] = rows[at][:begin] + text + rows[at][begin + len(text) :]
    return rows


@pytest.mark.parametrize("size", SIZES)
async def test_titles_do_not_move_when_the_app_comes(
    size: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    rows = painted(size)
    write_demo(tmp_path / "logs", "frontend-queue")  # nothing is polled
    async with running(lambda: FollowFeed([str(tmp_path / "logs")]), size=size) as (app, pilot):
        await until(pilot, lambda: len(app.picture.sources) == 3)
        shown = await settled(app, pilot)
    titles = [[(found.start(), found.groups()) for found in _TITLE.finditer(row)] for row in rows]
    assert titles == [[(found.start(), found.groups()) for found in _TITLE.finditer(row)] for row in shown]
    assert [" run │" in row for row in rows] == [" run │" in row for row in shown]
    assert all(len(row) == size[0] for row in rows)
