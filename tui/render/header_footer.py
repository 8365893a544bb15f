"""The first and the last row: what is watched, and which keys matter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perfmon.core import Progress, format_bytes, format_seconds, plain, short_duration
from perfmon.viewmodel import Freshness, Level, MonitorState, RunState, levels_text

from ..actions import Action, footer_actions, keys_of, spelled
from ..theme import ThemeStyles
from .hosts.sections import host_runs, polls_text
from .rows import Row, Run, between, cells, day_text, plain_moment, row_cells

# --- The first and the last row: what is watched, and which keys matter ---

_RUN_STYLES = {
    Progress.STARTING: "info",
    Progress.STALLED: "critical",
    Progress.FAILED: "critical",
    Progress.FINISHED: "good",
}
"""States of the run that mean more than that the monitor is live."""


@dataclass(frozen=True, slots=True)
class HeaderInfo:
    """State of the screen itself: the view, and resource usage."""

    title: str
    span_s: float
    paused_at: float | None = None
    unseen_lines: int = 0
    cpu_percent: float | None = None
    rss_bytes: int | None = None
    message: str = ""
    """The newest notice, for a while."""
    preset: str = "overview"
    live_key: str = "L"
    pause_key: str = "space"


def header_row(picture: MonitorState, info: HeaderInfo, width: int, skin: ThemeStyles) -> Row:
    """Sources, state and time."""
    text, bar = skin.style("text"), skin.style("frame")
    sep: Run = (f" {skin.glyph('vertical')} ", bar)
    if info.message:
        # For a few seconds it has all the room that it needs: who has just done something looks for it.
        message = [(f" {plain(info.message, 300)} ", skin.style("accent"))]
        return between(message, _state(picture, info, skin), width, (" ", text))
    left: list[Run] = [(" perfmon ", skin.style("accent"))] if width >= 100 else [(" ", text)]
    left.append((plain(info.title, max(10, width // 4)), skin.style("title")))
    before = len(left)
    after: list[Run] = []
    if picture.recording is not None and picture.recording.failed is not None:
        after += [sep, (f"{skin.mark(Level.CRITICAL)} REC failed", skin.style("critical"))]
    elif picture.recording is not None:
        since = format_seconds(picture.recording.since_s)
        after += [sep, (f"{skin.glyph('recording')} REC {since}", skin.style("critical"))]
    after += [sep, *_state(picture, info, skin, brief=width < 72, bar=width >= 110)]
    cost, clock = _cost(info, width, skin), _present(picture, skin)
    full, brief = [sep, *_sources(picture, width, skin)], [sep, *_sources(picture, 0, skin)]
    room = width - row_cells((*left, *after)) - 1
    # Where there is little room what it costs goes first, then how fast lines come: the time is needed most.
    parts: tuple[tuple[list[Run], list[Run]], ...] = (
        (full, [*cost, *clock]),
        (full, clock),
        (brief, clock),
        (full, []),
    )
    logs, right = next((part for part in parts if row_cells(part[0]) + row_cells(part[1]) <= room), parts[-1])
    left += [*logs, *after]
    room -= row_cells((*logs, sep))
    hosts = host_runs(picture, room - row_cells(clock), skin)
    if right and host_runs(picture, room - row_cells(right), skin) != hosts:
        right = clock  # hosts are worth more than what it costs
    elif not right:
        hosts = host_runs(picture, room, skin)
    if hosts:
        left[before:before] = [sep, *hosts]
    return between(left, right, width, (" ", text))


def _cost(info: HeaderInfo, width: int, skin: ThemeStyles) -> list[Run]:
    """Resource usage of perfmon, always as wide, so that nothing next to it comes and goes with it."""
    if info.cpu_percent is None or info.rss_bytes is None or width < 110:
        return []
    cpu = f"{info.cpu_percent:.1f}" if info.cpu_percent < 9.95 else f"{info.cpu_percent:.0f}"
    return [(f" cpu {cpu:>3}%  {format_bytes(info.rss_bytes):>9} ", skin.style("faint"))]


def _present(picture: MonitorState, skin: ThemeStyles) -> list[Run]:
    """The time by the logs' own clock, with the day where that is not this one; it continues in silence."""
    if picture.snapshot is None:
        return []
    now = picture.present
    day = f"{day_text(now, picture)} " if picture.dated else ""
    return [(f" {day}{plain_moment(now, picture)} ", skin.style("warning" if day else "muted"))]


