"""Timers that a log prints without a clock behind every iteration hide no hang; lines that are new there may."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Finding
from perfmon.pipeline.session import Session

_BEGIN = datetime(2026, 3, 2, 8)
_ITERATION = (
    " [{}.204411] iteration {:8d}/   50000 | consumed samples:        25600 | elapsed time per iteration (ms): 812.4 | "
    "learning rate: 3.000000E-05 | global batch size:   256 | lm loss: 7.912004E+00 | loss scale: 1.0 | "
    "grad norm: 1.234 | number of skipped iterations:   0 | number of nan iterations:   0 |"
)
_TIMERS = (
    "(min, max) time across ranks (ms):",
    "    forward-compute ................................: (240.11, 243.02)",
    "    backward-compute ...............................: (441.11, 443.02)",
    "    batch-generator ................................: (1.12, 2.90)",
    "    forward-recv ...................................: (0.31, 0.92)",
    "    backward-recv ..................................: (0.31, 0.92)",
    "    layernorm-grads-all-reduce .....................: (0.31, 0.92)",
    "    optimizer ......................................: (21.48, 21.90)",
)
_UNKNOWN = tuple(f"rank {at}: a shard of the new corpus is being tokenised, please wait" for at in range(8))
"""Work that no format knows."""
_VALIDATION = " validation loss at iteration 20 | lm loss value: 2.0E+00 | lm loss PPL: 7.0E+00 |"


def _iterations(first: int, count: int, from_s: float, every_s: float, timers: tuple[str, ...]) -> list[str]:
    result = []
    for at in range(count):
        when = _BEGIN + timedelta(seconds=from_s + every_s * at)
        result += [_ITERATION.format(f"{when:%Y-%m-%d %H:%M:%S}", first + at), *timers]
    return result


def _stalls(lines: list[str], waited_s: float | None = None, block: int = 1 << 20) -> list[Finding]:
    session, offset, number = Session(Config()), 0, 1
    state = session.add_source("megatron.log")
    while lines:
        data = "\n".join([*lines[:block], ""]).encode()
        session.feed(state, Block(data, offset, number))
        offset, number, lines = offset + len(data), number + len(lines[:block]), lines[block:]
    if waited_s is None:
        snapshot = session.snapshot()
    else:
        now = (state.last or 0.0) + waited_s
        snapshot = session.present((now - 3 * waited_s, now), align(session.store), now)
    return [finding for finding in snapshot.findings if finding.signature == "stall"]


@pytest.mark.parametrize("timers", [_TIMERS, _TIMERS[:3], ()])
@pytest.mark.parametrize("every_s", [2.0, 10.0, 40.0])
@pytest.mark.parametrize("block", [7, 1 << 20])
def test_a_hang_is_found_behind_timers(timers: tuple[str, ...], every_s: float, block: int) -> None:
    lines = _iterations(1, 60, 0.0, every_s, timers)
    lines += _iterations(61, 60, 60 * every_s + 3600.0, every_s, timers)
    (stall,) = _stalls(lines, block=block)
    assert stall.lost_s == pytest.approx(3600.0 + every_s, abs=1.0)


@pytest.mark.parametrize("timers", [_TIMERS, _TIMERS[:3], ()])
def test_and_while_it_lasts(timers: tuple[str, ...]) -> None:
    (stall,) = _stalls(_iterations(1, 60, 0.0, 10.0, timers), waited_s=900.0)
    assert stall.lost_s == pytest.approx(900.0, abs=1.0)


@pytest.mark.parametrize("more", [(_VALIDATION,), _UNKNOWN])
def test_more_lines_than_usual_may_have_come_at_any_time(more: tuple[str, ...]) -> None:
    lines = _iterations(1, 60, 0.0, 10.0, _TIMERS)
    lines += [*more, *_iterations(61, 60, 4200.0, 10.0, _TIMERS)]
    assert not _stalls(lines)


def test_as_many_lines_that_are_known_to_prove_no_work_hide_nothing() -> None:
    lines = _iterations(1, 60, 0.0, 10.0, _TIMERS)
    lines += [*_TIMERS, *_iterations(61, 60, 4200.0, 10.0, _TIMERS)]
    (stall,) = _stalls(lines)
    assert stall.lost_s == pytest.approx(3600.0 + 10.0, abs=1.0)


def test_lines_that_come_over_a_long_time_may_fill_a_silence() -> None:
    """Timers of ten iterations behind one dated line, every ten minutes: a silence of half an hour is theirs."""
    lines = [line for at in range(12) for line in _iterations(at, 1, 600.0 * at, 0.0, _TIMERS[1:] * 10)]
    assert not _stalls([*lines, *_iterations(12, 12, 600.0 * 11 + 1700.0, 600.0, _TIMERS[1:])])
