"""Fuzzy matching of a text with typed words, in one pass over the text, even if it is hostile."""

from __future__ import annotations

from dataclasses import dataclass

_LONGEST = 300
_WHOLE, _BEGINS, _AT_WORD, _INSIDE, _SCATTERED = 100.0, 80.0, 60.0, 40.0, 10.0


@dataclass(frozen=True, slots=True)
class Fit:
    """A text that fits."""

    score: float
    """More is better; only good for comparing."""
    places: frozenset[int]
    """Characters of the text that were typed."""


def fit_of(typed: str, text: str) -> Fit | None:
    """Score of `text` for the words of `typed`, all of which it must contain, at least as letters; None without it.

    Capitals do not matter. Of a long text only the beginning counts.
    """
    low = _folded(text[:_LONGEST])
    score, places = 0.0, set[int]()
    words = _folded(typed[:_LONGEST]).split()
    for word in words:
        found = _together(word, low) or _scattered(word, low)
        if found is None:
            return None
        score += found[0]
        places.update(found[1])
    return Fit(score / max(1, len(words)) - 0.05 * len(low), frozenset(places))


def _folded(text: str) -> str:
    """In small letters, each where it was."""
    low = text.lower()
    return low if len(low) == len(text) else "".join(char.lower()[:1] for char in text)


def _together(word: str, text: str) -> tuple[float, range] | None:
    at = first = text.find(word)
    while at > 0 and text[at - 1].isalnum():
        at = text.find(word, at + 1)
    if first < 0:
        return None
    best = first if at < 0 else at
    worth = _INSIDE if at < 0 else _AT_WORD if at else _WHOLE if len(word) == len(text) else _BEGINS
    return worth, range(best, best + len(word))


def _scattered(word: str, text: str) -> tuple[float, list[int]] | None:
    """The letters one after the other: worth more where they begin words, less the further apart they are."""
    places: list[int] = []
    at = -1
    for char in word:
        at = text.find(char, at + 1)
        if at < 0:
            return None
        places.append(at)
    begins = sum(1 for place in places if not place or not text[place - 1].isalnum())
    gaps = places[-1] - places[0] + 1 - len(word)
    return _SCATTERED * (begins + 1) / (len(word) + 1) - 0.2 * gaps, places
