"""From a store to a diagnosis: alignment, evaluation, time attribution, sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from perfmon._version import __version__
from perfmon.clocks import Alignment, align
from perfmon.core import (
    ALL_LEGS,
    CHECKPOINT,
    DOWNTIME,
    EVALUATION,
    IDLE,
    PRODUCTIVE,
    REST,
    RESTORE,
    STARTUP,
    UNACCOUNTED,
    WASTED,
    WHOLE,
    Detail,
    LostInterval,
    Progress,
    Severity,
    Shares,
    TimeBase,
    Window,
    attribute_time,
    median,
    without,
)
from perfmon.rules import (
    DEFAULT_ASYNC_LEVEL,
    Bands,
    Found,
    Signature,
    View,
    bands_of,
    component_states,
    find,
    idle_since,
    is_past_clock,
    last_checkpoint,
    last_output_of_servers,
    last_run_line,
    load_of,
    overdue_s,
    overlong,
    pace_of,
    phase_of,
    resumption_of,
    waiting_lines,
    without_end,
)
from perfmon.store import COUNTED, Recent, Store, WorkCounter

from .result import Assessment, ClockOffset, Diagnosis, Goal, LedgerEntry, RunInfo, SourceSummary, Verdict
from .sources import dates_saves, role_gpus, source_infos
from .summary import (
    metric_stats,
    no_verdict_text,
    serves_alone,
    slowest_rows,
    timeline_rows,
    unjudged,
    unseen_signals,
)
from .wording import verdict_among, worded

_RISE = 1.0
"""Steps of staleness between parts of a run that are no accident."""


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules, before they are applied to a run."""

    signatures: tuple[Signature, ...]
    bands: Bands
    async_level: float | None = None
    """From the configuration; else learned from the run."""
    learned: str = ""
    """The result of learning limits from the run's own start, in one line; empty where that was not tried."""


def diagnose(
    store: Store,
    knowledge: RuleSet,
    pattern_names: Sequence[str] = (),
    clip: tuple[float | None, float | None] = (None, None),
    alignment: Alignment | None = None,
    detail: Detail = WHOLE,
    present: float | None = None,
    recent: Recent | None = None,
) -> Diagnosis:
    """The picture of all that is in `store`, within `clip` (seconds on the run's axis; None is open).

    `present` is the moment until which the logs are watched, if they are;
    `recent` saves looking at all spans of a long run.
    """
    alignment = alignment or align(store)
    view = view_of(store, knowledge, alignment, clip, present, recent)
    return judge(view, knowledge, alignment, pattern_names, detail)


def judge(
    view: View, knowledge: RuleSet, alignment: Alignment, pattern_names: Sequence[str], detail: Detail = WHOLE
) -> Diagnosis:
    """The picture of what `view` shows."""
    store = view.store
    found = find(knowledge.signatures, view)
    shares = _shares(found, view)
    findings = [worded(at, finding, found, shares, view, pattern_names) for at, finding in enumerate(found)]
    verdict = verdict_among(found, findings, shares, view)
    unseen = unseen_signals(view)
    infos = source_infos(store, view, alignment, pattern_names)
    complete = [update.legs for update in store.updates].count(ALL_LEGS)
    metrics = metric_stats(view, detail.points)
    unscored = () if verdict is not None else unjudged(view, metrics, knowledge.signatures)
    assessment = _assessment(view, verdict, found, unscored)
    return Diagnosis(
        version=__version__,
        run=_run_info(view, alignment, infos, assessment, found),
        verdict=verdict,
        findings=tuple(sorted(findings, key=lambda f: (-f.severity.rank, -f.lost_s, f.first_s, f.signature))),
        ledger=_ledger(found, shares, view.observed_s),
        metrics=metrics,
        traces_complete=complete,
        traces_partial=len(store.updates) - complete,
        clock_offsets=tuple(
            ClockOffset(store.sources[o.source].spec, o.seconds, o.uncertainty_s, o.traces, o.contradictory)
            for o in alignment.offsets
        ),
        skew_detected=any(offset.contradictory for offset in alignment.offsets)
        or any(state.stepped_back or state.stepped for state in store.sources),
        timeline=timeline_rows(view, detail.rows),
        slowest=slowest_rows(view),
        summary=verdict.sentence if verdict is not None else no_verdict_text(assessment, view, findings, unscored),
        assessment=assessment,
        unseen=unseen,
        dropped=dict(store.dropped),
    )


