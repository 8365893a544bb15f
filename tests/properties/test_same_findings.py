"""The same bytes give the same findings: cut anyhow, compressed, in an archive, through a pipe, in ranges, live."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from feeding import feed
from following import follow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfmon.core.config import Config
from perfmon.core.model import Block, Notice
from perfmon.demo.output import demo_timeline, write_demo
from perfmon.demo.simulation import BEGIN
from perfmon.pipeline.offline import Options, examine
from perfmon.pipeline.session import Session
from perfmon.recording.writer import RecordingWriter
from perfmon.reports.json_report import document
from perfmon.sources import parallel
from perfmon.sources.blocks import LineSplitter
from perfmon.sources.pollers.reading import is_poll
from perfmon.sources.replay import Player, Rewound
from perfmon.store.source_state import SourceState

SCENARIOS = ("frontend-queue", "trainer-bound")
NAMES = ("inference.log", "orchestrator.log", "trainer.log")


@pytest.fixture(scope="module", params=SCENARIOS)
def scenario(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def logs(scenario: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("demo")
    write_demo(folder, scenario)
    return {name: (folder / name).read_bytes() for name in NAMES}


def _named(value: Any) -> Any:
    """A document without what only names the input: paths of sources, counts of bytes."""
    if isinstance(value, dict):
        return {
            key: Path(item).name.split(".log")[0].rpartition(":")[2] if key in ("source", "spec") else _named(item)
            for key, item in value.items()
            if key not in ("bytes", "notes")
        }
    return [_named(item) for item in value] if isinstance(value, list) else value


def _result_of(snapshot: Any) -> Any:
    result = _named(document(snapshot))
    for polled in ("gpus", "hosts", "queues"):  # a player has pollers, files have none
        result.pop(polled, None)
    result["run"]["sources"].sort(key=lambda source: source["spec"])
    return json.loads(json.dumps(result, sort_keys=True))


def _analyzed(*specs: Path) -> Any:
    return _result_of(examine(Options(tuple(str(spec) for spec in specs)))[0])


@pytest.fixture(scope="module")
def expected(scenario: str, logs: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("plain")
    for name, data in logs.items():
        (folder / name).write_bytes(data)
    result = _analyzed(folder)
    assert result["verdict"]["signature"] == scenario
    return result


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_however_it_is_cut(logs: dict[str, bytes], expected: Any, data: st.DataObject) -> None:
    session = Session(Config())
    for name, text in logs.items():
        state, cutter = session.add_source(name), LineSplitter()
        cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=12), label=name))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        for item in [item for piece in pieces for item in cutter.feed(piece)] + cutter.finish():
            assert isinstance(item, Block)
            session.feed(state, item)
    assert _result_of(session.snapshot()) == expected


def test_line_by_line(logs: dict[str, bytes], expected: Any) -> None:
    session = Session(Config())
    for name, text in logs.items():
        feed(session, name, text.splitlines(keepends=True))
    assert _result_of(session.snapshot()) == expected


_COMPRESSED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.compress,
}


@pytest.mark.parametrize("suffix", _COMPRESSED)
def test_compressed(logs: dict[str, bytes], expected: Any, tmp_path: Path, suffix: str) -> None:
    for name, data in logs.items():
        (tmp_path / f"{name}.{suffix}").write_bytes(_COMPRESSED[suffix](data))
    assert _analyzed(tmp_path) == expected


def test_in_a_tar_archive(logs: dict[str, bytes], expected: Any, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "run.tar.gz", "w:gz") as archive:
        for name, data in logs.items():
            member = tarfile.TarInfo(f"logs/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    assert _analyzed(tmp_path / "run.tar.gz") == expected


def test_in_a_zip_archive(logs: dict[str, bytes], expected: Any, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "run.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in logs.items():
            archive.writestr(f"logs/{name}", data)
    assert _analyzed(tmp_path / "run.zip") == expected


def test_in_a_recording(logs: dict[str, bytes], expected: Any, tmp_path: Path) -> None:
    with RecordingWriter(tmp_path / "run.pmrec", ["logs"]) as writer:
        cutters = {name: LineSplitter() for name in logs}
        for at in range(0, max(map(len, logs.values())), 5000):
            for name, data in logs.items():
                for item in cutters[name].feed(data[at : at + 5000]):
                    writer.write(at / 5000, name, item)
    assert _analyzed(tmp_path / "run.pmrec") == expected
    (tmp_path / "run.pmrec").rename(tmp_path / "another.name")
    assert _analyzed(tmp_path / "another.name") == expected


async def test_replayed_with_a_seek_back(scenario: str, expected: Any) -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    timeline = demo_timeline(scenario, minutes=10, begin=BEGIN)
    player = Player(timeline, speed=1000.0, clock=lambda: now, sleep=sleep)
    session, seeks = Session(Config()), [50.0, 250.0]
    states: dict[str, SourceState] = {}
    async for item in player:
        if isinstance(item, Rewound):
            session, states = Session(Config()), {}
            continue
        log, block = item
        assert isinstance(block, Block)
        if is_poll(log.name):
            continue  # what was written to files has no pollers
        if log.name not in states:
            states[log.name] = session.add_source(log.name)
        session.feed(states[log.name], block)
        if seeks and player.position_s > 300:
            player.seek(seeks.pop())
    assert not seeks
    assert _result_of(session.snapshot()) == expected


def test_through_a_pipe(logs: dict[str, bytes], tmp_path: Path) -> None:
    (tmp_path / "orchestrator.log").write_bytes(logs["orchestrator.log"])
    alone = _analyzed(tmp_path / "orchestrator.log")
    command = [sys.executable, "-m", "perfmon", "analyze", "-", "--json"]
    piped = subprocess.run(command, input=logs["orchestrator.log"], capture_output=True, check=True)
    assert [f["signature"] for f in json.loads(piped.stdout)["findings"]] == [f["signature"] for f in alone["findings"]]
    assert json.loads(piped.stdout)["metrics"] == alone["metrics"]
    assert json.loads(piped.stdout)["ledger"] == alone["ledger"]


@pytest.mark.parametrize("size", [1 << 12, 20_001])
def test_in_ranges_by_several_processes(
    logs: dict[str, bytes], expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    for name, data in logs.items():
        (tmp_path / name).write_bytes(data)
    monkeypatch.setattr(parallel, "LEAST", 1)
    monkeypatch.setattr(parallel, "RANGE", size)
    assert _result_of(examine(Options((str(tmp_path),), jobs=2))[0]) == expected


async def test_live_while_it_is_written(logs: dict[str, bytes], expected: Any, tmp_path: Path) -> None:
    session, states = Session(Config()), {}
    wanted = sum(map(len, logs.values()))
    seen = 0

    async def write() -> None:
        for at in range(8):
            for name, data in logs.items():
                size = len(data) // 8 + 1
                with (tmp_path / name).open("ab") as file:
                    file.write(data[at * size : (at + 1) * size])
            await asyncio.sleep(0.02)

    async with asyncio.timeout(20):
        writer = asyncio.create_task(write())
        async for log, item in follow([str(tmp_path)], poll_s=0.02):
            if isinstance(item, Notice):
                continue
            if log.name not in states:
                states[log.name] = session.add_source(log.name)
            session.feed(states[log.name], item)
            seen += len(item.data)
            if seen == wanted:
                break
        await writer
    assert _result_of(session.snapshot()) == expected
