"""A view without its findings: metric statistics, the timeline, missing signals, and the summary without a verdict."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest

from perfmon.core import (
    Progress,
    Severity,
    Summary,
    counted,
    evidence_text,
    format_seconds,
    format_share,
    metric_unit,
    summarise,
)
from perfmon.rules import (
    EMPTY,
    READY,
    UPDATE,
    Band,
    Item,
    Signature,
    Track,
    View,
    idle_since,
    last_output_of_servers,
    metrics_of,
    overdue_s,
    overlong,
    steps_covered,
    waiting_lines,
    without_end,
)
from perfmon.store import NOT_FINITE

from .result import Assessment, EvidenceLine, Finding, MetricStats, TimelineRow

LEVELS = ("good", "warning", "critical")
_TELLING = 64
"""Samples that show if they are of one log and one engine: those of several alternate."""
_OFTEN = 0.2
"""A metric that is critical in this share of its samples is listed, though no signature uses it."""
_OVERLAPS = 3
_NAMED = 4
"""Named spans of other kinds, and named updates, that share time with one."""
_TIMELINE = (
    UPDATE, "generation-batch", "checkpoint-write", "checkpoint-wait", "policy-wait", "batch-wait", "weight-sync",
)  # fmt: skip

_OF_ROLLOUTS = (UPDATE, "generation-batch", "staleness", "kv_usage")
"""Signals of runs that generate while they train: without any of them the others are not missed either."""
_SIGNALS = (
    (UPDATE, "weight updates ([weights] lines): queueing in the front end or slow loading"),
    ("checkpoint-write", "checkpoint writes: speed of the trainer's disk"),
    ("generation-batch", "generation batches: slowdown of generation by weight updates"),
    ("staleness", "rollout staleness: lead of the orchestrator over the trainer"),
    ("kv_usage", "engine statistics (vLLM, SGLang): KV cache usage"),
    ("steps", "training steps: progress of the run"),
)


_RATE, _LEADER = "throughput_tps", "orchestrator"


def metric_stats(view: View, points: int) -> dict[str, MetricStats]:
    """Statistics of every metric, by name; its course in as many points at most."""
    return {name: _stats(name, track, view, points) for name, track in sorted(view.metrics.items())}


def _place(track: Track) -> tuple[float, int]:
    """Time and line of the last sample: in a log without a clock many lines have the same time."""
    return track.times[-1], track.ref(len(track) - 1)[0].line


def _stats(name: str, track: Track, view: View, points: int) -> MetricStats:
    ordered = sorted(track.values)
    not_finite = view.marks.get(name + NOT_FINITE, EMPTY)
    band = view.bands.get(name)
    shares: dict[str, float] = {}
    worst: str | None = None
    if band is not None:
        counts = _counts(band, ordered)
        shares = {name: count / len(track) for name, count in zip(LEVELS, counts, strict=True)}
        worst = next(name for name in reversed(LEVELS) if shares[name] > 0)
    return MetricStats(
        name=name,
        unit=metric_unit(name),
        summary=summarise(ordered),
        last=_last(track, view),
        band=worst,
        band_shares=shares,
        good=band.good if band is not None else None,
        critical=band.critical if band is not None else None,
        bands_from=band.origin if band is not None else "",
        series=_thinned(track, view.window[0], points),
        not_finite=len(not_finite),
        ends_not_finite=bool(not_finite) and _place(not_finite) > _place(track),
        of_several=len(set(track.keys[:_TELLING])) > 1,
    )


def _last(track: Track, view: View) -> float:
    """The last sample; of the rate of an asynchronous run that of its orchestrator: a trainer next to it logs the one
    within its own part of the step."""
    sources = {source for source, _ in track.streams} if track.metric == _RATE else set()
    leading = {source for source in sources if _LEADER in view.store.sources[source].components}
    if not leading or leading == sources:
        return track.values[-1]
    return next(track.values[at] for at in range(len(track) - 1, -1, -1) if track.source(at) in leading)


def _counts(band: Band, ordered: Sequence[float]) -> list[int]:
    """The numbers of good values, warnings and critical ones, of values in ascending order."""
    if not band.higher_is_worse:
        ordered = ordered[::-1]
    warning, critical = (bisect_left(ordered, level, key=band.level) for level in (1, 2))
    return [warning, critical - warning, len(ordered) - critical]


def _thinned(track: Track, start: float, most: int) -> tuple[tuple[float, float], ...]:
    """At most `most` points: the lowest and the highest of each range, so that peaks stay."""
    count = len(track)
    if not most:
        return ()
    if count <= most:
        return tuple(zip([time - start for time in track.times], track.values, strict=True))
    size = 2 * count / most
    points: list[int] = []
    values_of_track = list(track.values)
    for at in range(most // 2):
        first, stop = int(at * size), int((at + 1) * size)
        values = values_of_track[first:stop]
        low, high = first + values.index(min(values)), first + values.index(max(values))
        points += (low,) if low == high else (low, high) if low < high else (high, low)
    return tuple((track.times[at] - start, track.values[at]) for at in points)


# --- The same by log and group, so that one bad engine is not hidden among good ones ---


@dataclass(frozen=True, slots=True)
class Part:
    """One metric of one log and group over the window."""

    metric: str
    source: str
    """Name of the log that reports it; that of the client for weight updates."""
    group: str
    """Rank, engine, URL, `host:name` ...; "" where the lines name none."""
    unit: str
    """By `metric_unit`; values and limits are in it."""
    summary: Summary
    last: float
    level: str | None
    """Band of `last`: good, warning, critical; None for a metric without a band."""
    good: float | None = None
    critical: float | None = None
    """Limits of the band, as they hold for this run."""
    lower_is_worse: bool = False


def parts(view: View) -> tuple[Part, ...]:
    """Every metric of `view`, by metric, log and group; its cost grows with the samples of the window."""
    return tuple(part for metric in sorted(view.metrics) for part in _parts(metric, view))


def _parts(metric: str, view: View) -> list[Part]:
    track, band = view.metrics[metric], view.bands.get(metric)
    named: dict[tuple[str, str], list[float]] = {}
    for at, value in enumerate(track.values):
        named.setdefault((view.store.sources[track.source(at)].spec, track.group(at)), []).append(value)
    return [
        Part(
            metric=metric,
            source=source,
            group=group,
            unit=metric_unit(metric),
            summary=summarise(values),
            last=values[-1],
            level=None if band is None else LEVELS[band.level(values[-1])],
            good=None if band is None else band.good,
            critical=None if band is None else band.critical,
            lower_is_worse=band is not None and not band.higher_is_worse,
        )
        for (source, group), values in sorted(named.items())
    ]


# --- The timeline ---


def _evidence(item: Item, view: View) -> tuple[EvidenceLine, ...]:
    return tuple(
        EvidenceLine(view.store.sources[ref.source].spec, ref.line, evidence_text(text))
        for ref, text in item.refs
        if text
    )


def _row(kind: str, item: Item, view: View, evidence: bool = False) -> TimelineRow:
    start, end = view.window
    fields = {**item.values, **item.fields}
    if item.span is not None and kind == UPDATE:
        fields["op"] = getattr(item.span, "op", "")
    return TimelineRow(
        max(item.start, start) - start,
        min(max(item.end, start), end) - start,
        kind,
        item.key,
        fields,
        _overlaps(kind, item, view),
        _evidence(item, view) if evidence else (),
    )


def _overlaps(kind: str, item: Item, view: View) -> tuple[str, ...]:
    """Names of spans that share time with it: of other kinds, which may contend with it, and of updates other ones with
    their servers."""
    shared = [
        f"{other} {span.key}".strip()
        for other in _TIMELINE
        if other != kind
        for span in view.overlapping(other, item.start, item.end, _OVERLAPS)
    ]
    return (*shared[:_OVERLAPS], *(_concurrent_updates(item, view) if kind == UPDATE else ()))


def _concurrent_updates(item: Item, view: View) -> list[str]:
    """Other updates that share time with one; the last entry states that there are more."""
    concurrent = view.overlapping(UPDATE, item.start, item.end, _NAMED + 2)
    others = [other for other in concurrent if other is not item]
    named = [f"{UPDATE} {other.key} {other.fields.get('url', '')}".strip() for other in others[:_NAMED]]
    return named if len(others) <= _NAMED else [*named, "and more weight updates"]


def timeline_rows(view: View, most: int) -> tuple[TimelineRow, ...]:
    """Updates, batches, checkpoints and waits by start; of more than `most`, the last ones."""
    if most <= 0:
        return ()
    items = [(kind, item) for kind in _TIMELINE for item in view.spans(kind)[-most:]]
    items.sort(key=lambda pair: (pair[1].start, pair[1].end, pair[0]))
    return tuple(_row(kind, item, view) for kind, item in items[-most:])


def slowest_rows(view: View) -> tuple[TimelineRow, ...]:
    """The ten slowest weight updates."""
    items = nsmallest(10, view.spans(UPDATE), key=lambda item: (item.start - item.end, item.start))
    return tuple(_row(UPDATE, item, view, evidence=True) for item in items)


def unseen_signals(view: View) -> tuple[str, ...]:
    """Signals that the logs do not contain, and their use."""
    saved = any(track.kind.partition(":")[0] == "checkpoint" for track in view.store.progress.tracks.values())
    absent = [
        name
        for name, _ in _SIGNALS
        if not (view.spans(name) or name in view.metrics or (name == "steps" and (view.steps or view.activity.count)))
        and not (name == "checkpoint-write" and saved)
    ]
    if set(_OF_ROLLOUTS) <= set(absent):
        absent = [name for name in absent if name not in _OF_ROLLOUTS]
    if serves_alone(view):
        absent = []
    missing = [f"no {text}" for name, text in _SIGNALS if name in absent]
    updates = view.store.updates
    if updates and not any(update.recv_t is not None for update in updates):
        missing.append("no inference log: the server side of weight updates is inferred")
    return tuple(missing)


def serves_alone(view: View) -> bool:
    """Return true for engines that serve requests, next to which nothing trains."""
    trains = view.steps or any(view.spans(kind) for kind in _TIMELINE) or set(_OF_TRAINING) & view.metrics.keys()
    serves = bool(view.track("kv_usage")) or view.fact(idle_since) is not None
    serves = serves or (bool(view.logs) and all(state.components == _OF_SERVERS for state in view.logs if state.lines))
    return serves and not trains


_OF_SERVERS = {"inference"}
_OF_TRAINING = ("loss", "reward", "staleness", "step_s", "trainer_step_s", "orchestrator_step_s")


_LOSS = "loss"


def unjudged(view: View, metrics: Mapping[str, MetricStats], signatures: Sequence[Signature]) -> tuple[str, ...]:
    """Metrics that are critical much of the time, and that nothing judges: `data_share in 98 % of the samples`.

    A loss that is not finite in its last samples is one of them, as long as they are too few for a finding.
    """
    often = {name: stats.band_shares.get("critical", 0.0) for name, stats in metrics.items()}
    often = {name: share for name, share in often.items() if share >= _OFTEN and not _is_polled(view.track(name), view)}
    judged = {name for signature in signatures for name in metrics_of(signature)} if often else set()
    judged |= {name for name in often if (band := view.bands.get(name)) and view.has_any(band.judged_by)}
    found = [f"{name} in {format_share(share)} of the samples" for name, share in often.items() if name not in judged]
    loss = metrics.get(_LOSS)
    if loss is not None and loss.ends_not_finite:
        found.append(f"{_LOSS} NaN or infinite in the last line")
    return tuple(found)


def _is_polled(track: Track, view: View) -> bool:
    return all(view.store.sources[track.source(at)].polled for at in range(min(len(track), _TELLING)))


_NAMES: Mapping[str, str] = {
    UPDATE: "weight update",
    "checkpoint-write": "checkpoint write",
    "checkpoint-wait": "checkpoint wait",
    "generation-batch": "generation batch|generation batches",
    "batch-wait": "wait for a batch|waits for a batch",
    "policy-wait": "wait for a policy|waits for a policy",
    "weight-sync": "weight broadcast",
    "train-step": "training step",
}
_STATES = {
    Progress.STARTING: "the run is starting, no step has ended yet",
    Progress.STALLED: "no progress observed",
    Progress.UNKNOWN: "its process is gone, and no line reports how it ended",
    Progress.SILENT: "no log output for a long time, and no sign of an end",
}


def no_verdict_text(
    assessment: Assessment, view: View, findings: Sequence[Finding], unscored: Sequence[str] = ()
) -> str:
    """The summary of a run without a verdict: what was observed, and which metrics no signature uses."""
    lines = sum(state.lines for state in view.logs)
    events = sum(sum(state.patterns.values()) for state in view.logs)
    if assessment is Assessment.UNREADABLE:
        return (
            f"Cannot read these logs: {events:,} of {lines:,} lines are recognised, and none reports progress. "
            "perfmon analyze --explain-formats shows what is recognised, perfmon formats learn LOG proposes a format"
        )
    if assessment is Assessment.LEARNING and not view.logs:
        return "Too little to judge: no log is watched, only polled values"
    seen, serving = _seen(view), view.state.state is Progress.STARTING and serves_alone(view)
    state = "the server is starting, and not ready yet" if serving else _STATES.get(view.state.state, "")
    if assessment is Assessment.LEARNING and not view.activity.tracks and not events:
        return f"Too little to judge yet: {counted(lines, 'line')} so far, none about a step"
    if assessment is Assessment.LEARNING:
        if view.state.state is Progress.RUNNING and _is_ready(view):
            return "The server is ready, and served no request yet"
        worked = view.steps or any(view.spans(kind) for kind in _TIMELINE)  # what pollers report is no progress
        observed = f"; {', '.join(seen)} observed" if seen and worked else ""
        return f"Too little progress to judge yet{f': {state}' if state else ''}{observed}"
    causes = [one for one in findings if one.severity is not Severity.INFO and not one.explained_by]
    grave = [one for one in causes if one.severity is Severity.CRITICAL and one.state != "pending" and not one.lost_s]
    suspected = [one for one in causes if one.state == "pending" and view.state.state is not Progress.FINISHED]
    head = "No bottleneck found"
    if grave:
        head = f"{grave[0].title}, at a cost that the logs do not show"
    elif suspected:
        head = f"{suspected[0].title}, not for long enough to be sure"
    elif (opened := view.fact(overlong)) is not None:
        lasts, longest = format_seconds(opened.elapsed_s), format_seconds(opened.longest_s)
        head = f"A {_NAMES[opened.kind].partition('|')[0]} is open for {lasts}, at most {longest} before"
    if not seen:
        return f"{head}{f': {state}' if state else ''}"
    others = len(findings) - bool(grave or suspected)
    minor = f"; {counted(others, 'other finding' if grave or suspected else 'smaller finding')}" if others else ""
    if not state and (idle := view.fact(idle_since)) is not None:
        state = f"no requests for {format_seconds(max(0.0, view.whole[1] - idle))}"
    if not state and (late := _unserved_s(view)) > 0:
        state = f"no token for {format_seconds(late)}, although it had requests when it last reported: idle, or hung"
    if not state and (late := overdue_s(view)) > 0:
        state = f"no progress observed for {format_seconds(late)}, although the logs continue"
    if not state and (waiting := waiting_lines(view)):
        state = f"none of the last {waiting:,} recognised lines reports progress"
    if not state and (silent := view.fact(without_end)):
        state = f"{evidence_text(', '.join(silent[:2]))} logs no end, others do"
    critical = f"; {state}" if state else ""
    if view.at_once:
        most = max(map(len, view.at_once.values()))
        critical = f"; {most} runs or parts of one advance at once in a log: the longest is counted{critical}"
    if view.has_any(("data_wait_s",)) and not view.has_any(_OF_STEPS):
        critical += "; the share of the wait for data is unknown, as no line states how long a step takes"
    critical += f"; critical values without a signature: {', '.join(unscored)}" if unscored else ""
    return f"{head}: {', '.join(seen)} observed{minor}{critical}"


def _unserved_s(view: View) -> float:
    """Seconds since the last work of servers that print none without requests, where their logs continue; 0 unless that
    is long."""
    work = view.activity.events
    late = view.whole[1] - work[-1] if work and view.fact(last_output_of_servers) is not None else 0.0
    return late if late > _LONG_WITHOUT_S else 0.0


def _is_ready(view: View) -> bool:
    """True for a server that stated that it is ready, and reports no work."""
    return not view.activity.work and any(True for _ in view.marked(READY))


_LONG_WITHOUT_S = 600.0
_OF_STEPS = ("data_share", "step_s", "trainer_step_s", "train_s", "data-wait", "train-step")
"""Metrics and spans that give the wait for data its share."""
_TRAINERS = ("trainer", "")
"""Components whose steps are training steps."""


def _seen(view: View) -> list[str]:
    if serves_alone(view):
        return _seen_of_server(view)
    seen = []
    for kind, name in _NAMES.items():
        count = len(view.spans(kind))
        if count and kind == "train-step":
            count = max(steps_covered(component, view) for component in _TRAINERS) or count
        if count:
            seen.append(counted(count, *name.split("|")))
    metrics: Mapping[str, str] = {"trunc_pct": "truncation", "staleness": "staleness", "kv_usage": "KV cache usage"}
    seen += [f"{counted(len(view.track(m)), 'sample')} of {name}" for m, name in metrics.items() if view.track(m)]
    if not seen:
        steps = max((steps_covered(component, view) for component in view.steps), default=0)
        own = [(m, track) for m, track in sorted(view.metrics.items()) if not (view.logs and _is_polled(track, view))]
        samples = [f"{counted(len(track), 'sample')} of {m}" for m, track in own[:4]]
        seen = [counted(steps, "step")] if steps else samples
    return seen


def _seen_of_server(view: View) -> list[str]:
    """Proof that engines keep up with their requests: how many wait, and how full the cache is."""
    waiting, usage = view.track("waiting"), view.track("kv_usage")
    if not usage:
        return []
    most = max(waiting.values, default=0.0)
    queue = f"at most {counted(int(most), 'waiting request')}" if most else "no waiting requests"
    cache = f"a KV cache at most {max(usage.values):.0f} % full"
    return [*([queue] if waiting else []), cache, f"{counted(len(usage), 'report')} of the engine"]
