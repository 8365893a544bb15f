"""Everything that was polled of one thing: what its row had no room for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import isfinite

from perfmon.drawing import compact, fit, limits, spark
from perfmon.machines import Seen
from perfmon.surroundings.amounts import cores
from perfmon.surroundings.wording import age_words

from ..prose import Words, wrapped
from .look import Look, Thing

_INDENT = "     "
_KEY, _NOW, _SPAN = 20, 8, 20
_CORES = {"cores_busy": "cores busy", "cores_iowait": "cores wait"}
"""Words that are drawn, a sign a core."""
_TENTH = 10.0


def detail_lines(look: Look, thing: Thing, width: int) -> Iterator[Callable[[], Words]]:
    """A line a value, with its course; its words above them."""
    seen = thing[1]
    words = [f"{key} {word.replace('_', ' ')}" for key, word in seen.reading.words.items() if key not in _CORES]
    words.append(f"seen {age_words(look.around.age_s(seen))} ago")
    if seen.every_s is not None:
        words.append(f"every {seen.every_s:.3g} s")
    for part in wrapped(" · ".join(words), max(1, width - len(_INDENT) - 1)):
        yield partial(_words, part)
    for key, name in _CORES.items():
        if seen.reading.words.get(key):
            yield partial(_cores, look, seen, key, name)
    for key in seen.reading.values:
        yield partial(_value, look, seen, key, width)


def _words(text: str) -> Words:
    return ((f"{_INDENT}{text}", "muted"),)


def _cores(look: Look, seen: Seen, key: str, name: str) -> Words:
    drawn = spark(cores(seen, key), _TENTH / 2, 100.0 - _TENTH / 2, glyphs=look.skin.glyphs)
    return ((_INDENT + fit(name, _KEY, glyphs=look.skin.glyphs), "muted"), (drawn, "metric"))


def _value(look: Look, seen: Seen, key: str, width: int) -> Words:
    glyphs = look.skin.glyphs
    known = [value for value in seen.history.get(key, ()) if isfinite(value)]
    span = f"{compact(min(known), 8)} .. {compact(max(known), 8)}" if known else ""
    room = max(0, width - len(_INDENT) - _KEY - _NOW - _SPAN - 3)
    values = seen.history.get(key, ())[-room:] if room else ()
    low, high = limits(values)
    return (
        (_INDENT + fit(key, _KEY, glyphs=glyphs), "muted"),
        (fit(compact(seen.reading.values[key], _NOW), _NOW, right=True), look.style(seen, key)),
        ("  " + fit(span, _SPAN), "faint"),
        (spark(values, low, high, glyphs=glyphs), "metric"),
    )
