"""Panes over an evaluated profile: the timeline of GPUs, the findings, and the long gaps."""

from __future__ import annotations

from collections.abc import Sequence

from perfmon.core import counted, format_share
from perfmon.profile import Gap, Profile

from ..render.profile import (
    LANES,
    GpuTrack,
    Sight,
    axis_words,
    head_words,
    host_text,
    label_cells,
    lane_row,
    moment_words,
    time_text,
)
from ..render.rows import Row, Words, paragraph, styled
from ..theme import ThemeStyles
from ..widgets.pane import Listing, Request

_SAME_CLOCK_NS = 60_000_000_000
_EXPANDED = 4


class TimelinePane(Listing):
    """The lanes of every GPU."""

    def __init__(self, skin: ThemeStyles, found: Profile) -> None:
        super().__init__(skin, id="board")
        starts = [use.start for use in found.gpus]
        common = max(starts) - min(starts) < _SAME_CLOCK_NS
        begin = min(starts)
        expanded = len(found.gpus) <= _EXPANDED
        self.tracks = [GpuTrack.of(use, begin if common else use.start, expanded) for use in found.gpus]
        self.port = Sight(max(track.start + track.use.span for track in self.tracks))
        self.cursor = 0

    def lines(self) -> list[tuple[GpuTrack, str]]:
        """GPUs, "" for the name, and lanes, as they are listed."""
        lines = []
        for track in self.tracks:
            lines.append((track, ""))
            lines += [
                (track, name) for name, _ in LANES if name in track.lanes and (track.expanded or name == "compute")
            ]
        return lines

    @property
    def track(self) -> GpuTrack:
        """The GPU under the cursor."""
        lines = self.lines()
        return lines[min(self.cursor or 0, len(lines) - 1)][0]

    @property
    def columns(self) -> int:
        """Columns of the chart."""
        return max(1, self.size.width - label_cells(self.size.width))

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title."""
        view = f"{time_text(self.port.start)} to {time_text(self.port.start + self.port.span)}"
        room = max(1, height - 3)
        return [self.title_row(1, "timeline", view, self.place(room), width)]

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """The axis, and the moment under the cursor."""
        words = [axis_words(self.port, width), moment_words(self.tracks, self.track, self.port)]
        return [styled(one, self.skin, "background") for one in (words if height >= 5 else words[1:])]

    def count(self) -> int:
        """Rows of all GPUs."""
        return len(self.lines())

    def line(self, at: int, width: int, ground: str) -> Row:
        """The name of a GPU, or one of its lanes."""
        track, lane = self.lines()[at]
        if not lane:
            return styled(head_words(track, self.skin, width), self.skin, ground)
        return lane_row(track, lane, self.port, width, self.skin, ground)

    def do_open(self) -> None:
        """Show or hide the lanes of the GPU."""
        track = self.track
        track.expanded = not track.expanded
        self.cursor = next(at for at, (one, lane) in enumerate(self.lines()) if one is track and not lane)
        self.reveal()
        self.redraw()


class _Lines(Listing):
    """A listing of words."""

    number, title = 0, ""

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title."""
        return [self.title_row(self.number, self.title, self.about(), self.place(max(1, height - 1)), width)]

    def about(self) -> str:
        """Its line in the title."""
        return ""

    def words(self, width: int) -> Sequence[Words]:
        """All lines."""
        raise NotImplementedError

    def count(self) -> int:
        """The number of lines."""
        return len(self.words(max(20, self.size.width)))

    def line(self, at: int, width: int, ground: str) -> Row:
        """One line."""
        return styled(self.words(max(20, width))[at], self.skin, ground)


class FindingsPane(_Lines):
    """Findings of the signatures, with advice."""

    number, title = 2, "findings"

    def __init__(self, skin: ThemeStyles, found: Profile) -> None:
        super().__init__(skin, id="alerts")
        self._found = found
        self._laid_out: tuple[int, list[Words]] = (-1, [])

    def about(self) -> str:
        """Number of findings."""
        return counted(len(self._found.findings), "finding")

    def words(self, width: int) -> Sequence[Words]:
        """Of each finding its sentence, cost and advice; then notes."""
        if self._laid_out[0] != width:
            self._laid_out = width, self._made(width)
        return self._laid_out[1]

    def _made(self, width: int) -> list[Words]:
        lines: list[Words] = []
        for finding in self._found.findings:
            level = finding.severity.value if finding.severity.value in ("warning", "critical") else "info"
            cost = f"  {time_text(finding.lost_s * 1e9)} lost ({format_share(finding.lost_share)})"
            lines.append(((f" {finding.title}", level), (cost if finding.lost_s else "", "muted")))
            lines += paragraph(finding.sentence, width - 1, "text", "   ")
            for advice in finding.advice:
                lines += paragraph(advice, width - 1, "muted", f"   {self.skin.glyph('next')} ", "accent")
        if not lines:
            lines.append(((" no finding", "muted"),))
        for note in self._found.notes:
            lines += paragraph(note, width - 1, "warning", " ! ")
        return lines


class GapsPane(_Lines):
    """The long gaps of all GPUs, the longest first."""

    number, title = 3, "gaps"

    def __init__(self, skin: ThemeStyles, found: Profile, tracks: Sequence[GpuTrack]) -> None:
        super().__init__(skin, id="sources")
        self.gaps = sorted(
            ((track, gap) for track in tracks for gap in track.use.gaps), key=lambda row: row[1].start - row[1].end
        )
        self._total = sum(use.long_gaps for use in found.gpus)

    def about(self) -> str:
        """Number of gaps."""
        return f"{len(self.gaps)} of {self._total:,}, the longest first" if self.gaps else ""

    def words(self, width: int) -> Sequence[Words]:
        """Of each gap its time, and what the host did."""
        if not self.gaps:
            return [((" no long gaps", "muted"),)]
        return [self._gap(track, gap) for track, gap in self.gaps]

    def _gap(self, track: GpuTrack, gap: Gap) -> Words:
        name = f"rank {track.use.rank} " if track.use.rank is not None else ""
        return (
            (f" {time_text(gap.end - gap.start):>9}", "warning"),
            (f"  at {time_text(track.start + gap.start):<9} {name}GPU {track.use.device}  ", "muted"),
            (host_text(gap), "text"),
        )

    def do_open(self) -> None:
        """Show the gap in the timeline."""
        if self.gaps:
            self.post_message(Request("gap", self.gaps[min(self.cursor or 0, len(self.gaps) - 1)]))
