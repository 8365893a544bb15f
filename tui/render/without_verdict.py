"""The first row without a verdict: what is known of the run, and why no more is; parts of every first row."""

from __future__ import annotations

from perfmon.core import Progress, TimeBase, format_seconds, format_share, plain
from perfmon.diagnosis import Assessment, Diagnosis
from perfmon.sources.pollers import Area
from perfmon.viewmodel import Freshness, Level, MonitorState, RunState, SourceStatus

from ..theme import ThemeStyles
from .progress import idle, output_since, overdue, unused
from .rows import Row, Run, cells, day_text, moment_text, row_cells, short_duration
from .sources import common_folder

NARROW = 72
_NOTHING = {
    RunState.LOADING: "searching for logs",
    RunState.ENDED: "no log lines",
    RunState.REPLAY: "loading",
    RunState.PAUSED: "paused at the start: space plays",
}
_CAREFUL = (Assessment.WATCH, Assessment.UNREADABLE)
_OF_RUNS = (Area.QUEUE, Area.VALUE, Area.SOCKET, Area.JOB)
"""Areas that belong to a run; hosts and GPUs exist without one."""
_FATES = "hung, killed or over"
_STEP_S = 5.0


def badge(skin: ThemeStyles, level: Level, text: str) -> list[Run]:
    return [(f" {text} ", skin.badge(level)), (" ", skin.style("text"))]


def called(source: SourceStatus, picture: MonitorState) -> str:
    """A log without the folder that all lie in: the end of a path distinguishes it."""
    folder = common_folder([other.name for other in picture.sources])
    return plain(source.name.removeprefix(folder), 40)


def judged_ago(picture: MonitorState, width: int, skin: ThemeStyles) -> list[Run]:
    """Age of the diagnosis if a busy run is judged rarely; in steps, so that it does not count up visibly."""
    if picture.unjudged_s is None or picture.past_s is not None:
        return []
    age = f"{picture.unjudged_s // _STEP_S * _STEP_S:.0f} s"
    return [(f"  as of {age} ago" if width >= NARROW else f"  {age} old", skin.style("muted"))]


def is_reading(picture: MonitorState) -> bool:
    """The history is being read: what is known of a part of it is no verdict."""
    return picture.state is RunState.LOADING and picture.progress is not None


def waiting_row(picture: MonitorState, skin: ThemeStyles) -> Row:
    if picture.progress is not None and any(source.bytes for source in picture.sources):
        text = f"reading history: {format_share(picture.progress)}"
    elif picture.sources:
        text = f"waiting for the first line of {plain(picture.sources[0].name, 60)}"
    else:
        text = picture.unfound or _NOTHING.get(picture.state, "waiting for the first log line")
    return ((f" {skin.glyph('loading')} ", skin.style("badge-info")), (f" {text}", skin.style("text")))