_PROOF = 3
"""Progress of a kind that proves a working run."""
_PROVEN_S = 30.0
"""Progress that is monitored has to last for so long, too: a few quick steps of a start prove little."""
_FEW_LINES = 20
"""Fewer lines are too few to call the logs unreadable: a start prints much that no format knows."""
_LEAST_LINES = 5
"""The same of logs that are not monitored."""
_MORE_PROOF = 8
"""The same in a log of which most lines are not recognised: some of them may be read for what they are not."""
_READ_SHARE = 0.5
"""Of the lines of the logs: where fewer are recognised and no progress is reported, the logs are unreadable."""
_MANY_LINES, _HARDLY_READ = 1000, 0.02
"""The same where only a start is reported: so many lines belong to none."""


def _run_info(
    view: View,
    alignment: Alignment,
    infos: tuple[SourceSummary, ...],
    assessment: Assessment,
    found: Sequence[Found],
) -> RunInfo:
    start, end = view.window
    state = view.state.state
    if assessment is Assessment.UNREADABLE and state is Progress.STARTING:
        state = Progress.UNKNOWN
    components = {one.component: one.state for one in component_states(view)}
    saved = last_checkpoint(view)
    of_one = Counter(one.source for one in view.boundaries)  # without a clock all may have one time
    runs = 1 + max(len({round(one.time) for one in view.boundaries}), *of_one.values(), 0)
    return RunInfo(
        start,
        end,
        view.observed_s,
        alignment.base,
        infos,
        state,
        view.state.since,
        components,
        goal_of(view),
        runs,
        role_gpus(view),
        None if view.limit is None else view.limit.left_s,
        is_past_clock(view),
        saved.time if saved is not None and dates_saves(view) else None,
        None if saved is None else saved.step,
        None if saved is None else saved.steps_after,
        _sound_step(view, found),
        pace_of(view),
        view.fact(idle_since),
        view.fact(last_output_of_servers),
        view.fact(phase_of),
        resumption_of(view),
        serves_alone=serves_alone(view),
        load=view.fact(load_of),
        without_end=view.fact(without_end),
    )


def _sound_step(view: View, found: Sequence[Found]) -> float | None:
    """The step of the last checkpoint before the loss diverged."""
    since = [one.first for one in found if one.signature.id == "loss-diverged"]
    saved = last_checkpoint(view, min(since)) if since and view.timed else None
    return None if saved is None else saved.step


def _assessment(view: View, verdict: Verdict | None, found: Sequence[Found], unscored: Sequence[str]) -> Assessment:
    """The assessment of the run as a whole; healthy only with proof."""
    if verdict is not None:
        return Assessment.FINDING
    logs = view.logs
    if not logs:
        samples = max((len(track) for track in view.metrics.values()), default=0)
        return Assessment.HEALTHY if samples >= _PROOF else Assessment.LEARNING
    lines, events = sum(state.lines for state in logs), sum(sum(state.patterns.values()) for state in logs)
    if not view.activity.tracks and lines and events < _READ_SHARE * lines:
        starts = lines < (_FEW_LINES if view.present is not None else _LEAST_LINES)
        return Assessment.LEARNING if starts else Assessment.UNREADABLE
    if not view.activity.work and lines >= _MANY_LINES and events < _HARDLY_READ * lines:
        return Assessment.UNREADABLE  # its start was read, and what came after it is unknown
    state = view.state.state
    causes = [one for one in found if one.explained_by is None and one.severity is not Severity.INFO]
    grave = any(one.counts and one.severity is Severity.CRITICAL for one in causes)
    if state is Progress.STARTING or view.activity.count < (_PROOF if events >= _READ_SHARE * lines else _MORE_PROOF):
        return Assessment.WATCH if grave else Assessment.LEARNING
    if view.present is not None and view.timed and state is Progress.RUNNING and _lasts_s(view) < _PROVEN_S:
        return Assessment.LEARNING
    suspected = not all(one.counts for one in causes) and state is not Progress.FINISHED  # then it never will be sure
    quiet = state in (Progress.STALLED, Progress.SILENT) or overdue_s(view) > 0 or waiting_lines(view)
    return Assessment.WATCH if unscored or grave or suspected or quiet or view.fact(overlong) else Assessment.HEALTHY


def _lasts_s(view: View) -> float:
    """Seconds from the first to the last progress of the run."""
    events, first = view.activity.events, view.activity.first
    return events[-1] - first if events and first is not None else 0.0


