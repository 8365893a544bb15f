"""Whatever is drawn, it has exactly the width that it was given."""

from __future__ import annotations

from math import isnan

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from perfmon.textgraphics.cells import (
    ASCII,
    UNICODE,
    Glyphs,
    compact,
    compact_bytes,
    compact_seconds,
    compact_value,
    cut,
    fit,
)
from perfmon.textgraphics.charts import Leg, axis, bar, bucket, gantt, limits, spark, stack, ticks

FLOATS = st.floats(width=64)
WIDTHS = st.integers(-2, 90)
SETS = st.sampled_from([UNICODE, ASCII])
KINDS = st.sampled_from(["send", "queue", "rpc", "done", "unknown", "checkpoint-write"])


@given(st.lists(FLOATS), FLOATS, FLOATS, st.none() | FLOATS, SETS)
def test_sparklines(values: list[float], low: float, high: float, critical: float | None, glyphs: Glyphs) -> None:
    line = spark(values, low, high, critical=critical, glyphs=glyphs)
    assert len(line) == len(values)
    assert [char == " " for char in line] == [isnan(value) for value in values]


@given(st.lists(st.floats(0, 1e6)), st.floats(1, 1e6))
def test_a_sparkline_rises_with_its_values(values: list[float], critical: float) -> None:
    line = spark(sorted(values), *limits(values), critical=critical)
    assert list(line) == sorted(line)


@given(st.lists(st.tuples(FLOATS, FLOATS)), FLOATS, FLOATS, WIDTHS)
def test_buckets(samples: list[tuple[float, float]], start: float, end: float, columns: int) -> None:
    assert len(bucket(samples, start, end, columns)) == max(0, columns)


@given(FLOATS, WIDTHS, SETS)
def test_bars(share: float, width: int, glyphs: Glyphs) -> None:
    assert cell_len(bar(share, width, glyphs)) == max(0, width)


@given(st.lists(FLOATS, max_size=20), WIDTHS)
def test_shares(shares: list[float], width: int) -> None:
    cells = stack(shares, width)
    known = [share if 0 < share < float("inf") else 0.0 for share in shares]
    assert sum(cells) == (max(0, width) if any(known) else 0)
    assert all(count >= 0 for count in cells)
    assert all(count == 0 for count, share in zip(cells, known, strict=True) if share == 0.0)


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=9), st.integers(20, 90))
def test_no_share_that_counts_is_lost(shares: list[float], width: int) -> None:
    cells, total = stack(shares, width), sum(shares)
    for count, share in zip(cells, shares, strict=True):
        assert count or share / total * width < 0.5 + 1e-9
        assert abs(count - share / total * width) < len(shares)


@given(st.lists(st.builds(Leg, KINDS, FLOATS, FLOATS), max_size=6), FLOATS, FLOATS, WIDTHS, st.booleans(), SETS)
@example([Leg("rpc", 0.0, 90.0)], 100.0, 101.0, 8, True, UNICODE)
def test_spans(legs: list[Leg], start: float, end: float, width: int, still: bool, glyphs: Glyphs) -> None:
    cells = gantt(legs, start, end, width, still_open=still, glyphs=glyphs)
    assert len(cells) == max(0, width)
    assert {cell_len(glyph) for glyph, _ in cells} <= {1}


@given(st.floats(-1e12, 1e12), st.floats(1e-3, 1e9), WIDTHS, st.none() | st.floats(-1e12, 1e12))
def test_axes(start: float, span: float, width: int, origin: float | None) -> None:
    named = ticks(start, start + span, width, origin=origin)
    assert all(0 <= tick.column < width for tick in named)
    assert len(axis(named, width)) == max(0, width)


@example(-2.6683117156739864e-164, 0.0, 1, 1.797693134862316e305)
@given(FLOATS, FLOATS, WIDTHS, st.none() | FLOATS)
def test_axes_of_absurd_times(start: float, end: float, width: int, origin: float | None) -> None:
    assert len(axis(ticks(start, end, width, origin=origin), width)) == max(0, width)


@given(st.text(), st.integers(-1, 40), st.booleans(), SETS)
def test_words(text: str, cells: int, right: bool, glyphs: Glyphs) -> None:
    assert cell_len(fit(text, cells, right=right, glyphs=glyphs)) == max(0, cells)
    assert cell_len(cut(text, cells, glyphs)) <= max(0, cells)


@given(FLOATS, st.integers(-1, 12), st.sampled_from(["ms", "s", "%", "B", "tokens/s", ""]))
def test_numbers(value: float, cells: int, unit: str) -> None:
    for text in (compact(value, cells), compact_seconds(value, cells), compact_value(value, unit, cells)):
        assert len(text) <= max(0, cells)
    assert len(compact_bytes(value, cells)) <= max(0, cells)
