"""Readings go from pollers to the store as they are; of recordings the same readings are made, once."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.pipeline.session import Session
from perfmon.sources.pollers import reading as module
from perfmon.sources.pollers.reading import (
    Area,
    PolledBlock,
    Reading,
    as_recorded,
    format_reading,
    polled_block,
    polled_blocks,
)
from perfmon.sources.pollers.reading import parse_reading as parse
from perfmon.sources.pollers.scheduler import poll_log

NOW = datetime(2026, 3, 2, 8, 15, 7, 118_400)
NAMES = st.from_regex(r"[a-z]\w{0,8}", fullmatch=True).filter(lambda name: name not in ("host", "name"))
READINGS = st.builds(
    Reading,
    st.sampled_from(Area),
    st.text(max_size=12),
    st.dictionaries(NAMES, st.floats(), max_size=4),
    st.dictionaries(NAMES, st.text(max_size=8), max_size=3),
)


def polls() -> list[PolledBlock]:
    """What a host and its GPUs tell within two minutes."""
    made: list[PolledBlock] = []
    offset = 0
    for second in range(120):
        result = [
            Reading(
                Area.GPU,
                str(gpu),
                {
                    "util_pct": 3.14159265, "mem_used_mb": 70_000.123, "mem_total_mb": 81_559.0,
                    "power_w": 300 + second / 3, "throttled": float(gpu), "sm_mhz": 1200.0, "sm_max_mhz": 1980.0,
                },
                {"state": "ok", "throttle": "hw-thermal+power-cap" if gpu else "", "mine": "no" if gpu == 2 else "yes"},
            )
            for gpu in range(3)
        ]  # fmt: skip
        result.append(
            Reading(Area.HOST, "all", {"cpu_pct": 31.5, "cores": 8.0, "mem_used_mb": 1e6 / 3, "mem_total_mb": 1e6})
        )
        result.append(Reading(Area.DISK, "/data", {"used_pct": 99.5}, {"holds": "logs"}))
        result.append(Reading(Area.DISK, "/", {"used_pct": 99.9}))
        result.append(Reading(Area.QUEUE, "gpu-1:8000/0", {"running": 5.0, "gen_tps": 1234.5678, "preemptions": 1.0}))
        result.append(Reading(Area.QUEUE, "head:8009", {"step": 4.0, "new_step": 4.0, "loss": 0.3}))
        made.append(polled_block(result, "a 100", NOW + timedelta(seconds=second), offset, 1 + 8 * second))
        offset += len(made[-1].data)
    return made


def session_of(blocks: list[Block]) -> Session:
    """One that heard these of a poller."""
    session = Session(Config())
    state = session.add_source(poll_log("a100", "gpu").name)
    for block in blocks:
        session.feed(state, block)
    return session


@given(READINGS)
def test_a_reading_is_as_its_line_says_it(reading: Reading) -> None:
    line = format_reading(reading, "a100-0", "2026-03-02 08:15:07.118").decode()
    assert parse(line) == ("a100-0", as_recorded(reading))


def test_nothing_that_a_poller_hands_over_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(line: str) -> None:
        raise AssertionError(line)

    blocks = polls()
    monkeypatch.setattr(module, "parse_reading", never)
    session = session_of([*blocks])
    assert {seen.reading.name for seen in session.machines.seen()} >= {"0", "1", "2", "all", "/data"}


def test_live_and_replayed_are_the_same() -> None:
    blocks = polls()
    live = session_of([*blocks])
    written = b"".join(block.data for block in blocks)
    for replayed in (
        [Block(block.data, block.offset, block.line) for block in blocks],
        [Block(written, 0, 1)],
    ):
        again = session_of([*replayed])
        assert again.snapshot() == live.snapshot()
        assert again.machines.seen() == live.machines.seen()
    assert "gpu_busy" in live.snapshot().metrics


def test_lines_of_one_moment_are_a_block() -> None:
    blocks = polls()
    assert polled_blocks(Block(b"".join(block.data for block in blocks), 0, 1)) == blocks
    assert polled_blocks(blocks[0]) == [blocks[0]]


def test_lines_that_are_no_readings_keep_their_place() -> None:
    line = format_reading(Reading(Area.VALUE, "x", {"value": 3.0}), "a", "2026-03-02 08:15:07.118")
    blocks = polled_blocks(Block(b"[poll] odd\r\n" + line + b"2026-03-02 08:15:07.118 more\n" + line[:-4], 0, 1))
    assert [(block.line, block.offset, len(block.readings)) for block in blocks] == [(1, 0, 1), (2, 12, 3)]
    session = session_of([Block(b"[poll] odd\n" + line + line[:-4], 0, 1)])
    assert session.store.sources[0].lines == 3
    assert [seen.reading.values for seen in session.machines.seen()] == [{"value": 3.0}]
