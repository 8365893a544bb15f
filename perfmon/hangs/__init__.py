"""Hangs of distributed jobs: the rank that is behind, from flight-recorder dumps, watchdog lines and NCCL RAS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .dumps import read_dumps
    from .model import Evidence, GroupKey, Operation, RankState, Status, build, named_ranks
    from .verdict import Answer, Cause, Kind, Verdict, judge

__all__ = [
    "Answer",
    "Cause",
    "Evidence",
    "GroupKey",
    "Kind",
    "Operation",
    "RankState",
    "Status",
    "Verdict",
    "build",
    "judge",
    "named_ranks",
    "read_dumps",
]

__getattr__ = lazy_face(
    __name__,
    {
        "dumps": "read_dumps",
        "model": "Evidence,GroupKey,Operation,RankState,Status,build,named_ranks",
        "verdict": "Answer,Cause,Kind,Verdict,judge",
    },
)
