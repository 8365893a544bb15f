"""Increases of counters and quantiles of histograms between polls, over restarts of what is polled."""

from __future__ import annotations

from math import inf

import pytest

from perfmon.sources.pollers.metrics_page import Counters, Histograms, quantile


def test_counters_tell_what_they_grew_by() -> None:
    counters = Counters()
    assert counters.take({"a": 10.0}, 100.0).by == {}
    grown = counters.take({"a": 16.0, "b": 5.0}, 104.0)
    assert (grown.seconds, grown.by) == (4.0, {"a": 6.0})
    assert counters.take({"a": 16.0, "b": 7.0}, 105.0).by == {"a": 0.0, "b": 2.0}


def test_a_counter_that_fell_began_anew() -> None:
    counters = Counters()
    counters.take({"a": 1000.0}, 0.0)
    assert counters.take({"a": 30.0}, 5.0).by == {"a": 30.0}


def test_a_negative_counter_is_none_and_time_that_stands_still_gives_no_rate() -> None:
    counters = Counters()
    counters.take({"a": -5.0, "b": 1.0}, 0.0)
    assert counters.take({"a": -1.0, "b": 2.0}, 0.0).by == {}
    assert counters.take({"a": 3.0, "b": 4.0}, 1.0).by == {"b": 2.0}


def test_a_counter_that_was_gone_for_a_poll_begins_anew() -> None:
    counters = Counters()
    counters.take({"a": 1.0}, 0.0)
    counters.take({}, 1.0)
    assert counters.take({"a": 500.0}, 2.0).by == {}


def test_histograms_tell_the_window_only() -> None:
    histograms = Histograms(window_s=30.0)
    assert histograms.take({"h": {1.0: 1000.0, 2.0: 1000.0, inf: 1000.0}}, 0.0) == {}
    result = histograms.take({"h": {1.0: 1000.0, 2.0: 1010.0, inf: 1010.0}}, 10.0)
    assert result == {"h": {1.0: 0.0, 2.0: 10.0, inf: 10.0}}
    assert quantile(result["h"], 0.5) == pytest.approx(1.5)
    for at in range(20, 80, 10):
        result = histograms.take({"h": {1.0: 1000.0, 2.0: 1010.0, inf: 1010.0}}, float(at))
    assert quantile(result["h"], 0.5) is None, "what lies further back than the window is over"


def test_a_server_that_starts_again_empties_the_window() -> None:
    histograms = Histograms()
    histograms.take({"h": {1.0: 50.0, inf: 60.0}}, 0.0)
    assert histograms.take({"h": {1.0: 3.0, inf: 60.0}}, 5.0) == {}
    assert histograms.take({"h": {1.0: 4.0, inf: 64.0}}, 10.0) == {"h": {1.0: 1.0, inf: 4.0}}
    assert histograms.take({"h": {2.0: 4.0, inf: 64.0}}, 15.0) == {}, "other limits"


@pytest.mark.parametrize(
    ("counted", "share", "value"),
    [
        ({1.0: 0.0, 2.0: 0.0, inf: 0.0}, 0.5, None),
        ({1.0: 10.0, 2.0: 10.0, inf: 10.0}, 0.5, 0.5),
        ({1.0: 0.0, 2.0: 100.0, inf: 100.0}, 0.95, 1.95),
        ({1.0: 1.0, 2.0: 2.0, inf: 100.0}, 0.95, 2.0),
        ({1.0: 5.0, 2.0: 3.0, inf: 10.0}, 0.5, 1.0),
        ({1.0: 5.0, 2.0: 3.0}, 0.5, None),
        ({inf: 3.0}, 0.5, None),
    ],
)
def test_quantiles(counted: dict[float, float], share: float, value: float | None) -> None:
    assert quantile(counted, share) == (None if value is None else pytest.approx(value))
