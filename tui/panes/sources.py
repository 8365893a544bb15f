"""The pane of sources: whether each log speaks of the present."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from perfmon.picture import Freshness, Picture, SourceNow

from ..listing import Listing
from ..pane import Asked
from ..render.prose import dressed
from ..render.rows import Row
from ..render.sources import common_ending, common_folder, source_row
from ..skin import Skin


class SourcesPane(Listing):
    """All logs of a picture, one a row; opening one asks for the doctor."""

    def __init__(self, skin: Skin, *, number: int | None = 3, id: str | None = "sources") -> None:
        super().__init__(skin, id=id)
        self.number = number
        """The key that toggles it; None: no title above it."""
        self.cursor = 0
        self._sources: tuple[SourceNow, ...] = ()
        self._folder = self._ending = ""

    def show(self, picture: Picture) -> None:
        """Repaints what differs from the picture before."""
        self._sources = picture.sources
        self._folder = common_folder([source.name for source in picture.sources])
        self._ending = common_ending([source.name for source in picture.sources])
        self.cursor = max(0, min(self.cursor or 0, len(self._sources) - 1))
        self.redraw()

    @property
    def selected(self) -> SourceNow | None:
        """The log under the cursor."""
        at = self.cursor or 0
        return self._sources[at] if at < len(self._sources) else None

    def summary(self) -> str:
        """`5 logs · 1 stale`: those that do not speak of the present are named."""
        counts = Counter(source.freshness for source in self._sources)
        told = [f"{len(self._sources)} {'log' if len(self._sources) == 1 else 'logs'}"]
        told += [f"{counts[kind]} {kind.value}" for kind in Freshness if kind is not Freshness.FRESH and counts[kind]]
        return " · ".join(told)

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title."""
        if self.number is None:
            return ()
        place = self.place(height - 1) if width >= 44 else ""
        keys = "  ".join(part for part in (place, "Enter doctor" if width >= 60 else "") if part)
        return (self.title_row(self.number, "SOURCES", self.summary(), keys, width),)

    def count(self) -> int:
        """One line says that there is nothing."""
        return max(1, len(self._sources))

    def line(self, at: int, width: int, ground: str) -> Row:
        """A log."""
        if not self._sources:
            return ((f" {self.skin.glyph('waiting')} no logs yet", self.skin.style("muted")),)
        row = source_row(self._sources[at], self.skin, width, self._folder, self._ending)
        return dressed(row, self.skin, ground)

    def stops_at(self, at: int) -> bool:
        """Every log can be chosen."""
        return at < len(self._sources)

    def do_open(self) -> None:
        """How well it is understood."""
        if self.selected is not None:
            self.post_message(Asked("doctor", self.selected))
