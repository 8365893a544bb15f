"""The compiled search finds what the Python way finds, whatever the bytes."""

from __future__ import annotations

import os
import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from leg_lines import KNOWN, LEGS, ODD, leg_lines

from perfmon.core.model import MARK, SAME
from perfmon.core.text import ESCAPES
from perfmon.sources import blocks as accelerator
from perfmon.sources.blocks import in_use, newlines
from perfmon.sources.formats.compiled import CompiledPattern
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.formats.timestamps import HeaderReader
from perfmon.sources.scan.json_envelope import read_line
from perfmon.sources.scan.scanner import Scanner, ScanResult
from perfmon.sources.scan.search import CompiledSearch, PythonSearch, Search, make_search
from perfmon.sources.scan.update_templates import KEEP_ALL, EvidenceLimits

PACKS = tuple(load_packs())
NEEDLES = sorted({needle for pack in PACKS for pattern in pack.patterns for needle in pattern.needles})
compiled = pytest.mark.skipif(not in_use(), reason="the search is not compiled here")


def test_what_is_shipped_is_tested() -> None:
    """Where everything is meant to be there, this file must not skip itself."""
    assert in_use() or not os.environ.get("CI") or os.environ.get("PERFMON_NATIVE") == "0"


# --- needles ------------------------------------------------------------------------------------------------------
def _searches(needles: list[bytes]) -> tuple[Search, Search]:
    fast = make_search(needles, -1, HeaderReader(()))
    assert isinstance(fast, CompiledSearch)
    return PythonSearch(needles), fast


def _seen(search: Search, data: bytes) -> object:
    found = search.find(data)
    return found.newlines, [hit[:6] for hit in found.hits]


ALPHABETS = st.sampled_from([b"ab", b"ab\n", b"abcdefgh", b"\x00\n\r\x1b[", bytes(range(256)), b"aA\xe2\x9c\xa8 ="])


@compiled
@settings(max_examples=300, deadline=None)
@given(letters=ALPHABETS, data=st.data())
def test_the_same_needles_are_found(letters: bytes, data: st.DataObject) -> None:
    words = st.lists(st.sampled_from(list(letters)), min_size=3, max_size=7).map(bytes)
    needles = data.draw(st.lists(words, min_size=1, max_size=120, unique=True))
    parts = st.one_of(st.sampled_from(needles), st.lists(st.sampled_from(list(letters)), max_size=40).map(bytes))
    block = b"".join(data.draw(st.lists(parts, max_size=40)))
    plain, fast = _searches(needles)
    assert _seen(fast, block) == _seen(plain, block)


@compiled
@pytest.mark.parametrize("size", [0, 1, 2, 3, 31, 32, 33, 35, 36, 63, 64, 65, 100])
def test_needles_at_the_edges_of_a_block(size: int) -> None:
    needles = [b"abc", b"abcd", b"bcd", b"x" * 200, b"\x00\x00\x00"]
    plain, fast = _searches(needles)
    for needle in needles:
        for block in (needle + b"." * size, b"." * size + needle, needle[:-1] + b"." * size + needle[1:]):
            assert _seen(fast, block) == _seen(plain, block)
            assert _seen(fast, b"-" * 5 + block[1:]) == _seen(plain, b"-" * 5 + block[1:])


@compiled
def test_every_needle_of_the_packs_is_found_anywhere() -> None:
    needles = [needle.encode() for needle in NEEDLES]
    plain, fast = _searches(needles)
    rng = random.Random(1)
    for needle in needles:
        block = b"some text\n" * rng.randrange(9) + b"x" * rng.randrange(70) + needle + b"y\n" * rng.randrange(70)
        assert _seen(fast, block) == _seen(plain, block)
        assert any(needles[hit[2]] in needle or needle in needles[hit[2]] for hit in fast.find(block).hits)


@given(st.lists(st.sampled_from([b"\n", b"text", b"\x8a\x0b", b"x" * 40]), max_size=30).map(b"".join))
def test_newlines_are_counted(data: bytes) -> None:
    assert newlines(data) == data.count(b"\n")


# --- blocks -------------------------------------------------------------------------------------------------------
LIMITS: EvidenceLimits = (100.0, 2000.0)


