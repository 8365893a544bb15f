"""Comparisons as text, Markdown and JSON: names and notes from logs and files cannot break out."""

from __future__ import annotations

import json
import re

import pytest
import snapshots
from markdown_it import MarkdownIt

from perfmon.comparison.comparing import compare
from perfmon.comparison.model import Comparison, Run, load_criteria
from perfmon.reports import comparison as reports
from perfmon.reports.comparison import document
from perfmon.rules.bands import load_bands

HOSTILE = [snapshots.HOSTILE, "</td>(x)", "`a|b`", "x" * 100_000]


def _compared(name: str) -> Comparison:
    bands = load_bands()
    bands = type(bands)(bands.table, {name.partition("{")[0].partition(".")[0]: "lower"})
    before, after = (Run(snapshots.hostile(name), bands, {name: [value] * 9}, {"x": 9}) for value in (1.0, 9.0))
    return compare(before, after, load_criteria())


@pytest.mark.parametrize("name", HOSTILE)
def test_text_has_no_controls_and_keeps_its_width(name: str) -> None:
    out = reports.text(_compared(name))
    assert not set(out) & set("\x1b\x07\x00\r\u202e")
    assert len(out) < 20_000


@pytest.mark.parametrize("name", HOSTILE)
def test_the_page_keeps_its_structure(name: str) -> None:
    tokens = MarkdownIt("gfm-like").parse(reports.markdown(_compared(name)))
    kinds = {token.type for token in tokens}
    inlines = [child.type for token in tokens for child in token.children or ()]
    headings = [tokens[at + 1].content for at, token in enumerate(tokens) if token.type == "heading_open"]
    assert not {"html_block", "html_inline", "link_open", "image"} & {*kinds, *inlines}
    assert headings == [
        "Before and after", "Verdict: regressed", "Metrics", "Findings", "Time breakdown", "Criteria",
        "Caveats",
    ]  # fmt: skip
    rows = [token for token in tokens if token.type == "tr_open"]
    cells = [token for token in tokens if token.type in ("td_open", "th_open")]
    assert (len(rows), len(cells)) == (4, 2 * 10 + 2 * 3)


@pytest.mark.parametrize("name", HOSTILE)
def test_the_document_is_json_of_plain_texts(name: str) -> None:
    out = json.dumps(document(_compared(name)), allow_nan=False)
    assert "\\u001b" not in out
    assert len(out) < 100_000


def test_no_figure_of_an_interval_is_cut() -> None:
    bands = load_bands()
    before, after = (
        Run(snapshots.healthy(), bands, {"kv_usage": [value - 0.5, value + 0.5] * 20}, {"x": 40})
        for value in (10.0, 90.0)
    )
    out = reports.text(compare(before, after, ()))
    assert re.search(r"^  kv_usage .* \+\d\d\.\d … \+\d\d\.\d %  WORSE$", out, re.MULTILINE)
