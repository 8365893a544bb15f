"""Logs of NCCL Inspector on a real SSH server: a rank that appears later is followed, and the slow one is named."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from remotely import until
from sshd import AVAILABLE, Sshd

from lab.nccl_logs import Faults, Plan, write
from perfmon.cli import main
from perfmon.commands._remote import feed_of, sort_specs
from perfmon.core import Block
from perfmon.sources.remote import Fleet, FleetOptions

pytestmark = [pytest.mark.system, pytest.mark.skipif(not AVAILABLE, reason="needs sshd")]


PLAN = Plan(nodes=2, gpus=2, steps=80, layers=3, compute_us=60_000, jitter=0.003)


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server."""
    made = Sshd(tmp_path / "sshd")
    made.start()
    yield made
    made.stop()


async def test_ranks_of_a_host_are_combined_as_they_appear_and_grow(sshd: Sshd, tmp_path: Path) -> None:
    writer = write(tmp_path / "made", replace(PLAN, faults=Faults(slow_rank=1, delay_us=8_000)))
    logs = tmp_path / "logs"
    logs.mkdir()
    texts = {path.name: path.read_bytes() for path in sorted((tmp_path / "made").iterdir())}
    late = next(iter(texts))
    for name in texts:
        if name != late:
            (logs / name).write_bytes(texts[name][: len(texts[name]) // 2])
    wanted = sort_specs([f"nccl=ssh://box{logs}"])
    fleet = Fleet(wanted.remote, FleetOptions(poll_s=0.05, config=(str(sshd.config),), known_hosts=(str(sshd.known),)))
    await asyncio.to_thread(fleet.open)
    feed = feed_of(fleet, wanted.local, inspector=wanted.collectives)
    lines: list[str] = []

    async def take() -> None:
        async for log_and_item in feed.items():
            item = log_and_item[1]
            if isinstance(item, Block):
                lines.extend(item.data.decode().splitlines())

    taking = asyncio.create_task(take())
    try:
        await until(lambda: feed.collectives is not None and feed.collectives.processes == 3)
        for name, text in texts.items():
            with (logs / name).open("ab") as file:
                file.write(text[file.tell() :])
        await until(lambda: feed.collectives is not None and feed.collectives.lines == writer.records)
        await until(lambda: any('for="rank 1 ' in line and "origin_pct=100" in line for line in lines), lines[-9:])
        assert feed.collectives is not None
        assert feed.collectives.processes == 4
        assert feed.collectives.skipped == 0
    finally:
        taking.cancel()
        await asyncio.wait((taking,))
        await feed.close()


def test_the_command_follows_a_host_of_an_ssh_configuration(sshd: Sshd, tmp_path: Path) -> None:
    write(tmp_path / "logs", replace(PLAN, faults=Faults(slow_rank=1, delay_us=8_000)))
    command = [sys.executable, "-m", "perfmon", "nccl", f"ssh://box{tmp_path}/logs", "--live", "--json"]
    with subprocess.Popen(
        [*command, "--ssh-config", str(sshd.config)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdout is not None
        document = json.loads(next(line for line in running.stdout if b"nccl-slow-rank" in line))
        running.send_signal(signal.SIGINT)
        _, errors = running.communicate(timeout=60.0)
    assert document["findings"][0]["identity"]["group"].startswith("rank 1 on ")
    assert (running.returncode, errors) == (130, b"")


def test_a_configuration_that_does_not_exist_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["nccl", "ssh://box/logs", "--live", "--json", "--ssh-config", "/nowhere/config"]) == 2
    assert capsys.readouterr().err == "perfmon: /nowhere/config: no such file (--ssh-config)\n"