def _trained(limits: EvidenceLimits) -> tuple[Scanner, Scanner]:
    scanners = []
    for wanted in ("0", "1"):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PERFMON_NATIVE", wanted)
            scanners.append(Scanner(PACKS, limits))
        scanners[-1].scan(KNOWN)
    assert isinstance(scanners[0].search, PythonSearch)
    assert isinstance(scanners[1].search, CompiledSearch)
    return scanners[0], scanners[1]


WAYS = {result: _trained(LIMITS if result else KEEP_ALL) for result in (False, True)} if in_use() else {}
HOSTILE = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([*NEEDLES, *"=1\x1b\r\x00", "10:00:01 ", "nan", "\x1b[0m", "[weights][a] "]))
    .map("".join)
    .map(str.encode),
    leg_lines().map(str.encode),
    leg_lines().map(str.encode),
    st.tuples(leg_lines(), ODD, st.integers(0, 80)).map(lambda result: f"{result[0][: result[2]]}{result[1]}".encode()),
)  # fmt: skip
NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True).map(repr),
    st.integers(0, 10**30).map(str),
    st.decimals(0, 10**12, allow_nan=False, allow_infinity=False, places=6).map(str),
    st.from_regex(r"\A[0-9.]{1,50}\Z"),
    st.just("9" * 70),
    st.sampled_from(["", ".", "1.", ".5", "00012", "9999999999.999999", "10000000000", "1e3", "+1", "٣"]),
)


@st.composite
def numbered_legs(draw: st.DrawFn) -> bytes:
    leg = draw(st.sampled_from(sorted(LEGS)))
    pairs = " ".join(f"{name}={draw(NUMBERS)}" for name in LEGS[leg])
    return f"10:00:0{draw(st.integers(0, 9))} INFO [weights][{draw(st.sampled_from('ab'))}] {leg} {pairs}".encode()


def _values(scanned: ScanResult) -> object:
    return scanned.records, scanned.lines, scanned.size, sorted(scanned.recognised.items()), scanned.problems


def _same(blocks: list[bytes], result: bool) -> None:
    plain, fast = WAYS[result]
    offset, line = 0, 1
    for block in blocks:
        one, other = plain.scan(block, offset, line), fast.scan(block, offset, line)
        assert repr(_values(other)) == repr(_values(one))  # as `==`, and nan as well
        offset, line = offset + one.size, line + one.lines


@compiled
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    lines=st.lists(st.one_of(HOSTILE, numbered_legs()), max_size=14),
    cuts=st.lists(st.integers(0, 2000), max_size=4),
    result=st.booleans(),
)
@example(lines=[KNOWN], cuts=[], result=False)
@example(lines=[KNOWN.rstrip(b"\n") + b" " * 70_000], cuts=[], result=False)
@example(lines=[b"10:00:00 [weights][aa] rpc.start op=x t=1" + b"\r" * 3, b"x"], cuts=[], result=False)
def test_blocks_hold_the_same(lines: list[bytes], cuts: list[int], result: bool) -> None:
    whole = b"\n".join(lines)
    edges = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    _same([whole[low:high] for low, high in pairwise(edges)], result)


_HEADS = st.sampled_from((
    "", "10:00:01   INFO ", "10:00:02   INFO ", "\x1b[2m10:00:01\x1b[0m \x1b[1m   INFO\x1b[0m \x1b[1m",
    "(APIServer pid=4) ", "10:00:01 ", "10:00:01", "10:00:01.5", "1234567890", "time=", "'time': ", "1234", "\ufeff",
    "2026-08-21 10:00:01,015 - httpx - INFO - ", "2026-08-21 10:00:01,900 - httpx - INFO - ", "x\r", '{"a": 1} ',
))  # fmt: skip
_ACCESS = st.sampled_from((
    'INFO:     10.0.0.4:39830 - "POST /v1/completions HTTP/1.1" 200 OK',
    'INFO:     10.0.0.4:1 - "POST /v1/completions HTTP/1.1" 200 OK',
    'INFO:     10.0.0.4:1 - "POST /v1/completions HTTP/1.1" 503 Service Unavailable',
    'INFO: "POST /x HTTP/1.1" 500 - "POST /v1/completions HTTP/1.1" 200 OK',
    'HTTP Request: POST http://10.0.0.7:8000/v1/completions "HTTP/1.1 200 OK"\x1b[0m',
    'XHTTP Request: POST http://10.0.0.7:8000/v1/completions "HTTP/1.1 200 OK"\x1b[0m',
    ' HTTP Request: POST http://10.0.0.7:8000/v1/completions "HTTP/1.1 200 OK"\x1b[0m',
    ':HTTP Request: POST http://10.0.0.7:8000/v1/completions "HTTP/1.1 200 OK"\x1b[0m',
    '"POST /v1/completions HTTP/1.1" 200 OK',
    'A "POST /v1/completions HTTP/1.1" 200 OK',
    'INFO:     10.0.0.4:39830 - "GET /health HTTP/1.1" 200 OK',
    "chatter", "[gen] batch.start inflight=1 target_batch=4",
))  # fmt: skip


