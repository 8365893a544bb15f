"""The time of GPUs as samples for the rule engine, and its findings about them.

Each part of a trace is one sample or several, so that signatures can require that it is so throughout.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import TYPE_CHECKING

from perfmon.core import Block, Config, Progress, plain
from perfmon.diagnosis import EvidenceLine
from perfmon.pipeline import Session

from .job import Profile, late_ranks

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis, Finding, RuleSet
    from perfmon.rules import View

    from .analysis import GpuUse, NamedRange
    from .shares import Shares

SIGNATURES = (
    "data-starved", "pageable-transfer", "transfer-bound", "launch-bound", "comm-bound", "straggler-rank", "gpu-idle",
)  # fmt: skip
_COMPARED = frozenset((
    "gpu_busy", "host_wait_share", "launch_gap_share", "loader_share", "exposed_comm_share", "comm_share", "h2d_share",
    "pageable_share", "sync_stall_share", "launch_queue", "profiled_step_ms", "range_ms", "range_gap_ms",
))  # fmt: skip
_ABOUT_GAPS = ("data-starved", "launch-bound", "gpu-idle")
_MOMENTS, _NAME = 3, 80
_RANGES = 12
_LENGTH_S = 600
_UNFIT = re.compile(r'["\r\n]')
SOURCE = "profile"
_LEAST_LINES = 60
_LEAD = 4
"""Signatures skip so many samples of a log: what a run starts with. A trace starts in the middle of one."""
_STEP_S = 10
"""Traces last seconds: their time is stretched for rules that want minutes of a run."""
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def find(found: Profile, config: Config | None = None) -> tuple[Finding, ...]:
    """Findings of the signatures about traces, with their cost in the time of the trace."""
    diagnosis, _, _ = _examined(signal_lines(found), config)
    return in_trace_time(found, diagnosis).findings


def as_runs(
    before: Profile, after: Profile, config: Config | None = None
) -> tuple[tuple[Diagnosis, View, View, RuleSet], ...]:
    """Both as runs that can be compared: the diagnosis, what it judged, and parts of the traces as samples.

    Shares of the samples are of a step of `before`, where both have steps: of a shorter step the same time is a larger
    share.
    """
    steps = [_step_ns(found) for found in (before, after)]
    made = []
    for found, step in zip((before, after), steps, strict=True):
        scale = step / steps[0] if all(steps) else 1.0
        diagnosis, view, rules = _examined(signal_lines(found), config)
        _, samples, _ = _examined(_sample_lines(found, scale), config)
        made.append((in_trace_time(found, diagnosis), view, samples, rules))
    return tuple(made)


def _step_ns(found: Profile) -> float:
    """The mean length of a step; 0 without steps."""
    whole = [part for use in found.gpus for part in use.parts if part.steps]
    return sum(part.end - part.start for part in whole) / (sum(part.steps for part in whole) or 1)


def is_sample(name: str) -> bool:
    """Return true for a metric of traces that two of them are compared by."""
    return name.partition("{")[0] in _COMPARED


def _examined(lines: Sequence[str], config: Config | None) -> tuple[Diagnosis, View, RuleSet]:
    """Evaluate lines as those of a run."""
    session = Session(config or Config())
    state = session.add_source(SOURCE)
    state.ended = True
    session.feed(state, Block("".join(f"{line}\n" for line in lines).encode(), 0, 1))
    return *session.examined(), session.knowledge


def in_trace_time(found: Profile, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with times and costs of the trace instead of those of its lines."""
    span = max((use.span for use in found.gpus), default=0) / 1e9
    scale = span / diagnosis.run.wall_s if diagnosis.run.wall_s else 0.0
    findings = tuple(
        replace(
            one, first_s=one.first_s * scale, last_s=one.last_s * scale, lost_s=one.lost_s * scale,
            evidence=_idle_moments(found, one), moments=(), lost=(),
        )
        for one in diagnosis.findings
        if one.signature in SIGNATURES and one.state != "pending"
    )  # fmt: skip
    ledger = tuple(replace(entry, lost_s=entry.lost_s * scale) for entry in diagnosis.ledger)
    verdict = diagnosis.verdict
    if verdict is not None:
        verdict = replace(verdict, lost_s=verdict.lost_s * scale) if verdict.signature in SIGNATURES else None
    files = sorted({use.file for use in found.gpus})
    name = files[0] if len(files) == 1 else f"{len(files)} traces in {PurePath(files[0]).parent}"
    sources = tuple(replace(one, spec=name, lines=found.events, bytes=found.size) for one in diagnosis.run.sources)
    run = replace(diagnosis.run, wall_s=span, sources=sources, state=Progress.FINISHED, goal=None)
    return replace(diagnosis, findings=findings, ledger=ledger, verdict=verdict, run=run)


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


