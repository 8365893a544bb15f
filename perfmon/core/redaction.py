"""Hides credentials in blocks of log bytes without moving a byte: what `perfmon.core.credentials` finds becomes
stars.

Looking at every line by itself would cost more than reading it, so a block is first searched for what no credential
can do without. Words are searched in a copy in lower case that lacks blanks, quotes and all that colour sequences and
invisible characters consist of: so they are found however a line is spaced and coloured. What it finds too much costs
a second look.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache

from ahocorasick_rs import BytesAhoCorasick

from .credentials import COMMON, KEY_LINE_SIZES, SHAPE_RULES, WORD_RULES, mask
from .text import CONTROLS, ESCAPES

_DROPPED = bytes({*range(0x20), *range(0x7F, 0x100)} - {0x0A}) + b" '\"\\" + b"[;m0123456789"
_LOWER = bytes(range(256)).lower()
_ERASE = "k"
"""Rest of "erase line", ESC [ K, with which `grep` ends its colours."""
_KEY_END = b"-----END "
_COMMON = {sign.encode(): re.compile(regex.encode()) for sign, regex in COMMON.items()}
_FRAMES = re.compile(r"(\r)")
_UNDECODED = re.compile(r"[\udc80-\udcff]")
_UNSEEN = re.compile(rf"{ESCAPES.pattern}|{CONTROLS.pattern}")


def masked(data: bytes) -> bytes:
    """`data` of the same length, with every byte of a credential as a star; line ends stay where they are."""
    lines = data.split(b"\n")
    numbers = {*_lines_of_keys(lines), *_lines_with_words(data)}
    for number in numbers:
        lines[number] = _masked_line(lines[number])
    return b"\n".join(lines) if numbers else data


def _lines_with_words(data: bytes) -> Iterator[int]:
    folded = data.translate(_LOWER, _DROPPED)
    words, signs = _search()
    yield from _line_numbers(folded, [hit[1] for hit in words.find_matches_as_indexes(folded)])
    yield from _line_numbers(data, [hit[1] for hit in signs.find_matches_as_indexes(data)])
    for literal, regex in _COMMON.items():
        if literal in data:
            yield from _line_numbers(data, [match.start() for match in regex.finditer(data)])


def _lines_of_keys(lines: list[bytes]) -> Iterator[int]:
    """Yield the numbers of lines that may be of a key in PEM, and star the last one of a key, which is shorter."""
    for number, line in enumerate(lines):
        if len(line) in KEY_LINE_SIZES and b" " not in line.strip():
            yield number
        elif line.startswith(_KEY_END) and number and b" " not in (last := lines[number - 1].rstrip()):
            lines[number - 1] = b"*" * len(last) + lines[number - 1][len(last) :]
            yield number - 1


@cache
def _search() -> tuple[BytesAhoCorasick, BytesAhoCorasick]:
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
