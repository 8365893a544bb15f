"""Sanitises text from logs, which is hostile, for display, and hides credentials in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

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


# --- Hides credentials in blocks of log bytes without moving a byte: each becomes stars ---

_DROPPED = bytes({*range(0x20), *range(0x7F, 0x100)} - {0x0A}) + b" '\"" + b"[;m0123456789"
_LOWER = bytes(range(256)).lower()
_ERASE = "k"
"""Rest of "erase line", ESC [ K, with which `grep` ends its colours."""
_SHAPES = tuple(re.compile(shape.encode()) for _, shape in SECRET_SHAPES)
_FRAMES = re.compile(r"(\r)")
_UNDECODED = re.compile(r"[\udc80-\udcff]")
_UNSEEN = re.compile(rf"{ESCAPES.pattern}|{CONTROLS.pattern}")


def masked(data: bytes) -> bytes:
    """`data` of the same length, with every byte of a credential as a star; line ends stay where they are."""
    numbers = set(_lines_with_words(data)) | set(_lines_with_shapes(data))
    if not numbers:
        return data
    lines = data.split(b"\n")
    for number in numbers:
        lines[number] = _masked_line(lines[number])
    return b"\n".join(lines)


def _lines_with_words(data: bytes) -> Iterator[int]:
    folded = data.translate(_LOWER, _DROPPED)
    hits = _words().find_matches_as_indexes(folded)
    return _line_numbers(folded, [hit[1] for hit in hits])


@cache
def _words() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick

    erased = [f"{word[:-1]}{_ERASE}{word[-1]}" for word in SECRET_WORDS if word[-1] in ":="]
    words = (*SECRET_WORDS, *erased)
    return BytesAhoCorasick(sorted({word.encode().translate(_LOWER, _DROPPED) for word in words}))


def _lines_with_shapes(data: bytes) -> Iterator[int]:
    for number in {hit[0] for hit in _signs().find_matches_as_indexes(data)}:
        yield from _line_numbers(data, [match.start() for match in _SHAPES[number].finditer(data)])


@cache
def _signs() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick

    return BytesAhoCorasick([sign.encode() for sign, _ in SECRET_SHAPES])


def _line_numbers(data: bytes, positions: Sequence[int]) -> Iterator[int]:
    """Numbers, from 0, of the lines in which these positions are, each once."""
    number, at, end = 0, 0, -1
    for position in positions:
        if position >= end:
            number += data.count(b"\n", at, position)
            at, end = position, data.find(b"\n", position) + 1 or len(data) + 1
            yield number


def _masked_line(line: bytes) -> bytes:
    # surrogateescape: whatever the bytes are, they come back as they were.
    text = line.decode("utf-8", "surrogateescape")
    seen = _UNDECODED.sub("\ufffd", text)
    hidden = mask(seen) if seen.isprintable() else "".join(map(_masked_frame, _FRAMES.split(seen)))
    if hidden == seen:
        return line
    return b"".join(map(_encoded, text, seen, hidden))


def _encoded(char: str, before: str, after: str) -> bytes:
    """A character as it was, or as many stars as it has bytes."""
    data = char.encode("utf-8", "surrogateescape")
    return data if before == after else b"*" * len(data)


def _masked_frame(frame: str) -> str:
    """Mask a frame by its visible text; invisible characters stay as they are."""
    chars = list(frame)
    shown = [at for begin, end in _between(_UNSEEN.finditer(frame), len(frame)) for at in range(begin, end)]
    hidden = mask("".join([chars[at] for at in shown]))
    for at, char in zip(shown, hidden, strict=True):
        chars[at] = char
    return "".join(chars)


def _between(matches: Iterator[re.Match[str]], size: int) -> Iterator[tuple[int, int]]:
    """Yield begin and end of the text between the matches."""
    at = 0
    for match in matches:
        yield at, match.start()
        at = match.end()
    yield at, size
