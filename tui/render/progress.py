"""The row about the run itself: its state, how far it is, how quick, how well it learns, and when it was saved."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import sqrt
from typing import TYPE_CHECKING

from perfmon.core import Progress, counted, format_share, median, plain, short_duration
from perfmon.textgraphics import compact, compact_value
from perfmon.viewmodel import Level, MonitorState, RunState

from ..theme import ThemeStyles
from .rows import Row, Run, day_text, moment_text, row_cells

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis, Goal, MetricStats
    from perfmon.rules import Pace, Phase

_NARROW, _WIDE, _LABELLED = 72, 100, 150
IDLE_OR_HUNG = "curl http://HOST:PORT/health, or any request, shows which: a hung server does not answer."
_STATES = {
    Progress.STARTING: ("starting for {age}", "info"),
    Progress.RUNNING: ("running", "good"),
    Progress.STALLED: ("stalled for {age}", "critical"),
    Progress.FAILED: ("failed {age} ago", "critical"),
    Progress.FINISHED: ("finished {age} ago", "good"),
    Progress.SILENT: ("no output for {age}", "stale"),
    Progress.UNKNOWN: ("state unknown", "stale"),
}
_PACES = ("step_s", "trainer_step_s", "orchestrator_step_s")
_SPEEDS = (
    ("throughput_tps", "tok/s"),
    ("gen_tps", "tok/s generated"),
    ("samples_per_s", "samples/s"),
    ("consumed_per_s", "batches/s"),
)
_LATEST, _FEWEST = 5, 10
"""Steps whose median is the present pace; a trend needs this many."""
_CHANGED = 0.05
_THIRDS, _SURE = 9, 3.0
"""Values that a direction needs, and by how many standard errors its ends differ."""
_POINTS = 90
_SHORT_S, _BRIEF_S = 120.0, 10.0
_CONTINUES = 0.5
"""Share of a pause within which a log must have printed a line to continue in it."""
_CEASED_S, _STILL = 120.0, 0.9
"""Seconds without output, and the most of the time without requests, after which idle servers have ceased to print."""

Part = tuple[int, list[Run]]
"""The lowest number stays longest where room is short."""


def progress_row(picture: MonitorState, width: int, skin: ThemeStyles) -> Row:
    """The state and as much of the progress as there is room for; what logs do not report is left out."""
    snapshot = picture.snapshot
    if snapshot is None or not any(source.lines for source in picture.sources):
        return ()
    goal = snapshot.run.goal
    rates = [
        *_serving(snapshot, width, skin),
        *_pace(snapshot, width, skin),
        *_speed(snapshot, width, skin),
        *_learning(snapshot, skin),
    ]
    rates = [] if unused(picture) is not None else rates
    between = "  " if width < _WIDE else f" {skin.glyph('dot')} "
    if several := len(set(picture.runs.values())):
        rates, goal = [], None
    parts = [
        (0, _together(several, skin) if several else _state(picture, snapshot, width, skin)),
        *_goal(goal, width, skin),
        *(_faded(rates, skin) if _is_past(picture, snapshot) else rates),
        *(_errors(picture, snapshot, skin) if several else _end(picture, snapshot, width, skin)),
    ]
    room, shown = width - 1, set[int]()
    for at in sorted(range(len(parts)), key=lambda at: parts[at][0]):
        size = row_cells(parts[at][1]) + len(between)
        if size <= room + len(between):
            shown.add(at)
            room -= size
    runs: list[Run] = [(" ", skin.style("text"))]
    for place, at in enumerate(sorted(shown)):
        runs += [*([(between, skin.style("faint"))] if place else []), *parts[at][1]]
    return tuple(runs)


def _is_past(picture: MonitorState, snapshot: Diagnosis) -> bool:
    """The last values are no longer those of the present, although the run has not ended."""
    return snapshot.run.state is Progress.STALLED or (picture.stale_s is not None and not picture.is_over)


def _faded(parts: Sequence[Part], skin: ThemeStyles) -> list[Part]:
    """Parts in the style of what is past, but for values that are critical."""
    critical, faint = skin.style("critical"), skin.style("faint")
    return [(rank, [(text, style if style == critical else faint) for text, style in runs]) for rank, runs in parts]


def _state(picture: MonitorState, snapshot: Diagnosis, width: int, skin: ThemeStyles) -> list[Run]:
    """By the run's own logs; where these have no output, for how long."""
    run = snapshot.run
    words, style = _STATES[run.state]
    since = run.since
    if picture.state is RunState.LOADING and picture.progress is not None:
        words, style = f"reading {format_share(picture.progress)}", "info"
    elif run.state in (Progress.RUNNING, Progress.STARTING) and picture.stale_s is not None:
        words, style, since = "no output for {age}", "stale", float(round(picture.present - picture.stale_s))
        words = words if run.phase is None else f"{_doing(run.phase)}, {words}"
    elif run.state in (Progress.RUNNING, Progress.STARTING) and picture.state is RunState.ENDED:
        words, style = "no end logged", "muted"
    elif (late := picture.pause_since) is not None and run.pace is not None:
        what, usually = _rhythm(run.pace)
        words = f"no {what} for {{age}} ({usually})"
        style, since = "warning", late
    elif run.phase is not None and run.state in (Progress.RUNNING, Progress.STARTING):
        words = _doing(run.phase) + (" for {age}" if run.state is Progress.STARTING else "")
    elif (silent := unused(picture)) is not None:
        words, style = silent, "stale"
    elif run.state is Progress.RUNNING and run.idle is not None:
        words, style, since = "idle for {age}", "muted", run.idle
    elif run.state is Progress.FINISHED and run.goal is not None and run.goal.early:
        words, style = "ended early, {age} ago", "warning"
    elif run.state is Progress.UNKNOWN and picture.sources:
        newest = min((one.age_s for one in picture.sources if one.age_s is not None), default=None)
        since = None if newest is None else picture.present - newest
        words = f"{words}, last line {{age}} ago"
    elif run.state is Progress.FAILED and run.since is not None and run.pace is not None:
        stood = run.since - run.pace.last
        words += f", hung {short_duration(stood)} before" if stood > run.pace.limit_s else ""
    if "{age}" in words:
        if since is None or picture.present <= since:
            words = words.partition(" {")[0].removesuffix(" for").removesuffix(",").removesuffix(", last line")
        elif picture.dated and width >= _WIDE:
            words = f"{words} ({day_text(since, picture)} {moment_text(since, picture.time_base)})"
        elif picture.dated:
            words = f"{words} ({day_text(since, picture)})"
        # Row 1 states it as well: both count alike.
        age = short_duration if run.state is Progress.STALLED else _age
        words = words.replace("{age}", "" if since is None else age(picture.present - since))
    return [(words, skin.style(style))]


