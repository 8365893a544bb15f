"""The page that Prometheus scrapes: what was judged, measured, observed and polled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from prometheus_client.metrics_core import Metric

from perfmon._version import __version__
from perfmon.core import Progress
from perfmon.diagnosis import Diagnosis, Part, goodput_of
from perfmon.rules import Signature
from perfmon.sources.pollers import Area
from perfmon.store import Seen
from perfmon.viewmodel import AlertState, MonitorState, cores

from .metric_names import Families, Places, label_name, named

# --- Metrics of the diagnosis: findings, the verdict, the time breakdown ---

FIRING = (AlertState.FIRING, AlertState.ACKED)


def add_findings(families: Families, picture: MonitorState, signatures: Sequence[Signature]) -> None:
    """Add every known finding, and for each signature how many of them fire, also where that is none."""
    firing = Counter(alert.finding.signature for alert in picture.alerts if alert.state in FIRING)
    about = "Number of firing findings, by signature, including 0"
    for signature in signatures:
        count = firing[signature.id]
        families.gauge("signature_firing", about, count, signature=signature.id, kind=signature.kind)
    for alert in picture.alerts:
        finding = alert.finding
        identity = {label_name(key): value for key, value in finding.identity.items()}
        labels = {**identity, "signature": finding.signature}
        states = {"severity": finding.severity.value, "state": alert.state.value}
        families.gauge("finding", "1 for a finding in its current state and severity", 1.0, **states, **labels)
        about = "Seconds a finding has cost since perfmon started"
        families.gauge("finding_lost_seconds", about, alert.lost_s, **labels)
        about = "Share of the window that a finding costs"
        families.gauge("finding_lost_ratio", about, finding.lost_share, **labels)
        families.gauge("finding_occurrences", "Number of occurrences of a finding", alert.count, **labels)
        about = "Share of its conditions that are met"
        families.gauge("finding_confidence_ratio", about, finding.confidence, **labels)


def add_verdict(families: Families, snapshot: Diagnosis) -> None:
    """Add the verdict without its sentence, whose figures change with every evaluation."""
    verdict = snapshot.verdict
    rank = 0 if verdict is None else 1 + verdict.severity.rank
    lost_s, share = (0.0, 0.0) if verdict is None else (verdict.lost_s, verdict.lost_share)
    families.gauge("verdict_severity", "Severity of the verdict: 0 none, 1 info, 2 warning, 3 critical", rank)
    families.gauge("verdict_lost_seconds", "Seconds the verdict costs within the window", lost_s)
    families.gauge("verdict_lost_ratio", "Share of the window that it costs", share)
    if verdict is not None:
        families.gauge("verdict_confidence_ratio", "Confidence of the verdict, 0 to 1", verdict.confidence)
        labels = {"signature": verdict.signature, "title": verdict.title, "severity": verdict.severity.value}
        families.info("verdict", "Signature of the verdict", **labels)


def add_run_state(families: Families, snapshot: Diagnosis) -> None:
    """Add state and assessment of the run: 1 for the current state, 0 for the others."""
    run, goal = snapshot.run, snapshot.run.goal
    about = "1 for the current state of the run, else 0"
    for state in Progress:
        families.gauge("run_state", about, float(run.state is state), state=state.value)
    about = "1 for the current state of a component"
    for name, state in run.components.items():
        families.gauge("component_state", about, 1.0, component=name, state=state.value)
    families.info("assessment", "Assessment of the run as a whole", assessment=snapshot.assessment.value)
    families.gauge("run_limit_left_seconds", "Seconds until the logged time limit ends the run", run.limit_left_s)
    if goal is not None:
        families.gauge("run_done", "Progress counter of the run", goal.done, unit=goal.unit)
        families.gauge("run_total", "Target of the progress counter", goal.total, unit=goal.unit)
        families.gauge("run_remaining_seconds", "Estimated seconds until the run is done", goal.remaining_s)


def add_goodput(families: Families, snapshot: Diagnosis) -> None:
    """Add goodput and badput in the field's own names."""
    found = goodput_of(snapshot)
    families.gauge("goodput_ratio", "Share of the observed time with proven progress", found.goodput_ratio)
    families.gauge("ettr_ratio", "Share of all time from first to last line with proven progress", found.ettr_ratio)
    for cause, seconds in found.badput_s.items():
        families.gauge("badput_seconds", "Seconds without progress, by type", seconds, type=cause)
    families.gauge("mfu_ratio", "Mean logged model FLOPs utilisation", found.mfu_ratio)
    families.gauge("step_time_deviation_ratio", "Mean step over median step, less 1", found.step_time_deviation)
    families.gauge("disruptions", "Restarts, plus a failure of the last run", found.disruptions)
    if found.gpus:
        families.gauge("lost_gpu_seconds", "GPU-seconds lost for a known reason", found.lost_gpu_s)
    for role, use in found.roles.items():
        families.gauge("role_gpu_seconds", "GPU-seconds of the observed time, by role", use.gpu_s, role=role)
        about = "GPU-seconds lost for a known reason, by role"
        families.gauge("role_lost_gpu_seconds", about, use.lost_gpu_s, role=role)
    families.gauge("lost_money", "Cost of lost GPU time at the configured price per GPU-hour", found.lost_money)