def _sources(picture: MonitorState, width: int, skin: ThemeStyles) -> list[Run]:
    count = len(picture.sources)
    unwell = (Freshness.STALE, Freshness.WAITING)
    odd = [] if picture.is_over else [one for one in picture.sources if one.freshness in unwell]
    errors = sum(one.errors for one in picture.sources)
    runs: list[Run] = [(f"{count} log{'s' * (count != 1)}", skin.style("text"))]
    if count and not picture.is_over:  # no logs have no state, and those of a run that is over may be silent
        runs.append((f" {skin.glyph('stale' if odd else 'fresh')}", skin.style("stale" if odd else "good")))
    if odd:
        runs.append((f" {len(odd)} silent", skin.style("stale")))
    if errors:
        runs.append((f" {skin.glyph('warning')} {errors} lost", skin.style("warning")))
    levels = levels_text(picture.sources, 30 if width >= 110 else 9 if width >= 60 else 0)
    if levels:
        severe = any(one.error_lines for one in picture.sources)
        runs.append((f" {levels}", skin.style("critical" if severe else "warning")))
    if width >= 72 and picture.state is not RunState.ENDED:
        runs.append((f" {_rate(picture.lines_per_s)}", skin.style("muted")))
    polls = polls_text(picture) if width >= 110 else ""
    return [*runs, (f"  {polls}", skin.style("muted"))] if polls else runs


def _rate(lines: float) -> str:
    if 0.05 <= lines < 0.95:  # little is not nothing
        return f"{lines:.1f} l/s"
    return f"{lines / 1000:.1f}k l/s" if lines >= 9999.5 else f"{lines:.0f} l/s"


def _state(
    picture: MonitorState, info: HeaderInfo, skin: ThemeStyles, *, brief: bool = False, bar: bool = False
) -> list[Run]:
    strip = info.preset == "strip"  # elsewhere the title of the timeline shows it
    recent = strip and picture.actual is None
    span = (f" last {short_duration(info.span_s)}" if recent else "", skin.style("muted"))
    if info.paused_at is not None:
        behind = max(0.0, picture.now - info.paused_at)
        words = f"PAUSED {skin.glyph('paused')} {plain_moment(info.paused_at, picture)}"
        words += f" (-{short_duration(float(int(behind)))})" if behind >= 1.0 else ""
        more = f" +{info.unseen_lines} line{'s' * (info.unseen_lines != 1)}" if info.unseen_lines else ""
        key = [(f" {info.live_key}", skin.style("footer-key")), (" live", skin.style("muted"))]
        return [(f" {words} ", skin.badge(Level.WARNING)), *key, (more, skin.style("muted"))]
    run = picture.snapshot.run.state if picture.snapshot is not None else None
    silent = run is Progress.STARTING and picture.stale_s is not None
    played = bool(picture.duration_s)  # where it stands matters more than what is played, which the rows below show
    live = picture.state in (RunState.LIVE, RunState.ENDED) and not played
    if run is not None and run in _RUN_STYLES and not silent and live:
        shown = (run.value.upper(), skin.style(_RUN_STYLES[run]))
        return [shown, span]
    if picture.stale_s is not None and not played:
        return [(f"SILENT {skin.glyph('stale')}", skin.style("stale")), span]
    names = {
        RunState.LOADING: ("LOADING", "loading", "info"),
        RunState.LIVE: ("LIVE", "live", "good"),
        RunState.REPLAY: ("REPLAY", "replay", "info"),
        RunState.PAUSED: ("PAUSED", "paused", "warning"),
        RunState.ENDED: ("ENDED", "ended", "muted"),
    }
    word, glyph, style = names[picture.state]
    held = picture.state is RunState.PAUSED
    sign = f"{word} {skin.glyph(glyph)}"
    runs: list[Run] = [(f" {sign} ", skin.badge(Level.WARNING)) if held else (sign, skin.style(style))]
    if picture.duration_s and picture.state in (RunState.PAUSED, RunState.ENDED):
        does = "plays" if held else "replays"
        runs += [(f" {info.pause_key}", skin.style("footer-key")), (f" {does}", skin.style("muted"))]
    if picture.progress is not None and picture.progress < 1:
        runs.append((f" {100 * picture.progress:.0f}%", skin.style("info")))
    if picture.speed is not None and picture.state is RunState.REPLAY:
        runs.append((f" x{picture.speed:g}", skin.style("info")))
    if picture.position_s is not None and picture.duration_s and not brief:
        runs.append((f" {_clock(picture.position_s)}/{_clock(picture.duration_s)}", skin.style("muted")))
        if bar:
            runs.append((" ", skin.style("text")))
            runs.append((_scrubber(picture.position_s / picture.duration_s, skin), skin.style("accent")))
    return [*runs, span]


