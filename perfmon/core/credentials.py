"""Finds and hides what looks like a credential: keys, tokens, passwords, cookies, webhooks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from .credential_rules import COMMON, SHAPE_RULES, WORD_RULES
from .text import CONTROLS, ESCAPES, plain

if TYPE_CHECKING:
    from ahocorasick_rs import AhoCorasick, BytesAhoCorasick

_WORDS = [(word, number) for number, (words, _) in enumerate(WORD_RULES) for word in words]
"""Each word, and the number of its rule."""
_LEAST_SECRET = 16
"""Shorter words of nothing but letters and digits are none."""
_LONGEST_SECRET = 8000
"""So many characters of one are looked at."""
_BLANKS_AND_QUOTES = str.maketrans("", "", "'\"\\")
_KEY_LINE = re.compile(r"(\s*)(?=\S*\d)(?=\S*[a-z])(?=\S*[A-Z])[A-Za-z0-9+/]{60,76}={0,2}\s*$")
KEY_LINE_SIZES = range(60, 90)
_WIDTH = 64
"""Of the lines of a key that most tools write: with so many characters a line is known behind a prefix, too."""
_KEY_REST = re.compile(r"(?![A-Z]?[a-z]+\s*$|\d+\s*$)[A-Za-z0-9+/]{1,75}={0,2}\s*")
"""The last line of a key is shorter; a word or a number behind a key is not of it."""


def credential_spans(text: str) -> list[tuple[int, int]]:
    """Return begin and end of each credential in a line, in order, none touching another."""
    spans = [(match.end(1), match.end()) for number in _rules_for(text) for match in _compiled(number).finditer(text)]
    if _is_key_line(text):
        end = len(text.rstrip())
        spans.append((end - len(text.rsplit(maxsplit=1)[-1]), end))
    joined: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        elif begin < end:
            joined.append((begin, end))
    return joined


def may_contain_secret(text: str) -> bool:
    """Return False if no line of `text` can contain a credential: nearly always, and much cheaper than the rules."""
    words, signs = _search()
    text = _encodable(text)
    return (
        bool(signs.find_matches_as_indexes(text))
        or bool(words.find_matches_as_indexes(_folded(text)))
        or any(map(_is_key_line, text.split("\n")))
    )


def without_secrets(text: str) -> str:
    """`text` with what looks like a credential replaced by `***`."""
    if not may_contain_secret(text):
        return text
    return _replaced(text, lambda size: "***")


def mask(text: str) -> str:
    """Replace each character of a credential by a star, so that the length stays."""
    return _replaced(text, lambda size: "*" * size)


def _replaced(text: str, stars: Callable[[int], str]) -> str:
    parts: list[str] = []
    at = 0
    for begin, end in credential_spans(text):
        parts += text[at:begin], stars(end - begin)
        at = end
    return "".join((*parts, text[at:]))


def _is_key_line(line: str) -> bool:
    """Report whether a line is one of a key in PEM: letters, digits and signs of base64, perhaps behind a prefix."""
    if len(line) > _WIDTH and line[-_WIDTH - 1].isspace():
        return bool(_KEY_LINE.fullmatch(line[-_WIDTH:]))
    return len(line) in KEY_LINE_SIZES and bool(_KEY_LINE.fullmatch(line))


def rest_of_key(before: str, line: str) -> int:
    """Return the position of the short last line of a key in PEM, if `before` is a line of one: else -1."""
    if not _is_key_line(before):
        return -1
    begin = len(before.rstrip()) - len(before.rsplit(maxsplit=1)[-1])
    starts = not begin or line[begin - 1 : begin].isspace()
    return begin if starts and _KEY_REST.fullmatch(line, begin) else -1


def _encodable(text: str) -> str:
    """Replace lone surrogates, which the search does not take."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _folded(text: str) -> str:
    return "".join(text.lower().split()).translate(_BLANKS_AND_QUOTES)


def _rules_for(text: str) -> Iterable[int]:
    """Yield the numbers of the rules whose words or literals are in a line."""
    words, signs = _search()
    text = _encodable(text)
    by_words = {_WORDS[hit[0]][1] for hit in words.find_matches_as_indexes(_folded(text), overlapping=True)}
    by_signs = {len(WORD_RULES) + hit[0] for hit in signs.find_matches_as_indexes(text, overlapping=True)}
    return by_words | by_signs


@cache
def _search() -> tuple[AhoCorasick, AhoCorasick]:
    from ahocorasick_rs import AhoCorasick

    return AhoCorasick([word for word, _ in _WORDS]), AhoCorasick([sign for sign, _ in SHAPE_RULES])


@cache
def _compiled(number: int) -> re.Pattern[str]:
    """Compile a rule for the first line that may need it."""
    if number < len(WORD_RULES):
        return re.compile(WORD_RULES[number][1], re.IGNORECASE | re.ASCII)
    return re.compile(SHAPE_RULES[number - len(WORD_RULES)][1], re.ASCII)


