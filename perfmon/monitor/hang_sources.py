"""What touches a run that hangs, each only if the user agreed: one query of NCCL RAS, and stacks by py-spy.

A query has crashed jobs with some versions of NCCL, and py-spy reads the memory of a process. So neither is used before
the logs show a hang, RAS is queried once in the life of a monitor, and a stack is taken once of each rank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from perfmon.core import PerfmonError, counted, plain

if TYPE_CHECKING:
    from perfmon.hangs import Found

_QUERY_S = 12.0
"""A query takes up to 10 s where processes do not respond."""
_MOST_STACKS = 4


@dataclass(frozen=True, slots=True)
class HangSources:
    """What the user agreed to."""

    ras: str = ""
    """HOST:PORT of NCCL RAS."""
    stacks: bool = False


def ras_answer(target: str) -> tuple[Found | None, str]:
    """The rank that is behind by one query of NCCL RAS, or None and a sentence about what it gave instead."""
    from perfmon.hangs import Answer, Found, judge_ras, named_ranks, parse_target, query  # for the few runs that hang

    address = parse_target(target)
    if address is None:
        return None, f"NCCL RAS: {plain(target, 120)} is no HOST:PORT"
    try:
        report = query(*address, _QUERY_S)
        verdict, places = judge_ras(report)
    except PerfmonError as error:
        return None, f"NCCL RAS: {error}"
    source = f"NCCL RAS{f' {report.version}' if report.version else ''}"
    if verdict.answer is not Answer.NAMED:
        named = f"; candidates: {named_ranks(verdict.candidates)}" if verdict.candidates else ""
        return None, f"{source} does not decide: {verdict.reasons[-1]}{named}"
    first = next(cause for cause in verdict.causes if set(cause.ranks) & set(verdict.ranks))
    place = places.get(first.ranks[0], "")
    why = "; ".join(part for part in (first.detail, place, verdict.confidence, f"by {source}") if part)
    # A process that is not in the largest communicator has no rank of the job.
    return Found(verdict.ranks if min(verdict.ranks) >= 0 else (), why), ""


def stack_words(ranks: Sequence[int]) -> tuple[str, str]:
    """The innermost frames of ranks on this host for a sentence, and the reason why some have none."""
    from perfmon.hangs import main_frames, named_ranks, process_stacks

    words: list[str] = []
    reasons: dict[str, list[int]] = {}
    for rank, (_, stack, reason) in process_stacks(ranks[:_MOST_STACKS]).items():
        frames = main_frames(stack)
        if frames:
            words.append(f"rank {rank} is in {frames}")
        else:
            reasons.setdefault(reason or "py-spy: no main thread", []).append(rank)
    notes = [f"no stack of {counted(len(some), 'rank')} {named_ranks(some)}: {why}" for why, some in reasons.items()]
    return "; ".join(words), "; ".join(notes)
