"""Waits and links as samples for the rule engine, and its findings about them.

Each part of the job is one sample of each candidate, so that signatures can require that it is slow throughout.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from perfmon.core import Block, Config
from perfmon.pipeline import Session

from .model import JobAnalysis, LinkRatio, PairRatio, RankWait
from .operations import PARTS

if TYPE_CHECKING:
    from perfmon.diagnosis import Finding

SLOW_RANK, SLOW_LINK = "nccl-slow-rank", "nccl-slow-link"
SOURCE = "nccl-inspector"
_CANDIDATES = 8
_LEAST_STEP_US = 1_000_000
"""All records of a short job may have one timestamp; samples need different ones."""
_UNFIT = re.compile(r"[^\w.:() /-]|[\r\n]")


def find(found: JobAnalysis, config: Config | None = None) -> tuple[Finding, ...]:
    """Findings of the signatures about NCCL Inspector."""
    lines = signal_lines(found)
    if not lines:
        return ()
    session = Session(config or Config())
    state = session.add_source(SOURCE)
    state.ended = True
    session.feed(state, Block("".join(f"{line}\n" for line in lines).encode(), 0, 1))
    findings = session.snapshot().findings
    return tuple(one for one in findings if one.signature in (SLOW_RANK, SLOW_LINK) and one.state != "pending")


def signal_lines(found: JobAnalysis) -> list[str]:
    """Lines of the format pack `nccl-inspector`, in order of time."""
    step = max((found.end_us - found.start_us) // PARTS, _LEAST_STEP_US)
    begin = datetime.fromtimestamp(found.start_us / 1e6, UTC)
    # The ratio of the shortest times in the whole job holds in each part.
    pairs = [_link_line(pair, pair.ratio) for pair in found.slow_pairs]
    lines = []
    for part in range(PARTS):
        stamp = f"{begin + timedelta(microseconds=step * (part + 1)):%Y-%m-%d %H:%M:%S.%f}"[:-3]
        here = [*part_lines(found.ranks, found.links, part, found.pairs), *pairs]
        lines += [f"{stamp} {line}" for line in here]
    return lines


def part_lines(
    waits: Sequence[RankWait], links: Sequence[LinkRatio], part: int, pairs: Sequence[PairRatio] = ()
) -> list[str]:
    """Lines of one part, without timestamps; of pairs, those about the ranks that they make late."""
    by_comm = {link.comm: link.ratio for link in links}
    ranks = sorted(waits, key=lambda wait: -wait.lasting_share * wait.own_lateness)[:_CANDIDATES]
    lines = []
    for wait in ranks:
        if wait.shares[part] > 0:
            of_comms = [by_comm.get(comm, 1.0) for comm in wait.comms]
            slowest = max((1.0, *of_comms, *(pair.ratio for pair in pairs if wait.seat in pair.seats)))
            lines.append(_rank_line(wait, part, ranks, slowest))
    for link in links[:_CANDIDATES]:
        ratio = link.ratios[part]
        if ratio is not None:
            lines.append(_link_line(link, ratio))
    return lines


def _rank_line(wait: RankWait, part: int, ranks: Sequence[RankWait], slowest: float) -> str:
    # Ranks that are late because they waited for this one cause wait, too, but are not its origin. Several may be slow.
    share, own = wait.shares[part], wait.own_shares[part]
    others = max((one.own_shares[part] for one in ranks if one is not wait and not one.is_origin), default=0.0)
    lead = own / (own + others) if own else 0.0
    return (
        f'[nccl] waiting for="{_word(wait.seat.label)}" wait_pct={100 * wait.comm_shares[part]:.2f} '
        f"caused_pct={100 * share:.2f} lead_pct={100 * lead:.2f} origin_pct={100 * wait.lasting_share:.2f} "
        f"own_pct={100 * wait.own_lateness:.2f} link_ratio={slowest:.3f} certain_pct={100 * wait.certain_lateness:.2f}"
    )


def _link_line(link: LinkRatio | PairRatio, ratio: float) -> str:
    return (
        f'[nccl] link="{_word(link.label)}" ratio={ratio:.3f} usual_ratio={link.ratio:.3f} '
        f"deviations={(ratio - 1) / link.spread:.2f} lost_pct={100 * link.lost_share:.2f} peers={link.peers}"
    )


def _word(text: str) -> str:
    """Host names and names of communicators come from logs."""
    return _UNFIT.sub("_", text[:200])
