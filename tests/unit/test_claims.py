"""Which seconds a finding says it cost: a batch waits for its last rollouts until it is done."""

from __future__ import annotations

import pytest

from perfmon.config import Config
from perfmon.session import Session
from perfmon.sources.blocks import Block

_FILLS = [(1, 0, 128), (11, 40, 88), (21, 96, 32), (31, 121, 7), (41, 122, 6), (51, 123, 5), (61, 124, 4)]


@pytest.mark.parametrize(
    ("last", "lost_s"),
    [
        ("10:01:10    INFO [gen] batch.done completions=128 dur_ms=69000.0 inflight=0", 39.0),
        ("10:01:10    INFO nothing that tells of it", 30.0),
    ],
)
def test_a_long_tail_lasts_until_its_batch_is_done(last: str, lost_s: float) -> None:
    lines = ["10:00:01    INFO [gen] batch.start inflight=0 target_batch=128"]
    for second, have, left in _FILLS:
        told = f"Train batch {have}/128 ({100 * have / 128:.1f}%); {left} inflight episodes (train={left}, eval=0)"
        lines.append(f"10:{second // 60:02d}:{second % 60:02d}    INFO {told}")
    lines += [last, "10:01:10    INFO Train batch 0/128 (0.0%); 128 inflight episodes (train=128, eval=0)", ""]
    session = Session(Config())
    session.feed(session.add_source("orchestrator.log"), Block("\n".join(lines).encode(), 0, 1))
    (tail,) = [finding for finding in session.snapshot().findings if finding.signature == "long-tail-generation"]
    assert tail.lost_s == pytest.approx(lost_s)
