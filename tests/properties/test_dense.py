"""Of very many bars those are kept that one look at all of them would keep."""

from __future__ import annotations

from math import floor

from hypothesis import given
from hypothesis import strategies as st

from perfmon.core.model import Span
from perfmon.viewmodel import Bar, Level, Viewport
from perfmon.viewmodel.buckets import DenseBars

WIDTH = 2.0
SPANS = st.lists(st.tuples(st.floats(0, 100), st.floats(0, 9), st.sampled_from(Level)), max_size=60)


def _bar(span: Span) -> Bar:
    assert span.start is not None
    assert span.end is not None
    return Bar(span.kind, "", span.start, span.end, False, Level(int(span.key)), seq=span.seq)


@given(SPANS, st.integers(0, 60), st.lists(st.integers(0, 50), min_size=1, max_size=4), st.booleans())
def test_the_worst_bar_of_each_column_is_kept(
    result: list[tuple[float, float, Level]], cut: int, views: list[int], restarted: bool
) -> None:
    spans = [
        Span("checkpoint-write", str(int(level)), at, 0, start, start + length, length, {}, [])
        for at, (start, length, level) in enumerate(result)
    ]
    seen = spans[:cut]
    ports = [Viewport(WIDTH * at, WIDTH * at + 20 * WIDTH, 20) for at in sorted(views)]
    dense = DenseBars(WIDTH, ports[0].start, 0)
    for at, port in enumerate(ports):
        assert dense.holds(port, 0)
        if at == len(ports) - 1:
            seen = seen + spans[cut:] if restarted else seen
            if not restarted:
                seen += spans[cut:]
        dense.read(seen, _bar)
        kept = {floor(bar.start / WIDTH): (bar.level, bar.end - bar.start) for bar in dense.bars(port)}
        own = [bar for bar in map(_bar, seen) if port.start <= bar.start <= port.end]
        for column in {floor(bar.start / WIDTH) for bar in own}:
            inside = [bar for bar in own if floor(bar.start / WIDTH) == column]
            assert kept[column] == max((bar.level, bar.end - bar.start) for bar in inside)
    assert not dense.holds(Viewport(ports[-1].start - WIDTH, ports[-1].end, 20), 0)
    assert not dense.holds(ports[-1], 1)
