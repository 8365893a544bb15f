"""Markdown: log text cannot break out of a cell, a fence or a paragraph."""

from __future__ import annotations

import re

import pytest
import snapshots

from perfmon.reports import render_page
from perfmon.reports.layout import fenced, inline, markdown_table


def _outside_fences(page: str) -> list[str]:
    lines, fence = [], ""
    for line in page.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif opened := re.match(r"(`{3,})text$", line):
            fence = opened[1]
        else:
            lines.append(line)
    assert not fence, "a fence was never closed"
    return lines


@pytest.mark.parametrize("words", [snapshots.HOSTILE, snapshots.HUGE, "```\n## owned\n```", "- x\n- y", "==="])
def test_log_text_is_never_markup(words: str) -> None:
    page = render_page(snapshots.hostile(words), resolved=True)
    assert len(page) < 200_000
    lines = _outside_fences(page)
    assert not any("<" in line for line in lines)
    assert not any(re.search(r"https?://", line) for line in lines)
    headings = {line.split(" ")[0] for line in lines if line.startswith("#")}
    assert headings == {"#", "##", "###"}
    assert "## owned" not in lines


@pytest.mark.parametrize("words", [snapshots.HOSTILE, "a|b\\|c\\", "\\"])
def test_a_cell_stays_one_cell(words: str) -> None:
    for line in markdown_table(("one", "two"), [(words, words)]):
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
        assert "\n" not in line


def test_a_fence_is_longer_than_what_it_holds() -> None:
    lines = fenced(["a ````` b", "```"])
    assert lines[0] == "``````text"
    assert lines[-1] == "``````"


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("queue_ms above 1000", "queue_ms above 1000"),
        ("_x_ *y* `z`", "\\_x\\_ \\*y\\* \\`z\\`"),
        ("1. one", "1&#8203;. one"),
        ("1.5 s", "1.5 s"),
        ("# x", "\\# x"),
        ("[a](http://b)", "\\[a\\](http\\://b)"),
        ("<b>&", "&lt;b&gt;&amp;"),
    ],
)
def test_inline(text: str, escaped: str) -> None:
    assert inline(text) == escaped
