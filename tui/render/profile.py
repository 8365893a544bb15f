"""The timeline of profiled GPUs as rows: how much of each column each kind of work takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from perfmon.core import format_share, plain
from perfmon.profile import Cover, Gap, GpuUse
from perfmon.textgraphics import Tick, axis, fit

from ..theme import ThemeStyles
from .rows import Row, Words, styled

LANES = (
    ("compute", "productive"), ("communication", "rpc"), ("copies", "generation"), ("idle", "faint"),
    ("launched late", "warning"), ("data loading", "critical"), ("sync stall", "stale"),
)  # fmt: skip
"""Name and style, in the order of the screen."""
_SHORT = {"communication": "comm", "launched late": "late", "data loading": "data", "sync stall": "sync"}
_LEAST_NS = 100.0
"""The shortest time in view."""
_STEPS = (1, 2, 5)


@dataclass
class GpuTrack:
    """The lanes of a GPU on the common axis."""

    use: GpuUse
    start: int
    """Nanoseconds from the begin of the axis."""
    lanes: dict[str, Cover] = field(default_factory=dict)
    expanded: bool = True

    @classmethod
    def of(cls, use: GpuUse, begin: int, expanded: bool) -> GpuTrack:
        """The track of a GPU; `begin` is the moment of its clock at which the axis begins."""
        moved = {
            name: Cover([(low - begin, high - begin) for low, high in use.lanes.get(name, ())]) for name, _ in LANES
        }
        found = {name: cover for name, cover in moved.items() if name in ("compute", "idle") or cover.whole}
        return cls(use, use.start - begin, found, expanded)

    @property
    def title(self) -> str:
        """The GPU in words."""
        rank = "" if self.use.rank is None else f"rank {self.use.rank} "
        return plain(f"{rank}GPU {self.use.device} {self.use.product}".strip(), 60)


@dataclass(slots=True)
class Sight:
    """The time in view, nanoseconds from the begin of the axis, and the cursor in it."""

    whole: int
    start: float = 0.0
    span: float = 0.0
    cursor: float | None = None

    def __post_init__(self) -> None:
        self.span = self.span or float(self.whole)

    def zoom(self, factor: float) -> None:
        """Show more (`factor` > 1) or less time; what is under the cursor stays where it is."""
        at = self.cursor if self.cursor is not None else self.start + self.span / 2
        share = (at - self.start) / self.span
        self.span = min(float(self.whole), max(_LEAST_NS, self.span * factor))
        self.start = at - share * self.span
        self._keep()

    def show(self, low: float, high: float) -> None:
        """Show a range, with as much on either side, and put the cursor at its begin."""
        self.span = min(float(self.whole), max(_LEAST_NS, 3 * (high - low)))
        self.start, self.cursor = (low + high - self.span) / 2, low
        self._keep()

    def move(self, columns: int, width: int) -> None:
        """Move the cursor by columns; at its edges the view moves too."""
        column = self.span / max(1, width)
        at = self.cursor if self.cursor is not None else self.start + self.span / 2
        self.cursor = min(float(self.whole), max(0.0, at + columns * column))
        if self.cursor < self.start:
            self.start = self.cursor - 0.1 * self.span
        elif self.cursor > self.start + self.span:
            self.start = self.cursor - 0.9 * self.span
        self._keep()

    def _keep(self) -> None:
        self.start = min(max(0.0, self.start), self.whole - self.span)


def time_text(nanoseconds: float) -> str:
    """`12.34 ms`, `850 us`, `3.2 s`."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(nanoseconds) >= size:
            value = nanoseconds / size
            return f"{value:.{2 if abs(value) < 10 else 1 if abs(value) < 100 else 0}f} {unit}"
    return f"{nanoseconds:.0f} ns" if nanoseconds else "0"


def label_cells(width: int) -> int:
    """Cells of the names of lanes."""
    return 17 if width >= 80 else 12