def view_of(
    store: Store,
    knowledge: RuleSet,
    alignment: Alignment,
    clip: tuple[float | None, float | None] = (None, None),
    present: float | None = None,
    recent: Recent | None = None,
) -> View:
    """The store as the rules see it, with the bands that hold for this run."""
    window = None
    if clip != (None, None):
        low, high = clip
        window = (float("-inf") if low is None else low, float("inf") if high is None else high)
    shifts = {index: shift for index, shift in alignment.shifts.items() if shift}
    view = View(store, knowledge.bands, shifts, window, alignment.base != TimeBase.NONE, alignment.guessed)
    view.present, view.recent = present, recent
    view.bands = bands_of(store, knowledge.bands).with_async_level(_async_level(view, knowledge))
    return view


def _async_level(view: View, knowledge: RuleSet) -> float:
    """The configured level, else the level that the run keeps to, but not below the default.

    A run at its barrier keeps returning to the same staleness, which it has reached with its first steps. Where the
    last third is staler than the one before the run is still rising; where it is staler than a first third that kept
    to a level, something has changed since, however long the run has stayed at its last level. In both cases its start
    is the better measure.
    """
    if knowledge.async_level is not None:
        return knowledge.async_level
    values = list(view.track("staleness").values)
    if not values:
        return DEFAULT_ASYNC_LEVEL
    third = len(values) // 3
    usual = median(values)
    if third:
        begin, middle, end = (median(part) for part in (values[:third], values[third:-third], values[-third:]))
        kept = begin if _keeps(values[:third]) else middle
        usual = begin if end > kept + _RISE else max(usual, min(middle, end))
    return max(DEFAULT_ASYNC_LEVEL, float(int(usual)))


def _keeps(values: Sequence[float]) -> bool:
    """True for staleness that keeps to a level: at the start of a run it rises."""
    half = len(values) // 2
    return half > 0 and median(values[-half:]) <= median(values[:half]) + _RISE


def _shares(found: Sequence[Found], view: View) -> Shares:
    claims = [
        LostInterval(at, finding.rank, low, high)
        for at, finding in enumerate(found)
        for low, high in without(finding.claims, view.apart)
    ]
    return attribute_time(view.window, claims, _proven(view), view.apart)


def _proven(view: View) -> list[tuple[str, list[Window]]]:
    """The time that no finding claims, by cause, the stronger evidence first."""
    over = view.death
    after = [(over.time, view.window[1])] if over is not None and view.timed else []
    restore = [(item.start, item.end) for item in view.spans("checkpoint-load")]
    idle = view.fact(idle_since)
    return [
        (DOWNTIME, [*view.downtime, *after]),
        (RESTORE, restore),
        (WASTED, view.wasted),
        (CHECKPOINT, view.held_up("checkpoint-write")),
        (EVALUATION, view.held_up("evaluation")),
        (PRODUCTIVE, view.productive),
        (STARTUP, view.startup),
        (IDLE, [] if idle is None else [(idle, view.window[1])]),
    ]


def _ledger(found: Sequence[Found], shares: Shares, wall_s: float) -> tuple[LedgerEntry, ...]:
    lost: dict[str, float] = {}
    for at, seconds in shares.lost.items():
        if seconds > 0:
            lost[found[at].signature.id] = lost.get(found[at].signature.id, 0.0) + seconds
    rows = sorted(lost.items(), key=lambda row: (-row[1], row[0]))
    rows += [(name, shares.rest[name]) for name in REST if shares.rest[name] > 0 or name in (PRODUCTIVE, UNACCOUNTED)]
    if wall_s <= 0:
        # Of no time at all nothing is known: shares add up to one all the same.
        return tuple(LedgerEntry(cause, seconds, float(cause == UNACCOUNTED)) for cause, seconds in rows)
    return tuple(LedgerEntry(cause, seconds, seconds / wall_s) for cause, seconds in rows)


# --- The progress of a run: towards its end, or its last step, epoch or episode, in which pass of several ---

_FEWEST_A_PASS = 3
"""Values of a counter in each of its passes: one that falls more often is printed by several processes."""


def goal_of(view: View) -> Goal | None:
    """The progress of the run; None also where several runs advance at once in its log."""
    way = view.way
    if way is None:
        return _reached(view, Counter(boundary.source for boundary in view.boundaries))
    counter, total = way.counter, way.counter.total or 0.0
    ended = view.state.state is Progress.FINISHED
    if counter.kind == "epochs" and not counter.began_at:
        planned = view.store.progress.planned.get((counter.source, "epochs"))
        total = total + 1 if planned == total + 1 else total  # its lines show the last index
        if ended and counter.amount == total - 1:
            return Goal(total, total, counter.kind, 0.0)
    early = ended and _is_far_from(counter, way.amount, total, view)
    going = ended or view.state.state in (Progress.STARTING, Progress.RUNNING)
    return Goal(way.amount, total, counter.kind, way.remaining_s if going else None, early=early)


