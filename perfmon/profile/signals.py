"""The time of GPUs as samples for the rule engine, and its findings about them.

Each part of a trace is one sample or several, so that signatures can require that it is so throughout.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perfmon.core import Block, Config
from perfmon.pipeline import Session

from .job import Profile, late_ranks

if TYPE_CHECKING:
    from perfmon.diagnosis import Diagnosis, Finding
    from perfmon.rules import View

    from .analysis import GpuUse

SIGNATURES = (
    "data-starved", "pageable-transfer", "transfer-bound", "launch-bound", "comm-bound", "straggler-rank", "gpu-idle",
)  # fmt: skip
SOURCE = "profile"
_LEAST_LINES = 60
_LEAD = 4
"""Signatures skip so many samples of a log: what a run starts with. A trace starts in the middle of one."""
_STEP_S = 10
"""Traces last seconds: their time is stretched for rules that want minutes of a run."""
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


def find(found: Profile, config: Config | None = None) -> tuple[Finding, ...]:
    """Findings of the signatures about traces, with their cost in the time of the trace."""
    diagnosis, _ = examined(signal_lines(found), config)
    return tuple(one for one in in_trace_time(found, diagnosis).findings if one.signature in SIGNATURES)


def examined(lines: Sequence[str], config: Config | None = None) -> tuple[Diagnosis, View]:
    """Evaluate lines as those of a run."""
    session = Session(config or Config())
    state = session.add_source(SOURCE)
    state.ended = True
    session.feed(state, Block("".join(f"{line}\n" for line in lines).encode(), 0, 1))
    return session.examined()


def in_trace_time(found: Profile, diagnosis: Diagnosis) -> Diagnosis:
    """The diagnosis with times and costs of the trace instead of those of its lines."""
    span = max((use.span for use in found.gpus), default=0) / 1e9
    scale = span / diagnosis.run.wall_s if diagnosis.run.wall_s else 0.0
    findings = tuple(
        replace(
            one, first_s=one.first_s * scale, last_s=one.last_s * scale, lost_s=one.lost_s * scale, evidence=(),
            moments=(), lost=(),
        )
        for one in diagnosis.findings
        if one.signature in SIGNATURES and one.state != "pending"
    )  # fmt: skip
    ledger = tuple(replace(entry, lost_s=entry.lost_s * scale) for entry in diagnosis.ledger)
    verdict = diagnosis.verdict
    if verdict is not None:
        verdict = replace(verdict, lost_s=verdict.lost_s * scale) if verdict.signature in SIGNATURES else None
    return replace(
        diagnosis, findings=findings, ledger=ledger, verdict=verdict, run=replace(diagnosis.run, wall_s=span)
    )


def signal_lines(found: Profile, *, once: bool = False) -> list[str]:
    """Lines of the format pack `profiler-trace`, in order of time; `once`: one of each part and no other."""
    most = max((len(use.parts) for use in found.gpus), default=0)
    if not most:
        return []
    times = 1 if once else -(-_LEAST_LINES // most)
    length = _STEP_S * most * times
    lines = [(-0.1, _whole_line(use)) for use in found.gpus]
    for use in found.gpus:
        if not once:
            lines += [(0.001 * at, text) for at in range(_LEAD) for text in _part_lines(use, 0)]
        for number, part in enumerate(use.parts):
            for again in range(1, times + 1):
                end = part.start + (part.end - part.start) * again / times - use.start
                lines += [(length * end / use.span, text) for text in _part_lines(use, number)]
    for at, (rank, speed) in enumerate(late := late_ranks(found.gpus), 1):
        lines.append((length * at / len(late), f"rank={rank} speed_pct={speed:.2f}"))
    lines += [(_STEP_S * (at + 1), f"part={at + 1}") for at in range(most * times)]
    lines.sort(key=lambda line: line[0])
    return [f"{_stamp(at)} [profile] {text}" for at, text in lines]


def label(use: GpuUse) -> str:
    """A GPU in words that follow "GPU"."""
    return str(use.device) if use.rank is None else f"{use.device} (rank {use.rank})"


def _part_lines(use: GpuUse, number: int) -> Iterator[str]:
    part, name = use.parts[number], label(use)
    yield (
        f'gpu="{name}" busy_pct={100 * (1 - part.idle):.2f} idle_pct={100 * part.idle:.2f} '
        f"late_pct={100 * part.late:.2f} launch_pct={100 * part.launch:.2f} comm_pct={100 * part.communication:.2f} "
        f"exposed_pct={100 * part.exposed:.2f} h2d_pct={100 * part.fed:.2f} sync_pct={100 * part.sync:.2f} "
        f"queue={max(0.0, use.queue_mean):.1f}"
    )
    if part.data is not None:
        yield f'gpu="{name}" loader_pct={100 * part.data:.2f}'
    if part.pageable is not None:
        yield f'gpu="{name}" pageable_pct={100 * part.pageable:.2f}'


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


def _stamp(seconds: float) -> str:
    return f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S.%f}"[:-3]