def signal_lines(found: Profile) -> list[str]:
    """Lines of the format pack `profiler-trace`, in order of time."""
    most = max((len(use.parts) for use in found.gpus), default=0)
    if not most:
        return []
    times = -(-_LEAST_LINES // most)
    length = _STEP_S * most * times
    lines = [(-0.1, _whole_line(use)) for use in found.gpus]
    for use in found.gpus:
        lines += [(0.001 * at, text) for at in range(_LEAD) for text in _part_lines(use, use.parts[0])]
        for part in use.parts:
            for again in range(1, times + 1):
                end = part.start + (part.end - part.start) * again / times - use.start
                lines += [(length * end / use.span, text) for text in _part_lines(use, part)]
    for at, (rank, speed) in enumerate(late := late_ranks(found.gpus), 1):
        lines.append((length * at / len(late), f"rank={rank} speed_pct={speed:.2f}"))
    lines += [(_STEP_S * (at + 1), f"part={at + 1}") for at in range(most * times)]
    return _dated(lines)


def _sample_lines(found: Profile, scale: float) -> list[str]:
    """The same of short parts, one line of each, with steps and named ranges."""
    lines: list[tuple[float, str]] = []
    for use in found.gpus:
        for part in use.cells:
            at = _LENGTH_S * (part.end - use.start) / use.span
            lines += [(at, text) for text in _part_lines(use, part, scale)]
        for part in use.parts:
            if part.steps:
                step = (part.end - part.start) / part.steps / 1e6
                at = _LENGTH_S * (part.end - use.start) / use.span
                lines.append((at, f'gpu="{label(use)}" step_ms={step:.4f}'))
    for named in found.ranges[:_RANGES]:
        lines += [(_LENGTH_S * at / len(named.samples), text) for at, text in enumerate(_range_lines(named), 1)]
    return _dated(lines)


def _dated(lines: list[tuple[float, str]]) -> list[str]:
    lines.sort(key=lambda line: line[0])
    return [f"{_EPOCH + timedelta(seconds=at):%Y-%m-%d %H:%M:%S.%f}"[:-3] + f" [profile] {text}" for at, text in lines]


def label(use: GpuUse) -> str:
    """A GPU in words that follow "GPU"."""
    return str(use.device) if use.rank is None else f"{use.device} (rank {use.rank})"


def _part_lines(use: GpuUse, part: Shares, scale: float = 1.0) -> Iterator[str]:
    name, whole = label(use), 100 * scale
    yield (
        f'gpu="{name}" busy_pct={100 * (1 - part.idle):.2f} idle_pct={whole * part.idle:.2f} '
        f"late_pct={whole * part.late:.2f} launch_pct={whole * part.launch:.2f} "
        f"comm_pct={whole * part.communication:.2f} exposed_pct={whole * part.exposed:.2f} "
        f"h2d_pct={whole * part.fed:.2f} sync_pct={whole * part.sync:.2f} queue={max(0.0, use.queue_mean):.1f}"
    )
    if part.data is not None:
        yield f'gpu="{name}" loader_pct={whole * part.data:.2f}'
    if part.pageable is not None:
        yield f'gpu="{name}" pageable_pct={100 * part.pageable:.2f}'


def _range_lines(named: NamedRange) -> Iterator[str]:
    name = _UNFIT.sub("_", plain(named.name, 100))
    for length, between in named.samples:
        yield f'range="{name}" range_ms={length / 1e6:.4f} between_ms={between / 1e6:.4f}'


def _whole_line(use: GpuUse) -> str:
    """The means of the whole trace, by length of its parts."""
    length = sum(part.end - part.start for part in use.parts) or 1

    def mean(name: str) -> float:
        return 100.0 * sum(float(getattr(part, name)) * (part.end - part.start) for part in use.parts) / length

    line = (
        f'whole gpu="{label(use)}" launch_pct={mean("launch"):.2f} comm_pct={mean("communication"):.2f} '
        f"exposed_pct={mean('exposed'):.2f} h2d_pct={mean('fed'):.2f}"
    )
    if use.loader is not None:
        line += f" loader_pct={mean('data'):.2f}"
    if use.copied_bytes:
        line += f" pageable_pct={100 * use.pageable_bytes / use.copied_bytes:.2f}"
    return line
