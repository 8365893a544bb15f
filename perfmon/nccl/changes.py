"""Two jobs compared: transfer times by collective and size, waits that ranks cause, and links, each with an interval.

Ranks and communicators are matched by ranks of the job: hosts, pids and the ids of communicators differ between jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from perfmon.core import FEWEST_BLOCKS, Interval, counted, format_share, mean_change, resample

from .schema import SINGLE, binary_size

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .analysis import Job
    from .model import JobAnalysis

FEWEST_OPS = 20
"""With fewer complete operations in either job nothing is stated about a size."""
MATERIAL = 0.05
"""A transfer time or link has changed from this share on."""
_MATERIAL_WAIT = 0.02
"""Waits that a rank causes matter from this share of the kernel time of all ranks on."""
_MOST = 4000
_NAMED = 3

Outcome = Literal["improved", "unchanged", "regressed", "mixed", "cannot tell"]
Verdict = Literal["slower", "faster", "same", "unsure", "too few"]
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NcclChange:
    """One figure of both jobs."""

    kind: Literal["transfer", "rank", "link"]
    label: str
    before: float | None
    """Microseconds of a transfer; share of the kernel time of all ranks; ratio to the peers of a link."""
    after: float | None
    ci95: Interval | None
    """Interval of the difference; None if there are too few samples."""
    counts: tuple[int, int]
    """Operations, or parts of the jobs."""
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class JobFigures:
    """The compared part of a job."""

    analysis: JobAnalysis
    transfers: Mapping[Key, Sequence[float]]
    """Transfer times of complete operations in microseconds, in order of their sequence numbers."""
    waits: Mapping[Key, Sequence[float]]
    """Own lateness of ranks as a share of the kernel time of all ranks, of each part of the job."""
    links: Mapping[Key, Sequence[float]]
    """Ratios to the peers, of each part of the job."""


@dataclass(frozen=True, slots=True)
class NcclComparison:
    """Two jobs side by side."""

    before: JobAnalysis
    after: JobAnalysis
    changes: tuple[NcclChange, ...]
    only: tuple[str, ...]
    """Collectives and sizes of one job only."""
    verdict: Outcome
    sentence: str


def figures_of(job: Job, analysis: JobAnalysis) -> JobFigures:
    """Take what is compared from an analyzed job, which may then be closed."""
    transfers: dict[Key, list[float]] = {}
    for comm_type, coll, size, transfer in job.connection.execute(
        """
        SELECT comm_type, coll, bytes, transfer_us FROM ops WHERE is_complete AND comm_type <> $single
        QUALIFY (row_number() OVER (PARTITION BY comm_type, coll, bytes ORDER BY sn, id) - 1)
            % greatest(1, count(*) OVER (PARTITION BY comm_type, coll, bytes) // $most) = 0
        ORDER BY comm_type, coll, bytes, sn, id
        """,
        {"single": SINGLE, "most": _MOST},
    ).fetchall():
        transfers.setdefault((comm_type, coll, str(size)), []).append(float(transfer))
    members = dict(
        job.connection.execute(
            "SELECT id, string_agg(job_rank::VARCHAR, ',' ORDER BY job_rank) FROM seats GROUP BY id"
        ).fetchall()
    )
    waits: dict[Key, Sequence[float]] = {}
    for wait in analysis.ranks:
        waits[str(wait.seat.rank),] = [share * wait.own_lateness for share in wait.comm_shares]
    links: dict[Key, Sequence[float]] = {
        (link.comm_type, link.name, members.get(link.comm, "")): [one for one in link.ratios if one is not None]
        for link in analysis.links
    }
    return JobFigures(analysis, transfers, waits, links)


def compare_jobs(before: JobFigures, after: JobFigures) -> NcclComparison:
    """Both jobs side by side."""
    changes = [
        _change(
            "transfer", f"{key[0]} {key[1]} {binary_size(int(key[2]))}", before.transfers[key], after.transfers[key]
        )
        for key in before.transfers
        if key in after.transfers
    ]
    parts = max((len(shares) for side in (before, after) for shares in side.waits.values()), default=0)
    for rank in sorted({*before.waits, *after.waits}, key=lambda key: int(key[0])):
        sides = [side.waits.get(rank, [0.0] * parts) for side in (before, after)]
        if before.analysis.coverage.complete_ops and after.analysis.coverage.complete_ops:
            changes.append(_change("rank", f"rank {rank[0]}", sides[0], sides[1]))
    for link in before.links:
        if link in after.links and link[2]:
            name = f"{link[0]} {link[1]}".strip()
            changes.append(_change("link", f"{name} of ranks {_ranks(link[2])}", before.links[link], after.links[link]))
    verdict = _verdict(changes)
    only = [
        f"{key[0]} {key[1]} {binary_size(int(key[2]))} (only {name})"
        for name, mine, other in (("before", before, after), ("after", after, before))
        for key in mine.transfers
        if key not in other.transfers
    ]
    return NcclComparison(
        before.analysis, after.analysis, tuple(changes), tuple(only), verdict, _sentence(verdict, changes)
    )


def _ranks(members: str) -> str:
    ranks = members.split(",")
    return ", ".join(ranks[:_NAMED]) + (f" … {ranks[-1]}" if len(ranks) > _NAMED else "")


def _change(
    kind: Literal["transfer", "rank", "link"], label: str, before: Sequence[float], after: Sequence[float]
) -> NcclChange:
    counts = (len(before), len(after))
    if not all(counts):
        return NcclChange(kind, label, None, None, None, counts, "too few")
    drawn = [resample(values) for values in (before, after)]
    means = [side.mean for side in drawn]
    moved = means[1] - means[0]
    few = min(side.blocks for side in drawn) < FEWEST_BLOCKS or (kind == "transfer" and min(counts) < FEWEST_OPS)
    interval = None if few else mean_change(drawn[0], drawn[1])
    least = _MATERIAL_WAIT if kind == "rank" else MATERIAL * max(means)
    verdict: Verdict
    if interval is None:
        verdict = "too few"
    elif abs(moved) < least or moved == 0:
        verdict = "same"
    elif interval[0] <= 0 <= interval[1]:
        verdict = "unsure"
    else:
        verdict = "slower" if moved > 0 else "faster"
    return NcclChange(kind, label, means[0], means[1], interval, counts, verdict)


def _verdict(changes: Sequence[NcclChange]) -> Outcome:
    found = {change.verdict for change in changes}
    if "slower" in found or "faster" in found:
        return "mixed" if {"slower", "faster"} <= found else "regressed" if "slower" in found else "improved"
    judged = [change for change in changes if change.kind == "transfer" and change.verdict == "same"]
    return "unchanged" if judged and "unsure" not in found else "cannot tell"


def _sentence(verdict: Outcome, changes: Sequence[NcclChange]) -> str:
    if verdict == "unchanged":
        return "No significant difference that is large enough to matter."
    if verdict == "cannot tell":
        unsure = [change.label for change in changes if change.verdict == "unsure"]
        if unsure:
            return f"Changes that may be chance: {', '.join(unsure[:_NAMED])}; compare longer jobs."
        few = f"fewer than {FEWEST_OPS} operations in either job have records of all ranks"
        return f"Nothing can be compared: for each collective and size of both jobs, {few}."
    parts = []
    for word in ("slower", "faster"):
        for kind in ("rank", "link", "transfer"):
            held = [change for change in changes if change.kind == kind and change.verdict == word]
            held.sort(key=lambda change: -abs((change.after or 0.0) - (change.before or 0.0)))
            parts += [_in_words(change) for change in held[:_NAMED]]
            if len(held) > _NAMED:
                parts.append(f"{len(held) - _NAMED} more of {counted(len(held), kind)}")
    return "; ".join(parts) + "."


def _in_words(change: NcclChange) -> str:
    assert change.before is not None  # noqa: S101 - it was judged
    assert change.after is not None  # noqa: S101
    if change.kind == "rank":
        shares = f"{format_share(change.before)} → {format_share(change.after)}"
        return f"the wait that {change.label} causes by itself {shares} of the kernel time"
    if change.kind == "link":
        return f"{change.label}: transfers {change.before:.2f} → {change.after:.2f} times those of its peers"
    return f"{change.label}: transfers {change.before:,.0f} → {change.after:,.0f} us"
