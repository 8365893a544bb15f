"""Weight updates that stop coming, seen through a window that moves on: what was usual is not forgotten."""

from __future__ import annotations

import pytest

from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Finding
from perfmon.pipeline.session import Session

_STOPPED_S = 1200


def _clock(second: int) -> str:
    return f"2026-08-21 {10 + second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"


def _lines(update: str) -> list[str]:
    result = []
    for second in range(0, 3000, 20):
        step = second // 20
        result.append(f"{_clock(second)} INFO [ckpt] write.done step={step} write_ms=80.0")
        if second < _STOPPED_S and second % 60 == 0:
            result.append(f"{_clock(second + 5)} {update.format(step)}")
    return result


_TRACED = "INFO [weights][u{0}] client.done wall_ms=1020 rpc_ms=1000 queue_ms=20"


def _missing(now_s: int) -> list[Finding]:
    session = Session(Config())
    data = "".join(f"{line}\n" for line in _lines(_TRACED) if line[11:19] <= _clock(now_s)[11:19])
    session.feed(session.add_source("orchestrator.log"), Block(data.encode(), 0, 1))
    first = session.store.sources[0].first or 0.0
    now = first + now_s
    snapshot = session.present((now - 600, now), align(session.store), now)
    return [finding for finding in snapshot.findings if finding.signature == "no-weight-updates"]


@pytest.mark.parametrize("since_s", range(220, 1300, 60))
def test_it_is_told_as_long_as_none_comes(since_s: int) -> None:
    (result,) = _missing(_STOPPED_S + since_s)
    assert "no weight update for" in result.sentence


def test_it_is_not_told_while_they_come() -> None:
    assert not _missing(_STOPPED_S)