def add_time_breakdown(families: Families, snapshot: Diagnosis) -> None:
    """Time breakdown of the window."""
    for entry in snapshot.ledger:
        families.gauge("ledger_seconds", "Seconds of the window, by cause", entry.lost_s, cause=entry.cause)
        families.gauge("ledger_ratio", "Share of the window, by cause; the sum is 1", entry.share, cause=entry.cause)


# --- Metrics of logs and pollers: last values, quantiles of the window, and thresholds ---

STATISTICS = ("p50", "p90", "p95", "p99", "max", "mean")
"""Statistics of the window, by the label `stat`."""
LEVELS = {"good": 0.0, "warning": 1.0, "critical": 2.0}


def add_measured(families: Families, parts: Iterable[Part]) -> None:
    """Three families a metric (last value, window, limits), and the level of the last value for all of them."""
    limited: set[str] = set()
    for part in parts:
        base, factor, operation = named(part.metric)
        labels = {"metric": part.metric, "log": part.source, "group": part.group, "op": operation}
        scope = f"of {part.metric}, by log and group"
        families.gauge(f"last_{base}", f"Last value {scope}", part.last * factor, **labels)
        for stat in STATISTICS:
            value = getattr(part.summary, stat) * factor
            families.gauge(f"window_{base}", f"Statistics over the window {scope}", value, stat=stat, **labels)
        families.gauge("samples", "Samples in the window, by metric, log and group", part.summary.count, **labels)
        if part.level is not None:
            about = "Level of the last value: 0 good, 1 warning, 2 critical"
            families.gauge("level", about, LEVELS[part.level], **labels)
            if part.metric not in limited:
                limited.add(part.metric)
                _add_limits(families, part)


def _add_limits(families: Families, part: Part) -> None:
    base, factor, operation = named(part.metric)
    labels = {"metric": part.metric, "op": operation, "worse": "below" if part.lower_is_worse else "above"}
    about = f"Thresholds of {part.metric}: warning starts at good, critical starts at critical"
    for name, value in (("good", part.good), ("critical", part.critical)):
        if value is not None:
            families.gauge(f"limit_{base}", about, value * factor, limit=name, **labels)


# --- Metrics of the observation: the run, its logs, hosts over SSH ---


def add_run(families: Families, picture: MonitorState) -> None:
    """Add the state of the monitor, and the amount of data read."""
    families.info("build", "Version of perfmon", version=__version__)
    about = "1 for the current state of the monitor: loading, live, ended"
    families.gauge("monitor_state", about, 1.0, state=picture.state.value)
    families.counter("run_lines", "Lines read, all logs", picture.lines)
    families.gauge("run_window_seconds", "Length of the analysis window", picture.window_s)
    loaded = 1.0 if picture.progress is None else picture.progress
    families.gauge("run_loaded_ratio", "Share of the existing log history that was read", loaded)
    about = "Age of the newest line if it is too old for a verdict, else 0"
    families.gauge("run_stale_seconds", about, picture.stale_s or 0.0)
    if (snapshot := picture.snapshot) is None:
        return
    families.gauge("run_observed_seconds", "Observed part of the window", snapshot.run.wall_s)
    for state, count in (("complete", snapshot.traces_complete), ("partial", snapshot.traces_partial)):
        families.gauge("run_traces", "Weight updates tracked, completely or partly", count, state=state)
    for kind, count in snapshot.dropped.items():
        families.gauge("run_thinned_out", "Items dropped to stay within the memory limit, by kind", count, kind=kind)


def add_sources(families: Families, picture: MonitorState) -> None:
    """Add every log."""
    for source in picture.sources:
        log = source.name
        families.counter("source_bytes", "Bytes read, by log", source.bytes, log=log)
        families.counter("source_lines", "Lines read, by log", source.lines, log=log)
        families.counter("source_events", "Recognised lines, by log", source.events, log=log)
        families.counter("source_errors", "Read errors, by log", source.errors, log=log)
        families.counter("source_skipped", "Recognised lines with implausible values, by log", source.skipped, log=log)
        families.gauge("source_age_seconds", "Seconds since the last read, by log", source.age_s, log=log)
        about = "1 for the freshness of a log: fresh, idle, lagging, stale, waiting, ended"
        families.gauge("source_state", about, 1.0, log=log, state=source.freshness.value)
        families.info("source", "Format of a log", log=log, format=source.format)
        about = "Clock offset of a server log relative to its client"
        families.gauge("source_clock_offset_seconds", about, source.offset_s, log=log)


