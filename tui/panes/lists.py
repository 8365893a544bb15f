"""Panes that are lists: alerts; hosts, GPUs, queues and logs; collectives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial, partialmethod
from itertools import zip_longest

from perfmon.core import counted, format_seconds, format_share, plain, short_duration
from perfmon.diagnosis import Assessment
from perfmon.textgraphics import bar, compact, compact_bytes, fit, limits, spark
from perfmon.viewmodel import (
    Alert,
    AlertKey,
    AlertState,
    CollectiveNow,
    CollectivesState,
    Freshness,
    LinkNow,
    MonitorState,
    RankNow,
    SourceStatus,
)

from ..layout import HEADED
from ..render.alerts import alert_row, heading_row, preview
from ..render.hosts.layout import ORDERS, VIEWS, Line, View, lines_of
from ..render.hosts.sections import TITLES, Key, keys_of, summary_of
from ..render.hosts.table import RenderContext
from ..render.logs import common_ending, freshness_word, source_row
from ..render.rows import Row, Words, cells, ends, fitted, styled
from ..theme import ThemeStyles
from ..widgets.pane import Listing, Request

_COUNTED = ("firing", "acked", "pending", "resolving", "unknown", "inhibited", "silenced", "resolved")
_KEYS = "Enter evidence  a ack  S silence  u undo"


class AlertPane(Listing):
    """All alerts of a picture, one a row."""

    def __init__(self, skin: ThemeStyles) -> None:
        super().__init__(skin, id="alerts")
        self.cursor = 0
        self._picture: MonitorState | None = None
        self._alerts: tuple[Alert, ...] = ()
        self._chosen: AlertKey | None = None
        self._several: frozenset[str] = frozenset()

    def show(self, picture: MonitorState) -> None:
        """Repaint what differs from the picture before; the cursor stays on its alert, on top it stays on top."""
        self._picture, self._alerts = picture, picture.alerts
        kinds = Counter(alert.key[0] for alert in picture.alerts)
        self._several = frozenset(kind for kind, count in kinds.items() if count > 1)
        keys = [alert.key for alert in picture.alerts]
        if self._chosen is None:
            self.cursor = 0
        elif self._chosen in keys:
            first, last = self.sight
            was_in_sight = self.cursor is not None and first <= self.cursor < last
            self.cursor = keys.index(self._chosen)
            if was_in_sight:
                self.reveal()
        else:
            self.cursor = max(0, min(self.cursor or 0, len(keys) - 1))
        self.redraw()

    @property
    def selected(self) -> Alert | None:
        """The alert under the cursor."""
        at = self.cursor or 0
        return self._alerts[at] if at < len(self._alerts) else None

    def summary(self, width: int = 1000) -> str:
        """`2 firing · 1 pending`; of what there is no room for in `width` cells only that there is more."""
        counts = Counter(alert.state.value for alert in self._alerts)
        parts = [f"{counts[state]} {state}" for state in _COUNTED if counts[state]]
        while parts and len(" · ".join(parts)) > width:
            parts = [*parts[: -2 if parts[-1] == "…" else -1], "…"] if len(parts) > 1 and parts != ["…"] else []
        return " · ".join(parts)

    # --- drawing ------------------------------------------------------------------------------------------------------
    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title, and the names of the columns where there is room."""
        names = self._picture is not None and bool(self._alerts) and width >= HEADED
        names = names and (height >= 8 or height >= len(self._alerts) + 2)
        place = self.place(height - 1 - names)
        keys = _KEYS if width >= 150 else _KEYS[:14] if width >= 80 else ""
        keys = keys if self.has_focus else ""  # elsewhere they are of another pane
        summary = self.summary(width - 16 - len(place) - len(keys))
        right = "  ".join(part for part in (place, keys) if part)
        rows = [self.title_row(2, "ALERTS", summary, right, width)]
        if names and self._picture is not None:
            rows.append(heading_row(self.skin, width, self._picture.window_s))
        return rows

    def foot(self, width: int, height: int) -> Sequence[Row]:
        """Details of the alert under the cursor, if there is room below the list."""
        free = height - len(self.head(width, height)) - self.count()
        if self.selected is None or free < 2:
            return ()
        shown = preview(self.selected, self.skin, width, free - 1)
        return [*shown, *[()] * (free - 1 - len(shown))] if shown else ()

    def count(self) -> int:
        """One line shows that there is nothing."""
        return max(1, len(self._alerts))

    def line(self, at: int, width: int, ground: str) -> Row:
        """An alert."""
        picture = self._picture
        if picture is None or not self._alerts:
            return self._nothing(picture)
        alert = self._alerts[at]
        return alert_row(alert, self.skin, ground, width, picture, alert.key[0] in self._several)

    def stops_at(self, at: int) -> bool:
        """Every alert can be chosen."""
        return at < len(self._alerts)

    def _nothing(self, picture: MonitorState | None) -> Row:
        if picture is None or picture.snapshot is None:
            mark, style, words = "waiting", "muted", "nothing read yet"
        elif picture.stale_s is not None and not picture.is_over:
            mark, style = "stale", "stale"
            words = f"no alerts, but the newest line is {format_seconds(picture.stale_s)} old"
        elif picture.snapshot.assessment is Assessment.UNREADABLE:
            mark, style, words = "unknown", "stale", "no alerts: the logs cannot be read"
        elif picture.snapshot.assessment is Assessment.LEARNING:
            mark, style, words = "unknown", "stale", "no alerts: too early"
        else:
            window = "" if picture.is_over else f" in the last {short_duration(picture.window_s)}"
            mark, style, words = "good", "good", f"no alerts{window}"
        return styled(((f" {self.skin.glyph(mark)} ", style), (words, "muted")), self.skin, "background")

    # --- acting -------------------------------------------------------------------------------------------------------
    def moved(self) -> None:
        """On top, the cursor is for what is most pressing, whichever that is."""
        alert = self.selected
        self._chosen = alert.key if self.cursor and alert is not None else None

    def do_open(self) -> None:
        """Open the page of the alert."""
        if self.selected is not None:
            self.post_message(Request("alert", self.selected))

    def _request(self, action: str) -> None:
        """Request it; that may move the alert in the list: the cursor stays on it, for the next key is about it too."""
        if self.selected is not None:
            self._chosen = self.selected.key
            self.post_message(Request(action, self.selected))

    do_ack = partialmethod(_request, "ack")
    do_silence = partialmethod(_request, "silence")
    do_undo = partialmethod(_request, "undo")