def _doing(phase: Phase) -> str:
    return f"{phase.name} {phase.done:,.0f} of {phase.total:,.0f}"


def overdue(picture: MonitorState, snapshot: Diagnosis) -> str | None:
    """State for how long there is no progress where the run's rhythm allows no such pause; None elsewhere."""
    pace, late = snapshot.run.pace, picture.overdue_s
    if pace is None or late is None:
        return None
    what, usually = _rhythm(pace)
    return f"no {what} for {_age(late)}, {usually}"


def _rhythm(pace: Pace) -> tuple[str, str]:
    """The thing that a pause is without, and how often it comes."""
    return "step" if pace.of_steps else "progress", f"usually every {compact_value(pace.usual_s, 's', 7)}"


def idle(picture: MonitorState, snapshot: Diagnosis, *, brief: bool = False) -> str | None:
    """State for how long there is no request, where there is nothing else to state; None elsewhere."""
    since = picture.idle_since
    if since is None:
        return None
    waiting = " or waiting" if "waiting" in snapshot.metrics else ""
    moment = f"{day_text(since, picture)} " if picture.dated else ""
    since_when = f", since {moment}{moment_text(since, picture.time_base)}"
    which = "no requests" if brief else f"no requests running{waiting}"
    return f"{which} for {_age(max(0.0, picture.present - since))}{since_when}"