def head_words(track: GpuTrack, skin: ThemeStyles, width: int) -> Words:
    """The GPU and its figures."""
    use = track.use
    mark = skin.glyph("collapse" if track.expanded else "expand")
    idle = use.idle / use.span if use.span else 0.0
    figures = [f"idle {format_share(idle)}", f"compute {format_share(use.compute / use.span if use.span else 0.0)}"]
    if width >= 100:
        figures += [f"gaps {use.long_gaps:,}", f"launch queue {use.queue_mean:,.0f}"]
    room = max(10, width - 4 - sum(len(one) + 3 for one in figures))
    return (
        (f" {mark} ", "accent"),
        (fit(track.title, min(room, len(track.title)), glyphs=skin.glyphs), "title"),
        ("  " + "   ".join(figures), "critical" if idle >= 0.5 else "warning" if idle >= 0.2 else "muted"),
    )


def lane_row(track: GpuTrack, lane: str, sight: Sight, width: int, skin: ThemeStyles, ground: str) -> Row:
    """A kind of work: the height of a column is its share of that time."""
    labels = label_cells(width)
    style = dict(LANES)[lane]
    name = f"   {lane}" if width >= 80 else f" {_SHORT.get(lane, lane)}"
    row: list[tuple[str, str]] = [(fit(name, labels, glyphs=skin.glyphs), "muted")]
    text = "".join(_columns(track.lanes[lane], sight, width - labels, skin))
    at = cursor_column(sight, width - labels)
    if at is None:
        return styled((*row, (text, style)), skin, ground)
    around = styled((*row, (text[:at], style)), skin, ground)
    return (*around, (text[at], skin.style(style, "cursor")), *styled(((text[at + 1 :], style),), skin, ground))


def _columns(cover: Cover, sight: Sight, columns: int, skin: ThemeStyles) -> list[str]:
    found = []
    each = sight.span / max(1, columns)
    for column in range(columns):
        low, high = int(sight.start + column * each), int(sight.start + (column + 1) * each)
        share = cover.length(low, max(high, low + 1)) / max(1, high - low)
        found.append(skin.spark[min(7, int(share * 8))] if share > 0 else " ")
    return found


def cursor_column(sight: Sight, columns: int) -> int | None:
    """The column of the cursor; None where it is out of view."""
    if sight.cursor is None or not sight.start <= sight.cursor <= sight.start + sight.span:
        return None
    return min(columns - 1, int((sight.cursor - sight.start) / sight.span * columns))


def axis_words(sight: Sight, width: int) -> Words:
    """Round times below their columns."""
    labels = label_cells(width)
    columns = max(1, width - labels)
    step = next(
        size * 10**power for power in range(14) for size in _STEPS if size * 10**power / sight.span * columns >= 12
    )
    first = -(-int(sight.start) // step)
    marks = [
        Tick(min(columns - 1, int((number * step - sight.start) / sight.span * columns)), time_text(number * step))
        for number in range(first, int((sight.start + sight.span) // step) + 1)
    ]
    return ((" " * labels, "muted"), (axis(marks, columns), "faint"))


def moment_words(tracks: Sequence[GpuTrack], track: GpuTrack, sight: Sight) -> Words:
    """Return the GPU's activity at the cursor, and in a long gap that of the host."""
    if sight.cursor is None:
        return ((f" {time_text(sight.span)} in view of {time_text(sight.whole)}", "muted"),)
    at = int(sight.cursor)
    running = [name for name, _ in LANES if name in track.lanes and track.lanes[name].length(at, at + 1)]
    names = track.title if len(tracks) > 1 else ""
    words: list[tuple[str, str]] = [(f" {time_text(at)} ", "title"), (f"{names} " if names else "", "muted")]
    words.append((", ".join(running) or "nothing", "text"))
    gap = gap_at(track, at)
    if gap is not None:
        words.append((f"  gap of {time_text(gap.end - gap.start)}: {host_text(gap)}", "warning"))
    return tuple(words)


def gap_at(track: GpuTrack, at: int) -> Gap | None:
    """The listed gap at a moment of the axis."""
    moment = at - track.start
    return next((gap for gap in track.use.gaps if gap.start <= moment < gap.end), None)


def host_text(gap: Gap, most: int = 3) -> str:
    """Return the host's activity in a gap."""
    return ", ".join(f"{plain(name, 60)} {time_text(length)}" for name, length in gap.host[:most]) or "nothing traced"