def add_links(families: Families, picture: MonitorState) -> None:
    """Add the hosts that are monitored over SSH."""
    for link in picture.links:
        about = "1 for the connection state of a host: connecting, live, stale, reconnecting, refused"
        families.gauge("link_state", about, 1.0, host=link.name, state=link.phase.value)
        families.gauge("link_age_seconds", "Seconds since the last response of a host", link.age_s, host=link.name)
        families.counter("link_reconnects", "Number of reconnections", link.reconnects, host=link.name)
        about = "Clock offset of a host relative to this machine"
        offset_s = None if link.clock is None else link.clock.seconds
        families.gauge("link_clock_offset_seconds", about, offset_s, host=link.name)


# --- Last readings of GPUs, hosts, queues and jobs ---

OLDEST_S = 300.0
"""Of older readings only the age is exported: old values must not be taken for new ones."""
_LABELS: Mapping[Area, str] = {
    Area.GPU: "gpu", Area.PROCESS: "pid", Area.HOST: "", Area.DISK: "mount", Area.NIC: "device", Area.SOCKET: "port",
    Area.QUEUE: "queue", Area.JOB: "job_id", Area.NODE: "node", Area.VALUE: "name", Area.POLLER: "poller",
    Area.TRACE: "name",
}  # fmt: skip
"""The label that identifies it; a host is identified by `host` alone."""
_CHANGING = frozenset({"state", "throttle", "verdict", "reason", "why"})
"""Words that change: each is a family of its own, so that the values next to them stay the same series."""

_OF_CORES = frozenset({"cores_busy", "cores_iowait"})


def add_polled(families: Families, seen: Iterable[Seen], now: float) -> None:
    """Add every reading; `now` is the present on the axis of `Seen.at`."""
    about = "Seconds since the last reading of a poller"
    for one in seen:
        age_s, area, name = max(0.0, now - one.at), one.reading.area, one.reading.name
        families.gauge("reading_age_seconds", about, age_s, area=area.value, host=one.host, name=name)
        if age_s <= OLDEST_S:
            label = _LABELS[area]
            _add_reading(families, one, {"host": one.host, **({label: name} if label else {})})


def _add_reading(families: Families, one: Seen, labels: dict[str, str]) -> None:
    area, words = one.reading.area.value, one.reading.words
    for key, value in one.reading.values.items():
        base, factor, _ = named(key)
        families.gauge(f"{area}_{base}", f"{key} of the {area}, last polled value", value * factor, **labels)
    for key in _CHANGING & words.keys():
        about = f"1 for the {key} of the {area}, last polled value"
        families.gauge(f"{area}_{key}", about, 1.0, **{**labels, key: words[key]})
    for key in _OF_CORES & words.keys():
        about = f"Of the {area}'s CPU cores, singly or in groups, last polled value, rounded to 0.1"
        for at, percent in enumerate(cores(one, key)):
            families.gauge(f"{area}_{key}_ratio", about, percent / 100.0, **labels, core=str(at))
    steady = {label_name(key): word for key, word in words.items() if key not in _CHANGING | _OF_CORES}
    if steady:
        families.info(area, f"What the {area} is", **{**steady, **labels})


# --- The page that Prometheus scrapes: the metrics of everything that is known at one moment ---


@dataclass(frozen=True, slots=True)
class Known:
    """Parts of a page."""

    picture: MonitorState
    parts: Sequence[Part] = ()
    signatures: Sequence[Signature] = ()
    took_s: float = 0.0
    """Duration of the measurement of `parts`."""
    current: bool = True
    """`parts` are of this moment: the monitor answered in time."""


def metrics_of(known: Known, places: Places) -> Iterator[Metric]:
    """All families of a page; `places` is what the pages of one exporter share."""
    families = Families()
    add_run(families, known.picture)
    add_sources(families, known.picture)
    add_links(families, known.picture)
    add_findings(families, known.picture, known.signatures)
    if known.picture.snapshot is not None:
        add_verdict(families, known.picture.snapshot)
        add_time_breakdown(families, known.picture.snapshot)
        add_run_state(families, known.picture.snapshot)
        add_goodput(families, known.picture.snapshot)
    add_polled(families, known.picture.seen, known.picture.present)
    add_measured(families, known.parts)
    families.gauge("export_measuring_seconds", "Seconds it took to collect this page", known.took_s)
    families.gauge("export_current", "0 if the monitor was too busy to update the values of this page", known.current)
    return families.metrics(places)
