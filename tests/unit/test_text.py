"""Log text may hold anything; what is shown of it must be harmless and hold no credential."""

from __future__ import annotations

import unicodedata

import pytest
from credentials import CREDENTIALS, MEASUREMENTS
from hypothesis import given
from hypothesis import strategies as st

from perfmon.core import evidence_text, plain, without_secrets

DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.sampled_from("\x1b[]m;0123\x07\x9b\x00\r\n\t\x08\u202e\u2066\u200b\u061c\ufeff\x85\u2028"),
    )
)


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m text", "red text"),
        ("\x1b[2J\x1b[Hcleared", "cleared"),
        ("\x1b[?25lhidden cursor", "hidden cursor"),
        ("\x1b]0;a title\x07rest", "rest"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("\x1bP1$r0m\x1b\\after", "after"),
        ("\x1b(Bcharset", "charset"),
        ("lone \x1b", "lone "),
        ("a\x00b\x08c\x7fd", "abcd"),
        ("c1 \x9b31m \x85 end", "c1 31m  end"),
        ("abc\u202edcba\u202c \u2066x\u2069 \u061cy", "abcdcba x y"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("one\r\ntwo\u2028three", "onetwothree"),
        ("a\tb", "a    b"),
        ("[weights][abc] [bold]x[/bold] <b>", "[weights][abc] [bold]x[/bold] <b>"),
        ("Gewichte übertragen ✓ 重み", "Gewichte übertragen ✓ 重み"),
    ],
)
def test_plain_strips_what_a_terminal_would_obey(raw: str, shown: str) -> None:
    assert plain(raw) == shown


@given(HOSTILE, st.integers(1, 80))
def test_plain_leaves_nothing_that_acts(raw: str, limit: int) -> None:
    shown = plain(raw, limit)
    assert len(shown) <= limit
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp")]
    assert DIRECTIONS.isdisjoint(map(unicodedata.bidirectional, shown))
    assert plain(shown, limit) == shown


def test_plain_says_where_it_cut() -> None:
    assert plain("x" * 501) == "x" * 499 + "…"
    assert plain("x" * 500) == "x" * 500


@pytest.mark.parametrize(("raw", "shown"), CREDENTIALS)
def test_credentials_are_hidden(raw: str, shown: str) -> None:
    assert without_secrets(raw) == shown


@pytest.mark.parametrize("text", MEASUREMENTS)
def test_measurements_are_no_credentials(text: str) -> None:
    assert without_secrets(text) == text


def test_evidence_is_plain_before_secrets_are_looked_for() -> None:
    assert evidence_text("pass\x1b[0mword=\x1b[31mhunter22") == "password=***"