_TAILS = st.sampled_from((
    "", "", " request 17", " request 18", " 0.12s", " rt=0.12", " time=5", "time=5", " 'time': 5", " at 10:00:03",
    ":00:03", " 1234567890", "567", ' "-" "curl/8"', " {", '"', "\r", "\rx", "\x1b[0m", " \x1b[0m x", " \x1b[31",
    " é", " \u0661", "\x00", " [gen] batch.start inflight=1 target_batch=4", " \ufeff", " " + 400 * "x",
    ' "POST /v1/completions HTTP/1.1" 503 x',
))  # fmt: skip


@compiled
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(_HEADS, _ACCESS, _TAILS).map("".join), max_size=40), st.lists(st.integers(0, 2000), max_size=3)
)
def test_lines_that_say_the_same_are_counted_alike(lines: list[str], cuts: list[int]) -> None:
    whole = "\n".join(lines).encode()
    edges = sorted({0, len(whole), *(min(cut, len(whole)) for cut in cuts)})
    _same([whole[low:high] for low, high in pairwise(edges)], False)


@compiled
def test_the_first_lines_of_a_long_block_teach_how_the_others_are_read() -> None:
    access = 'INFO:     10.0.0.4:{} - "POST /v1/completions HTTP/1.1" 200 OK\n'
    data = "".join(access.format(30000 + n % 20000) for n in range(6000)).encode()
    fresh, taught = Scanner(PACKS), Scanner(PACKS)
    taught.prepare(data)
    assert len(taught.search.find(data, taught.headers.fast_clocks).hits) == 1
    assert repr(_values(fresh.scan(data))) == repr(_values(taught.scan(data)))


@compiled
def test_what_stands_behind_all_that_is_read_may_differ() -> None:
    access = 'INFO:     10.0.0.4:39830 - "POST /v1/completions HTTP/1.1" 200 OK in {}ms\n'
    data = "".join(access.format(n) for n in range(6000)).encode()
    taught = Scanner(PACKS)
    taught.prepare(data)
    assert len(taught.search.find(data, taught.headers.fast_clocks).hits) == 1
    (record,) = [one for one in taught.scan(data).records if one[0] >= 0]
    assert record[5][-1] == (SAME, 5999, 5999)


ENDED = [one for one in Scanner(PACKS).patterns if one.ends_by_blank and one.repeats]


@given(
    st.sampled_from(ENDED), st.lists(st.text(alphabet=" 0123456789.:-/|\"'()[]xP", max_size=12), min_size=2, max_size=2)
)
def test_nothing_behind_a_blank_behind_a_match_matters(pattern: CompiledPattern, tails: list[str]) -> None:
    for sample in pattern.pattern.samples:
        span = pattern.span(sample.text)
        read = [] if span is None else [pattern.span(f"{sample.text[: span[1]]} {tail}") for tail in tails]
        assert len(set(read)) <= 1


@pytest.mark.parametrize("data", [b"", b"no newline", b"x" * 300_000, b"\n" * 300_000])
def test_what_is_learned_from_is_no_matter(data: bytes) -> None:
    scanner = Scanner(PACKS)
    scanner.prepare(data)
    assert not scanner.scan(b"10:00:01 DEBUG nothing\n").recognised


@settings(deadline=None)
@given(st.lists(st.sampled_from(NEEDLES), min_size=1, max_size=3).map(" ".join))
def test_every_pattern_whose_needle_stands_in_a_line_is_asked(line: str) -> None:
    """Also where one needle hides another one that is looked for together with it."""
    for scanner in (Scanner(PACKS),) if not WAYS else WAYS[False]:
        hits = scanner.search.find(line.encode()).hits
        requests = scanner.by_needle.candidates([(hit[0], hit[2]) for hit in hits])
        wanted = {one.index for one in scanner.patterns if any(needle in line for needle in one.pattern.needles)}
        assert wanted <= set(requests)


