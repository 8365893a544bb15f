"""The time of GPUs as samples for the rule engine, and its findings about them.

Findings are about the whole of a trace: each sample is its mean, so that their figures are those of the tables. Parts
of it are samples where two traces are compared.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import PurePath
from typing import TYPE_CHECKING

from perfmon.core import Config, Progress, plain
from perfmon.diagnosis import EvidenceLine, LedgerEntry
from perfmon.pipeline import Session
from perfmon.sources.pollers import Area, PolledBlock, Reading, format_reading

from .job import Profile

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis, Finding, RuleSet
    from perfmon.rules import View

    from .analysis import GpuUse
    from .shares import Shares

SIGNATURES = (
    "data-starved", "pageable-transfer", "transfer-bound", "host-stall", "launch-bound", "comm-bound", "straggler-rank",
    "gpu-idle",
)  # fmt: skip
WHOLE = "profiled_step_ms"
"""The metric that decides which of two traces with steps is better."""
STAGES = {
    "step_compute_ms": "computing", "step_comm_ms": "communication while nothing computes",
    "step_h2d_ms": "copies from the host while nothing computes", "step_data_ms": "waiting for the next batch",
    "step_launch_ms": "late launches", "step_stall_ms": "stalls of the host",
    "step_rest_ms": "other idle time and work",
}  # fmt: skip
"""Stages of a step by metric; together they are all of its time."""
BY_NAME = ("range_ms", "range_gap_ms")
"""Metrics of which the mean over all names means nothing."""
_SHARES = (
    "host_wait_share", "launch_gap_share", "host_stall_share", "loader_share", "exposed_comm_share", "comm_share",
    "h2d_share", "sync_stall_share",
)  # fmt: skip
_ANYWAY = ("gpu_busy", "pageable_share", "launch_queue", *BY_NAME)
_ABOUT_GAPS = ("data-starved", "host-stall", "launch-bound", "gpu-idle")
_MOMENTS, _NAME = 3, 80
_RANGES = 12
_LENGTH_S = 600
SOURCE = "profile"
_LEAST_READINGS, _MOST_READINGS, _ALL_READINGS = 60, 240, 4000
"""Of each GPU, of one of a few, of all: rules that want some minutes first find nothing in them."""
_LEAD = 4
"""Signatures skip so many samples of a log: what a run starts with. A trace starts in the middle of one."""
_LATE, _IDLE, _FULL, _HALF = "straggler-rank", "gpu-idle", 100.0, 0.5
_OF_IDLE = ("data-starved", "host-stall", "launch-bound")
_PARTS = {
    "data-starved": "data", "pageable-transfer": "fed", "transfer-bound": "fed", "host-stall": "stall",
    "launch-bound": "launch", "comm-bound": "exposed",
}  # fmt: skip
"""The shares of a trace that findings cost."""
_STEP_S = 10
"""Traces last seconds: their time is stretched for rules that want minutes of a run."""
_EPOCH_S = 946_684_800
"""Any date: traces need not have one."""
_Readings = list[tuple[float, Reading]]
"""Readings with their seconds since the start."""


def find(found: Profile, config: Config | None = None) -> tuple[Finding, ...]:
    """Findings of the signatures about traces, with their cost in the time of the trace."""
    diagnosis, _, _ = _examined(_signals(found), config)
    return in_trace_time(found, diagnosis).findings


def as_runs(
    before: Profile, after: Profile, config: Config | None = None
) -> tuple[tuple[Diagnosis, View, View, RuleSet], ...]:
    """Both as runs that can be compared: the diagnosis, what it judged, and parts of the traces as samples.

    Where both have steps, samples are the times that a step spends on its stages: of a shorter step the same time is a
    larger share.
    """
    steps = [_step_ns(found) for found in (before, after)]
    made = []
    for found, step in zip((before, after), steps, strict=True):
        diagnosis, view, rules = _examined(_signals(found), config)
        _, samples, _ = _examined(_samples(found, step if all(steps) else 0.0), config)
        made.append((in_trace_time(found, diagnosis), view, samples, rules))
    return tuple(made)


def _step_ns(found: Profile) -> float:
    """The mean length of a step; 0 without steps."""
    lengths = [length for use in found.gpus for length in use.steps_ns]
    return sum(lengths) / len(lengths) if lengths else 0.0


def compared_by(names: Collection[str]) -> set[str]:
    """Return those metrics of traces that two of them are compared by, of all metrics of both."""
    wanted = {*_ANYWAY, *((WHOLE, *STAGES) if any(name in STAGES for name in names) else _SHARES)}
    return {name for name in names if name.partition("{")[0] in wanted}


def _examined(readings: _Readings, config: Config | None) -> tuple[Diagnosis, View, RuleSet]:
    """Evaluate readings as those of a run."""
    session = Session(config or Config())
    state = session.add_source(SOURCE)
    state.ended = True
    offset = 0
    for number, (at, reading) in enumerate(sorted(readings, key=itemgetter(0)), 1):
        line = format_reading(reading, "-", str(at))
        session.feed(state, PolledBlock(line, offset, number, host="-", at=_EPOCH_S + at, readings=(reading,)))
        offset += len(line)
    return *session.examined(), session.knowledge


def in_trace_time(found: Profile, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with times and costs of the trace instead of those of its lines."""
    span = max((use.span for use in found.gpus), default=0) / 1e9
    scale = span / diagnosis.run.wall_s if diagnosis.run.wall_s else 0.0
    findings = tuple(
        replace(
            one, first_s=one.first_s * scale, last_s=one.last_s * scale, lost_s=share * span, lost_share=share,
            count=1, sentence=_sentence(found, one), evidence=_idle_moments(found, one), moments=(), lost=(),
        )
        for one in diagnosis.findings
        if one.signature in SIGNATURES and one.state != "pending" and not _is_of_logs(found, one)
        for share in (_lost_share(found, one, diagnosis.findings),)
    )  # fmt: skip
    ledger = _ledger(found, findings, span)
    verdict = diagnosis.verdict
    if verdict is not None:
        late = [one.sentence for one in findings if one.signature == verdict.signature == _LATE]
        sentence = late[0] if late else verdict.sentence
        known = [one for one in findings if one.signature == verdict.signature]
        most = max(known, key=lambda one: one.lost_s, default=None)
        if most is None:
            verdict = None
        else:
            verdict = replace(verdict, lost_s=most.lost_s, lost_share=most.lost_share, sentence=sentence)
    files = sorted({use.file for use in found.gpus})
    name = files[0] if len(files) == 1 else f"{len(files)} traces in {PurePath(files[0]).parent}"
    sources = tuple(replace(one, spec=name, lines=found.events, bytes=found.size) for one in diagnosis.run.sources)
    run = replace(diagnosis.run, wall_s=span, sources=sources, state=Progress.FINISHED, goal=None)
    return replace(diagnosis, findings=findings, ledger=ledger, verdict=verdict, run=run)


