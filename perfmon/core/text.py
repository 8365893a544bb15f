"""Sanitises text from logs, which is hostile, for display."""

from __future__ import annotations

import re
from functools import cache

ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC and other strings
    r"|\x1b[ -/]*[0-~]"  # two-byte escapes
    r"|\x1b"
)
CONTROLS = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f"
    # no cells of their own, but terminals disagree: what follows them would stand elsewhere
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\ufff9-\ufffb\U000e0100-\U000e01ef]"
)
_IS = r"['\"]?\s*[:=]\s*['\"]?"
_VALUE = r"[^\s'\",;&]"
# `token: 128` counts tokens, `per token=0.2534s` is a time, `eos_token=<|im_end|>` is public.
_HARMLESS = r"(?![\d.,]+[a-z%]{0,3}(?:[\s'\",;&)\]}]|$)|<)"
_SECRETS = (
    rf"(?i)((?:authorization|(?:api|access|auth|private|account)[_-]?key|token){_IS}(?:(?:bearer|basic|token)\s+)?)"
    rf"{_HARMLESS}{_VALUE}{{6,}}"
    rf"|((?:password|passwd|passphrase|secret|credential)[\w-]{{0,40}}{_IS}){_VALUE}{{3,}}"
    rf"|(--[\w-]{{0,40}}(?:token|key|secret|password)\s+){_HARMLESS}(?!-){_VALUE}{{6,}}"
    rf"|(\bbearer\s+)(?=[\w.~+/-]*\d)[\w.~+/-]{{12,}}=*"
    rf"|([?&](?:[\w-]{{0,40}}signature|sig|key)=){_VALUE}{{6,}}"
    rf"|(\b(?-i:[A-Z][A-Z0-9_]{{0,40}}_(?:KEY|PAT|PASS|PWD)){_IS}){_HARMLESS}{_VALUE}{{6,}}"
)
_KEYS = (
    r"\b(sk-|gh[oprsu]_|github_pat_|glpat-|xox[a-z]-|AIza)[\w-]{16,}"
    r"|\b(hf_|npm_|AKIA|ASIA)[A-Za-z0-9]{16,}\b"
    r"|\b(wandb_)(?=\w*\d)\w{16,}"
    r"|(?<![\w-])(eyJ)[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
)
_LEAST_SECRET = 16
"""Shorter words of nothing but letters and digits are none."""
_URL_LOGIN = r"(?<!\w)(\w{1,32}://)(?:([^\s/:@]+:)[^\s/@]+|[^\s/:@]{16,})@"
SECRET_WORDS = (
    *(f"{word}{sign}" for word in ("authorization", "key", "token") for sign in ":="),
    *(f"_{word}{sign}" for word in ("pat", "pass", "pwd") for sign in ":="),
    *("sig=", "signature=", "password", "passwd", "passphrase", "secret", "credential", "bearer"),
    *("gho_", "ghp_", "ghr_", "ghs_", "ghu_", "github_pat_", "glpat-", "xox", "aiza", "npm_", "akia", "asia"),
    *("wandb_", "eyj"),
)
SECRET_SHAPES = (
    ("--", r"--(?!-)[\w-]{0,40}(?i:token|key|secret|password)\s"),
    ("@", r"://[^\s/@]{2,}@"),
    ("sk-", r"sk-[\w-]{16}"),
    ("hf_", r"hf_[A-Za-z0-9]{16}"),
)
"""Every match of the patterns above contains one of the words, in lower case and without blanks and quotes, or one of
the shapes, each with a literal for a quick check."""


_QUOTES = str.maketrans("", "", "'\"")
_STEMS = tuple(dict.fromkeys(word.rstrip(":=") for word in SECRET_WORDS))
"""Every credential contains one of these, whatever blanks and quotes are before its value."""


def plain(text: str, limit: int = 500) -> str:
    """`text` without escape sequences, control or direction characters, tabs as spaces, at most `limit` characters."""
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    text = CONTROLS.sub("", text.replace("\t", "    "))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_secrets(text: str) -> str:
    """`text` with what looks like a credential replaced: keys, tokens, passwords in URLs."""
    if not may_contain_secret(text):
        return text
    login, keys, secrets = _credentials()
    return login.sub(_hidden_login, keys.sub(_hidden, secrets.sub(_hidden, text)))


@cache
def _credentials() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Patterns of credentials, compiled for the first line that may contain one."""
    return re.compile(_URL_LOGIN), re.compile(_KEYS), re.compile(_SECRETS)


def may_contain_secret(text: str) -> bool:
    """Return False if no line of `text` can contain a credential: nearly always, and much cheaper than the patterns."""
    if not text.isascii():  # upper and lower case are not that simple there
        return True
    lowered = text.lower()
    for stem in _STEMS:  # called for every displayed line: a generator takes twice as long
        if stem in lowered:
            break
    else:
        return any(sign in text for sign, _ in SECRET_SHAPES)
    folded = "".join(lowered.split()).translate(_QUOTES)
    return any(word in folded for word in SECRET_WORDS) or any(sign in text for sign, _ in SECRET_SHAPES)


def mask(text: str) -> str:
    """Replace each character of a credential by a star, so that the length stays."""
    login, keys, secrets = _credentials()
    return login.sub(_masked_login, keys.sub(_masked, secrets.sub(_masked, text)))


def _hidden(match: re.Match[str]) -> str:
    """Keep the text before the credential: it shows which one it was."""
    return f"{match[match.lastindex or 0]}***"


def _hidden_login(match: re.Match[str]) -> str:
    return f"{match[1]}{match[2] or ''}***@"


def _masked(match: re.Match[str]) -> str:
    kept = match[match.lastindex or 0]
    return kept + "*" * (len(match[0]) - len(kept))


def _masked_login(match: re.Match[str]) -> str:
    kept = f"{match[1]}{match[2] or ''}"
    return f"{kept}{'*' * (len(match[0]) - len(kept) - 1)}@"


def evidence_text(text: str) -> str:
    """A log line fit for reports: plain and without secrets."""
    if len(text) < _LEAST_SECRET and text.isalnum() and text.isascii():
        return text  # ids of traces, by the thousand
    return without_secrets(plain(text))
