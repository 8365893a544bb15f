"""The lab's inference server, asked for its metrics while it works: what is polled is judged as a log is."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.pipeline.session import Session
from perfmon.sources.blocks import LineSplitter
from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.reading import PollError, Reading, format_reading
from perfmon.sources.pollers.request import PollRequest
from perfmon.sources.pollers.scheduler import make_pollers

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Path]:
    """A run of the lab; its folder."""
    command = [sys.executable, "-m", "lab", "--out", str(tmp_path / "run"), "--seconds", "120"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        yield tmp_path / "run"
        running.terminate()


async def test_polled_figures_are_metrics_of_the_run(lab: Path) -> None:
    plan = lab / "inference.json"
    cutter, lines, poller = LineSplitter(), list[Block](), None
    reading: Reading | None = None
    for second in range(120):
        await asyncio.sleep(0.5)
        if poller is None and plan.exists() and (result := plan.read_text()):
            (poller,) = make_pollers(
                LocalMachine(), PollRequest("vllm", f"http://127.0.0.1:{json.loads(result)['port']}")
            )
        if poller is None:
            continue
        with suppress(PollError):  # it starts
            (reading,) = await poller.poll()
            stamp = f"2026-03-02 08:{15 + second // 60}:{second % 60:02d}.118"
            lines += [
                block for block in cutter.feed(format_reading(reading, "here", stamp)) if isinstance(block, Block)
            ]
            if reading.values.get("gen_tps", 0.0) > 0 and reading.values["running"] > 0:
                break
    assert reading is not None
    assert reading.words == {"kind": "vllm", "model": "lab"}
    session = Session(Config())
    state = session.add_source("poll://here/vllm")
    for block in lines:
        session.feed(state, block)
    metrics = session.snapshot().metrics
    assert metrics["running"].last == reading.values["running"]
    assert metrics["gen_tps"].last == pytest.approx(reading.values["gen_tps"], rel=1e-4)
    assert metrics["kv_usage"].last == pytest.approx(reading.values["kv_usage_pct"], abs=0.01)
