"""The rank and the link that are slow are found, and only those, whatever the size and shape of the job."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest

from lab.nccl_logs import Faults, Plan, Writer, write
from perfmon.core import InputError
from perfmon.nccl import Job, JobAnalysis, LiveJob
from perfmon.reports import nccl_text

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


def test_a_rank_is_an_origin_by_the_limits_of_the_rule(tmp_path: Path) -> None:
    rule = tomllib.loads((files("perfmon") / "rules/signatures/nccl-slow-rank.toml").read_text())
    limits = {one["metric"]: one.get("above", 0) / 100 for one in rule["condition"]}
    wait = analyzed(tmp_path, PLAN)[0].ranks[0]
    own, share = limits["nccl_own_lateness_pct"], limits["nccl_origin_pct"]
    for more_own, more_share in ((0.001, 0.001), (0.001, -0.001), (-0.001, 0.001)):
        changed = replace(wait, own_lateness=own + more_own, lasting_share=share + more_share)
        assert changed.is_origin == (more_own > 0 and more_share > 0)


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


STAGES = Plan(nodes=4, gpus=4, steps=6, layers=1, microbatches=4)
"""Pipeline stages on four nodes: each GPU sends to that of the next node."""


def test_stages_that_wait_for_each_other_accuse_no_one(tmp_path: Path) -> None:
    found, _ = analyzed(tmp_path, STAGES)
    assert accused(found) == []
    assert len(found.pairs) == 12
    assert all(pair.link_type == "hca" and pair.ratio < 1.15 for pair in found.pairs)
    # The first stage is the last to arrive, since it waits for the gradients: that is no lateness of its own.
    assert max(wait.own_lateness for wait in found.ranks if wait.lateness_us > 1000) < 0.5


@pytest.mark.parametrize("slow", [5, 1], ids=["between two others", "with one other"])
def test_a_rank_with_slow_sends_is_named_and_not_those_that_wait(slow: int, tmp_path: Path) -> None:
    found, writer = analyzed(tmp_path, replace(STAGES, faults=Faults(slow_sends=slow)))
    ends = [f"rank {rank} on {writer.hosts[rank // 4]} (pid {writer.pids[rank]})" for rank in (slow, slow + 4)]
    who = f"of {ends[0]}" if slow == 5 else f"between {ends[0]} and {ends[1]}"
    assert accused(found) == [("nccl-slow-link", f"hca sends and receives {who}")]
    assert found.pairs[0].ratio == pytest.approx(2.5, rel=0.1)
    assert "sends and receives between" in nccl_text(found)


def test_slow_pairs_without_a_place_in_common_may_be_the_build_of_the_network(tmp_path: Path) -> None:
    write(tmp_path, replace(STAGES, gpus=8, faults=Faults(slow_sends=13)))
    for path in tmp_path.iterdir():  # another pair, on other hosts, is as slow
        lines = []
        for line in path.read_text().splitlines():
            record = json.loads(line)
            sent = record.get("p2p_perf")
            if sent and {record["header"]["rank"], sent["p2p_peer"]} == {18, 26}:
                sent["p2p_exec_time_us"] += 1000
            lines.append(json.dumps(record, separators=(",", ":")))
        path.write_text("".join(f"{line}\n" for line in lines))
    with Job([tmp_path]) as job:
        found = job.analyze()
    assert accused(found) == []
    assert any("3 of 24 hca pairs are slower" in note for note in found.notes)


def test_pairs_of_a_host_are_compared_with_those_in_the_same_places(tmp_path: Path) -> None:
    writer = Writer(Plan(nodes=6, gpus=4))
    for _ in range(12):
        for comm in writer.comms[:6]:
            first = comm.ranks[0]
            near, far = Faults(), Faults(slow_sends=first + 2, factor=3)  # between the sockets of each host
            writer._send(comm, first, first + 1, 16 << 20, Faults(slow_sends=8) if first == 8 else near)
            writer._send(comm, first + 1, first + 2, 16 << 20, far)
    writer.save(tmp_path)
    with Job([tmp_path]) as job:
        found = job.analyze()
    host, pids = writer.hosts[2], writer.pids
    between = " and ".join(f"rank {at} on {host} (pid {pids[8 + at]})" for at in (0, 1))
    assert accused(found) == [("nccl-slow-link", f"nvlink sends and receives between {between}")]


@pytest.mark.parametrize("missing", ["pairs", "records", "a side"])
def test_too_few_sends_are_not_compared(missing: str, tmp_path: Path) -> None:
    plan = replace(STAGES, faults=Faults(slow_sends=1))
    plan = {"pairs": replace(plan, nodes=2), "records": replace(plan, steps=2, microbatches=2), "a side": plan}[missing]
    write(tmp_path, plan)
    for path in tmp_path.iterdir():
        kept = [line for line in path.read_text().splitlines() if missing != "a side" or '"p2p":"Recv"' not in line]
        path.write_text("".join(f"{line}\n" for line in kept))
    with Job([tmp_path]) as job:
        found = job.analyze()
    assert (accused(found), found.pairs) == ([], ())
    assert any("sends and receives are not compared" in note for note in found.notes)


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


@pytest.mark.parametrize("folder", ["nccl-inspector-71", "71"])
def test_runs_of_a_slurm_job_that_was_restarted_are_read_together(folder: str, tmp_path: Path) -> None:
    first, second = replace(PLAN, seed=1), replace(PLAN, seed=2, faults=Faults(slow_rank=5))
    write(tmp_path / folder, first)
    writer = write(tmp_path / "second", second)
    for path in (tmp_path / "second").iterdir():
        later = path.read_text().replace('"dump_timestamp_us":1772', '"dump_timestamp_us":1773')
        (tmp_path / folder / path.name).write_text(later)
    with Job([tmp_path / folder]) as job:
        found = job.analyze(slurm_job=None if "-" in folder else folder)
    assert "2 runs of this Slurm job, one after another: the figures are those of all of them" in found.notes
    assert [who for _, who in accused(found)] == [f"rank 5 on {writer.hosts[1]} (pid {writer.pids[5]})"]


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


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_slow_rank_in_a_pipeline_is_late_among_ranks_of_its_own_stage(replicas: int, tmp_path: Path) -> None:
    plan = Plan(2 * replicas, 4, steps=10, layers=3, compute_us=1000, replicas=replicas, microbatches=4)
    found, _ = analyzed(tmp_path / "healthy", plan)
    assert accused(found) == []
    found, writer = analyzed(tmp_path / "slow", replace(plan, faults=Faults(slow_rank=6, delay_us=2000)))
    assert accused(found) == [("nccl-slow-rank", f"rank 6 on {writer.hosts[1]} (pid {writer.pids[6]})")]


UNLUCKY = {
    "one pause": Plan(1, 8, steps=60, layers=2, faults=Faults(paused_rank=3, pause_us=10e6)),
    "one pause of a small job": Plan(2, 2, steps=60, layers=2, faults=Faults(paused_rank=3, pause_us=3e6)),
    "twelve pauses": Plan(
        1,
        8,
        steps=300,
        layers=2,
        faults=Faults(paused_rank=0, pause_us=10e6, pause_at=tuple((at + 0.9) / 12 for at in range(12))),
    ),
    "a late start": Plan(2, 4, steps=30, layers=2, faults=Faults(paused_rank=5, pause_us=60e6, pause_at=(0.0,))),
    "heavy tails": Plan(2, 4, steps=60, layers=2, jitter=0.3, tail=1.2),
}


@pytest.mark.parametrize("name", UNLUCKY)
def test_waiting_that_does_not_last_accuses_no_one(name: str, tmp_path: Path) -> None:
    found, _ = analyzed(tmp_path, UNLUCKY[name])
    if (paused := UNLUCKY[name].faults.paused_rank) is not None:
        assert (found.ranks[0].seat.rank, found.ranks[0].share > 0.9) == (paused, True)
        (note,) = [note for note in found.notes if note.startswith(f"rank {paused} on ")]
        late, _, operations = note.partition("late by ")[2].partition(" s ")
        late_s, pauses = float(late), len(UNLUCKY[name].faults.pause_at)
        assert operations.startswith("for one operation" if pauses == 1 else f"in {pauses} operations (checkpoints, ")
        assert late_s == pytest.approx(UNLUCKY[name].faults.pause_us / 1e6, rel=0.01)
        assert "No rank is late throughout the job" in nccl_text(found)
    assert accused(found) == []


@pytest.mark.parametrize("stops", [(0.5,), (0.45, 0.57), (0.25, 0.55, 0.85), (0.15, 0.35, 0.55, 0.85)])
def test_a_slow_rank_is_named_though_another_one_stops_now_and_then(stops: tuple[float, ...], tmp_path: Path) -> None:
    faults = Faults(slow_rank=2, paused_rank=5, pause_us=10e6, pause_at=stops)
    found, writer = analyzed(tmp_path, Plan(2, 4, steps=40, layers=2, faults=faults))
    assert accused(found) == [("nccl-slow-rank", f"rank 2 on {writer.hosts[0]} (pid {writer.pids[2]})")]


def test_two_slow_ranks_are_both_named(tmp_path: Path) -> None:
    faults = Faults(slow_rank=2, delay_us=2500, delay_spread=0.05, also_slow=(5,))
    found, writer = analyzed(tmp_path, Plan(1, 8, steps=20, layers=2, faults=faults))
    host = writer.hosts[0]
    assert sorted(accused(found)) == [
        ("nccl-slow-rank", f"rank {rank} on {host} (pid {writer.pids[rank]})") for rank in (2, 5)
    ]


def test_waiting_for_several_ranks_that_no_rule_decides_is_stated(tmp_path: Path) -> None:
    faults = Faults(slow_rank=2, delay_us=4000, also_slow=(3, 5))
    found, _ = analyzed(tmp_path, Plan(1, 8, steps=20, layers=2, faults=faults))
    assert accused(found) == []
    text = nccl_text(found)
    assert "No slow rank" not in text
    assert "not decided: waiting of" in text
    assert all(f"rank {rank} on" in text for rank in (2, 3, 5))


def test_a_rank_that_becomes_slow_half_way_is_named(tmp_path: Path) -> None:
    faults = Faults(slow_rank=2, since=0.45)
    found, writer = analyzed(tmp_path, Plan(2, 4, steps=40, layers=2, faults=faults))
    assert accused(found) == [("nccl-slow-rank", f"rank 2 on {writer.hosts[0]} (pid {writer.pids[2]})")]


def test_the_root_of_broadcasts_is_not_the_rank_that_others_wait_for(tmp_path: Path) -> None:
    write(tmp_path, Plan(1, 8, steps=20, layers=2, faults=Faults(slow_rank=0, delay_us=3000)))
    for path in tmp_path.iterdir():
        text = path.read_text()
        path.write_text(text.replace('"coll":"AllGather"', '"coll":"Broadcast"').replace("ReduceScatter", "Reduce"))
    with Job([tmp_path]) as job:
        assert accused(found := job.analyze()) == []
    assert found.ranks == ()
    live = LiveJob()
    for path in sorted(tmp_path.iterdir()):
        live.feed(path, path.read_bytes())
    live.advance(caught_up=True)
    assert live.state(0.0).ranks == ()


def test_links_of_another_job_on_slower_hardware_are_not_slow(tmp_path: Path) -> None:
    write(tmp_path, Plan(4, 4, steps=20, layers=2))
    small = write(tmp_path, Plan(1, 4, steps=20, layers=2, seed=2, faults=Faults(slow_nvlink=0)))
    with Job([tmp_path]) as job:
        found = job.analyze()
    assert accused(found) == []
    assert small.comms[0].id not in {link.comm for link in found.links}
    assert len(found.links) > 4


def test_ranks_of_several_communicators_are_noted(tmp_path: Path) -> None:
    def notes() -> list[str]:
        with Job([tmp_path]) as job:
            return [note for note in job.analyze().notes if note.startswith("no communicator of all processes")]

    write(tmp_path, replace(PLAN, nodes=2))
    assert notes() == []
    for path in tmp_path.iterdir():
        kept = [line for line in path.read_text().splitlines() if '"comm_name":"world"' not in line]
        path.write_text("".join(f"{line}\n" for line in kept))
    (note,) = notes()
    assert "within 2 communicators, such as one of 4 ranks tensor;" in note