def no_verdict(picture: MonitorState, snapshot: Diagnosis, width: int, skin: ThemeStyles) -> Row:
    summary = plain(snapshot.summary, 1000)
    unreadable = snapshot.assessment is Assessment.UNREADABLE  # that is known, however long nothing was written
    if picture.stale_s is not None and not picture.is_over and not unreadable:
        names = ", ".join(called(source, picture) for source in picture.sources[:3])
        open_end = f"  no end logged: {_FATES}" if picture.actual is not None else ""
        if snapshot.run.idle is not None:
            open_end = "  its last line reports no requests"
        return (
            *badge(skin, Level.NONE, f"{skin.glyph('stale')} SILENT"),
            (f"no log output for {format_seconds(picture.stale_s)}{_since(picture, width)}", skin.style("stale")),
            (open_end, skin.style("text")),
            (f"  ({names})", skin.style("muted")),
        )
    silent = [source for source in picture.sources if source.freshness is Freshness.STALE]
    if (late := overdue(picture, snapshot)) is not None and snapshot.assessment is not Assessment.UNREADABLE:
        shown = badge(skin, Level.WARNING, f"{skin.mark(Level.WARNING)} {Assessment.WATCH.value.upper()}")
        quiet = f"no output from {called(silent[0], picture)}" if silent else output_since(picture, snapshot)
        return (*shown, (late, skin.style("text")), (f"  {quiet}" if quiet else "", skin.style("muted")))
    if (unused_for := unused(picture)) is not None:
        shown = badge(skin, Level.NONE, f"{skin.glyph('stale')} IDLE?")
        last = moment_text(picture.unused_since or 0.0, picture.time_base)
        why = f": no output since {last}; a server without requests prints none"
        return (*shown, (unused_for, skin.style("stale")), (why, skin.style("text")))
    if (unrequested := idle(picture, snapshot, brief=width < NARROW)) is not None and not silent:
        shown = badge(skin, Level.NONE, f"{skin.glyph('idle')} IDLE")
        return (*shown, (unrequested, skin.style("text")))
    if silent and not picture.is_over and not unreadable:  # its state is unknown: that is not green
        first = max(silent, key=lambda source: source.age_s or 0.0)
        more = f" and {len(silent) - 1} more" if len(silent) > 1 else ""
        return (
            *badge(skin, Level.NONE, f"{skin.glyph('stale')} SILENT"),
            (
                f"no output from {called(first, picture)}{more} for {format_seconds(first.age_s or 0.0)}",
                skin.style("stale"),
            ),
            (f"  otherwise: {_shortened(summary, max(20, width - 50))}", skin.style("muted")),
        )
    if snapshot.run.state is Progress.FINISHED and snapshot.assessment in (Assessment.HEALTHY, Assessment.LEARNING):
        return _finished(snapshot, skin)
    if only_machines(picture):
        summary = picture.unfound or "no log lines yet: only hosts and GPUs are judged"
    elif snapshot.assessment is Assessment.HEALTHY:
        return _healthy(picture, summary, width, skin)
    elif snapshot.assessment in _CAREFUL:
        shown = badge(skin, Level.WARNING, f"{skin.mark(Level.WARNING)} {snapshot.assessment.value.upper()}")
        return (*shown, (_shortened(summary, width - row_cells(shown)), skin.style("text")))
    learning = f" {skin.glyph('loading')} LEARNING "
    return ((learning, skin.style("badge-info")), (f" {summary}", skin.style("text")))


def _since(picture: MonitorState, width: int) -> str:
    """The time of the last line, where there is room for it and a clock."""
    if picture.stale_s is None or width < NARROW or picture.time_base is not TimeBase.WALL:
        return ""
    last = picture.present - picture.stale_s
    day = f"{day_text(last, picture)} " if picture.dated else ""
    return f", since {day}{moment_text(last, picture.time_base)}"


def only_machines(picture: MonitorState) -> bool:
    """Nothing but hosts and GPUs has reported anything: the run is unknown."""
    if any(source.lines for source in picture.sources):
        return False
    return bool(picture.seen) and not any(one.reading.area in _OF_RUNS for one in picture.seen)


def _finished(snapshot: Diagnosis, skin: ThemeStyles) -> Row:
    """The result of a run that is over, and nothing was wrong with."""
    goal = snapshot.run.goal
    early = goal is not None and goal.early
    level, word = (Level.WARNING, "ENDED EARLY") if early else (Level.GOOD, "FINISHED")
    text = "" if goal is None else f"{goal.done:,.0f}"
    if goal is not None and goal.total:
        text = f"{text} of {goal.total:,.0f}"
    text += "" if goal is None else f" {plain(goal.unit, 20).removesuffix('s')}s"
    judged = snapshot.assessment is Assessment.HEALTHY
    took = f" in {wall(snapshot)}" if judged and snapshot.run.wall_s > 0 else ""
    found = "no bottleneck found" if judged else "too few lines to judge its pace"
    shown = badge(skin, level, f"{skin.mark(level)} {word}")
    return (*shown, (f"{text}{took}: {found}" if text else found, skin.style("text")))


def _healthy(picture: MonitorState, summary: str, width: int, skin: ThemeStyles) -> Row:
    good = badge(skin, Level.GOOD, f"{skin.mark(Level.GOOD)} HEALTHY")
    judged = judged_ago(picture, width, skin)
    room = width - row_cells(good) - row_cells(judged)
    return (*good, (_shortened(summary, room), skin.style("text")), *judged)


def _shortened(summary: str, room: int) -> str:
    """As many of the things that were observed as there is room for."""
    head, _, rest = summary.partition(": ")
    seen, observed, more = rest.partition(" observed")
    things, text = seen.split(", "), summary
    while observed and cells(text) > room and len(things) > 1:
        things.pop()
        text = f"{head}: {', '.join(things)} observed{more}"
    if cells(text) <= room:
        return text
    least = f"{head}{more}" if observed else summary.partition(". ")[0]
    return least if cells(least) <= room else head


def wall(snapshot: Diagnosis) -> str:
    return short_duration(snapshot.run.wall_s)
