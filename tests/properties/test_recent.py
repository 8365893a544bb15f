"""A window of a run that is watched for long is judged as if all that was observed had been looked at."""

from __future__ import annotations

import random
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfmon.clocks.alignment import align
from perfmon.core.config import WATCHED, Config
from perfmon.core.model import Block
from perfmon.demo.output import demo_timeline
from perfmon.diagnosis.assessment import diagnose
from perfmon.pipeline.session import Session
from perfmon.store.source_state import SourceState

BEGIN = datetime(2026, 8, 21, 10, 0)
WINDOW_S = 300.0
CLOCK = re.compile(r"(?<=pid=412\) INFO )\d\d-\d\d \d\d:\d\d:\d\d|\d\d:\d\d:\d\d")
Line = tuple[float, str, str]


def result_of(scenario: str, zones: dict[str, int | None]) -> list[Line]:
    """Lines of a run; the hours that a log's clock is ahead of UTC, None where it says that it tells UTC."""
    lines = []
    for at_s, log, block in demo_timeline(scenario, 0, 20.0, BEGIN).items():
        text = block.data.decode() if isinstance(block, Block) else ""
        if log in zones:
            zone = zones[log]
            when = BEGIN.replace(tzinfo=UTC) + timedelta(seconds=at_s, hours=zone or 0)
            text = CLOCK.sub(f"{when:%Y-%m-%dT%H:%M:%SZ}" if zone is None else f"{when:%Y-%m-%d %H:%M:%S}", text, 1)
        lines.append((at_s, log, text))
    return lines


def compare(lines: list[Line], every: int, shuffled: float, seed: int) -> list[str | None]:
    """Feeds the lines and judges now and then, with what is remembered and without; the verdicts."""
    chance = random.Random(seed)
    lines = sorted(lines, key=lambda line: line[0] + chance.uniform(0.0, shuffled))
    session, verdicts = Session(Config()), list[str | None]()
    states, ends = dict[str, SourceState](), dict[str, tuple[int, int]]()
    names = [compiled.pattern.name for compiled in session.scanner.patterns]
    for count, (_, log, text) in enumerate(lines, 1):
        state = states[log] = states.get(log) or session.add_source(log)
        offset, line = ends.get(log, (0, 1))
        session.feed(state, Block(text.encode(), offset, line))
        ends[log] = (offset + len(text.encode()), line + 1)
        if count % every and count != len(lines):
            continue
        alignment = align(session.store)
        newest = max((s.last or 0.0) + alignment.shifts.get(s.index, 0.0) for s in session.store.sources)
        end = newest - chance.choice([0.0, 0.0, 0.0, 30.0])
        window = (end - WINDOW_S, end)
        judged = session.present(window, alignment, None)
        fresh = diagnose(session.store, session.knowledge, names, window, alignment, WATCHED)
        assert judged == session._completed(fresh, alignment)
        verdicts.append(judged.verdict.signature if judged.verdict else None)
    return verdicts


ZONES = st.sampled_from([None, -8, 0, 1, 8])


@pytest.mark.slow
@settings(deadline=None, max_examples=12)
@given(
    scenario=st.sampled_from(["frontend-queue", "slow-checkpoint-write", "checkpoint-stall", "kv-cache-pressure"]),
    orchestrator=ZONES,
    trainer=ZONES,
    every=st.integers(120, 400),
    shuffled=st.sampled_from([0.0, 2.0, 40.0]),
    seed=st.integers(0, 9),
)
def test_what_is_remembered_of_a_run_changes_nothing(
    scenario: str, orchestrator: int | None, trainer: int | None, every: int, shuffled: float, seed: int
) -> None:
    zones = {"orchestrator.log": orchestrator, "trainer.log": trainer}
    compare(result_of(scenario, zones), every, shuffled, seed)


@pytest.mark.parametrize("zone", [8, -8])
def test_a_log_in_another_zone_hides_nothing(zone: int) -> None:
    zones = {"orchestrator.log": zone, "trainer.log": None}
    lines = [line for line in result_of("slow-checkpoint-write", zones) if line[1] in zones]
    assert set(compare(lines, 200, 0.0, 0)[1:]) == {"slow-checkpoint-write"}
