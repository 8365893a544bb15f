"""What a server that is full costs: what it makes less, not the time for which requests wait."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from perfmon.cli import main
from perfmon.core.errors import ExitCode

Output = pytest.CaptureFixture[str]


def _diagnosis(samples: list[tuple[float, int, int, float]], path: Path, capsys: Output) -> dict[str, Any]:
    """Of a server that printed (tokens per second, running, waiting, cache in %) every 10 s."""
    begin = datetime(2026, 3, 2, 8, 0)
    path.write_text(
        "".join(
            f"INFO {begin + timedelta(seconds=10 * n):%m-%d %H:%M:%S} [loggers.py:127] Engine 000: "
            f"Avg prompt throughput: 900.0 tokens/s, "
            f"Avg generation throughput: {tps * (1 + 0.02 * (n * 7 % 5 - 2)):.1f} tokens/s, "
            f"Running: {running + n % 2} reqs, Waiting: {waiting} reqs, GPU KV cache usage: {kv:.1f}%, "
            f"Prefix cache hit rate: 21.0%\n"
            for n, (tps, running, waiting, kv) in enumerate(samples)
        )
    )
    assert main(["analyze", "--json", str(path)]) == ExitCode.DONE
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


_ROOM = (2000.0, 60, 0, 62.0)


def test_what_it_makes_less_than_before_is_lost(tmp_path: Path, capsys: Output) -> None:
    found = _diagnosis([_ROOM] * 60 + [(1600.0, 60, 240, 99.0)] * 40, tmp_path / "vllm.log", capsys)
    verdict = found["verdict"]
    assert (verdict["signature"], verdict["severity"]) == ("kv-cache-pressure", "critical")
    assert 0.06 < verdict["lost_share"] < 0.1  # a fifth of 40 %; 80 % of the requests wait in that time
    assert "240 waiting" in verdict["sentence"]


def test_what_makes_as_much_as_ever_loses_nothing(tmp_path: Path, capsys: Output) -> None:
    found = _diagnosis([_ROOM] * 60 + [(2000.0, 60, 240, 99.0)] * 40, tmp_path / "vllm.log", capsys)
    assert found["verdict"]["signature"] == "kv-cache-pressure"
    assert found["verdict"]["lost_s"] == 0
    assert "lost" not in found["verdict"]["sentence"]


def test_a_full_cache_for_which_none_waits_is_healthy(tmp_path: Path, capsys: Output) -> None:
    found = _diagnosis([_ROOM] * 60 + [(1950.0, 60, 0, 99.0)] * 40, tmp_path / "vllm.log", capsys)
    assert found["verdict"] is None


def test_one_whose_cache_never_had_room_has_no_known_cost(tmp_path: Path, capsys: Output) -> None:
    busy, slower = (2300.0, 128, 92, 97.0), (2100.0, 118, 102, 98.5)
    found = _diagnosis([busy] * 30 + [slower] * 40 + [busy] * 30, tmp_path / "vllm.log", capsys)
    assert found["verdict"]["signature"] == "kv-cache-pressure"
    assert found["verdict"]["lost_s"] == 0
