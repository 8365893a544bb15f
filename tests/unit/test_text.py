"""Log text may hold anything; what is shown of it must be harmless and hold no credential."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmon.text import evidence_text, plain, without_secrets

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


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("Authorization: Bearer abcdef.ghi-123", "Authorization: Bearer ***"),
        ("authorization: Basic dXNlcjpwYXNz", "authorization: Basic ***"),
        ("HF_TOKEN=hf_kXyzAbcDef and more", "HF_TOKEN=*** and more"),
        ("{'api_key': 'abcd-1234-efgh', 'n': 1}", "{'api_key': '***', 'n': 1}"),
        ('{"password": "12345678"}', '{"password": "***"}'),
        ("GET /?token=s3cr3tvalue&page=2", "GET /?token=***&page=2"),
        ("login --token hf_abcdefghijklmnopqrst", "login --token ***"),
        ("using hf_abcdefghijklmnopqrst now", "using hf_*** now"),
        ("key sk-abcdefghijklmnop1234 was used", "key sk-*** was used"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=***"),
        ("export CLIENT_SECRET_V2='ab12' done", "export CLIENT_SECRET_V2='***' done"),
        ("WANDB_API_KEY=0123456789abcdef0123", "WANDB_API_KEY=***"),
        ("SIGNING_KEY=abc/def+ghi= next", "SIGNING_KEY=*** next"),
        ("azure account_key: 'abcdef=='", "azure account_key: '***'"),
        ("curl -H 'Authorization: Bearer abc.DEF-123'", "curl -H 'Authorization: Bearer ***'"),
        ("sent Bearer abcdef0123456789 to it", "sent Bearer *** to it"),
        ("run --api-key abcdef123 --port 8000", "run --api-key *** --port 8000"),
        ("pushed with ghp_abcdefghijklmnop0123456789", "pushed with ghp_***"),
        ("wandb_v1_AbCdEfGh12345678 used", "wandb_*** used"),
        ("AKIAIOSFODNN7EXAMPLE0 it was", "AKIA*** it was"),
        ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc-DEF_1 end", "jwt eyJ*** end"),
        ("git clone https://x-access-token0123@host/repo", "git clone https://***@host/repo"),
        ("GET https://store/o?X-Amz-Signature=0a1b2c3d4e&n=1", "GET https://store/o?X-Amz-Signature=***&n=1"),
        ("postgres://user:pa55@db:5432/runs", "postgres://user:***@db:5432/runs"),
    ],
)
def test_credentials_are_hidden(raw: str, shown: str) -> None:
    assert without_secrets(raw) == shown


@pytest.mark.parametrize(
    "text",
    [
        "token usage: 0.97, #queue-req: 12",
        "max_new_token: 131072",
        "tokens=1234 prompt_tokens: 77 completion_tokens=12345678",
        "{'num_tokens': 123456, 'tokens_per_s': 8123.55}",
        "time per token: 0.025431s, token=1,234,567",
        "eos_token=<|endoftext|> pad_token='<|endoftext|>'",
        "sort_key=reward_mean cache_key: prefix_block MAX_KEY=1234567",
        "hf_checkpoint_conversion_seconds=3.25 wandb_init_and_login_time=2",
        "key value cache: 81.2 % used, key=layers.0.self_attn",
        "the bearer of bad news about secretarial work",
        "user@host.example:/models/run/step_42 http://10.0.0.5:8000/v1@2",
        "per token=0.25 s",
        "tokens: 40960 tokens/s: 8123.5",
        "client.send url=http://10.0.0.5:8000 path=/models/run/step_42 t=12.5",
        "12:00:01 loss: 2.5 @ step 3",
    ],
)
def test_measurements_are_no_credentials(text: str) -> None:
    assert without_secrets(text) == text


def test_evidence_is_plain_before_secrets_are_looked_for() -> None:
    assert evidence_text("pass\x1b[0mword=\x1b[31mhunter22") == "password=***"
