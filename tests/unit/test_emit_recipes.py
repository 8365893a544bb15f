"""The recipes of docs/instrument.md run, and perfmon reads what they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from perfmon.core.config import Config
from perfmon.core.model import Block, Update
from perfmon.pipeline.session import Session
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.scan.scanner import Scanner

PAGE = (Path(__file__).parents[2] / "docs" / "instrument.md").read_text()
RECIPES = dict(re.findall(r"<!-- recipe: ([\w-]+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))
SCANNER = Scanner(load_packs())


def run(recipe: str, use: str, folder: Path) -> bytes:
    """What a program prints that begins with a recipe and goes on with `use`."""
    (folder / "program.py").write_text(RECIPES[recipe] + "\n" + use)
    command = [sys.executable, "-W", "error", "program.py"]
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout.decode()
    return done.stdout


def read(log: bytes) -> Session:
    """A log, as perfmon reads it."""
    session = Session(Config(), SCANNER)
    state = session.add_source("run.log")
    session.feed(state, Block(log, 0, 1))
    assert state.skipped == 0
    assert state.clocked
    return session


def metrics(session: Session) -> set[str]:
    """The names of all metrics that were read."""
    return {metric for metric, _ in session.store.series}


UPDATE = """
with emit.weights_update("http://10.0.0.5:8000", "/w/step_3") as update:
    with emit.rpc(trace=update.trace) as call:
        pass
    update.answered(call)
"""


def only_update(log: bytes) -> Update:
    """The one update of a log."""
    (update,) = read(log).store.updates
    assert update.legs == 0b11101
    assert update.queue_ms is not None
    return update


def test_a_training_loop(tmp_path: Path) -> None:
    session = read(run("loop", "train(range(7), lambda batch: None, lambda step: None, every=3)", tmp_path))
    assert [span.key for span in session.store.spans["checkpoint-write"]] == ["3", "6"]


def test_an_orchestrator_in_the_style_of_prime_rl(tmp_path: Path) -> None:
    use = """
import httpx

async def app(scope, receive, send):
    async with emit.rpc():
        await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})

async def generate():
    return {"truncated": False}

async def wait(step): ...

async def main():
    server = httpx.ASGITransport(emit.FirstByteMiddleware(app))
    async with httpx.AsyncClient(transport=server, base_url="http://10.0.0.5:8000") as client:
        await step(4, 3, generate, wait, [client, client], "/w/step_3", batch_size=8)

asyncio.run(main())
"""
    session = read(run("prime-rl", use, tmp_path))
    assert [update.complete for update in session.store.updates] == [True, True]
    assert len({update.key for update in session.store.updates}) == 2
    (batch,) = session.store.spans["generation-batch"]
    assert (batch.fields["completions"], batch.fields["target_batch"]) == ("8", "8")
    assert metrics(session) >= {"wait_ms", "dur_ms", "trunc_pct", "staleness", "inflight"}


def test_a_fastapi_server(tmp_path: Path) -> None:
    use = """
import asyncio
import httpx

async def load(folder):
    assert folder == "/w/step_3"

async def main():
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://h") as client:
        async with emit.weights_update("http://h", "/w/step_3") as update:
            told = {"weight_dir": "/w/step_3"}
            update.answered(await client.post("/update_weights", json=told, headers=update.headers))

asyncio.run(main())
"""
    (update,) = read(run("fastapi", use, tmp_path)).store.updates
    assert update.complete


def test_a_middleware_for_vllm(tmp_path: Path) -> None:
    use = """
import asyncio

vllm = logging.getLogger("vllm")
vllm.addHandler(logging.StreamHandler())
form = "%(levelname)s %(asctime)s [%(filename)s:%(lineno)d] %(message)s"
vllm.handlers[0].setFormatter(logging.Formatter(form, "%m-%d %H:%M:%S"))
vllm.setLevel("DEBUG")
vllm.propagate = False

async def app(scope, receive, send):
    async with emit.rpc():
        pass

scope = {"type": "http", "path": "/update_weights", "headers": [(b"x-perfmon-trace", b"abc")]}
asyncio.run(FirstByteMiddleware(app)(scope, None, None))
"""
    log = run("vllm", use, tmp_path)
    assert re.match(rb"INFO \d\d-\d\d \d\d:\d\d:\d\d \[emit\.py:\d+\] \[weights\]\[abc\] server\.recv ", log)
    (update,) = read(log).store.updates
    assert update.legs == 0b01110


@pytest.mark.parametrize("logger", ["loguru", "structlog"])
def test_other_loggers(logger: str, tmp_path: Path) -> None:
    use = """
queue = emit.QueueMonitor(lambda: 1, "Q{1}", 9, looks=1)
queue.look()
emit.rollout(100, 3, 2)
"""
    log = run(logger, UPDATE + use, tmp_path)
    assert only_update(log).key
    session = read(log)
    assert metrics(session) >= {"queue_fill", "trunc_pct"}
    assert list(session.store.marks) == [("starved", "Q_1_")]
    assert b"warning" in log.lower()


def test_json_lines_in_a_file_of_their_own(tmp_path: Path) -> None:
    assert run("json", UPDATE, tmp_path) == b""
    assert only_update((tmp_path / "emit.jsonl").read_bytes()).fields["path"] == "/w/step_3"


def test_every_recipe_is_run() -> None:
    tested = Path(__file__).read_text()
    assert [name for name in RECIPES if f'"{name}"' not in tested] == []
    assert PAGE.count("```python") == len(RECIPES) > 5
