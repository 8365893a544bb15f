"""A real Slurm of one node: the user's jobs, why they wait, and how the node is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import slurm_node

from lab.nccl_logs import Plan, write
from perfmon.cli import main
from perfmon.sources.pollers.base import LocalMachine
from perfmon.sources.pollers.reading import Area, PollError, Reading
from perfmon.sources.pollers.request import PollRequest
from perfmon.sources.pollers.scheduler import make_pollers

pytestmark = [pytest.mark.system, pytest.mark.skipif(bool(slurm_node.WHY_NOT), reason=slurm_node.WHY_NOT)]
TITLE = "train: a|b; $(touch owned) [red]"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm_node.Cluster]:
    """One for all tests here."""
    with slurm_node.cluster(tmp_path_factory.mktemp("slurm")) as running:
        yield running


async def polled() -> dict[tuple[Area, str], Reading]:
    """What one poll tells."""
    (poller,) = make_pollers(LocalMachine(), PollRequest("slurm", ""))
    try:
        return {(reading.area, reading.name): reading for reading in await poller.poll()}
    finally:
        await poller.close()


async def test_jobs_and_nodes(cluster: slurm_node.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    batch = ("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 600", "-J")
    first, second = (cluster.run(*batch, title) for title in (TITLE, "next"))
    slurm_node.wait_for(lambda: "RUNNING" in cluster.run("squeue", "-h", "-o", "%T"), cluster.folder)
    result = await polled()
    running, waiting = result[Area.JOB, first], result[Area.JOB, second]
    assert running.words == {"state": "RUNNING", "reason": "", "title": TITLE}
    assert (running.values["nodes"], running.values["ended"]) == (1.0, 0.0)
    assert (waiting.words["state"], waiting.words["reason"]) in [("PENDING", "Resources"), ("PENDING", "Priority")]
    assert result[Area.NODE, cluster.host].values == {"unwell": 0.0}

    cluster.run("scontrol", "update", f"nodename={cluster.host}", "state=drain", "reason=Xid 79 | ticket 7")
    cluster.run("scancel", second)
    result = await polled()
    node = result[Area.NODE, cluster.host]
    assert (node.values["unwell"], node.words["reason"]) == (1.0, "Xid 79 | ticket 7")
    assert result[Area.JOB, second].words["state"] == "CANCELLED"
    assert result[Area.JOB, second].values["ended"] == 1.0
    cluster.run("scancel", first)
    cluster.run("scontrol", "update", f"nodename={cluster.host}", "state=resume")


def test_the_logs_of_a_job_are_found_and_described(
    cluster: slurm_node.Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")
    pytest.importorskip("matplotlib", reason="needs matplotlib (pip install 'perfmon-tui[plots]')")
    monkeypatch.setenv("SLURM_CONF", cluster.environment["SLURM_CONF"])
    job = cluster.run("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "sleep 600", "-J", TITLE)
    slurm_node.wait_for(lambda: "RUNNING" in cluster.run("squeue", "-h", "-j", job, "-o", "%T"), cluster.folder)
    write(tmp_path / "logs" / job, Plan(nodes=1, gpus=2, steps=2))
    (tmp_path / "exporter.ini").write_text(f"[paths]\ndefault_log_root = {tmp_path}/logs\n")
    monkeypatch.chdir(tmp_path)
    assert main(["nccl", "--jobid", job, "--config", "exporter.ini"]) == 0
    described = json.loads((tmp_path / f"{job}-insp" / "summary.json").read_text())["job"]
    cluster.run("scancel", job)
    assert (described["JobName"], described["Partition"], described["State"]) == (TITLE, "debug", "RUNNING")
    assert (described["NodeList"], described["NNodes"]) == (cluster.host, "1")
    assert described["User"].startswith("root(")
    assert (tmp_path / f"{job}-insp" / "summary").is_dir()
    assert main(["nccl", "--jobid", "999999", "--config", "exporter.ini"]) == 2


async def test_a_controller_that_is_not_there_gets_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slurm.conf").write_text("")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    with pytest.raises(PollError, match=r"^slurm: squeue: .+") as caught:
        await polled()
    assert "\n" not in str(caught.value)
