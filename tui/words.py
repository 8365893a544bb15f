"""A line that somebody typed, in words: like a shell's, but every line has a meaning."""

from __future__ import annotations


def split_words(line: str) -> list[str]:
    """Words between blanks; one that begins with a quote goes on to the next one, or to the end.

    Within double quotes `\\"` and `\\\\` stand for themselves; a backslash elsewhere is a backslash.
    """
    words: list[str] = []
    at = 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        word, at = _quoted(line, at + 1, line[at]) if line[at] in "\"'" else _bare(line, at)
        words.append(word)
    return words


def _bare(line: str, at: int) -> tuple[str, int]:
    end = next((i for i in range(at, len(line)) if line[i].isspace()), len(line))
    return line[at:end], end


def _quoted(line: str, at: int, quote: str) -> tuple[str, int]:
    kept: list[str] = []
    while at < len(line) and line[at] != quote:
        if quote == '"' and line[at] == "\\" and line[at + 1 : at + 2] in ('"', "\\"):
            at += 1
        kept.append(line[at])
        at += 1
    return "".join(kept), at + 1


def quoted(word: str) -> str:
    """`word` as `split_words` gives it back."""
    if word and not any(char.isspace() for char in word) and word[0] not in "\"'":
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