@compiled
@settings(deadline=None)
@given(st.lists(st.tuples(_HEADS, _ACCESS).map("".join), min_size=1, max_size=3).map("\n".join))
def test_a_stamp_that_is_seen_is_the_one_that_is_read(text: str) -> None:
    _, fast = WAYS[False]
    clocks, data = fast.headers.fast_clocks, text.encode()
    assert clocks is not None
    begin = 0
    for line in data.split(b"\n"):
        seen, stamp = clocks.stamp(data, begin, begin + len(line))
        bare = ESCAPES.sub("", line.decode())
        assert not seen or stamp == read_line(bare, fast.headers)
        begin += len(line) + 1
    assert clocks.stamp(data, 5, 5) == clocks.stamp(data, -1, 3) == clocks.stamp(data, 0, 10**6) == (False, None)


_FRAMES = st.sampled_from((
    "\r", "\r", "\n", "\r\n", "10:00:01 INFO x it/s]", " | 0/4 [<", "352it [00:00, 625.91it/s]", "] ",
    *(f"Training:   {n}%|▏         | 1{n}/900 [00:1{n}<28:04,  5.31it/s, loss=1.92]" for n in range(3)),
    *(f" {n}%|#2        | 6{n}/500 [1:00:0{n}<01:53,  3.87it/s]" for n in range(3)),
    "Training:   1%|▏         | 21/900 [00:21<28:04,  5.31it/s, loss=1.92]",
))  # fmt: skip


@compiled
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(_FRAMES, max_size=20).map("".join))
def test_frames_that_are_drawn_again_are_passed_over(log: str) -> None:
    _same([log.encode()], False)


@compiled
def test_of_lines_that_say_the_same_in_one_second_one_is_told() -> None:
    access = 'INFO:     10.0.0.4:{} - "POST /v1/completions HTTP/1.1" {}\n'
    dated = "INFO 03-02 08:15:0{} [async_llm.py:271] Added request {}.\n"
    lines = [dated.format(n // 250, n) + access.format(30000 + n, "200 OK") for n in range(1000)]
    lines[700] += access.format(1, "503 Service Unavailable")
    data = "".join(lines).encode()
    _, fast = WAYS[False]
    fast.scan(data)
    found = fast.search.find(data, fast.headers.fast_clocks)
    assert len(found.hits) < 10
    scanned = fast.scan(data)
    assert [record[5][-1] for record in scanned.records if record[0] >= 0] == [
        (SAME, 249, 498), (SAME, 249, 498), (SAME, 200, 400), (MARK, "request-failed", 1.0, ""), (SAME, 48, 96),
        (SAME, 249, 498),
    ]  # fmt: skip
    assert max(scanned.recognised.values()) == 1001


@compiled
def test_a_long_log_is_the_same() -> None:
    rng = random.Random(7)
    lines = []
    for number in range(4000):
        leg = rng.choice(sorted(LEGS))
        pairs = " ".join(f"{name}={rng.uniform(0, 400):.{rng.randrange(9)}f}" for name in LEGS[leg])
        lines.append(
            f"10:{number // 600:02d}:{number // 10 % 60:02d} INFO [weights][t{rng.randrange(300)}] {leg} {pairs}"
        )
        lines += rng.choice([[], ["noise"], [f"10:00:00 INFO [gen] batch.start inflight={number} target_batch=4"]])
    _same(["\n".join(lines).encode()], True)
    scanned: ScanResult = WAYS[True][1].scan("\n".join(lines).encode())
    assert len(scanned.records) > 300


@compiled
@settings(deadline=None)
@given(st.text(st.sampled_from("0:19 a٣é\n\ud800")), st.integers(-2, 20))
@example("at 1:00:00", 3)
@example("at 1:00:00", 4)
@example("1:00:0", 0)
@example("123456789", 0)
@example("123456789", 1)
def test_a_time_is_seen_alike(text: str, start: int) -> None:
    assert accelerator.scanning is not None
    plain = not text.isascii() or accelerator._TIME.search(text, max(start, 0)) is not None
    assert accelerator.scanning.may_hold_time(text, start) is plain
