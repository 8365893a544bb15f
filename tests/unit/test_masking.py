"""Credentials become stars in the bytes of a log; nothing moves, nothing else changes."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from credentials import CREDENTIALS, MEASUREMENTS
from hypothesis import example, given
from hypothesis import strategies as st

from perfmon.core import last_key_line, masked, plain, without_secrets
from perfmon.core.credentials import mask

COLOURS = ("\x1b[0m", "\x1b[1;31m", "\x1b[38;5;208m", "\x1b[m\x1b[K", "\x1b[22m")
KEYS = ("token", "HF_TOKEN", "password", "api_key", "client_secret", "Authorization", "SIGNING_KEY", "key", "--api-key")
PARTS = st.one_of(
    st.sampled_from((*KEYS, *COLOURS)),
    st.sampled_from(("=", ": ", " = ", "'", '"', "?", "&", "://", "@", " ", "\t", "Bearer ", "\r", "\n", "--", "---")),
    st.sampled_from(("hunter22x", "abcdef.ghi-123", "sk-abcdefghijklmnop1234", "hf_abcdefghijklmnopqrst", "https")),
    st.text("ab1:=@/ -_é\u200b", max_size=4),
)


@pytest.mark.parametrize(("raw", "shown"), CREDENTIALS)
def test_credentials_are_masked_at_their_length(raw: str, shown: str) -> None:
    kept, _, rest = shown.partition("***")
    secret = raw[len(kept) : len(raw) - len(rest)]
    data = f"before\n2026-08-21 10:00 {raw}\nafter\n".encode()
    assert masked(data) == data.replace(secret.encode(), b"*" * len(secret))
    assert secret.encode() not in masked(data)


@pytest.mark.parametrize("text", MEASUREMENTS)
def test_measurements_stay(text: str) -> None:
    assert masked(f"{text}\n".encode()) == f"{text}\n".encode()


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"\x1b[36mpassword\x1b[0m=\x1b[35mhunter22\x1b[0m", b"\x1b[36mpassword\x1b[0m=\x1b[35m********\x1b[0m"),
        (b"pass\x1b[0mword=\x1b[31mhunter22", b"pass\x1b[0mword=\x1b[31m********"),
        (b"token\x1b[m\x1b[K='hun\x1b[1mter22'", b"token\x1b[m\x1b[K='***\x1b[1m*****'"),
        (b"10%\rtoken=hunter22\r20%", b"10%\rtoken=********\r20%"),
        (b"password=\xc3\xa9\xffabc end", b"password=****** end"),
        (b"\xfe password=abc\xfe", b"\xfe password=****"),
        (b"-" * 80 + b"token abcdef", b"-" * 80 + b"token ******"),
    ],
)
def test_colours_frames_and_odd_bytes_hide_nothing_and_stay(raw: bytes, expected: bytes) -> None:
    assert masked(raw) == expected


def test_the_lines_of_a_private_key_become_stars() -> None:
    body = b"MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaGvV3pPSyXo9kAQ\n" * 2
    data = b"-----BEGIN PRIVATE KEY-----\n%sAb3/q==\n-----END PRIVATE KEY-----\nstep 1\n" % body
    stars = (
        b"-----BEGIN PRIVATE KEY-----\n" + (b"*" * 64 + b"\n") * 2 + b"*" * 7 + b"\n-----END PRIVATE KEY-----\nstep 1\n"
    )
    assert masked(data) == stars
    assert without_secrets(body.decode().splitlines()[0]) == "***"


KEY_LINE = "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MaGvV3pPSyXo9kAQ"


@pytest.mark.parametrize("prefix", ["", "10:00:00 [init] "])
@pytest.mark.parametrize("cuts", [(1,), (2,), (3,), (1, 2), (2, 3), (1, 2, 3)])
def test_the_last_line_of_a_key_is_known_before_its_end_comes(prefix: str, cuts: tuple[int, ...]) -> None:
    lines = [
        f"{prefix}{text}\n".encode() for text in (KEY_LINE, KEY_LINE, "Ab3/q==", "-----END PRIVATE KEY-----", "done")
    ]
    after, hidden = b"", b""
    for begin, end in pairwise((0, *cuts, len(lines))):
        block = b"".join(lines[begin:end])
        hidden, after = hidden + masked(block, after), last_key_line(block, after)
    assert hidden == b"".join(lines).replace(KEY_LINE.encode(), b"*" * 64).replace(b"Ab3/q==", b"*" * 7)


@pytest.mark.parametrize("line", ["done", "Ready", "1234", "step 7", "[ok]", ""])
def test_what_follows_a_key_stays(line: str) -> None:
    assert masked(f"{KEY_LINE}\n{line}\n".encode()) == f"{'*' * 64}\n{line}\n".encode()


def test_a_setting_alone_on_its_line_may_be_a_phrase() -> None:
    assert without_secrets("  db_password: correct horse battery") == "  db_password: ***"


def test_lone_surrogates_are_no_obstacle() -> None:
    assert without_secrets("a\ud800b token=abc123def \udfff") == "a\ud800b token=*** \udfff"


TEXTS = st.lists(PARTS, max_size=14).map("".join)


@given(TEXTS)
@example("password=ab@ps://c:d@e")
def test_stars_stand_where_a_report_hides(text: str) -> None:
    assert re.sub(r"\*+", "*", mask(text)) == re.sub(r"\*+", "*", without_secrets(text))
    assert len(mask(text)) == len(text)


@given(TEXTS)
@example("a://b:@c:d@")
@example("HF_TOKEN\thunter22x")
def test_the_search_misses_nothing_that_is_shown(text: str) -> None:
    hidden = masked(text.encode())
    frames = [re.split("[\r\n]", part) for part in (text, hidden.decode())]
    assert len(hidden) == len(text.encode())
    assert [re.sub(r"\*+", "*", plain(now)) for now in frames[1]] == [
        re.sub(r"\*+", "*", mask(plain(raw))) for raw in frames[0]
    ]


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_keep_their_length(data: bytes) -> None:
    assert len(masked(data)) == len(data)