_SCRUBBER = 10
"""Cells of the bar of a replay."""


def _scrubber(share: float, skin: ThemeStyles) -> str:
    done = round(_SCRUBBER * min(1.0, max(0.0, share)))
    return skin.glyph("full") * done + skin.glyph("dot") * (_SCRUBBER - done)


def scrubber_in(row: Row, skin: ThemeStyles) -> tuple[int, int] | None:
    """First column of the bar of a replay in the header, and the one after it; None without one."""
    parts, at = {skin.glyph("full"), skin.glyph("dot")}, 0
    for text, _ in row:
        if len(text) == _SCRUBBER and set(text) <= parts:
            return at, at + _SCRUBBER
        at += cells(text)
    return None


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}" if minutes >= 60 else f"{minutes}:{rest:02d}"


def footer_row(pane: str, info: HeaderInfo, width: int, skin: ThemeStyles, remapped: Mapping[str, str]) -> Row:
    """The keys that matter while `pane` has them."""
    right: list[Run] = [(f"{info.preset} ", skin.style("faint"))]
    runs: list[Run] = [(" ", skin.style("text"))]
    for action in _footer_actions(pane, info, width, remapped):
        runs.append((spelled(keys_of(action, remapped)[0]), skin.style("footer-key")))
        runs.append((f" {action.title}  ", skin.style("footer-text")))
    return between(runs, right, width, (" ", skin.style("text")))


def footer_action(at: int, pane: str, info: HeaderInfo, width: int, remapped: Mapping[str, str]) -> Action | None:
    """Part in column `at` of that row."""
    begin = 1
    for action in _footer_actions(pane, info, width, remapped):
        end = begin + _footer_cells(action, remapped)
        if begin <= at < end - 2:  # two cells lie between them
            return action
        begin = end
    return None


def _footer_actions(pane: str, info: HeaderInfo, width: int, remapped: Mapping[str, str]) -> Iterator[Action]:
    """Those that there is room for."""
    room = width - 2 - cells(f"{info.preset} ")
    for action in footer_actions(pane):
        size = _footer_cells(action, remapped)
        if size <= room:
            room -= size
            yield action


def _footer_cells(action: Action, remapped: Mapping[str, str]) -> int:
    return cells(spelled(keys_of(action, remapped)[0])) + cells(action.title) + 3


# --- A row of keys and what they do: whole ones, as many as there is room for ---


def key_row(keys: Sequence[tuple[str, str]], right: Sequence[Run], width: int, skin: ThemeStyles) -> Row:
    """The first of `keys` (key, what it does) from the left, and what stands at the right end."""
    runs: list[Run] = []
    room = width - row_cells(right) - 1
    for key, what in keys:
        more = [(f" {key} ", skin.style("footer-key", "panel")), (f"{what} ", skin.style("footer-text", "panel"))]
        if row_cells(more) > room:
            break
        runs += more
        room -= row_cells(more)
    return between(runs, right, width, (" ", skin.style("panel")))
