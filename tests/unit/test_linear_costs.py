"""What grows with names and with what never ends costs no more than in proportion; names have a limit."""

from __future__ import annotations

import gc
import time

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.pipeline.session import Session
from perfmon.store.store import MOST_NAMES

pytestmark = pytest.mark.slow
_FEW, _TIMES = 1500, 4
_MOST = 8.0
"""Four times as much takes at most so many times as long: in proportion it is 4, by the square 16."""


def _clock(second: int) -> str:
    return f"2026-03-02 10:{second // 60 % 60:02d}:{second % 60:02d}"


def _polled(at: int) -> str:
    values = f"running={90 + at % 7} waiting=0 kv_usage_pct={at % 90}.2"
    return f"[poll] queue host=head name=gpu-{at}:8000/0 {values} kind=vllm"


def _logged(at: int) -> str:
    return (
        f"INFO 03-02 10:00:00 [loggers.py:127] Engine {at:03d}: Avg prompt throughput: 10.0 tokens/s, Avg generation "
        f"throughput: 20.0 tokens/s, Running: {90 + at % 7} reqs, Waiting: 0 reqs, GPU KV cache usage: {at % 90}.2%"
    )


def _engines(count: int) -> dict[str, list[str]]:
    seconds = [(at, 60 * again + at % 60) for again in range(3) for at in range(count)]
    return {
        "poll:/queue": [f"{_clock(second)}.118 {_polled(at)}" for at, second in seconds],
        "vllm.log": [f"{_clock(second)} {_logged(at)}" for at, second in seconds],
    }


def _hosts(count: int) -> dict[str, list[str]]:
    lines = []
    for at in range(count):
        lines.append(
            f"{_clock(at)}.118 [poll] host host=h{at} name=all cpu_pct=50 cpu_max_pct=90 cores=8 mem_used_mb=1"
        )
        lines.append(f"{_clock(at)}.118 [poll] gpu host=h{at} name=0 util_pct=50 power_w=90 temp_c=50")
    return {"poll:/host": lines}


def _sent(count: int) -> dict[str, list[str]]:
    return {"run.log": [f"{_clock(at)} INFO [weights][{at:x}] client.send t={at}.0" for at in range(4 * count)]}


def _called(count: int) -> dict[str, list[str]]:
    return {"run.log": [f"{_clock(at)} INFO [weights][{at:x}] rpc.start t={at}.0" for at in range(4 * count)]}


def _logs(count: int) -> dict[str, list[str]]:
    return {
        f"worker-{at}.log": [f"{_clock(at + again)} step {again} loss 2.5" for again in range(3)] for at in range(count)
    }


def _failed(count: int) -> dict[str, list[str]]:
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    return {
        f"worker-{at}.log": [f"{_clock(at % 50)} step 1 loss 2.5", f"{_clock(at % 50 + 9)} {error}"]
        for at in range(count)
    }


def _disks(count: int) -> dict[str, list[str]]:
    return {
        "poll:/disk": [
            f"{_clock(0)}.118 [poll] disk host=h name=/d{at} used_pct={at % 90} free_gb=1" for at in range(4 * count)
        ]
    }


def _session(logs: dict[str, list[str]]) -> Session:
    session = Session(Config())
    for name, lines in logs.items():
        session.feed(session.add_source(name), Block("\n".join([*lines, ""]).encode(), 0, 1))
    session.snapshot()
    return session


def _processor_s(logs: dict[str, list[str]]) -> float:
    gc.collect()
    gc.disable()  # it would also look through what other tests of this process left
    begun = time.process_time()
    _session(logs)
    spent = time.process_time() - begun
    gc.enable()
    return spent


@pytest.mark.parametrize("kind", [_engines, _hosts, _sent, _called, _logs, _failed, _disks])
def test_four_times_as_many_cost_in_proportion(kind: object) -> None:
    assert callable(kind)
    many = kind(_FEW * _TIMES)
    few = min(_processor_s(kind(_FEW)) for _ in range(3))
    assert min(_processor_s(many) for _ in range(3)) / few < _MOST


def test_more_names_than_the_limit_are_dropped_and_counted() -> None:
    session = _session({"poll:/queue": [f"{_clock(at)}.118 {_polled(at)}" for at in range(MOST_NAMES + 50)]})
    assert sum(metric == "running" for metric, _ in session.store.series) == MOST_NAMES
    assert session.store.dropped["samples"] >= 50