# --- Hosts, GPUs and queues as they are now, and the freshness of each log ---

_NAMED_ORDER = 50


class SourcesPane(Listing):
    """Hosts, GPUs, queues and logs, one per row: an overview, or one kind.

    Opening a log requests the doctor; opening another thing shows all that was polled of it.
    """

    def __init__(self, skin: ThemeStyles) -> None:
        super().__init__(skin, id="sources")
        self.cursor = 0
        self.view = VIEWS[0]
        """One of `plan.VIEWS`."""
        self.whole = False
        """It has all the room: everything is shown, with headings."""
        self.order = ORDERS[0]
        """Order of the rows."""
        self.processes = False
        """The processes of each GPU are shown below it."""
        self._opened: set[Key] = set()
        self._chosen: Key | None = None
        self._picture: MonitorState | None = None
        self._sources: tuple[SourceStatus, ...] = ()
        self._folder = self._ending = ""
        self._lines: list[Line] = []
        self._look: RenderContext | None = None

    def show(self, picture: MonitorState) -> None:
        """Repaint what differs from the picture before."""
        self._picture, self._sources = picture, picture.sources
        self._folder = picture.folder
        self._ending = common_ending([source.name for source in picture.sources])
        self._look = RenderContext.at(picture, self.skin)
        self.redraw()

    def apply_theme(self, skin: ThemeStyles) -> None:
        """Draw everything in another theme."""
        super().apply_theme(skin)
        if self._picture is not None:
            self.show(self._picture)

    @property
    def selected(self) -> SourceStatus | None:
        """The log under the cursor."""
        line = self._current
        return None if line is None else line.source

    @property
    def _current(self) -> Line | None:
        at = self.cursor or 0
        return self._lines[at] if at < len(self._lines) and self._lines[at].key is not None else None

    def show_view(self, view: str) -> None:
        """Show another kind of thing."""
        self.view, self.top, self.cursor, self._chosen = view, 0, 0, None
        self.redraw()

    # --- drawing ------------------------------------------------------------------------------------------------------
    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The title, and the lines in sight."""
        self._lines = []
        if self._look is not None:
            view = View(self.view, width, height - 1, self._opened, self.processes, self.whole, self.order)
            draw = partial(source_row, skin=self.skin, width=width, folder=self._folder, common=self._ending)
            self._lines = lines_of(self._look, view, self._sources, draw)
        self._keep_cursor()
        return super().rows(width, height)

    def _keep_cursor(self) -> None:
        """It stays on its thing, wherever that stands now."""
        keys = [line.key for line in self._lines]
        if self._chosen is not None and self._chosen in keys:
            self.cursor = keys.index(self._chosen)
            return
        at = max(0, min(self.cursor or 0, len(keys) - 1))
        stops = [place for place, key in enumerate(keys) if key is not None]
        self.cursor = min(stops, key=lambda place: (abs(place - at), place), default=0)

    def head(self, width: int, height: int) -> Sequence[Row]:
        """The title."""
        place = self.place(height - 1) if width >= 44 else ""
        machines = self._look is not None and self._look.any
        title = TITLES[self.view if machines or self.view != "auto" else "sources"]
        title += f", {self.order}" if self.order and width >= _NAMED_ORDER else ""
        own = keys_of(machines or self.view != "auto", width) if self.has_focus else ""
        keys = "  ".join(part for part in (place, own) if part)
        return (self.title_row(3, title, self.summary(width), keys, width),)

    def summary(self, width: int = 1000) -> str:
        """`4 GPUs 96% · 2 hosts · 3 logs · 1 silent`: what is silent is named."""
        counts = Counter(source.freshness for source in self._sources)
        logs = [f"{len(self._sources)} {'log' if len(self._sources) == 1 else 'logs'}"]
        logs += [
            f"{counts[kind]} {freshness_word(kind)}"
            for kind in Freshness
            if kind is not Freshness.FRESH and counts[kind]
        ]
        return summary_of(self._look, self.view, logs, width)

    def count(self) -> int:
        """One line shows that there is nothing."""
        return max(1, len(self._lines))

    def line(self, at: int, width: int, ground: str) -> Row:
        """A log, or whatever else is observed."""
        if at >= len(self._lines):
            return ((f" {self.skin.glyph('waiting')} no logs yet", self.skin.style("muted")),)
        line = self._lines[at]
        row = styled(line.draw(), self.skin, ground)
        # Names that others gave may take other cells on a terminal: such a row is painted as a whole.
        return fitted(row, width, self.skin.style("text", ground)) if line.foreign else row

    def stops_at(self, at: int) -> bool:
        """Everything but headings can be chosen."""
        return at < len(self._lines) and self._lines[at].key is not None

    # --- acting -------------------------------------------------------------------------------------------------------
    def moved(self) -> None:
        """The cursor stays on what it was put on."""
        line = self._current
        self._chosen = None if line is None else line.key

    def do_open(self) -> None:
        """Open the parse coverage of a log, or show or hide all values of another item."""
        line = self._current
        if line is None:
            return
        if line.source is not None:
            self.post_message(Request("doctor", line.source))
        elif line.key is not None:
            self._opened ^= {line.key}
            self._chosen = line.key
            self.redraw()

    def do_sort(self) -> None:
        """Sort by host and name, by use, or by memory."""
        self.order = ORDERS[(ORDERS.index(self.order) + 1) % len(ORDERS)]
        self.redraw()

    def do_processes(self) -> None:
        """The processes of each GPU come or go."""
        self.processes = not self.processes
        self.redraw()


# --- Collectives: bandwidths by size, ranks that others wait for, slow links, missing ranks ---

_SIDE_BY_SIDE = 110
_SPARK = 16
_SLOW, _LEAST = 1.3, 0.005
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
    narrow = width < _SIDE_BY_SIDE
    left = width if narrow else width * 11 // 20
    heading = fit(_line("collective", "GB/s", "", "wait", "op/s", left), left)
    table: list[Words] = [((heading, "muted"),), *(_collective(one, skin, left) for one in state.by)]
    others = _others(state, named, skin, width if narrow else width - left - 1)
    if narrow:
        first = max(1, sum(row[0][1] != "text" for row in others[:3]))
        return [*others[:first], *table, *others[first:]]
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
    drawn = f" {bar(rank.share, 8, skin.glyphs):<8}" if width >= 60 else ""
    tail = f"{drawn} {format_share(rank.share):>7} of waiting"
    return ((ends(f" {rank.label}", max(6, width - cells(tail)), skin) + tail, style),)


def _link(link: LinkNow, skin: ThemeStyles, width: int, style: str) -> Words:
    tail = f" {link.ratio:5.2f} times its peers"
    return ((ends(f" slow link {link.label}", max(6, width - len(tail)), skin) + tail, style),)
