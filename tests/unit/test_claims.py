"""Which seconds a finding says it cost: a batch waits for its last rollouts until it is done."""

from __future__ import annotations

import pytest

from perfmon.core.config import Config
from perfmon.core.intervals import union
from perfmon.core.model import Block
from perfmon.diagnosis.assessment import view_of
from perfmon.pipeline.session import Session
from perfmon.rules.causes import extent
from perfmon.rules.tracks import Item

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
        result = f"Train batch {have}/128 ({100 * have / 128:.1f}%); {left} inflight episodes (train={left}, eval=0)"
        lines.append(f"10:{second // 60:02d}:{second % 60:02d}    INFO {result}")
    lines += [last, "10:01:10    INFO Train batch 0/128 (0.0%); 128 inflight episodes (train=128, eval=0)", ""]
    session = Session(Config())
    session.feed(session.add_source("orchestrator.log"), Block("\n".join(lines).encode(), 0, 1))
    (tail,) = [finding for finding in session.snapshot().findings if finding.signature == "long-tail-generation"]
    assert tail.lost_s == pytest.approx(lost_s)


def _gathered(times: list[int], metric: str = "running", values: tuple[float, ...] = ()) -> list[tuple[float, float]]:
    """What a signature says it cost for which every sample above 5 is bad, in seconds of 10:00:00."""
    session = Session(Config())
    field, rest = ("step_time", "") if metric == "step_s" else (metric, " kv_usage=1")
    lines = [
        f"2026-03-02 10:{at // 60:02d}:{at % 60:02d},000 - INFO - {field}={value:g}{rest}"
        for at, value in zip(times, values or (9.0,) * len(times), strict=True)
    ]
    session.feed(session.add_source("engine.log"), Block(("\n".join(lines) + "\n").encode(), 0, 1))
    alignment = session.lay()
    view = view_of(session.store, session.knowledge, alignment)
    track = view.track(metric)
    items = [
        Item(t, t, {metric: v}, {}, (), "", "", 0) for t, v in zip(track.times, track.values, strict=True) if v > 5
    ]
    begin = track.times[0] - times[0]
    return union((extent(item, view)[0] - begin, item.end - begin) for item in items)


@pytest.mark.parametrize(
    ("times", "charged"),
    [
        ([10, 20, 30], [(10, 30)]),  # the first sample speaks of no time that was seen
        ([10, 20, 30, 40, 300, 310], [(10, 40), (290, 310)]),  # nothing was printed for four minutes: nothing is known
        ([10, 20, 38, 48], [(10, 48)]),  # a little late is no gap
    ],
)
def test_what_is_lost_is_charged_where_samples_stand(times: list[int], charged: list[tuple[float, float]]) -> None:
    assert _gathered(times) == charged


def test_good_samples_before_a_gap_do_not_make_the_gap_bad() -> None:
    values = (1.0, 1.0, 1.0, 1.0, 9.0, 9.0)
    assert _gathered([0, 10, 20, 30, 600, 610], values=values) == [(590, 610)]


def test_what_a_step_took_speaks_of_all_of_the_step() -> None:
    assert _gathered([10, 20, 30, 40, 300], "step_s") == [(10, 300)]
