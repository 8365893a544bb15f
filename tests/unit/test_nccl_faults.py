"""The rank and the link that are slow are found, and only those, whatever the size and shape of the job."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lab.nccl_logs import Faults, Plan, Writer, write
from perfmon.core import InputError
from perfmon.nccl import Job, JobAnalysis

pytest.importorskip("duckdb", reason="needs DuckDB (pip install 'perfmon-tui[nccl]')")

PLAN = Plan(nodes=4, gpus=4, steps=8, layers=3)


def analyzed(tmp_path: Path, plan: Plan) -> tuple[JobAnalysis, Writer]:
    """The analysis of a job."""
    writer = write(tmp_path, plan)
    with Job([tmp_path]) as job:
        return job.analyze(), writer


def accused(found: JobAnalysis) -> list[tuple[str, str]]:
    """(signature, who) of the findings."""
    return [(finding.signature, finding.identity["group"]) for finding in found.findings]


def test_a_healthy_job_accuses_no_one(tmp_path: Path) -> None:
    found, _ = analyzed(tmp_path, PLAN)
    assert accused(found) == []
    assert max(wait.own_lateness for wait in found.ranks) < 0.5


@pytest.mark.parametrize("shape", [(4, 4), (1, 8), (2, 1)], ids=str)
def test_the_slow_rank_is_named_and_not_those_that_wait_for_it(shape: tuple[int, int], tmp_path: Path) -> None:
    slow = 1
    plan = replace(PLAN, nodes=shape[0], gpus=shape[1], faults=Faults(slow_rank=slow))
    found, writer = analyzed(tmp_path, plan)
    host, pid = writer.hosts[slow // plan.gpus], writer.pids[slow]
    assert accused(found) == [("nccl-slow-rank", f"rank {slow} on {host} (pid {pid})")]
    first, *others = found.ranks
    assert first.seat.rank == slow
    assert first.share > 0.8
    assert max((wait.share for wait in others), default=0.0) < 0.05


def test_a_slow_adapter_is_a_slow_link_and_no_rank(tmp_path: Path) -> None:
    found, writer = analyzed(tmp_path, replace(PLAN, faults=Faults(slow_adapter=2)))
    comm = next(comm for comm in writer.comms if comm.name == "data" and comm.ranks[0] == 2)
    assert accused(found) == [("nccl-slow-link", f"hca-only communicator {comm.id} data")]
    assert found.links[0].ratio == pytest.approx(2.5, rel=0.1)
    assert found.links[0].hosts == tuple(sorted(writer.hosts))


def test_slow_nvlink_of_a_node_is_a_slow_link(tmp_path: Path) -> None:
    found, writer = analyzed(tmp_path, replace(PLAN, faults=Faults(slow_nvlink=1)))
    assert accused(found) == [("nccl-slow-link", f"nvlink-only communicator {writer.comms[1].id} tensor")]
    assert found.links[0].hosts == (writer.hosts[1],)


def test_a_link_that_degrades_during_the_job_is_found(tmp_path: Path) -> None:
    found, _ = analyzed(tmp_path, replace(PLAN, steps=16, faults=Faults(slow_adapter=0, since=0.3)))
    assert [signature for signature, _ in accused(found)] == ["nccl-slow-link"]


def test_where_records_of_ranks_are_missing_nothing_is_guessed(tmp_path: Path) -> None:
    found, _ = analyzed(tmp_path, replace(PLAN, lost_records=0.9, faults=Faults(slow_rank=3)))
    assert found.coverage.share < 0.1
    assert {signature for signature, who in accused(found) if "rank 3 " not in who} == set()


def test_clocks_of_hosts_do_not_matter(tmp_path: Path) -> None:
    plan = replace(PLAN, faults=Faults(slow_rank=5))
    expected, _ = analyzed(tmp_path / "a", plan)
    write(tmp_path / "b", plan)
    for at, path in enumerate(sorted((tmp_path / "b").iterdir())):
        path.write_text(path.read_text().replace('"dump_timestamp_us":17', f'"dump_timestamp_us":1{8 + at % 2}'))
    with Job([tmp_path / "b"]) as job:
        found = job.analyze()
    assert accused(found) == accused(expected)
    assert [wait.share for wait in found.ranks] == [wait.share for wait in expected.ranks]


@pytest.mark.parametrize(
    "folders", [("a", "b"), ("nccl-inspector-71", "nccl-inspector-72")], ids=lambda names: names[0]
)
def test_results_of_two_jobs_are_never_mixed(folders: tuple[str, str], tmp_path: Path) -> None:
    first, second = (
        write(tmp_path / name, replace(PLAN, seed=seed)) for name, seed in zip(folders, (1, 2), strict=True)
    )
    if folders[0] == "a":  # one job, and then the other in the same folder
        for path in (tmp_path / "b").iterdir():
            later = path.read_text().replace('"dump_timestamp_us":1772', '"dump_timestamp_us":1773')
            (tmp_path / "a" / path.name).write_text(later)
            path.unlink()
    with Job([tmp_path]) as job, pytest.raises(InputError, match="logs of 2 jobs: ") as refused:
        job.analyze()
    assert str(refused.value).count("16 processes") == 2
    assert {sorted(writer.hosts)[0] in str(refused.value) for writer in (first, second)} == {True}


def test_groups_that_may_be_parts_of_one_job_are_noted(tmp_path: Path) -> None:
    write(tmp_path, PLAN)
    for path in tmp_path.iterdir():  # pipeline stages, of which only the communicators of a node have records
        kept = [line for line in path.read_text().splitlines() if '"comm_name":"tensor"' in line]
        path.write_text("".join(f"{line}\n" for line in kept))
    with Job([tmp_path]) as job:
        found = job.analyze()
    assert any("4 groups of processes have no communicator in common" in note for note in found.notes)


def test_a_process_with_several_gpus_has_several_seats(tmp_path: Path) -> None:
    plan = Plan(nodes=2, gpus=4, steps=8, layers=3, faults=Faults(slow_rank=6))
    writer = write(tmp_path, plan)
    for path in tmp_path.iterdir():
        rank = writer.pids.index(int(path.stem.rpartition("pid")[2]))
        text = path.read_text().replace(f'"pid":{writer.pids[rank]}', f'"pid":{rank // plan.gpus + 1}')
        path.write_text(text)
    with Job([tmp_path]) as job:
        found = job.analyze()
    assert [(wait.seat.rank, wait.seat.pid, wait.seat.slot) for wait in found.ranks[:1]] == [(6, 2, 3)]
    assert [signature for signature, _ in accused(found)] == ["nccl-slow-rank"]
