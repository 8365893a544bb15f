"""Whatever a log says, the snapshot page keeps its structure: it is parsed as GitHub would."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime

import pictures
import snapshots
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from perfmon.reports.snapshot_page import render_page
from perfmon.viewmodel import MonitorState

MADE = datetime(2026, 8, 21, 9, 10, tzinfo=UTC)
PARSER = MarkdownIt("gfm-like")
assert PARSER.linkify is not None
PARSER.linkify.set({"fuzzy_link": False})  # bare names are no links on GitHub
SECTIONS = [
    "Verdict",
    "Why, and next steps",
    "Time breakdown",
    "Findings",
    "Alerts",
    "Metrics",
    "Weight updates",
    "Sources",
    "Caveats",
    "Not observed",
]
PIECES = st.sampled_from(
    [
        "|",
        "`",
        "```",
        "````````",
        "~~~",
        "\n",
        "\r\n",
        "\n\n",
        "<script>alert(1)</script>",
        "<!--",
        "-->",
        "](javascript:x)",
        "![i](http://evil.example/x.png)",
        "[a](http://evil.example)",
        "[a]: http://evil.example",
        "@mention",
        "#123",
        "GH-7",
        "https://evil.example",
        "www.evil.example",
        "me@evil.example",
        "_http://evil.example",
        "---",
        "===",
        "# h",
        "> q",
        "- x",
        "1. ",
        "    code",
        "\t",
        "\\",
        "**b**",
        "$x$",
        "&#64;",
        "&lt;",
        "\u202e",
        "\u200b",
        "\x00",
        "\x1b[31m",
        "| a | b |\n|--|--|",
        "\u2028",
        "*",
        "_",
        "<https://evil.example>",
        "[^1]",
        "x",
        " ",
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=8), min_size=1, max_size=8).map("".join)


def hostile_picture(text: str) -> MonitorState:
    """A picture with the text wherever a log can put it."""
    finding = snapshots.finding(title=text, sentence=text, signature=text)
    alert = replace(pictures.alert(finding=finding), inhibited_by=text)
    bar = pictures.bar(3, 5.0, key=text)
    return pictures.picture(alert, sources=(pictures.source(name=text, notes=(text,)),), board=pictures.board(bar))


def parsed(text: str, redact: bool) -> tuple[str, list[Token]]:
    """The page with the text everywhere, and its tokens."""
    page = render_page(snapshots.hostile(text), hostile_picture(text), MADE, redact=redact)
    return page, PARSER.parse(page)


def every(tokens: list[Token]) -> list[Token]:
    """Blocks and what stands in them."""
    return [one for token in tokens for one in (token, *(token.children or ()))]


def columns(tokens: list[Token]) -> list[list[int]]:
    """Per table the number of cells of each row."""
    tables: list[list[int]] = []
    for token in tokens:
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append(0)
        elif token.type in ("th_open", "td_open"):
            tables[-1][-1] += 1
    return tables


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.booleans())
@example(snapshots.HOSTILE, False)
@example("a|b\\|c\\", False)
@example("```\n## owned\n~~~", True)
def test_log_text_breaks_nothing(text: str, redact: bool) -> None:
    _, tokens = parsed(text, redact)
    kinds = {token.type for token in every(tokens)}
    assert kinds.isdisjoint({"html_block", "html_inline", "link_open", "image", "code_block", "ordered_list_open"})
    assert all(len(set(rows)) == 1 for rows in columns(tokens))
    assert len(columns(tokens)) == 5
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert [name for name in headings[1:] if name in SECTIONS] == SECTIONS
    assert len(headings) == 1 + len(SECTIONS) + 1
    assert sum(token.type == "fence" for token in tokens) == 4


@settings(max_examples=150, deadline=None)
@given(TEXTS)
@example("see @octocat in #12 and a/b#12 or GH-3, me@evil.example")
def test_nobody_is_mentioned_and_nothing_is_referred_to(text: str) -> None:
    _, tokens = parsed(text, False)
    for token in every(tokens):
        if token.type == "text":
            assert not re.search(r"@[A-Za-z0-9]|#\d|(?i:\bGH-\d)", token.content), token.content


@settings(max_examples=50, deadline=None)
@given(TEXTS)
@example("www.evil.example http://evil.example")
def test_no_address_is_left_that_github_would_link(text: str) -> None:
    page, tokens = parsed(text, False)
    prose = "\n".join(token.content for token in tokens if token.type == "inline")
    assert not re.search(r"(?i)(?:https?|ftp)://|www\.", re.sub(r"`[^`]*`", "", prose))
    assert len(page) < 100_000
