"""Paths and patterns as words of a POSIX shell: no name can run a command."""

from __future__ import annotations

import re

_BRACKETS = re.compile(r"\[([!^]?)([A-Za-z0-9_.-]+)\]")
_TILDE = re.compile(r"~([A-Za-z0-9_][A-Za-z0-9_.-]*)?(?=/|$)")
MAGIC = re.compile(r"[*?]|\[[!^]?[A-Za-z0-9_.-]+\]")
"""What makes a path a pattern."""


def quoted(path: str) -> str:
    """One word that is exactly `path`. Raises ValueError where a line cannot hold it."""
    if any(sign in path for sign in "\0\n"):
        raise ValueError("a line break or NUL cannot stand in a command")
    return "'" + path.replace("'", "'\\''") + "'"


def pattern(path: str) -> str:
    """A word that the shell expands: a leading `~` or `~user`, `*`, `?` and simple `[...]`; all else is literal."""
    tilde = _TILDE.match(path)
    words, at = ([tilde[0]], tilde.end()) if tilde else ([], 0)
    for magic in MAGIC.finditer(path, at):
        words += [quoted(path[at : magic.start()])] if magic.start() > at else []
        words.append(_bracket(magic[0]))
        at = magic.end()
    words += [quoted(path[at:])] if at < len(path) else []
    return "".join(words)


def regex(path: str) -> re.Pattern[str]:
    """What a pattern with `**` matches: any folders, none included; hidden names only where it says so."""
    parts = [_part(part) for part in path.split("/")]
    text = "/".join(parts).replace("\0/", "(?:(?!\\.)[^/]+/)*").replace("\0", "(?:(?!\\.)[^/]+/)*(?!\\.)[^/]+")
    return re.compile(text, re.DOTALL)


def literal_base(path: str) -> str:
    """The part of a pattern before the first `**`."""
    parts = path.split("/")
    return "/".join(parts[: parts.index("**")]) or "/"


def _part(part: str) -> str:
    if part == "**":
        return "\0"
    out, at = "" if part.startswith(".") or not MAGIC.match(part) else r"(?!\.)", 0
    for magic in MAGIC.finditer(part):
        out += re.escape(part[at : magic.start()])
        out += {"*": "[^/]*", "?": "[^/]"}.get(magic[0]) or _bracket(magic[0]).replace("[!", "[^")
        at = magic.end()
    return out + re.escape(part[at:])


def _bracket(text: str) -> str:
    match = _BRACKETS.fullmatch(text)
    return text if match is None else f"[{'!' if match[1] else ''}{match[2]}]"