_NEARLY, _PRINTS = 0.9, 3.0
"""Share of the total, and printed intervals, from which on a run may have made its last steps without a line."""


def _is_far_from(counter: WorkCounter, amount: float, total: float, view: View) -> bool:
    track = view.store.progress.tracks.get((counter.source, counter.kind))
    each = (counter.amount - counter.first_amount) / max(1, track.count - 1) if track is not None else 0.0
    return amount < _NEARLY * total and total - amount > _PRINTS * each


def _reached(view: View, begun: Mapping[int, int]) -> Goal | None:
    """The progress of a run without a total: its last step, else its last epoch, episode or the like."""
    counters = view.store.progress.counters.values()
    partial = {one.source for one in counters if one.kind == "step" and one.restarts > begun.get(one.source, 0)}
    partial |= {
        source for source in view.store.progress.sources() if _starts_again(source, view) > begun.get(source, 0)
    }
    series = view.store.steps.get("trainer") or max(view.store.steps.values(), key=len, default=None)
    if series is not None and len(series.values) and series.sources[-1] in view.at_once:
        return None
    last = -1 if series is None else len(series.values) - 1
    own = last >= 0 and series is not None and series.lines[last] >= last_run_line(series.sources[last], view)
    if series is not None and own and series.sources[-1] not in partial:
        return Goal(series.values[-1], None, "step")
    found = [
        one for one in counters
        if one.kind in COUNTED and (one.amount or one.elapsed_s is None) and one.restarts <= begun.get(one.source, 0)
        and one.line >= last_run_line(one.source, view)
    ]  # fmt: skip
    best = min(found, key=lambda one: COUNTED.index(one.kind), default=None)
    if best is not None:
        return Goal(best.amount, None, best.kind)
    epochs = [one for one in counters if one.kind == "epoch" and one.line >= last_run_line(one.source, view)]
    parts = max(epochs, key=lambda one: one.line, default=None)  # of lines that state how many were made, with a part
    return _repeated(view, begun) or (None if parts is None else Goal(parts.amount, None, "epochs"))


def _starts_again(source: int, view: View) -> int:
    """Number of times that the steps of a log begin again, as those of epochs do that no counter shows."""
    most = 0
    for counter in view.counted_steps(source):
        steps = [step for _, step in counter]
        begin = max(steps[0], 1.0)
        most = max(most, sum(after <= begin < before for before, after in pairwise(steps)))
    return most


def _repeated(view: View, begun: Mapping[int, int]) -> Goal | None:
    """The progress of a run that counts again for each fold, model or setting: that of the last one, and its number."""
    log = view.store.progress
    found = []
    for one in log.counters.values():
        passes = 1 + one.restarts - begun.get(one.source, 0)
        track = log.tracks.get((one.source, one.kind))
        if one.kind not in COUNTED[1:] or one.elapsed_s is not None or passes < 2 or track is None:
            continue
        if track.count >= _FEWEST_A_PASS * passes:
            found.append((one, passes))
    if not found:
        return _repeated_bar(view, begun) or _repeated_steps(view, begun)
    best, passes = max(found, key=lambda row: COUNTED.index(row[0].kind))
    return Goal(best.amount, best.total, best.kind, None, passes)


def _repeated_bar(view: View, begun: Mapping[int, int]) -> Goal | None:
    """The progress of a named bar of steps that was full and began again: once an epoch that it does not show."""
    found = [
        (one, 1 + one.restarts - begun.get(one.source, 0))
        for one in view.store.progress.counters.values()
        if one.kind == "step" and one.label and one.elapsed_s is not None and one.total is not None
    ]
    best, passes = max(found, key=lambda row: (row[1], row[0].total), default=(None, 1))
    if best is None or passes < 2 or best.line < last_run_line(best.source, view):
        return None
    return Goal(best.amount, best.total, best.kind, None, passes)


def _repeated_steps(view: View, begun: Mapping[int, int]) -> Goal | None:
    """The same of steps of which no line states the epoch."""
    series = view.store.steps.get("trainer")
    if series is None or not len(series.values):
        return None
    source = series.sources[-1]
    passes = 1 + _starts_again(source, view) - begun.get(source, 0)
    if passes < 2 or len(series.values) < _FEWEST_A_PASS * passes:
        return None
    return Goal(series.values[-1], None, "step", None, passes)
