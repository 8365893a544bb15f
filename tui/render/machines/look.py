"""Input for rows about hosts: the time, the thresholds, and the characters of the terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from perfmon.drawing import limits, spark
from perfmon.machines import Seen
from perfmon.picture import Level, Picture
from perfmon.snapshot import MetricStats
from perfmon.sources.polls.reading import Area
from perfmon.surroundings import Host, Surroundings, level_of
from perfmon.surroundings.judging import worst_of
from perfmon.surroundings.wording import age_words

from ...skin import LEVEL_NAMES, Skin
from ..prose import Words
from .table import Cell

Thing = tuple[Host, Seen]
_NAME = 16
_HEADROOM = 1.15
FULL = 100.0 * _HEADROOM
"""The height of a percentage that leaves a gap below the row above."""


@dataclass(frozen=True)
class Look:
    """The machines of a picture, and how they are drawn."""

    around: Surroundings
    skin: Skin
    metrics: Mapping[str, MetricStats] = field(default_factory=dict)
    """Those of the snapshot: their bands are the limits."""

    @classmethod
    def at(cls, picture: Picture, skin: Skin) -> Look:
        """At that picture."""
        return cls(Surroundings.at(picture), skin, {} if picture.snapshot is None else picture.snapshot.metrics)

    @property
    def any(self) -> bool:
        """Something else than logs is observed."""
        return bool(self.around.hosts)

    # --- cells ----------------------------------------------------------------------------------------------------
    def mark(self, thing: Thing) -> Cell:
        """The sign of the worst that it says; `?` where nobody knows any more."""
        seen = thing[1]
        if self.around.stale(seen):
            return f" {self.skin.glyph('stale')}", "stale"
        level = worst_of(seen.reading, self.metrics)
        named = LEVEL_NAMES[Level.GOOD if level is Level.NONE else level]
        return f" {self.skin.glyph(named)}", named

    def figure(self, thing: Thing, text: str, style: str = "text") -> Cell:
        """The first figure of a row; its age instead, where it is old."""
        if self.around.stale(thing[1]):
            return f"{self.skin.glyph('stale')} {age_words(self.around.age_s(thing[1]))}", "stale"
        return text, style

    def style(self, seen: Seen, key: str, usual: str = "text") -> str:
        """That of a value by its level."""
        value = seen.reading.values.get(key)
        if value is None:
            return usual
        return self.level_style(seen.reading.area, key, value, usual)

    def level_style(self, area: Area, key: str, value: float, usual: str = "text") -> str:
        """That of a value that was worked out of others."""
        level = level_of(area, key, value, self.metrics)
        return usual if level in (Level.NONE, Level.GOOD) else LEVEL_NAMES[level]

    def bar(self, share: float | None, cells: int) -> str:
        """A line as long as that share, to half a cell: bars as high as their rows would grow together."""
        if share is None:
            return ""
        whole, half = divmod(round(2 * cells * min(1.0, max(0.0, share))), 2)
        drawn = self.skin.glyph("gauge") * whole + self.skin.glyph("gauge-end") * half
        return drawn + self.skin.glyph("dot") * (cells - whole - half)

    def spark(self, seen: Seen, key: str, cells: int, high: float | None = None) -> str:
        """The last values, one a cell; `high` fixes the scale from 0. Nothing reaches up to the row above."""
        values = seen.history.get(key, ())[-cells:]
        low, top = (0.0, high) if high is not None else limits(values)
        return spark(values, low, low + _HEADROOM * (top - low), glyphs=self.skin.glyphs).rjust(cells)

    def name(self, thing: Thing, text: str) -> str:
        """A name, with that of its host where there are several."""
        return f"{thing[0].short}:{text}" if self.around.several else text

    def names(self, things: Sequence[Thing], name: Callable[[Seen], str]) -> dict[int, str]:
        """Names by the `id` of what was seen; with those of their hosts where they are not enough."""
        bare = [name(seen) for _, seen in things]
        alike = len(set(bare)) < len(bare)
        full = [self.name(thing, text) for thing, text in zip(things, bare, strict=True)] if alike else bare
        return {id(thing[1]): text for thing, text in zip(things, full, strict=True)}

    def dim(self, words: Words, thing: Thing) -> Words:
        """The row of a thing that was not heard of lately is faint, but for what says so."""
        if not self.around.stale(thing[1]):
            return words
        return tuple((text, style if style == "stale" else "faint") for text, style in words)


def widest(texts: Iterable[str], most: int = _NAME) -> int:
    """Cells for a column of names."""
    from ..rows import cells

    return max(1, min(most, max((cells(text) for text in texts), default=1)))