def _lost_share(found: Profile, finding: Finding, findings: Sequence[Finding]) -> float:
    """The share of the time of its GPU, or of all GPUs, that a finding costs: parts of a trace do not overlap."""
    group = finding.identity.get("group")
    uses = [use for use in found.gpus if group in (None, label(use))]
    span = sum(use.span for use in uses)
    if finding.signature == _IDLE:
        here = [one for one in findings if one.state != "pending" and one.identity.get("group") in (None, group)]
        parts = [_PARTS[name] for name in {one.signature for one in here} & set(_OF_IDLE)]
        left = sum(use.span * (use.whole.idle - sum(getattr(use.whole, part) or 0.0 for part in parts)) for use in uses)
        return max(0.0, left / span) if span else 0.0
    part = _PARTS.get(finding.signature)
    if part is None:
        return finding.lost_share
    return sum(use.span * (getattr(use.whole, part) or 0.0) for use in uses) / span if span else 0.0


def _ledger(found: Profile, findings: Sequence[Finding], span: float) -> tuple[LedgerEntry, ...]:
    """The time of all GPUs by cause."""
    whole = sum(use.span for use in found.gpus)
    shares: dict[str, float] = {}
    for one in findings:
        mine = sum(use.span for use in found.gpus if one.identity.get("group") in (None, label(use)))
        if not one.explained_by:
            shares[one.signature] = shares.get(one.signature, 0.0) + one.lost_share * mine / whole
    entries = [(cause, share) for cause, share in sorted(shares.items(), key=itemgetter(1), reverse=True) if share]
    left = max(0.0, 1.0 - sum(share for _, share in entries))
    return tuple(LedgerEntry(cause, share * span, share) for cause, share in [*entries, ("productive", left)])


def _is_of_logs(found: Profile, finding: Finding) -> bool:
    """A GPU that is idle for less than half of the time: a trace shows its reasons, as logs do not."""
    group = finding.identity.get("group")
    return finding.signature == _IDLE and all(
        use.whole.idle <= _HALF for use in found.gpus if group in (None, label(use))
    )


def _sentence(found: Profile, finding: Finding) -> str:
    """That of a finding; a trace has no reports of the speed of a rank, as logs have."""
    if finding.signature != _LATE:
        return finding.sentence
    late, rank = found.late, finding.identity["rank"]
    count = sum(str(one) == rank and speed < _FULL for one, speed in late)
    return f"rank {rank} is the last to arrive in collectives in {count} of {len(late)} parts of the trace: others wait"


