"""The store keeps to its byte budget, keeps the peaks and the evidence, and counts what it drops."""

from __future__ import annotations

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block, Ref, Span, Update
from perfmon.pipeline.session import Session
from perfmon.store.store import Store


def _samples(store: Store, count: int, source: int = 0) -> None:
    for at in range(count):
        peak = 1000.0 if at % 997 == 500 else 1.0
        store.sample("queue_ms", "", float(at), peak, Ref(source, at + 1, at * 100), f"line {at}")
        store.settle()


def test_samples_are_thinned_to_the_budget_and_counted() -> None:
    store = Store(budget=250_000, remarkable=lambda _metric, value: value > 100)
    _samples(store, 20_000)
    series = store.series["queue_ms", ""]
    assert store.bytes <= 250_000
    assert len(series) + store.dropped["samples"] == 20_000
    assert list(series.times) == sorted(series.times)


def test_peaks_and_their_lines_survive_thinning() -> None:
    store = Store(budget=250_000, remarkable=lambda _metric, value: value > 100)
    _samples(store, 20_000)
    series = store.series["queue_ms", ""]
    peaks = [at for at, value in enumerate(series.values) if value == 1000.0]
    assert len(peaks) == len([at for at in range(20_000) if at % 997 == 500])
    assert all(series.text(at) == f"line {int(series.times[at])}" for at in peaks)


def test_nothing_is_dropped_within_the_budget() -> None:
    store = Store(budget=10_000_000)
    _samples(store, 5_000)
    assert not store.dropped
    assert len(store.series["queue_ms", ""]) == 5_000


def test_the_longest_spans_survive() -> None:
    store = Store(budget=200_000)
    for at in range(2_000):
        duration = 60.0 if at % 50 == 0 else 1.0
        store.span(Span("train-step", str(at), at, 0, float(at), at + duration, duration))
        store.settle()
    left = store.spans["train-step"]
    assert store.bytes <= 200_000
    assert len(left) + store.dropped["spans"] == 2_000
    assert sum(span.duration_s == 60.0 for span in left) > 0.8 * 40


def test_updates_are_bounded_too() -> None:
    store = Store(budget=400_000)
    for at in range(1_000):
        store.update(Update("weight-update", str(at), at, 0, float(at), at + 1.0, 1.0))
        store.settle()
    assert store.bytes <= 400_000
    assert len(store.updates) + store.dropped["updates"] == 1_000


def test_lines_of_two_logs_at_one_offset_are_kept_apart() -> None:
    store = Store()
    store.sample("wait_ms", "", 0.0, 1.0, Ref(0, 1, 0), "from the first")
    store.sample("wait_ms", "", 1.0, 2.0, Ref(1, 1, 0), "from the second")
    series = store.series["wait_ms", ""]
    assert [series.text(0), series.text(1)] == ["from the first", "from the second"]


@pytest.mark.parametrize("ended", [True, False])
def test_what_is_open_moves_with_the_first_date_of_its_log(ended: bool) -> None:
    """An undated line begins a load, a dated one ends it: it did not take since 1970."""
    lines = ["I model_lifecycle.cc:461] loading: ranker:1", "2026-02-26 06:49:37 INFO here"]
    lines += ["2026-02-26 06:49:40 INFO model_lifecycle.cc:827] successfully loaded 'ranker'"] if ended else []
    session = Session(Config())
    state = session.add_source("triton.log")
    session.feed(state, Block("\n".join([*lines, ""]).encode(), 0, 1))
    store = session.store
    (span,) = store.spans["model-load"] if ended else store.opened()
    assert span.start == pytest.approx(state.first)
    assert span.duration_s == (pytest.approx(0.0, abs=3.0) if ended else None)
