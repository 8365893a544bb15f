"""Stamps say as much as the line does, and nothing when the numbers are no time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmon.core.config import Config
from perfmon.core.model import DAYTIME, EPOCH, LOCAL, YEARLESS, Block
from perfmon.pipeline.offline import diagnose_texts
from perfmon.pipeline.session import Session
from perfmon.sources.formats.fields import any_stamp, iso_stamp
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.formats.timestamps import HeaderReader, stamp_parser, time_regex

AT = datetime(2026, 8, 21, 10, 0, 3, tzinfo=UTC).timestamp()
NEW_YEAR = 1767225600.0
HEADERS = HeaderReader(load_packs())


@pytest.mark.parametrize(
    ("time", "text", "stamp"),
    [
        ("%Y-%m-%d %H:%M:%S%f%z", "2026-08-21 10:00:03", (LOCAL, AT)),
        ("%Y-%m-%d %H:%M:%S%f%z", "2026-08-21 10:00:03,5", (LOCAL, AT + 0.5)),
        ("%Y-%m-%dT%H:%M:%S%f%z", "2026-08-21T10:00:03.125Z", (EPOCH, AT + 0.125)),
        ("%Y-%m-%dT%H:%M:%S%f%z", "2026-08-21T12:00:03+02:00", (EPOCH, AT)),
        ("%Y-%m-%dT%H:%M:%S%f%z", "2026-08-21T04:30:03-0530", (EPOCH, AT)),
        ("%d/%b/%Y:%H:%M:%S %z", "21/Aug/2026:10:00:03 +0000", (EPOCH, AT)),
        ("%b %d %H:%M:%S %Y", "Aug 21 10:00:03 2026", (LOCAL, AT)),
        ("%b %d %H:%M:%S", "Mar  1 00:00:01", (YEARLESS, 60 * 86400 + 1.0)),
        ("%m-%d %H:%M:%S", "02-29 00:00:00", (YEARLESS, 59 * 86400.0)),
        ("%m-%d %H:%M:%S", "12-31 23:59:59", (YEARLESS, 366 * 86400 - 1.0)),
        ("%H:%M:%S%f", "10:00:03.25", (DAYTIME, 36003.25)),
        ("%H:%M:%S", "9:05:00", (DAYTIME, 32700.0)),
        ("%s", "1787306403.5", (EPOCH, AT + 0.5)),
        ("%s", "1787306403500", (EPOCH, AT + 0.5)),
        ("%H:%M:%S%p", "12:00:03 AM", (DAYTIME, 3.0)),
        ("%H:%M:%S%p", "01:00:03 AM", (DAYTIME, 3603.0)),
        ("%H:%M:%S%p", "12:00:03 PM", (DAYTIME, 43203.0)),
        ("%H:%M:%S%p", "01:00:03PM", (DAYTIME, 46803.0)),
        ("%H:%M:%S%p", "13:00:03 PM", (DAYTIME, 46803.0)),
        ("%H:%M:%S%p", "01:00:03", (DAYTIME, 3603.0)),
    ],
)
def test_a_stamp_tells_what_the_line_tells(time: str, text: str, stamp: tuple[int, float]) -> None:
    assert stamp_parser(time)(text) == stamp


@pytest.mark.parametrize(
    ("time", "text"),
    [
        ("%H:%M:%S", "99:99:99"),
        ("%H:%M:%S", "24:00:00"),
        ("%H:%M:%S", "ten past"),
        ("%m-%d %H:%M:%S", "13-01 00:00:00"),
        ("%m-%d %H:%M:%S", "00-10 00:00:00"),
        ("%m-%d %H:%M:%S", "02-30 00:00:00"),
        ("%m-%d %H:%M:%S", "04-31 00:00:00"),
        ("%Y-%m-%d %H:%M:%S", "2026-02-29 00:00:00"),
        ("%Y-%m-%d %H:%M:%S", "0000-01-01 00:00:00"),
    ],
)
def test_impossible_times_are_no_stamps(time: str, text: str) -> None:
    assert stamp_parser(time)(text) is None


@pytest.mark.parametrize(("time", "wrong"), [("%H:%M", "expected at least"), ("%H:%M:%S %q", "unknown directive %q")])
def test_a_format_that_cannot_work_is_refused(time: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        time_regex(time)


@given(st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1)), st.integers(-14 * 4, 14 * 4))
def test_written_times_come_back(moment: datetime, quarters: int) -> None:
    zone = timezone(timedelta(minutes=15 * quarters))
    aware = moment.replace(tzinfo=zone)
    text = aware.isoformat(sep=" ", timespec="microseconds")
    kind, seconds = stamp_parser("%Y-%m-%d %H:%M:%S%f%z")(text) or (-1, 0.0)
    assert kind == EPOCH
    assert seconds == pytest.approx(aware.timestamp(), abs=1e-5)
    assert iso_stamp(aware.isoformat()) == (EPOCH, aware.timestamp())
    local = stamp_parser("%Y-%m-%d %H:%M:%S%f%z")(moment.isoformat(sep=" "))
    assert local is not None
    assert local[0] == LOCAL
    assert local[1] == pytest.approx(moment.replace(tzinfo=UTC).timestamp(), abs=1e-5)


@given(st.text(st.sampled_from("0123456789-:. TZ+,/AugMar"), max_size=40))
def test_any_text_is_a_stamp_or_none(text: str) -> None:
    for time in ("%Y-%m-%d %H:%M:%S%f%z", "%b %d %H:%M:%S", "%H:%M:%S%f", "%s"):
        stamp = stamp_parser(time)(text)
        assert stamp is None or stamp[1] == stamp[1]
    stamp = iso_stamp(text)
    assert stamp is None or stamp[0] in (EPOCH, LOCAL)


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00", "10:00:03", "1787306403", "2026-08-21"])
def test_what_is_no_iso_time_is_none(text: str) -> None:
    assert iso_stamp(text) is None


@pytest.mark.parametrize(
    ("line", "stamp"),
    [
        ("[rank0]:2026-08-21 10:00:03 | INFO | x", (LOCAL, AT)),
        ("3: [trainer0]:[2026-08-21 10:00:03,000] [INFO] x", (LOCAL, AT)),
        ("(Actor pid=7, ip=10.0.0.1) 2026-08-21 10:00:03,000 - INFO - x", (LOCAL, AT)),
        ("trainer-1  | 2026-08-21T10:00:03Z x", (EPOCH, AT)),
        ("WARNING 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("Fri Aug 21 10:00:03 2026 x", (LOCAL, AT)),
        ("Aug 21 10:00:03 node7 sshd[81]: x", (YEARLESS, 233 * 86400 + 36003.0)),
        ("E0821 10:00:03.000000 77 a.cc:1] x", (YEARLESS, 233 * 86400 + 36003.0)),
        ("[10:00:03] x", (DAYTIME, 36003.0)),
        ("1787306403.000 x", (EPOCH, AT)),
        ("[pod/trainer-0/main] 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("[1,3]<stdout>:2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("[prterun-node1-77@1,0]<stderr>: 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("trainer-0 main 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("vllm-6d4b75cb6d-7xk2p engine 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("(worker1, rank=1, pid=1234, ip=10.0.0.1) 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("(train, pid=1234) 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("trainer/0 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("trainer/0 [0]:2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("2026-08-21T12:00:09.5+02:00 stdout F 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("2026-08-21T10:00:03.5Z INFO 08-21 10:00:03 [core.py:9] x", (EPOCH, AT + 0.5)),
        ("2026-08-21 10:00:03.5 (EngineCore pid=7) INFO 08-21 10:00:03 [core.py:9] x", (LOCAL, AT + 0.5)),
        ("2026-08-21T12:00:23.5+02:00 stderr F INFO 08-21 12:00:03 [core.py:9] x", (EPOCH, AT)),  # written at once
        ("2026-08-21T10:00:23Z [10:00:03] x", (EPOCH, AT)),
        ("2026-08-21T10:00:03Z [12:00:03] x", (EPOCH, AT)),  # of another zone
        ("2026-01-01T00:00:05Z INFO 12-31 23:59:55 [core.py:9] x", (EPOCH, NEW_YEAR - 5)),
        ("trainer-0 main [NeMo I 2026-08-21 10:00:03 mod:12] x", (LOCAL, AT)),
        ("node01: 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("gpu-7.cluster: [trainer0]:2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("10.0.0.7: 10:00:03 INFO x", (DAYTIME, 36003.0)),
        ("node01\t2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("  2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("\t[2026-08-21 10:00:03] x", (LOCAL, AT)),
        ("node01:     10:00:03 INFO x", (DAYTIME, 36003.0)),
        ("deadline: 2026-08-21 10:00:03", None),
        ("ETA\t10:00:03 INFO", None),
        ("layer1: 589824000 parameters", None),
        ("    1787306403 bytes", None),
        ("  [00:01:12] ####------ 45/100", None),
        ("worker3: [00:01:12] 45/100", None),
        ("08/21/2026 10:00:03 AM x", (LOCAL, AT)),
        ("08/21/2026 10:00:03 PM x", (LOCAL, AT + 43200)),
        ("08/21/2026 10:00:03 PMU x", (LOCAL, AT)),
        ("08/21 10:00:03 AM x", (YEARLESS, 233 * 86400 + 36003.0)),
        ("[08/21 10:00:03 PM] x", (YEARLESS, 233 * 86400 + 36003.0 + 43200)),
        ("08/21 10:00:03 left", None),
        ("08/21 10:00:03 AMP is on", None),
        ("08/21 of 10:00:03 AM", None),
        ("[PC] 2026-08-21 10:00:03,000 (trainer:243) INFO: x", (LOCAL, AT)),
        ("[gpu-node.7] 2026-08-21 10:00:03 x", (LOCAL, AT)),
        ("[best] 10:00:03 AM", None),
        ("[7] 2026-08-21 10:00:03 x", None),
        ("the pre-run ended 2031-08-21 10:00:03", None),
        ("pre-run ended 2031-08-21 10:00:03", None),
        ("2026082 10:00:03 x", None),
        ("178730640312345 x", None),
        ("took 10:00:03 to finish", None),
        ("10:00:03 remaining", None),
        ("step 2026 of 1787306403", None),
        ("", None),
    ],
)
def test_any_log_gets_its_times(line: str, stamp: tuple[int, float] | None) -> None:
    assert HEADERS.read(line) == stamp


def test_what_was_read_before_does_not_tell_the_half_of_a_day() -> None:
    lines = (
        "08/21/2026 10:00:03 Pack 7",
        "08/21/2026 10:00:03 PM x",
        "08/21/2026 10:00:03 x",
        "08/21/2026 10:00:03 AM x",
    )
    for first in lines:
        for second in lines:
            headers = HeaderReader(load_packs())
            headers.read(first)
            assert headers.read(second) == HeaderReader(load_packs()).read(second)


@pytest.mark.parametrize(
    ("value", "stamp"),
    [
        (1787306403, (EPOCH, AT)),
        (1787306403.5, (EPOCH, AT + 0.5)),
        (1787306403500, (EPOCH, AT + 0.5)),
        (1787306403500000, (EPOCH, AT + 0.5)),
        (1787306403500000000, (EPOCH, AT + 0.5)),
        ("1787306403.5", (EPOCH, AT + 0.5)),
        ('"1787306403500"', (EPOCH, AT + 0.5)),
        ("1712011530123", (EPOCH, 1712011530.123)),
        ("2026-08-21T10:00:03Z", (EPOCH, AT)),
        ("2026-08-21 10:00:03,500", (LOCAL, AT + 0.5)),
        ("2026-08-21", None),
        ("20260821", None),
        (12.5, None),
        (-1787306403, None),
        (10**30, None),
        (10**400, None),
        (float("nan"), None),
        (True, None),
        (None, None),
        ({}, None),
    ],
)
def test_a_field_with_a_time_is_read_as_text_or_as_number(value: object, stamp: tuple[int, float] | None) -> None:
    result = any_stamp(value)
    assert (result is None) == (stamp is None)
    if result is not None and stamp is not None:
        assert result[0] == stamp[0]
        assert result[1] == pytest.approx(stamp[1], abs=1e-5)


def test_a_clock_without_a_year_after_the_last_year_is_read() -> None:
    session = Session(Config())
    lines = "9999-12-31 23:59:59 step 1 loss 2.5\nMar 02 10:00:00 gpu-1 trainer[1]: step 2 loss 2.4\n"
    session.feed(session.add_source("run.log"), Block(lines.encode(), 0, 1))
    assert session.store.sources[0].lines == 2


@pytest.mark.parametrize(
    "before", ["[{rank}]: ", "[rank{rank}]: ", "(pid={rank}123) ", "{rank}: ", "Rank {rank}: ", "[node7:{rank}]: "]
)
@pytest.mark.parametrize(
    "clock", ["11:{:02}:{:02} ", "2026-03-02 11:{:02}:{:02},118 ", "[11:{:02}:{:02}] ", "2026-03-02T11:{:02}:{:02}Z "]
)
def test_what_a_launcher_puts_before_the_clock_of_a_line_does_not_hide_it(before: str, clock: str) -> None:
    """As srun, mpirun, torchrun, Ray and scripts do, whose programs date their lines themselves."""
    lines = [
        f"{before.format(rank=rank)}{clock.format(at * 9 // 60, at * 9 % 60)}step={at} loss=2.5 toks=81003"
        for at in range(20)
        for rank in range(4)
    ]
    run = diagnose_texts({"run.log": "\n".join(lines)}).run
    assert run.end - run.start == pytest.approx(9.0 * 19, abs=1.0)
