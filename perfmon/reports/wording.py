"""Wording of figures, levels and confidence, shared by all reports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from os.path import commonprefix

from perfmon.rules.wording import counted, plural_of
from perfmon.snapshot import Finding, Goal, MetricStats, RunInfo, Snapshot, SourceInfo, Verdict
from perfmon.units import format_bytes, format_seconds, format_value

from .layout import one_line

STATISTICS = ("count", "mean", "stdev", "min", "p50", "p90", "p95", "p99", "max")
HELD = {True: "✓", False: "✗", None: "?"}


def percent(share: float) -> str:
    """A fraction as `31 %`; small ones keep a decimal."""
    value = share * 100.0
    return f"{value:.0f} %" if value >= 9.95 or value == 0 else f"{value:.1f} %"


def amount(value: float | None, unit: str) -> str:
    """A metric's value for people, `–` where there is none."""
    return "–" if value is None or not math.isfinite(value) else format_value(value, unit)


def figure(value: float | None, unit: str) -> str:
    """A value for a narrow column: units longer than `ms`, `s` and `%` are left to the column's name."""
    if unit in ("ms", "s", "%") or value is None or not math.isfinite(value):
        return amount(value, unit)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def common_folder(names: Sequence[str]) -> str:
    """Common folder of all paths, with a closing slash; "" for a single relative path or for none."""
    folders = [name[: name.rfind("/") + 1] for name in names]
    if len(folders) < 2 and not any(name.startswith("/") for name in names):
        return ""
    shared = commonprefix(folders)  # noqa: RUF071 (cut back to a slash below; names may mix "/" and none)
    return shared[: shared.rfind("/") + 1]


def fields_text(fields: Mapping[str, float | str] | Mapping[str, str]) -> str:
    """`name=value name=value`, numbers short."""
    return " ".join(
        f"{one_line(name, 40)}={value:.10g}"
        if isinstance(value, float | int)
        else f"{one_line(name, 40)}={one_line(value, 120)}"
        for name, value in fields.items()
    )


def held_text(finding: Finding) -> str:
    """`3 of 3 conditions`, or the share where a finding lists none."""
    if not finding.conditions:
        return f"confidence {percent(finding.confidence)}"
    held = sum(condition.held is True for condition in finding.conditions)
    count = len(finding.conditions)
    return f"{held} of {count} condition{'s' * (count != 1)}"


def behind(snapshot: Snapshot, verdict: Verdict) -> Finding | None:
    """The costliest finding of the verdict's signature."""
    same = [finding for finding in snapshot.findings if finding.signature == verdict.signature]
    return max(same, key=lambda finding: finding.lost_s, default=None)


def verdict_line(snapshot: Snapshot, verdict: Verdict) -> str:
    """Cost and confidence of the verdict in one line."""
    finding = behind(snapshot, verdict)
    held = held_text(finding) if finding else f"confidence {percent(verdict.confidence)}"
    if verdict.lost_s <= 0:
        return held
    lost, wall = format_seconds(verdict.lost_s), format_seconds(snapshot.run.wall_s)
    return f"{lost} of {wall} lost ({percent(verdict.lost_share)}) · {held}"


def finding_line(finding: Finding) -> str:
    """Count, time and cost of a finding in one line."""
    first, last = format_seconds(finding.first_s), format_seconds(finding.last_s)
    when = f"at {first}" if finding.first_s == finding.last_s else f"{first} to {last}"
    parts = [f"count {finding.count}", when]
    if finding.lost_s > 0:
        parts.append(f"{format_seconds(finding.lost_s)} lost ({percent(finding.lost_share)})")
    parts.append(held_text(finding))
    if finding.state != "firing":
        parts.append(finding.state)
    return " · ".join(parts)


def run_line(run: RunInfo) -> str:
    """Summary of the input in one line."""
    count = len(run.sources)
    state = "" if not any(source.events for source in run.sources) else f"{run.state.value} · "
    size, lines = sum(source.bytes for source in run.sources), sum(source.lines for source in run.sources)
    base = {"wall": "", "monotonic": " by a monotonic clock", "none": ""}[run.time_base.value]
    observed = "no timestamps" if run.time_base == "none" else f"{format_seconds(run.wall_s)} observed{base}"
    going = f" · {goal_text(run.goal)}" if run.goal is not None else ""
    read = f"{lines:,} {plural_of(lines, 'line')}, {format_bytes(size)}"
    return f"{state}{count} log{'s' * (count != 1)} · {observed} · {read}{going}"


def goal_text(goal: Goal) -> str:
    """`33 of 15,625 steps, 7d 10h to go`; `at step 33` where no total is told."""
    if goal.total is None:
        return f"at {one_line(goal.unit.removesuffix('s'), 20)} {goal.done:,.0f}"
    unit = goal.unit if goal.unit.endswith("s") or goal.total == 1 else f"{goal.unit}s"
    left = f", about {format_seconds(goal.remaining_s)} left" if goal.remaining_s else ""
    return f"{goal.done:,.0f} of {goal.total:,.0f} {one_line(unit, 20)}{left}"


def limits_text(metric: MetricStats) -> tuple[str, str, str]:
    """Ranges of good, warning and critical; dashes without thresholds. Low values are bad if critical < good."""
    good, critical, unit = metric.good, metric.critical, metric.unit
    if good is None and critical is None:
        return "–", "–", "–"
    if good is None or critical is None:
        limit = amount(good if critical is None else critical, unit)
        return (f"< {limit}", f"≥ {limit}", "–") if critical is None else (f"≤ {limit}", "–", f"> {limit}")
    low, high = amount(min(good, critical), unit), amount(max(good, critical), unit)
    return (
        (f"< {low}", f"{low} – {high}", f"> {high}")
        if good <= critical
        else (f"> {high}", f"{low} – {high}", f"< {low}")
    )


def loss_notes(sources: Iterable[SourceInfo], folder: str = "") -> list[str]:
    """Lost and unexpected data, a line per source and note; names are shown without `folder`."""
    return [
        f"{one_line(source.spec.removeprefix(folder), 200)}: {one_line(note.removeprefix(f'{source.spec}: '))}"
        for source in sources
        for note in source.notes
    ]


def clock_notes(snapshot: Snapshot, folder: str = "") -> list[str]:
    """Clock offsets of servers relative to their clients, and samples dropped to save memory."""
    notes = []
    for offset in snapshot.clock_offsets:
        told = f"clock {offset.offset_s:+.3f} s against the client's, ± {format_seconds(offset.uncertainty_s)}"
        wrong = "; estimates disagree, a clock was stepped" if offset.contradictory else ""
        name = one_line(offset.source.removeprefix(folder), 200)
        notes.append(f"{name}: {told} ({counted(offset.traces, 'trace')}){wrong}")
    if snapshot.skew_detected and not any(offset.contradictory for offset in snapshot.clock_offsets):
        notes.append("the clocks of the logs disagree: times across logs are uncertain")
    notes.extend(f"{count:,} {one_line(kind, 60)} thinned to save memory" for kind, count in snapshot.dropped.items())
    return notes
