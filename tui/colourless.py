"""Takes every colour out of what Textual is about to write, for NO_COLOR and terminals that have none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

from .skin import Depth


class Colourless(LineFilter):
    """Leaves attributes alone; what was told from its surroundings by a terminal's background colour is reversed.

    Textual's own filters are not enough: `Monochrome` writes shades of grey, `NoColor` writes default colours and
    loses selections.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same text, without any colour."""
        return [
            Segment(text, None if style is None else _without_colour(style), control)
            for text, style, control in segments
        ]


@lru_cache(1024)
def _without_colour(style: Style) -> Style:
    plain = style.without_color + Style.from_meta(style.meta)  # what a click means is kept there
    return plain + Style(reverse=not style.reverse) if _fills(style.bgcolor) else plain


def _fills(ground: RichColor | None) -> bool:
    return ground is not None and not ground.is_default and ground.triplet is None


COLOURLESS = Colourless()


def line_filters(depth: Depth, filters: Sequence[LineFilter]) -> Sequence[LineFilter]:
    """What `App.get_line_filters` should say: Textual's own filters, or only Colourless where no colour may show."""
    return [COLOURLESS] if depth is Depth.NONE else filters
