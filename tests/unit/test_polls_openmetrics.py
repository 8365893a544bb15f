"""Reading pages of metrics: the same as prometheus-client reads, and no more of a hostile page than is asked for."""

from __future__ import annotations

from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from perfmon.sources.pollers.metrics_page import MOST, read_samples, read_types

NAMES = ("vllm:num_requests_running", "up", "jobs_total", "wait_seconds_bucket", "up_more")


def values(page: str, *names: str) -> list[tuple[str, dict[str, str], float]]:
    """Name, labels and value of what is read."""
    return [(s.name, dict(s.labels), s.value) for s in read_samples(page.encode(), names or NAMES).found]


@pytest.mark.parametrize(
    ("line", "labels", "value"),
    [
        ("up 1", {}, 1.0),
        ("up\t1\r", {}, 1.0),
        ("up 1e3 1787300000123", {}, 1000.0),
        ('up{a="x",b="y z"} 2', {"a": "x", "b": "y z"}, 2.0),
        ('up{a="x",} 2', {"a": "x"}, 2.0),
        ('up{a="q\\"} 9 {",b="back\\\\"} 3', {"a": 'q"} 9 {', "b": "back\\"}, 3.0),
        ('up{a="one\\ntwo"} 4', {"a": "one\ntwo"}, 4.0),
        ('up{a="x"} 5 # {trace_id="7"} 0.67 1787300000', {"a": "x"}, 5.0),
        ("up -0.5", {}, -0.5),
    ],
)
def test_one_line(line: str, labels: dict[str, str], value: float) -> None:
    assert values(f"# TYPE up gauge\n{line}\ndown 7\n") == [("up", labels, value)]


@pytest.mark.parametrize("line", ["up NaN", "up +Inf", "up 1_0", "up", "up{ 1", 'up{a="x} 1', "up one", "up 1 2 3 4"])
def test_what_holds_no_number_is_counted(line: str) -> None:
    result = read_samples(f"{line}\nup 1\n".encode(), ["up"])
    assert (len(result.found), result.refused) == (1, 1)


def test_names_that_begin_alike_are_apart() -> None:
    page = "up_more 2\nup 1\nupper 3\n"
    assert values(page, "up") == [("up", {}, 1.0)]
    assert values(page, "up_more") == [("up_more", {}, 2.0)]


def test_a_page_of_endless_samples_is_cut() -> None:
    page = b"".join(b'up{n="%d"} 1\n' % number for number in range(MOST + 10))
    assert len(read_samples(page, ["up"]).found) == MOST


def test_types_are_told_in_order() -> None:
    page = "# HELP up x\n# TYPE up gauge\nup 1\n# TYPE jobs counter\njobs_total 3\n# EOF\n"
    assert list(read_types(page.encode())) == [("up", "gauge"), ("jobs", "counter")]


LINE_ENDS = "\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e"
"""What prometheus-client takes for the end of a line."""
LABELS = st.dictionaries(
    st.sampled_from(["engine", "model_name", "le", "q"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters=LINE_ENDS), max_size=12),
)


def escaped(value: str) -> str:
    """As a page tells it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(NAMES), LABELS, st.floats(allow_nan=True)), max_size=8))
def test_it_reads_what_prometheus_client_reads(rows: list[tuple[str, dict[str, str], float]]) -> None:
    result = [(name, ",".join(f'{k}="{escaped(v)}"' for k, v in labels.items()), value) for name, labels, value in rows]
    page = "".join(f"{name}{{{labels}}} {value}\n" if labels else f"{name} {value}\n" for name, labels, value in result)
    theirs = [s for family in text_string_to_metric_families(page) for s in family.samples]
    mine = values(page)
    key = lambda row: (row[0], sorted(row[1].items()), row[2])  # noqa: E731
    assert sorted(mine, key=key) == sorted(((s.name, s.labels, s.value) for s in theirs if isfinite(s.value)), key=key)