def evidence_text(text: str, limit: int = 500) -> str:
    """Text from outside fit for reports: plain, without secrets, and at most `limit` characters.

    It is cut last: half a credential is no longer recognised as one.
    """
    if len(text) < _LEAST_SECRET and text.isalnum() and text.isascii():
        return text  # ids of traces, by the thousand
    return plain(without_secrets(plain(text, limit + _LONGEST_SECRET)), limit)


def without_login(text: str) -> str:
    """Return a wrong URL, fit for its error: without what is before the last `@`, as a login may be malformed, too."""
    return evidence_text(re.sub(r"(?s)://.*@", "://***@", text), 200)


# --- In blocks of bytes: a block is first searched for what no credential can do without, since a look at every line
# would cost more than reading it. Words are searched in a copy in lower case that lacks blanks, quotes and all that
# colour sequences and invisible characters consist of: so they are found however a line is spaced and coloured. ---

_DROPPED = bytes({*range(0x20), *range(0x7F, 0x100)} - {0x0A}) + b" '\"\\" + b"[;m0123456789"
_LOWER = bytes(range(256)).lower()
_ERASE = "k"
"""Rest of "erase line", ESC [ K, with which `grep` ends its colours."""
_KEY_END, _KEY_LINE_END = b"-----END ", 64
_COMMON = {sign.encode(): re.compile(regex.encode()) for sign, regex in COMMON.items()}
_FRAMES, _UNDECODED = re.compile(r"(\r)"), re.compile(r"[\udc80-\udcff]")
_UNSEEN = re.compile(rf"{ESCAPES.pattern}|{CONTROLS.pattern}")


def masked(data: bytes, after: bytes = b"") -> bytes:
    """`data` of the same length, with every byte of a credential as a star; line ends stay where they are.

    It follows the line `after`, which `last_key_line` gave: a key in PEM may go on here.
    """
    lines = data.split(b"\n")
    numbers = {*_lines_of_keys(lines, after), *_lines_with_words(data)}
    for number in numbers:
        lines[number] = _masked_line(lines[number])
    return b"\n".join(lines) if numbers else data


def _lines_with_words(data: bytes) -> Iterator[int]:
    folded = data.translate(_LOWER, _DROPPED)
    words, signs = _search_of_bytes()
    yield from _line_numbers(folded, [hit[1] for hit in words.find_matches_as_indexes(folded)])
    yield from _line_numbers(data, [hit[1] for hit in signs.find_matches_as_indexes(data)])
    for literal, regex in _COMMON.items():
        if literal in data:
            yield from _line_numbers(data, [match.start() for match in regex.finditer(data)])


def last_key_line(data: bytes, after: bytes = b"") -> bytes:
    """Return the last line of `data`, which follows `after`, if it is of a key in PEM: else nothing."""
    end = len(data) - data.endswith(b"\n")
    line = data[data.rfind(b"\n", 0, end) + 1 : end] if data else after
    return line if _is_key_line(line.decode("latin-1")) else b""


def _lines_of_keys(lines: list[bytes], before: bytes) -> Iterator[int]:
    """Yield the numbers of lines that may be of a key in PEM, and star the last one of a key, which is shorter."""
    for number, line in enumerate(lines):
        if before:
            begin, end = rest_of_key(before.decode("latin-1"), line.decode("latin-1")), len(line.rstrip())
            if begin >= 0:
                lines[number] = line[:begin] + b"*" * (end - begin) + line[end:]
                yield number
            before = b""
        if line[-_WIDTH - 1 : -_WIDTH] == b" " or (len(line) in KEY_LINE_SIZES and b" " not in line.strip()):
            before = line
            yield number
        elif _KEY_END in line[-_KEY_LINE_END:] and number:
            prefix, last = line[: line.rfind(_KEY_END)], lines[number - 1].rstrip()
            if last.startswith(prefix) and b" " not in last[len(prefix) :]:
                lines[number - 1] = prefix + b"*" * (len(last) - len(prefix)) + lines[number - 1][len(last) :]
                yield number - 1


@cache
def _search_of_bytes() -> tuple[BytesAhoCorasick, BytesAhoCorasick]:
    from ahocorasick_rs import BytesAhoCorasick

    words = {word for group, _ in WORD_RULES for word in group}
    erased = [f"{word[:-1]}{_ERASE}{word[-1]}" for word in words if word[-1] in ":="]
    folded = sorted({word.encode().translate(_LOWER, _DROPPED) for word in (*words, *erased)})
    return BytesAhoCorasick(folded), BytesAhoCorasick([sign.encode() for sign, _ in SHAPE_RULES if sign not in COMMON])


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
