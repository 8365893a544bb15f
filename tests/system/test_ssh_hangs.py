"""A run on a host that hangs: its dumps are read over SSH, and the rank that is behind is named."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sshd import AVAILABLE, Sshd
from terminals import wait

from perfmon.core.config import Config
from perfmon.monitor.composite_feeds import RemoteFeed
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


def test_the_rank_is_named_and_no_copy_is_left(sshd: Sshd, tmp_path: Path) -> None:
    """The folder also holds a file with the name of a dump that is a script."""
    folder = tmp_path / "run"
    folder.mkdir()
    for path in GLOO.glob("comm*"):
        shutil.copyfile(path, folder / path.name)
    (folder / "trace_7").write_text("#!/bin/sh\n")
    begin = datetime.now(UTC) - timedelta(seconds=1500.0)
    times = [begin + timedelta(seconds=30.0 * number) for number in range(20)]
    lines = [
        f"{time:%Y-%m-%d %H:%M:%S} [rollout] trunc_pct=2.0 current_step={n} ckpt_step={n} staleness=1"
        for n, time in enumerate(times)
    ]
    lines += [f"{begin + timedelta(seconds=s):%Y-%m-%d %H:%M:%S} INFO heartbeat" for s in (900, 1200, 1500)]
    (folder / "train.log").write_text("\n".join(lines) + "\n")
    options = FleetOptions(config=(str(sshd.config),), known_hosts=(str(sshd.known),), poll_s=0.1)
    fleet = Fleet([RemoteSpec(f"box:{folder}", Address("box"), str(folder))], options)
    fleet.open()
    monitor = Monitor(lambda: RemoteFeed(fleet), Config())
    monitor.start()
    try:
        wait(lambda: "behind" in sentence(monitor))
        assert "; behind: rank 2 (all_reduce 5 in default_pg; 2 of 2 waiting ranks wait for it)" in sentence(monitor)
    finally:
        monitor.stop()
    assert not list(Path(tempfile.gettempdir()).glob("perfmon-dumps-*"))
