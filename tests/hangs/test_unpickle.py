"""The reader of pickles gives data and nothing else: no class is looked up, and a torn file gives what came before."""

from __future__ import annotations

import os
import pickle
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfmon.hangs import unpickle
from perfmon.hangs.unpickle import BrokenPickleError, RefusedPickleError, load_plain

LETTERS = "aZ0 \n\x00é\u2028\U0001f600"
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats(allow_nan=False)
    | st.text(LETTERS, max_size=20),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(LETTERS, max_size=8), inner, max_size=5)
    ),
    max_leaves=30,
)


class Evil:
    """What a pickle may make of it is up to the pickle."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("echo pwned",)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(value=PLAIN, protocol=st.integers(2, 5))
def test_plain_data_comes_back(value: Any, protocol: int) -> None:
    assert load_plain(pickle.dumps(value, protocol)) == (value, False)


@settings(deadline=None)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_data_or_an_error(data: bytes) -> None:
    for head in (b"", b"\x80\x02", b"\x80\x02}q\x00("):
        with suppress(BrokenPickleError, RefusedPickleError):
            load_plain(head + data)


@pytest.mark.parametrize("protocol", [0, 2, 4, 5])
def test_a_call_is_refused_by_name(protocol: int) -> None:
    with pytest.raises(RefusedPickleError, match=r"(posix|nt|os)\.system"):
        load_plain(pickle.dumps({"version": "2.10", "entries": [Evil()]}, protocol))


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\x80\x02cbuiltins\neval\nX\x01\x00\x00\x001\x85R.", r"builtins\.eval"),
        (b"\x80\x04\x8c\x02os\x8c\x06system\x93.", r"os\.system"),
        (b"(ios\nsystem\n.", r"os\.system"),
        (b"\x80\x02)R.", "REDUCE"),
        (b"\x80\x02N\x82\x01.", "EXT1"),
        (b"\x80\x02NQ.", "BINPERSID"),
    ],
)
def test_opcodes_that_make_objects_are_refused(data: bytes, name: str) -> None:
    with pytest.raises(RefusedPickleError, match=name):
        load_plain(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02j\xff\xff\xff\xff.",  # an entry of the memo that was never put there
        b"\x80\x02\x8b\xff\xff\xff\x7f.",  # an integer of 2 GB
        b"\x80\x02e.",  # no mark
        b"\x80\x02}N(NNu.",  # the table is not what lies below the mark
        b"\x80\x02(\x86.",
    ],
)
def test_malformed_pickles_are_errors(data: bytes) -> None:
    with pytest.raises(BrokenPickleError):
        load_plain(data)


def test_more_values_than_any_dump_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpickle, "_MOST_STEPS", 1000)
    with pytest.raises(BrokenPickleError, match="values"):
        load_plain(b"\x80\x02" + b"N0" * 501)


def test_a_huge_memo_index_reserves_nothing() -> None:
    assert load_plain(b"\x80\x02}r\xff\xff\xff\x7f.") == ({}, False)


def test_a_torn_file_gives_the_entries_before_the_tear() -> None:
    whole: dict[str, Any] = {
        "version": "2.10",
        "pg_status": {"0": {"a": 1}},
        "entries": [{"record_id": at, "x": [at] * 3} for at in range(50)],
    }
    data = pickle.dumps(whole, 2)
    most = 0
    for end in range(20, len(data)):
        try:
            value, torn = load_plain(data[:end])
        except BrokenPickleError:
            assert end < 40
            continue
        assert torn
        entries = value.get("entries", [])
        complete = [one for one in entries if len(one.get("x", ())) == 3]
        assert complete == whole["entries"][: len(complete)]
        assert len(complete) >= len(entries) - 1
        most = max(most, len(entries))
    assert most == 50
