"""Screenshots: whole in themselves, true to the cell, and safe whatever a log says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from pictures import alert, board, picture
from rich.style import Style
from snapshots import HOSTILE, finding

from perfmon.core.model import Block
from perfmon.logbuffer.buffer import LogBuffer
from perfmon.sources.clock import SourceClock
from perfmon.textgraphics.cells import UNICODE
from perfmon.themes.loader import load_themes
from perfmon.tui.app import board_columns, shoot
from perfmon.tui.plain_app import AppOptions
from perfmon.tui.render.svg import svg

ROOT = Path(__file__).parents[2]
INK = Style.parse("#ffffff on #000000")
NS = {"s": "http://www.w3.org/2000/svg"}


def parsed(*texts: str, style: Style = INK) -> ElementTree.Element:
    """The image of rows of one style."""
    return ElementTree.fromstring(svg([((text, style),) for text in texts], INK, "a run"))  # noqa: S314 - our own


def pieces(image: ElementTree.Element) -> list[tuple[float, float, str]]:
    """Column, line and text of every piece of text."""
    found = image.findall(".//s:g/s:text", NS)
    return [((float(t.attrib["x"])) / 10, (float(t.attrib["y"]) - 15) / 20, t.text or "") for t in found]


def paths(image: ElementTree.Element) -> list[dict[str, str]]:
    """What is drawn as shapes."""
    return [path.attrib for path in image.findall(".//s:path", NS)]


def test_words_stand_in_their_columns() -> None:
    assert pieces(parsed("a bc   d", "  日本 x")) == [(0, 0, "a bc"), (7, 0, "d"), (2, 1, "日本 x")]


def test_a_piece_is_as_wide_as_its_cells() -> None:
    (text,) = parsed("日本ab").findall(".//s:g/s:text", NS)
    assert text.attrib["textLength"] == "60"


def test_blocks_are_shapes_that_touch() -> None:
    image = parsed("x██▄ ░")
    assert pieces(image) == [(0, 0, "x")]
    solid, shaded = paths(image)
    assert solid["d"] == "M10 0h20v20h-20zM30 10h10v10h-10z"
    assert (shaded["d"], "fill-opacity" in shaded) == ("M50 0h10v20h-10z", True)


def test_lines_are_one_stroke() -> None:
    (line,) = paths(parsed("───"))
    assert (line["d"], line["stroke"]) == ("M0 10h30", "#ffffff")


@pytest.mark.parametrize("char", [*UNICODE.spark, *UNICODE.eighths, *"░▒▓▞╭╮╰╯├┤┼│─"])
def test_what_is_a_shape_is_no_text(char: str) -> None:
    image = parsed(char)
    assert (pieces(image), len(paths(image))) == ([], 1)


def test_reversed_text_has_its_ground() -> None:
    image = parsed("ab", style=INK + Style(reverse=True, bold=True))
    (ground,) = paths(image)
    assert (ground["fill"], ground["d"]) == ("#ffffff", "M0 0h20v20h-20z")
    style = image.find("s:style", NS)
    assert style is not None
    assert "fill:#000000;font-weight:bold" in (style.text or "")


@pytest.mark.parametrize("text", [HOSTILE, "<script>alert(1)</script>&]]>", "\x00\x1b[2J\ufffe\ud800"])
def test_no_text_becomes_markup(text: str) -> None:
    image = parsed(text)
    assert {element.tag.partition("}")[2] for element in image.iter()} == {"svg", "title", "style", "rect", "g", "text"}


def whole(image: str) -> None:
    """Fails for an image that needs something from elsewhere."""
    assert re.findall(r"https?://[^\"<\s]+", image.partition("<style>")[0]) == ["http://www.w3.org/2000/svg"]
    assert not re.search(r"@font-face|@import|url\(|href|<image|<foreignObject|<script", image)
    ElementTree.fromstring(image)  # noqa: S314 - our own


def opening(theme: str = "midnight") -> AppOptions:
    """The screen of a run."""
    return AppOptions("my <run>", load_themes(), theme)


def words(image: str) -> str:
    """All its text."""
    return " ".join(text for _, _, text in pieces(ElementTree.fromstring(image)))  # noqa: S314 - our own


async def test_the_screen_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    book = LogBuffer()
    book.append(0, "a.log", Block(b"[bold]hello[/x] token=hunter2-hunter2\n", 0, 1), SourceClock())
    shown = picture(alert(finding=finding()), board=board(), number=7)
    lanes = replace(shown.board, viewport=replace(shown.board.viewport, columns=board_columns(120)))
    image = await shoot(replace(shown, board=lanes), book, opening(), (120, 30))
    whole(image)
    text = words(image)
    assert "my <run>" in text
    assert "[bold]hello[/x]" in text
    assert "hunter2" not in text
    assert "cpu" not in text


@pytest.mark.parametrize("theme", load_themes())
async def test_every_theme_has_a_screenshot(theme: str) -> None:
    image = await shoot(picture(number=3), LogBuffer(), opening(theme), (60, 10))
    whole(image)
    colours = set(re.findall(r"#[0-9a-f]{6}", image))
    assert len(colours) >= 2


def test_the_pictures_of_the_documentation_need_nothing_else() -> None:
    images: list[Any] = sorted((ROOT / "docs" / "images").glob("*.svg"))
    assert len(images) >= 5
    for image in images:
        assert image.stat().st_size < 150_000
        whole(image.read_text())


def test_braille_is_drawn_as_dots_in_its_cell() -> None:
    image = svg([(("⣀⡇", Style(color="#ffffff")),)], Style(color="#ffffff", bgcolor="#000000"), "a line")
    assert "⣀" not in image
    assert image.count("h2.5v2.5h-2.5z") == 2 + 4
