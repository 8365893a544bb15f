"""Text from logs is hostile: what makes it safe to show."""

from __future__ import annotations

import re

ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\|$)"  # OSC and other strings
    r"|\x1b[ -/]*[0-~]"  # two-byte escapes
    r"|\x1b"
)
_CONTROLS = re.compile(
    r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff\U000e0000-\U000e007f]"
)
# `token: 128` counts tokens; a password of digits is still a password.
_SECRETS = re.compile(
    r"(?i)((?:authorization|api[_-]?key|token)['\"]?\s*[:=]\s*['\"]?(?:(?:bearer|basic)\s+)?)"
    r"(?!\d+(?:\.\d+)?\b)[^\s'\",;&]{6,}"
    r"|((?:password|passwd|secret)['\"]?\s*[:=]\s*['\"]?)[^\s'\",;&]{3,}"
)
_KEYS = re.compile(r"\b(sk-|hf_|gh[opsu]_|github_pat_|glpat-|AKIA)[\w-]{16,}")
_URL_LOGIN = re.compile(r"(?<!\w)(\w{1,32}://[^\s/:@]+:)[^\s/@]+@")


def plain(text: str, limit: int = 500) -> str:
    """`text` without escape sequences, control or direction characters, tabs as spaces, at most `limit` characters."""
    if "\x1b" in text:
        text = ESCAPES.sub("", text)
    text = _CONTROLS.sub("", text.replace("\t", "    "))
    return text if len(text) <= limit else text[: limit - 1] + "…"


def without_secrets(text: str) -> str:
    """`text` with what looks like a credential replaced: keys, tokens, passwords in URLs."""
    text = _KEYS.sub(r"\1***", _SECRETS.sub(r"\1\2***", text))
    return _URL_LOGIN.sub(r"\1***@", text)


def evidence_text(text: str) -> str:
    """A log line fit for reports: plain and without secrets."""
    return without_secrets(plain(text))
