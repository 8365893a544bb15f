"""What is found out of many lines at once is what is found out of each."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from perfmon.core.credential_rules import WORD_RULES
from perfmon.core.credentials import mask, may_contain_secret, without_secrets
from perfmon.logbuffer import lines
from perfmon.logbuffer.lines import cleaned, shown

PARTS = (
    "2026-11-22 12:39:18.123 ", "11-22 12:39:18", "12:39:18T", "1/2 ", "[", "]", "INFO ", "TRACE ", "WARNING:", "ERROR",
    "[error] ", "Traceback (", "3ValueError: x", "E1122 12:39:18", "level=warn", "token: ", "hf_", "a" * 16, " 'pass",
    "word' = ", "hunter22", "\x1b[31m", "\x1b]0;title", "\x1b", "\x07", "\r", "\t", "é", "\u202e", "\ud7ff", "x" * 300,
)  # fmt: skip
TEXTS = st.lists(st.sampled_from(PARTS), max_size=8).map("".join)


@given(st.lists(TEXTS, max_size=5))
@example(["\x1b]0;title", "never ended\x07"])
@example(["password", "= hunter22"])
@example(["a\r", "\rb", "\r", ""])
def test_lines_are_cleaned_and_masked_together_as_one_by_one(texts: list[str]) -> None:
    raws = [text.encode("utf-8", "replace") for text in texts]
    together = cleaned(raws)
    assert together == [one for raw in raws for one in cleaned([raw])]
    assert shown(together) == [one for text in together for one in shown([text])]


@given(TEXTS)
@example("2026-11-22 12:39:18 TTRACE")
@example("12:39:18 [error] x")
@example("1.ValueError: x")
def test_the_level_behind_a_stamp_is_that_of_the_whole_line(text: str) -> None:
    match = lines._LEVEL.search(text, 0, lines._HEAD)
    assert lines.level_of(text) == (0 if match is None else lines._LEVELS[match.lastgroup or ""])


@given(st.lists(st.sampled_from((*PARTS, *(words[0] for words, _ in WORD_RULES), '"', " ", "x1y2z3w4")), max_size=8))
def test_what_is_masked_is_suspicious(parts: list[str]) -> None:
    text = "".join(parts)
    assert may_contain_secret(text) or without_secrets(text) == text == mask(text)
