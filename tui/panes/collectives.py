"""The pane of collectives: bandwidths by collective and size, ranks that others wait for, slow links, missing ranks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from perfmon.core import counted, format_seconds, format_share, plain
from perfmon.textgraphics import bar, compact, compact_bytes, fit, limits, spark
from perfmon.viewmodel import AlertState, CollectiveNow, CollectivesState, LinkNow, MonitorState, RankNow

from ..render.rows import Row, Words, cells, ends, fitted, styled
from ..theme import ThemeStyles
from ..widgets.pane import Listing

_SIDE_BY_SIDE = 110
_SPARK = 16
_SLOW = 1.3
_LEAST = 0.005
_ACCUSING = ("nccl-slow-rank", "nccl-slow-link")


class CollectivesPane(Listing):
    """The collectives of the last seconds; the rows scroll, and there is nothing to open."""

    def __init__(self, skin: ThemeStyles) -> None:
        super().__init__(skin, id="collectives")
        self._state: CollectivesState | None = None
        self._named: set[str] = set()
        self._lines: list[Words] = []

    def wanted(self, picture: MonitorState) -> int:
        """Rows that could be filled; 0 without logs of NCCL Inspector."""
        state = picture.collectives
        if state is None:
            return 0
        others = len(state.ranks) + len(state.missing)
        wide = bool(self.app.size.width >= _SIDE_BY_SIDE)
        return 3 + (max(len(state.by), others) if wide else len(state.by) + others)

    def show(self, picture: MonitorState) -> None:
        """Show another picture."""
        self._state, self._named = picture.collectives, _accused(picture)
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The title, and the lines in sight."""
        self._lines = [] if self._state is None else _rows_of(self._state, self._named, self.skin, width)
        return super().rows(width, height)

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title."""
        note = "" if self._state is None else _title_note(self._state, width)
        return (self.title_row(5, "Collectives", note, self.place(height - 1) if width >= 72 else "", width),)

    def count(self) -> int:
        """All rows."""
        return len(self._lines)

    def line(self, at: int, width: int, ground: str) -> Row:
        """One row; names of hosts and communicators are foreign text."""
        return fitted(styled(self._lines[at], self.skin, ground), width, self.skin.style("text", ground))

    def stops_at(self, at: int) -> bool:
        """Keys scroll: no row can be opened."""
        return False


def _accused(picture: MonitorState) -> set[str]:
    """Labels of the ranks and links that a finding names now."""
    return {
        alert.finding.identity.get("group", "")
        for alert in picture.alerts
        if alert.finding.signature in _ACCUSING and alert.state in (AlertState.FIRING, AlertState.ACKED)
    }


def _rows_of(state: CollectivesState, named: set[str], skin: ThemeStyles, width: int) -> list[Words]:
    """All rows, exactly `width` cells; `named` are the labels that a finding accuses."""
    if not state.by:
        text = f" waiting for {_awaited(state)}" if not state.lines else f" {state.lines:,} lines, no operation yet"
        return [((fit(text, width, glyphs=skin.glyphs), "muted"),)]
    if width < _SIDE_BY_SIDE:
        problems = _others(state, named, skin, width)
        first = max(1, sum(row[0][1] != "text" for row in problems[:3]))
        table = [_head(width), *(_collective(one, skin, width) for one in state.by)]
        return [*problems[:first], *table, *problems[first:]]
    left = width * 11 // 20
    right = width - left - 1
    table = [_head(left), *(_collective(one, skin, left) for one in state.by)]
    others = _others(state, named, skin, right)
    blank: Words = ((" " * left, "text"),)
    return [(*(row or blank), (" ", "text"), *(other or ())) for row, other in zip_longest(table, others)]


def _awaited(state: CollectivesState) -> str:
    first = plain(state.absent[0], 200) if state.absent else ""
    more = f" (and {len(state.absent) - 1} more)" if len(state.absent) > 1 else ""
    return f"the folder {first}{more}: not there yet" if first else "records"


def _title_note(state: CollectivesState, width: int) -> str:
    """The size of the job, and how much of it the logs cover."""
    parts = [f"{int(100 * state.coverage)}% of operations complete", f"{compact(state.lines_per_s)} lines/s"]
    parts = [f"{counted(state.processes, 'process', 'processes')} · {state.hosts} hosts", *parts]
    if state.age_s is not None and state.age_s >= 5.0:
        parts.insert(0, f"no records for {format_seconds(round(state.age_s))}")
    parts += [f"{state.dropped:,} dropped by the plugin"] if state.dropped else []
    parts += [f"{state.evicted:,} closed early"] if state.evicted else []
    parts += [f"{state.repeated:,} records twice, as in copies of logs"] if state.repeated else []
    parts += [f"{state.skipped:,} lines skipped"] if state.skipped else []
    while len(parts) > 1 and len(" · ".join(parts)) > width - 22:
        parts.pop()
    return " · ".join(parts)


def _head(width: int) -> Words:
    return ((fit(_line("collective", "GB/s", "", "wait", "op/s", width), width), "muted"),)


def _line(name: str, busbw: str, trend: str, wait: str, ops: str, width: int) -> str:
    """Columns: the narrower, the fewer."""
    tail = f" {busbw:>7}" + (f"  {trend:<{_SPARK}}" if width >= 72 else "") + f" {wait:>6}"
    tail += f" {ops:>7}" if width >= 52 else ""
    return fit(f" {name}", max(8, width - len(tail))) + tail


def _collective(one: CollectiveNow, skin: ThemeStyles, width: int) -> Words:
    name = f"{one.collective} {compact_bytes(one.size, 8).strip()} {one.comm_type}"
    trend = one.trend[-_SPARK:]
    drawn = spark(trend, *limits(trend), glyphs=skin.glyphs).rjust(_SPARK)
    waited = "-" if one.wait_share is None else f"{one.wait_share:.0%}"
    line = _line(name, f"{one.busbw_gbs:.1f}", drawn, waited, f"{one.ops_per_s:.1f}", width)
    return ((fit(line, width, glyphs=skin.glyphs), "text"),)


def _others(state: CollectivesState, named: set[str], skin: ThemeStyles, width: int) -> list[Words]:
    """Those that a finding names first; then missing ranks, and the others by waiting and ratio."""
    rows = [_link(link, skin, width, "critical") for link in state.links if link.label in named]
    rows += [_rank(rank, skin, width, "critical") for rank in state.ranks if rank.label in named]
    for one in state.missing:
        which = ", ".join(map(str, one.ranks)) + (" …" if one.count > len(one.ranks) else "")
        text = f" no records of {one.count} of {one.of} ranks ({which}): {one.label}"
        rows.append(((fit(text, width, glyphs=skin.glyphs), "warning"),))
    rows += [
        _link(link, skin, width, "warning") for link in state.links if link.ratio >= _SLOW and link.label not in named
    ]
    return rows + [
        _rank(rank, skin, width, "text") for rank in state.ranks if rank.label not in named and rank.share >= _LEAST
    ]


def _rank(rank: RankNow, skin: ThemeStyles, width: int, style: str) -> Words:
    tail = f" {bar(rank.share, 8, skin.glyphs):<8} {format_share(rank.share):>7} of waiting"
    tail = tail if width >= 60 else f" {format_share(rank.share):>7} of waiting"
    head = ends(f" {rank.label}", max(6, width - cells(tail)), skin)
    return ((head + tail, style),)


def _link(link: LinkNow, skin: ThemeStyles, width: int, style: str) -> Words:
    tail = f" {link.ratio:5.2f} times its peers"
    return ((ends(f" slow link {link.label}", max(6, width - len(tail)), skin) + tail, style),)
