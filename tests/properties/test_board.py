"""The board shows what was observed, however it arrived, and wherever one looks."""

from __future__ import annotations

from math import floor, isnan

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.pipeline.session import Session
from perfmon.store.store import Series
from perfmon.viewmodel import Board, Viewport
from perfmon.viewmodel.buckets import Buckets
from perfmon.viewmodel.timeline import Now, TimelineBuilder

SAMPLES = st.lists(st.tuples(st.floats(0, 1000), st.floats(-100, 100)), max_size=60)


def _series(samples: list[tuple[float, float]]) -> Series:
    series = Series("queue_ms", "")
    for time, value in samples:
        series.times.append(time)
        series.values.append(value)
        series.sources.append(0)
        series.lines.append(1)
        series.offsets.append(0)
    return series


@given(
    st.one_of(SAMPLES, SAMPLES.map(sorted)),
    st.integers(0, 60),
    st.sampled_from(["max", "min", "mean"]),
    st.floats(0.5, 90),
    st.sampled_from(["", "before", "after"]),
)
@example([*[(0.0, 0.0)] * 5, (0.0, 1.0)], 4, "mean", 1.0, "before")
def test_buckets_are_what_a_look_at_all_samples_gives(
    samples: list[tuple[float, float]], cut: int, worst: str, width: float, thinned: str
) -> None:
    few = len(samples) - cut < len(samples) // 4
    if thinned == "after" and not few:
        thinned = "before"  # else some of the new ones are gone before anybody has looked
    buckets = Buckets(width, 0, worst)
    series = _series(samples[:cut])
    buckets.read([series], {})
    if thinned == "before":
        series.thin()
    for time, value in samples[cut:]:
        for name, item in (("times", time), ("values", value), ("sources", 0), ("lines", 1), ("offsets", 0)):
            getattr(series, name).append(item)
    if thinned == "after":
        series.thin()
    buckets.read([series], {})
    columns = floor(1000 / width) + 1
    # Where very many came after thinning, nobody knows which of them are gone: then means are those of what is left.
    of_what_is_left = bool(thinned) and len(samples) - cut > len(series) // 3
    for at, shown in enumerate(buckets.values(0, columns)):
        inside = [value for time, value in samples if floor(time / width) == at]
        if not inside:
            assert isnan(shown)
        elif worst == "mean" and of_what_is_left:
            assert isnan(shown) or min(inside) - 1e-6 <= shown <= max(inside) + 1e-6
        elif worst == "mean":
            assert abs(shown - sum(inside) / len(inside)) < 1e-6
        else:
            assert shown == (max if worst == "max" else min)(inside)


@given(
    st.lists(st.tuples(st.integers(0, 300), st.floats(-100, 100)), min_size=40, max_size=200),
    st.sampled_from(["max", "min", "mean"]),
    st.sampled_from([0.1, 0.3, 0.7, 1.1, 30.0]),
    st.integers(0, 40),
)
def test_samples_in_order_fall_into_the_same_buckets(
    samples: list[tuple[int, float]], worst: str, width: float, first: int
) -> None:
    ordered = [(tenths * 0.1, value) for tenths, value in sorted(samples)]
    many, one_by_one = Buckets(width, first, worst), Buckets(width, first, worst)
    many.read([_series(ordered)], {})
    for time, value in ordered:
        one_by_one.put(time, value)
    shown = [buckets.values(first, floor(40 / width)) for buckets in (many, one_by_one)]
    if worst != "mean":  # which is rounded otherwise where many are added at once
        assert list(map(repr, shown[0])) == list(map(repr, shown[1]))
    assert shown[0] == pytest.approx(shown[1], nan_ok=True)


LINES = [
    f"2026-08-21 10:00:{second:02d} INFO [gen] batch.done dur_ms={1000 + 90 * second}.0 inflight={second}"
    if second % 3
    else f"2026-08-21 10:00:{second:02d} INFO [weights][{second:06x}] client.done wall_ms=900 rpc_ms=800 queue_ms=100"
    for second in range(60)
]


def _board(cuts: list[int], looks: bool) -> Board:
    session = Session(Config())
    state = session.add_source("a.log")
    builder = TimelineBuilder(session.store, session.recent, session.knowledge.bands)
    text, offset, line = [f"{line}\n" for line in LINES], 0, 1
    board = None
    for begin, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        data = "".join(text[begin:end]).encode()
        session.feed(state, Block(data, offset, line))
        offset, line = offset + len(data), line + end - begin
        if looks or end == len(text):
            alignment = align(session.store)
            first = state.first or 0.0
            board = builder.build(Now(Viewport(first - 20, first + 60, 16), first + 60, alignment, None, ()))
    assert board is not None
    return board


@settings(deadline=None)
@given(st.lists(st.integers(1, len(LINES) - 1), max_size=8).map(lambda cuts: sorted(set(cuts))))
def test_a_board_that_was_made_often_is_the_one_that_is_made_once(cuts: list[int]) -> None:
    once, often = _board([], looks=False), _board(cuts, looks=True)
    assert [lane.kind for lane in once.spans] == [lane.kind for lane in often.spans]
    for lane, same in zip(once.spans, often.spans, strict=True):
        assert [(bar.start, bar.end, bar.level, bar.legs) for bar in lane.bars] == [
            (bar.start, bar.end, bar.level, bar.legs) for bar in same.bars
        ]
    for metric, twin in zip(once.metrics, often.metrics, strict=True):
        assert (metric.name, metric.levels) == (twin.name, twin.levels)
        # A mean is rounded otherwise where many samples are added at once.
        assert metric.values == pytest.approx(twin.values, nan_ok=True)


def test_a_gap_is_no_zero() -> None:
    board = _board([], looks=False)
    lane = next(lane for lane in board.metrics if lane.name == "dur_ms")
    assert all(isnan(value) for value in lane.values[:3])
    assert set(lane.levels[:3]) == {0}


def test_what_updates_tell_and_a_line_of_another_kind_too_is_one_lane() -> None:
    session = Session(Config())
    state = session.add_source("a.log")
    lines = [*LINES, "2026-08-21 10:01:00 INFO queue_ms=5"]
    session.feed(state, Block("".join(f"{line}\n" for line in lines).encode(), 0, 1))
    first = state.first or 0.0
    assert any(metric == "queue_ms" for metric, _ in session.store.series)
    builder = TimelineBuilder(session.store, session.recent, session.knowledge.bands)
    board = builder.build(Now(Viewport(first - 20, first + 61, 16), first + 61, align(session.store), None, ()))
    lanes = [lane for lane in board.metrics if lane.name == "queue_ms"]
    assert [lane.now for lane in lanes] == [100.0]