def _idle_moments(found: Profile, finding: Finding) -> tuple[EvidenceLine, ...]:
    """The longest gaps of the GPU of a finding about idle time, or of all GPUs, with what the host did."""
    if finding.signature not in _ABOUT_GAPS:
        return ()
    group = finding.identity.get("group")
    uses = [use for use in found.gpus if group in (None, label(use))]
    longest = sorted(((gap, use) for use in uses for gap in use.gaps), key=lambda row: row[0].start - row[0].end)
    return tuple(
        EvidenceLine(
            use.file, 0, f"GPU {label(use)}: idle for {_ms(gap.end - gap.start)} at {_ms(gap.start)}"
            + "".join(f": {plain(name, _NAME)} {_ms(took)}" for name, took in gap.host[:1]),
        )
        for gap, use in longest[:_MOMENTS]
    )  # fmt: skip


def _ms(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.1f} ms"


def _signals(found: Profile) -> _Readings:
    """Readings of the means of each GPU at equal distances, in order of time."""
    count = min(_MOST_READINGS, max(_LEAST_READINGS, _ALL_READINGS // max(1, len(found.gpus))))
    length = _STEP_S * count
    made = [(-0.1, _of_whole(use)) for use in found.gpus]
    for use in found.gpus:
        reading = _of_part(use, use.whole)
        made += [(at * 0.001 if at < _LEAD else _STEP_S * (at - _LEAD + 1), reading) for at in range(_LEAD + count)]
    late = found.late
    for at, (rank, speed) in enumerate([*late[:1] * _LEAD, *late], 1 - _LEAD):
        time = length * at / len(late) if at > 0 else 0.001 * (at + _LEAD)
        made.append((time, Reading(Area.TRACE, str(rank), {"speed_pct": speed})))
    for number in range(1, count + 1):
        made.append((_STEP_S * number, Reading(Area.TRACE, "parts", {"part": float(number)})))
    return made


def _samples(found: Profile, step: float) -> _Readings:
    """The same of short parts, one of each, with steps and named ranges; `step`: mean length of a step, 0: unknown."""
    made: _Readings = []
    for use in found.gpus:
        for part in use.cells:
            reading = _of_part(use, part)
            if step:
                reading = replace(reading, values={**reading.values, **_of_step(part, step / 1e6)})
            made.append((_LENGTH_S * (part.end - use.start) / use.span, reading))
        for at, length in enumerate(use.steps_ns, 1):
            reading = Reading(Area.TRACE, label(use), {"step_ms": length / 1e6})
            made.append((_LENGTH_S * at / len(use.steps_ns), reading))
    for named in found.ranges[:_RANGES]:
        for at, (length, between) in enumerate(named.samples, 1):
            values = {"range_ms": length / 1e6, "between_ms": between / 1e6}
            reading = Reading(Area.TRACE, plain(named.name, 100), values)
            made.append((_LENGTH_S * at / len(named.samples), reading))
    return made


def label(use: GpuUse) -> str:
    """A GPU in words that follow "GPU"."""
    return str(use.device) if use.rank is None else f"{use.device} (rank {use.rank})"


def _of_step(part: Shares, step_ms: float) -> dict[str, float]:
    """The stages of a mean step, by the shares of a part."""
    return {
        "compute_ms": step_ms * part.compute, "comm_ms": step_ms * part.exposed, "h2d_ms": step_ms * part.fed,
        "data_ms": step_ms * (part.data or 0.0), "launch_ms": step_ms * part.launch, "stall_ms": step_ms * part.stall,
        "rest_ms": step_ms * part.rest,
    }  # fmt: skip


def _of_part(use: GpuUse, part: Shares) -> Reading:
    values = {
        "busy_pct": 100 * (1 - part.idle), "idle_pct": 100 * part.idle, "late_pct": 100 * part.late,
        "launch_pct": 100 * part.launch, "stall_pct": 100 * part.stall, "comm_pct": 100 * part.communication,
        "exposed_pct": 100 * part.exposed, "h2d_pct": 100 * part.fed, "sync_pct": 100 * part.sync,
        "queue": max(0.0, round(use.queue_mean, 1)),
    }  # fmt: skip
    if part.data is not None:
        values["loader_pct"] = 100 * part.data
    if part.pageable is not None:
        values["pageable_pct"] = 100 * part.pageable
    return Reading(Area.TRACE, label(use), values)


def _of_whole(use: GpuUse) -> Reading:
    """Values of a whole trace, which decide whether something is found."""
    names = {"launch": "launch", "stall": "stall", "comm": "communication", "exposed": "exposed", "h2d": "fed"}
    if use.loader is not None:
        names["loader"] = "data"
    values = {f"whole_{name}_pct": 100.0 * getattr(use.whole, held) for name, held in names.items()}
    if use.loader is not None:
        values["whole_loader_rest_pct"] = max(0.0, values["whole_loader_pct"] - 100.0 * use.longest_load / use.span)
    values["whole_busy_pct"] = 100.0 * (1 - use.whole.idle)
    if use.copied_bytes:
        values["whole_pageable_pct"] = 100 * use.pageable_bytes / use.copied_bytes
    return Reading(Area.TRACE, label(use), values)
