"""Log text inside Markdown: nothing in it may become markup, a link, HTML, a cell border or the end of a fence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from perfmon.text import plain

from .layout import one_line

_SPECIAL = re.compile(r"[\\`*\[\]|~$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
_FENCES = re.compile(r"`{3,}")
_STARTS = re.compile(r"^(?:[-+=:#]|\d{1,9}(?=[.)](?:\s|$)))")
_LINKS = re.compile(r"(?i)(https?|ftp|mailto|xmpp|www)([:.])")
_NAMED = re.compile(r"@(?=[A-Za-z0-9_])|#(?=\d)|\b(?i:GH)-(?=\d)")
"""Text that GitHub turns into a mention, an address or a reference to an issue."""
_APART = "&#8203;"
"""Invisible, and no escape would do: names are looked for once escapes are gone."""
_CELL = 160


class Markup(str):
    """Text that is Markdown already: nothing of it comes from a log, or it was made safe."""

    __slots__ = ()


def code(text: str, limit: int = 200) -> Markup:
    """`text` as a code span; backticks and cell borders in it are left out, spaces stay as they are."""
    text = plain(" ".join(text[: 8 * limit].splitlines()), limit).replace("`", "").replace("|", "")
    return Markup(f"`{text}`" if text.strip() else "")


def inline(text: str, limit: int = 1000) -> str:
    """Text for a paragraph, a heading or a list item, on one line."""
    text = one_line(text, limit).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = _SPECIAL.sub(r"\\\g<0>", text)
    text = _LINKS.sub(r"\1\\\2", text)  # no link: where it leads is the log's choice
    return _STARTS.sub(_unlisted, _NAMED.sub(rf"\g<0>{_APART}", text))


def _unlisted(hit: re.Match[str]) -> str:
    """The first characters of a text, which would begin a list, a rule or a heading."""
    return f"{hit[0]}{_APART}" if hit[0].isdigit() else f"\\{hit[0]}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()) -> list[str]:
    """A GitHub table of plain texts or `Markup`; columns in `right` are flush right."""
    rule = "|".join("---:" if at in right else "---" for at in range(len(head)))
    return [_row(head), f"|{rule}|", *(_row(row) for row in rows)]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell if isinstance(cell, Markup) else inline(cell, _CELL) for cell in cells) + " |"


def fenced(lines: Iterable[str], limit: int = 1000) -> list[str]:
    """A code block whose fence is longer than any run of backticks in it."""
    body = [plain(" ".join(line[: 8 * limit].splitlines()), limit) for line in lines]
    longest = max((len(run) for line in body for run in _FENCES.findall(line)), default=2)
    fence = "`" * (longest + 1)
    return [f"{fence}text", *body, fence]