def ceased(picture: MonitorState) -> str:
    """State for how long idle servers have printed nothing, where they printed lines without requests before."""
    since, ages = picture.idle_since, [one.age_s for one in picture.sources if one.age_s is not None]
    if since is None or not ages or min(ages) < _CEASED_S or min(ages) > _STILL * (picture.present - since):
        return ""
    return f"no output for {_age(min(ages))}"


def unused(picture: MonitorState) -> str | None:
    """State for how long servers that print nothing without requests have printed nothing; None elsewhere."""
    since = picture.unused_since
    return None if since is None else f"idle or hung for {_age(max(0.0, picture.present - since))}"


def output_since(picture: MonitorState, snapshot: Diagnosis) -> str:
    """State what the logs print during an overdue pause: `although the logs continue`; "" where that is unknown."""
    ages = [one.age_s for one in picture.sources if one.age_s is not None]
    if snapshot.run.pace is None or not ages:
        return ""
    age, late = min(ages), picture.present - snapshot.run.pace.last
    if age <= _CONTINUES * late:
        return "although the logs continue"
    return f"no output for {_age(age)}"


def _age(seconds: float) -> str:
    """In steps, so that it does not count up visibly."""
    step = _BRIEF_S if seconds < _SHORT_S else 60.0
    return short_duration(seconds // step * step) if seconds >= step else f"{int(seconds)} s"


def _goal(goal: Goal | None, width: int, skin: ThemeStyles) -> list[Part]:
    """Steps done: `step 199 of 20,000`."""
    if goal is None:
        return []
    text, muted = skin.style("text"), skin.style("muted")
    unit = plain(goal.unit, 20)
    runs = [(f"{unit if unit == 'step' else unit.removesuffix('s')} ", muted), (f"{goal.done:,.0f}", text)]
    if goal.total is not None:
        total = f"{goal.total:,.0f}" if width >= _WIDE else compact(goal.total, 4)
        runs.append((f" of {total}" if width >= _WIDE else f"/{total}", text if width >= _WIDE else muted))
    if goal.passes > 1:
        runs.append((f" in pass {goal.passes}", muted))
    return [(1, runs)]


def _pace(snapshot: Diagnosis, width: int, skin: ThemeStyles) -> list[Part]:
    """Seconds a step, and by how much that differs from what is usual in the window."""
    stats = next((snapshot.metrics[name] for name in _PACES if name in snapshot.metrics), None)
    text, muted = skin.style("text"), skin.style("muted")
    if stats is None:
        pace = snapshot.run.pace
        if pace is not None and pace.step_s is not None:
            return [(4, [(compact_value(pace.step_s, "s", 7), text), ("/step", muted)])]
        goal = snapshot.run.goal
        if goal is None or not goal.total or not goal.remaining_s or goal.total <= goal.done:
            return []
        each = goal.remaining_s / (goal.total - goal.done)
        return [(4, [(compact_value(each, "s", 7), text), (f"/{plain(goal.unit, 20).removesuffix('s')}", muted)])]
    latest = [value for _, value in stats.series[-_LATEST:]] or [stats.last]
    now, usual = median(latest), stats.summary.p50
    runs = [(compact_value(now, stats.unit, 7), text), ("/step (last 5)" if width >= _LABELLED else "/step", muted)]
    if stats.summary.count >= _FEWEST and usual > 0 and abs(now / usual - 1.0) >= _CHANGED and not stats.of_several:
        glyph = skin.glyph("up" if now > usual else "down")
        runs.append(
            (f" {glyph}{format_share(abs(now / usual - 1.0))}", skin.style("warning" if now > usual else "good"))
        )
    return [(4, runs)]


def _speed(snapshot: Diagnosis, width: int, skin: ThemeStyles) -> list[Part]:
    """Tokens or samples a second, and the share of the hardware that this uses."""
    text, muted = skin.style("text"), skin.style("muted")
    parts: list[Part] = []
    found = next(((name, unit) for name, unit in _SPEEDS if name in snapshot.metrics), None)
    if found is not None:
        unit = found[1] if width >= _WIDE else found[1].partition(" ")[0]
        parts.append((7, [(compact(snapshot.metrics[found[0]].last, 6), text), (f" {unit}", muted)]))
    for name, label, unit in (("mfu_pct", "MFU ", " %"), ("tflops", "", " TFLOPS")):
        if name in snapshot.metrics:
            parts.append((8, [(label, muted), (f"{snapshot.metrics[name].last:.0f}", text), (unit, muted)]))
            break
    return parts


def _serving(snapshot: Diagnosis, width: int, skin: ThemeStyles) -> list[Part]:
    """Requests of an engine, where nothing trains next to it, and the use of its cache; of several engines none."""
    metrics = snapshot.metrics
    if snapshot.run.goal is not None or not snapshot.run.serves_alone or not {"running", "kv_usage"} <= metrics.keys():
        return []
    text, muted, parts = skin.style("text"), skin.style("muted"), list[Part]()
    for name, label in (("running", "requests"), ("waiting", "waiting")):
        if (stats := metrics.get(name)) is not None and not stats.of_several:
            parts.append((1, [(compact(stats.last, 6), text), (f" {label}", muted)]))
    if not metrics["kv_usage"].of_several:
        label = "KV cache " if width >= _WIDE else "KV "
        parts.append((3, [(label, muted), (f"{metrics['kv_usage'].last:.0f} %", text)]))
    return parts


def _learning(snapshot: Diagnosis, skin: ThemeStyles) -> list[Part]:
    """Loss and reward, and where they are going."""
    found = [one for one in snapshot.findings if one.signature == "loss-diverged"]
    mark, style = skin.mark(Level.CRITICAL), skin.style("critical")
    skipped = [one.count for one in found if "updates_skipped" in one.proof]
    parts: list[Part] = [(1, [(f"{count:,} updates skipped {mark}", style)]) for count in skipped]
    for rank, name in ((5, "loss"), (6, "reward")):
        stats = snapshot.metrics.get(name)
        diverged = name == "loss" and any("loss" in one.proof for one in found)
        if stats is None and not diverged:
            continue
        if stats is None or stats.ends_not_finite:  # in the whole window, or at its end
            parts.append((1, [(f"{name} nan {skin.mark(Level.CRITICAL)}", skin.style("critical"))]))
            continue
        runs = [(f"{name} ", skin.style("muted")), (compact(stats.last, 7), skin.style("text"))]
        going = 0 if stats.of_several or (name == "loss" and _is_lost(snapshot)) else direction(stats)
        if going:
            runs.append((f" {skin.glyph('up' if going > 0 else 'down')}", skin.style("text")))
        parts.append((rank, runs))
    return parts


def _is_lost(snapshot: Diagnosis) -> bool:
    """The model is of no use any more: where its loss goes, and when the run ends, is no progress."""
    return snapshot.verdict is not None and snapshot.verdict.signature == "loss-diverged"


def direction(stats: MetricStats) -> int:
    """1 where the last third of the window is higher than the first, -1 where it is lower, 0 where noise hides it."""
    points: Sequence[float] = [value for _, value in stats.series]
    points = points[:: max(1, len(points) // _POINTS)]
    third = len(points) // 3
    if len(points) < _THIRDS:
        return 0
    first, last = points[:third], points[-third:]
    noise = median([abs(after - before) for before, after in pairwise(points)])
    change = sum(last) / third - sum(first) / third
    return 0 if abs(change) <= _SURE * noise * sqrt(2.0 / third) else 1 if change > 0 else -1


def _end(picture: MonitorState, snapshot: Diagnosis, width: int, skin: ThemeStyles) -> list[Part]:
    """Time left, the last checkpoint, and the errors so far."""
    run, text, muted = snapshot.run, skin.style("text"), skin.style("muted")
    parts: list[Part] = []
    moving = run.state is Progress.RUNNING and picture.stale_s is None and picture.state is not RunState.ENDED
    if run.goal is not None and run.goal.remaining_s and moving and not _is_lost(snapshot):
        left = short_duration(run.goal.remaining_s)
        parts.append((3, [("ETA ", muted), (left, text)]))
    restart = restarted(picture, snapshot) if snapshot.verdict is not None else None  # else it has a row of its own
    parts += [(2, [(f"{skin.mark(Level.WARNING)} {restart[0]}", skin.style("warning"))])] if restart else []
    return [*parts, *_checkpoint(picture, snapshot, width, skin), *_errors(picture, snapshot, skin)]


def restarted(picture: MonitorState, snapshot: Diagnosis) -> tuple[str, str] | None:
    """The age of the run's restart within the window, and why, where and after how long; None elsewhere."""
    found = snapshot.run.restart
    if found is None or found.time < snapshot.run.start or picture.is_over:
        return None
    why = f" after {found.cause}" if found.cause else ""
    again = f", {counted(int(found.again), found.unit)} again" if found.again else ""
    at = "" if found.step is None else f": resumes at {found.unit} {found.step:,.0f}{again}"
    down = f", {short_duration(found.down_s)} down" if found.down_s >= 1.0 else ""
    return f"restarted {_age(max(0.0, picture.present - found.time))} ago", f"{why}{at}{down}"


def _together(runs: int, skin: ThemeStyles) -> list[Run]:
    """Of several runs that are watched as one: the step of one and the speed of another are no progress."""
    return [(f"{runs} runs together as one", skin.style("warning")), (": perfmon runs lists them", skin.style("muted"))]


def _errors(picture: MonitorState, snapshot: Diagnosis, skin: ThemeStyles) -> list[Part]:
    """The errors so far."""
    run, parts = snapshot.run, list[Part]()
    errors = sum(source.error_lines for source in picture.sources)
    if errors:
        more = "" if all(source.levels_exact for source in picture.sources) else "+"
        words = f"{compact(errors, 5)}{more} error{'s' * (errors != 1)}"
        words += f" in {run.runs} runs" if run.runs > 1 and not picture.together else ""
        parts.append((2, [(f"{skin.mark(Level.WARNING)} {words}", skin.style("warning"))]))
    return parts


def _checkpoint(picture: MonitorState, snapshot: Diagnosis, width: int, skin: ThemeStyles) -> list[Part]:
    """The last checkpoint: its age, or of a run that does not continue its step, and what came after it."""
    run, text, muted = snapshot.run, skin.style("text"), skin.style("muted")
    if run.sound_step is not None:
        words = "last checkpoint before: " if width >= _WIDE else "last good save: "
        return [(2, [(words, muted), (f"step {run.sound_step:,.0f}", text)])]
    lost = "" if not run.unsaved_steps else f"{run.unsaved_steps:,.0f} step{'s' * (run.unsaved_steps != 1)}"
    if run.state is Progress.FAILED:
        age = (run.since or 0.0) - run.saved if run.since is not None and run.saved is not None else 0.0
        parts: list[Part] = []
        if age > 0:
            words = "last checkpoint " if width >= _NARROW else "saved "
            parts.append((2, [(words, muted), (_age(age), text), (" before", muted)]))
        return [*parts, (3, [(lost, text), (" lost", muted)])] if lost and run.saved_step is not None else parts
    over = run.state is Progress.FINISHED or _is_past(picture, snapshot)
    if over and run.saved_step is not None:
        where = f", {lost} since" if lost else ", at the end" if run.unsaved_steps == 0 else ""
        words = "last checkpoint: " if width >= _NARROW else "saved: "
        return [(2, [(words, muted), (f"step {run.saved_step:,.0f}", text), (where, muted)])]
    if run.saved is None or picture.is_over:
        return []
    return [(9, [("checkpoint ", muted), (_age(picture.present - run.saved), text), (" ago", muted)])]
