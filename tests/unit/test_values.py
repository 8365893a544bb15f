"""Fields of recognised lines, in each style, from sound and from hostile text."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmon.sources.formats.fields import (
    _KV,
    READERS,
    read_commas,
    read_dashes,
    read_json,
    read_kv,
    read_pipes,
    read_pydict,
    to_number,
)

NAMES = st.text("abcdefgh_/.", min_size=1, max_size=12).map(lambda name: f"k{name}k")
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
FIELDS = st.dictionaries(NAMES, NUMBERS, min_size=1, max_size=8)
HOSTILE = st.one_of(
    st.text(max_size=300),
    st.text("{}[]()'\":,=|- nainf.0123456789\\npfloat64", max_size=300),
    st.sampled_from(["{" * 5000, "[" * 50000, '{"a":' * 5000, "{'a':" * 3000, "-" * 20000, "{'\\d': 1}", "(" * 300]),
)


def numbers(values: object) -> dict[str, float]:
    """Each field as a number."""
    assert isinstance(values, dict)
    return {name: to_number(value, "") for name, value in values.items()}


@given(st.one_of(HOSTILE, st.lists(st.text("ab1_= \t\x1c\x0b,;|.é\u2003\x00", max_size=8)).map(" ".join)))
def test_the_quick_way_to_read_pairs_gives_what_the_careful_one_does(text: str) -> None:
    assert read_kv(text) == dict(_KV.findall(text))


@given(FIELDS)
def test_what_is_written_in_a_style_is_read_back(fields: dict[str, float]) -> None:
    assert numbers(read_kv(" ".join(f"{k}={v!r}" for k, v in fields.items()))) == fields
    assert numbers(read_commas(", ".join(f"{k}: {v!r} reqs" for k, v in fields.items()))) == fields
    assert numbers(read_commas(", ".join(f"{k}={v!r}" for k, v in fields.items()))) == fields
    assert numbers(read_dashes(" - ".join(f"{k}:{v!r}" for k, v in fields.items()))) == fields
    assert numbers(read_pipes(" | ".join(f"{k}: {v!r}" for k, v in fields.items()))) == fields
    assert numbers(read_pipes(" | ".join(f"{k} {v!r} tokens/s" for k, v in fields.items()))) == fields
    assert numbers(read_json(json.dumps(fields))) == fields
    assert numbers(read_pydict(repr(fields))) == fields


@given(HOSTILE)
def test_hostile_text_gives_fields_or_nothing(text: str) -> None:
    for style, read in READERS.items():
        assert isinstance(read(text), dict), style


@pytest.mark.parametrize(
    ("read", "body", "fields"),
    [
        (
            read_kv,
            "url=http://10.0.0.5:8000 t=2.5, op=load",
            {"url": "http://10.0.0.5:8000", "t": "2.5", "op": "load"},
        ),
        (read_kv, "no pairs here", {}),
        (
            read_kv,
            "rpc_ms=1,5 n=1,234.5 a=1,b=2,3c=4 list=1,2,3, x=7",
            {"rpc_ms": "1,5", "n": "1,234.5", "a": "1", "b": "2", "3c": "4", "list": "1,2,3", "x": "7"},
        ),
        (
            read_commas,
            "Running: 128 reqs, token usage: 0.97, gen throughput (token/s): 812.5, cuda graph: True",
            {"Running": "128", "token usage": "0.97", "gen throughput (token/s)": "812.5", "cuda graph": "True"},
        ),
        (
            read_dashes,
            "step:1 - timing_s/gen:np.float64(12.5) - perf/throughput:8.0",
            {"step": "1", "timing_s/gen": "np.float64(12.5)", "perf/throughput": "8.0"},
        ),
        (
            read_pipes,
            " consumed samples:  256 | elapsed time per iteration (ms): 812.4 | Loss -0.0021 | lm loss: 6.1E+00 |",
            {
                "consumed samples": "256",
                "elapsed time per iteration (ms)": "812.4",
                "Loss": "-0.0021",
                "lm loss": "6.1E+00",
            },
        ),
        (
            read_json,
            '{"step": 1, "time": {"step": 2.5, "a": {"x": 3}}}',
            {"step": 1, "time/step": 2.5, "time/a/x": 3},
        ),
        (read_json, '{"step": 1, "loss": 0.', {}),
        (read_json, "[1, 2]", {}),
        (
            read_pydict,
            "{'loss': np.float64(0.41), 'reward': nan, 'n': 3, 'name': 'inference nan'}",
            {"loss": 0.41, "reward": "nan", "n": 3, "name": "inference nan"},
        ),
        (read_pydict, "{'loss': __import__('os').system('true')}", {}),
        (read_pydict, "{'loss': 0.4", {}),
        (
            read_pydict,
            "{'a': tensor(0.5, device='cuda:0'), 'b': '60.0', 'c': np.float64(-1e-05), 'd': 0.4x, 'e': 1.2.3, 'f': <F}",
            {"a": "0.5", "b": "60.0", "c": "-1e-05"},
        ),
    ],
)
def test_lines_as_systems_print_them(read: object, body: str, fields: dict[str, object]) -> None:
    assert callable(read)
    assert read(body) == fields


@pytest.mark.parametrize(
    ("value", "unit", "number"),
    [
        (3, "", 3.0),
        (0.5, "ms", 0.5),
        ("6.1E+00", "", 6.1),
        ("12,345", "", 12345.0),
        ("97%", "%", 97.0),
        ("np.float64(0.3)", "", 0.3),
        ("270.125 s samples/sec: 3.8", "s", 270.125),
        ("1m 13s", "duration", 73.0),
        ("0:01:02", "duration", 62.0),
    ],
)
def test_numbers_of_fields(value: object, unit: str, number: float) -> None:
    assert to_number(value, unit) == number


@pytest.mark.parametrize("value", [None, True, [1], {"a": 1}, "", "   ", "N/A", "None", "1.2.3"])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        to_number(value, "")


def test_nan_is_left_to_the_check_that_names_the_field() -> None:
    assert math.isnan(to_number("nan", ""))
