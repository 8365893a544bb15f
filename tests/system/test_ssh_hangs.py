"""A run on a host that hangs: its dumps are read over SSH, and the rank that is behind is named."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from ras_server import answer, rank, serving
from sshd import AVAILABLE, Sshd
from terminals import wait

from perfmon.cli import main
from perfmon.core.config import Config
from perfmon.monitor.composite_feeds import RemoteFeed
from perfmon.monitor.hang_watch import ras_answer
from perfmon.monitor.monitor import Monitor
from perfmon.sources.remote.fleet import Fleet, FleetOptions
from perfmon.sources.remote.model import Address, RemoteSpec

pytestmark = [pytest.mark.system, pytest.mark.skipif(not AVAILABLE, reason="needs sshd")]

GLOO = Path(__file__).parent.parent / "hangs" / "gloo" / "late"


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A host."""
    made = Sshd(tmp_path / "sshd", extra="")
    made.start()
    yield made
    made.stop()


def sentence(monitor: Monitor) -> str:
    """What the finding of the stall says."""
    snapshot = monitor.picture.snapshot
    found = () if snapshot is None else snapshot.findings
    return next((one.sentence for one in found if one.signature == "stall"), "")


BEHIND = answer([rank(at, 6 if at == 2 else 7) for at in range(4)])


def test_ras_of_a_host_is_queried_through_its_connection(sshd: Sshd, capsys: pytest.CaptureFixture[str]) -> None:
    """It listens at localhost of that host alone."""
    with serving(BEHIND) as (port, received):
        target = f"ssh://box/localhost:{port}"
        assert main(["nccl", "--hang", target, "--ssh-config", str(sshd.config), "--json"]) == 2
        assert "--yes if the job already hangs" in capsys.readouterr().err
        assert main(["nccl", "--hang", target, "--ssh-config", str(sshd.config), "--json", "--yes"]) == 0
        assert json.loads(capsys.readouterr().out)["hang"]["ranks"] == [2]
    assert len(received) == 1
    assert main(["nccl", "--hang", target, "--ssh-config", str(sshd.config), "--yes"]) == 3
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["nccl", "--hang", "ssh://box/dumps", "--ssh-config", str(sshd.config)]) == 2
    assert "over SSH only NCCL RAS is read" in capsys.readouterr().err


def test_a_monitor_queries_ras_of_a_host_that_it_reads(sshd: Sshd, tmp_path: Path) -> None:
    write_hung(tmp_path / "run")
    fleet = connected(sshd, tmp_path / "run")
    feed = RemoteFeed(fleet)
    assert ras_answer("ssh://other/localhost:28028", feed) == (
        None, "NCCL RAS: other: none of the hosts that are read (box)",
    )  # fmt: skip
    with serving(BEHIND) as (port, received):
        named, notice = ras_answer(f"ssh://box/localhost:{port}", feed)
    assert (named.ranks if named else (), notice, len(received)) == ((2,), "", 1)
    assert ras_answer(f"ssh://box/localhost:{port}", feed)[1].startswith("NCCL RAS: box: Connection refused")
    fleet.close()


def write_hung(folder: Path) -> None:
    """The log of a run that stopped, and beats."""
    folder.mkdir()
    begin = datetime.now(UTC) - timedelta(seconds=1500.0)
    times = [begin + timedelta(seconds=30.0 * number) for number in range(20)]
    lines = [
        f"{time:%Y-%m-%d %H:%M:%S} [rollout] trunc_pct=2.0 current_step={n} ckpt_step={n} staleness=1"
        for n, time in enumerate(times)
    ]
    lines += [f"{begin + timedelta(seconds=s):%Y-%m-%d %H:%M:%S} INFO heartbeat" for s in (900, 1200, 1500)]
    (folder / "train.log").write_text("\n".join(lines) + "\n")


def connected(sshd: Sshd, folder: Path) -> Fleet:
    """The host, with that folder."""
    options = FleetOptions(config=(str(sshd.config),), known_hosts=(str(sshd.known),), poll_s=0.1)
    fleet = Fleet([RemoteSpec(f"box:{folder}", Address("box"), str(folder))], options)
    fleet.open()
    return fleet


def test_the_rank_is_named_and_no_copy_is_left(sshd: Sshd, tmp_path: Path) -> None:
    """The folder also holds a file with the name of a dump that is a script."""
    folder = tmp_path / "run"
    write_hung(folder)
    for path in GLOO.glob("comm*"):
        shutil.copyfile(path, folder / path.name)
    (folder / "trace_7").write_text("#!/bin/sh\n")
    fleet = connected(sshd, folder)
    monitor = Monitor(lambda: RemoteFeed(fleet), Config())
    monitor.start()
    try:
        wait(lambda: "behind" in sentence(monitor))
        assert "; behind: rank 2 (all_reduce 5 in default_pg; 2 of 2 waiting ranks wait for it)" in sentence(monitor)
    finally:
        monitor.stop()
    assert not list(Path(tempfile.gettempdir()).glob("perfmon-dumps-*"))
