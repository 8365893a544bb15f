"""Lines that make a regular expression slow, made of the expression itself.

A backtracking search is slow where the same text can be read in many ways before it does not fit. So the text of an
attack fits up to one place of the expression, repeats what may stand there, and does not go on as it should.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from re import _constants as c  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import Any

SIZE = 65_000
"""Characters of an attack: a line of which scanners read no more."""
_REPEATS = (c.MAX_REPEAT, c.MIN_REPEAT, c.POSSESSIVE_REPEAT)
_COMMON = "a1 -_.:/=,x0'\"[](){}|<>%A\té"
_TEXTS = (
    " ", "a", "0", "a ", "1 ", "a=1 ", "=", "[", "(", "1.", ".", "-", ",", ":", "/", "a:", "a-", "1,", "'a': 1, ", "|",
    "_", "a.", "{", "a{", "step 1 ", "loss: 1 ",
)  # fmt: skip
"""Texts of which lines are made, whatever the expression is."""


def attacks(regex: str, needles: Sequence[str] = (), size: int = SIZE) -> Iterator[str]:
    """Yield lines of about `size` characters against each place of a regex whose lines hold one of the needles."""
    parts: dict[tuple[str, str], None] = {}
    for before, repeated in _places(parser.parse(regex)):
        for head, again in ((before, repeated), ("", before), ("", before + repeated), ("", before + repeated * 20)):
            parts[head, again] = None
    for text in _TEXTS:
        parts["", text] = None
        for needle in needles:
            parts[needle, text] = None
    for needle in needles:
        parts["", needle] = None
    for head, again in parts:
        if again:
            yield head + again * max(1, (size - len(head)) // len(again)) + "\x00"


def _places(sequence: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield the places of a regex: a text that fits up to it, and one that may be repeated there."""
    for kind, value in sequence:
        if kind in _REPEATS:
            least, most, inner = value
            body = _fitting(inner) or "a"
            yield before, body
            yield from _places(inner, before)
            if most > 1:
                yield from _places(inner, before + body)
            before += _fitting(inner) * max(least, 1 if most and kind is not c.MIN_REPEAT else 0)
            continue
        for inner in _parts(kind, value):
            yield from _places(inner, before)
        before += _fits(kind, value)
    yield before, ""


def _parts(kind: Any, value: Any) -> list[Any]:
    """The sequences within an item of a regex."""
    if kind is c.BRANCH:
        return list(value[1])
    if kind is c.SUBPATTERN:
        return [value[3]]
    if kind in (c.ASSERT, c.ASSERT_NOT):
        return [value[1]]
    return [value] if kind is c.ATOMIC_GROUP else []


def _fitting(sequence: Any) -> str:
    """A short text that fits a sequence."""
    return "".join(_fits(kind, value) for kind, value in sequence)


def _fits(kind: Any, value: Any) -> str:
    if kind is c.LITERAL:
        return chr(value)
    if kind is c.NOT_LITERAL:
        return "a" if value != ord("a") else "b"
    if kind is c.ANY:
        return "a"
    if kind is c.IN:
        return _character(value)
    if kind in _REPEATS:
        return _fitting(value[2]) * int(value[0])
    if kind in (c.BRANCH, c.SUBPATTERN, c.ATOMIC_GROUP):
        return _fitting(_parts(kind, value)[0])
    return ""


def _character(items: Any) -> str:
    """A character of a class, "" where none of the common ones is of it."""
    source = "".join(
        f"\\{_NAMES[value]}" if kind is c.CATEGORY
        else f"{re.escape(chr(value[0]))}-{re.escape(chr(value[1]))}" if kind is c.RANGE
        else re.escape(chr(value))
        for kind, value in items if kind is not c.NEGATE
    )  # fmt: skip
    negated = items[0][0] is c.NEGATE
    own = [chr(value) if kind is c.LITERAL else chr(value[0]) for kind, value in items if kind in (c.LITERAL, c.RANGE)]
    fits = re.compile(f"[{'^' if negated else ''}{source}]").fullmatch
    return next((one for one in [*([] if negated else own), *_COMMON] if fits(one)), "")


_NAMES = {
    c.CATEGORY_DIGIT: "d", c.CATEGORY_SPACE: "s", c.CATEGORY_WORD: "w",
    c.CATEGORY_NOT_DIGIT: "D", c.CATEGORY_NOT_SPACE: "S", c.CATEGORY_NOT_WORD: "W",
}  # fmt: skip
