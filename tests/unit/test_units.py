"""Durations and numbers as systems print them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmon.core.text import (
    convert,
    format_bytes,
    format_ms,
    format_seconds,
    format_value,
    metric_unit,
    parse_duration,
    parse_number,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("850ms", 0.85),
        ("120us", 0.00012),
        ("42.3s", 42.3),
        (" 7 s ", 7.0),
        ("1m 13s", 73.0),
        ("2h 5m", 7500.0),
        ("1d 3h", 97200.0),
        ("0:01:02", 62.0),
        ("1:02.5", 62.5),
        ("2 days, 1:00:00", 176400.0),
        ("12.75", 12.75),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "3 parsecs", "1m of 5m", "-3s", "1:2:3:4", "?", "1" * 5000 + "x", "9" * 65])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_duration(text)


@given(st.integers(0, 30), st.integers(0, 23), st.integers(0, 59), st.integers(0, 59))
def test_every_way_of_writing_a_duration_agrees(days: int, hours: int, minutes: int, seconds: int) -> None:
    total = days * 86400 + hours * 3600 + minutes * 60 + seconds
    assert parse_duration(f"{days}d {hours}h {minutes}m {seconds}s") == total
    assert parse_duration(f"{days} days, {hours}:{minutes:02d}:{seconds:02d}") == total
    assert parse_duration(str(total)) == total


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1,234.5", 1234.5),
        ("12%", 12.0),
        ("np.float64(0.3)", 0.3),
        ("'0.41'", 0.41),
        (" 6.1E+00 ", 6.1),
        ("-0.002", -0.002),
    ],
)
def test_numbers(text: str, number: float) -> None:
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "text", ["", "N/A", "1.2.3", "1,5", "12,34", "1,2345", ",5", "1,", "np.float64()", "4TFLOPS", "%"]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_number(text)


@pytest.mark.parametrize(
    ("metric", "unit"),
    [
        ("queue_ms", "ms"),
        ("rpc_ms.reload_weights", "ms"),
        ("wait_ms{rank 3}", "ms"),
        ("step_s", "s"),
        ("trunc_pct", "%"),
        ("data_share", "%"),
        ("kv_usage", "%"),
        ("queue_fill", "%"),
        ("throughput_tps", "tokens/s"),
        ("peak_mem_gib", "GiB"),
        ("spilled_bytes", "B"),
        ("staleness", "steps"),
        ("inflight", ""),
    ],
)
def test_a_metric_name_tells_its_unit(metric: str, unit: str) -> None:
    assert metric_unit(metric) == unit


@pytest.mark.parametrize(
    ("value", "unit", "to", "converted"),
    [
        (1.5, "s", "ms", 1500.0),
        (250.0, "ms", "s", 0.25),
        (80.0, "us", "ms", 0.08),
        (2.0, "m", "s", 120.0),
        (0.93, "ratio", "%", 93.0),
        (12.0, "", "ms", 12.0),
        (12.0, "%", "%", 12.0),
        (3.0, "s", "GiB", 3.0),
    ],
)
def test_conversions(value: float, unit: str, to: str, converted: float) -> None:
    assert convert(value, unit, to) == pytest.approx(converted)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ms"),
        (0.0994, "99 ms"),
        (0.0995, "0.1 s"),
        (99.94, "99.9 s"),
        (99.96, "1m 40s"),
        (3599.6, "1h 00m"),
        (86399.6, "1d 0h"),
        (-200.0, "-3m 20s"),
    ],
)
def test_seconds_for_people(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_milliseconds_and_values_for_people() -> None:
    assert [format_ms(87.4), format_ms(12400), format_ms(-3)] == ["87 ms", "12.4 s", "-3 ms"]
    assert format_value(93.25, "%") == "93.2 %"
    assert format_value(12, "steps") == "12 steps"
    assert format_value(0.123456, "") == "0.1235"
    assert [format_bytes(812), format_bytes(1434), format_bytes(2**31), format_bytes(2**42)] == [
        "812 B",
        "1.4 KiB",
        "2.0 GiB",
        "4.0 TiB",
    ]


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e12, max_value=1e12),
    st.sampled_from(["s", "ms", "%", "B", ""]),
)
def test_any_finite_value_can_be_shown(value: float, unit: str) -> None:
    assert any(char.isdigit() for char in format_value(value, unit))
