"""`perfmon profile`: traces of PyTorch's profiler and exports of Nsight Systems, written here with known figures."""

from __future__ import annotations

import gzip
import json
import random
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from traces import MS, event, kernel, starved, write

from perfmon.cli import main
from perfmon.core import UsageError
from perfmon.profile import STAGES, Profile, read_profile


def _use(found: Profile) -> Any:
    (use,) = found.gpus
    return use


@pytest.mark.parametrize("name", ["rank2.json", "rank2.json.gz"])
def test_a_starved_gpu_waits_for_the_loader(tmp_path: Path, name: str) -> None:
    devices = [{"id": 0, "name": "Test GPU"}]
    found = read_profile([write(tmp_path / name, starved(), deviceProperties=devices)])
    use = _use(found)
    # The last step is left out: the profiler cuts its work off.
    assert (use.rank, use.product) == (2, "Test GPU")
    assert use.span == 4 * 100_000_000 + 32_000_000
    assert use.busy == use.compute == 5 * 30_000_000
    assert use.streams == {7: (use.span - use.busy, 0, 0)}
    # Calls of the runtime that lie in it hide nothing here; the last step ends with its work.
    assert use.loader == pytest.approx(6 * 60_000_000, rel=1e-3)
    assert use.stepped == 600_000_000
    assert use.long_gaps == 4 + 10
    assert use.gaps[0].end - use.gaps[0].start == 68_000_000
    finding = next(one for one in found.findings if one.signature == "data-starved")
    assert finding.lost_share == pytest.approx(240 / 432, rel=0.02)
    assert finding.lost_s == pytest.approx(0.24, rel=0.02)
    assert len(finding.evidence) == 3
    assert "idle for 68.0 ms at" in finding.evidence[0].text
    assert "DataLoader" in finding.evidence[0].text


def test_idle_time_is_divided_by_its_reason(tmp_path: Path) -> None:
    events = [
        *kernel(1, 0, 100, 100),
        *kernel(2, 300, 310, 90),  # launched after the one before had ended: the host
        *kernel(3, 305, 410, 90),  # launched in time, 10 us between them
        *kernel(4, 306, 600, 100),  # launched in time, and late: something else
        *kernel(5, 307, 650, 250, "ncclDevKernel_AllReduce_Sum", stream=9),
    ]
    use = _use(read_profile([write(tmp_path / "t.json", events)]))
    assert use.streams == {7: (110_000, 10_000, 100_000), 9: (0, 0, 0)}
    assert (use.compute, use.communication, use.overlapped) == (380_000, 250_000, 50_000)
    assert use.span - use.busy == 220_000
    assert use.queue_most == 3


def test_without_launches_the_reasons_of_idle_time_are_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    events = [one for at in range(20) for one in kernel(at, 0, at * 100, 50) if one["cat"] == "kernel"]
    path = write(tmp_path / "t.json", events)
    assert "whether the host was late is not known" in _note(path)
    assert main(["profile", str(path), "--json"]) == 0
    assert set(json.loads(capsys.readouterr().out)["gpus"][0]["idle_us_by"].values()) == {None}
    assert main(["profile", str(path)]) == 0
    assert capsys.readouterr().out.count("unknown") == 4


def test_a_doubt_about_all_figures_is_the_first_note(tmp_path: Path) -> None:
    for at in range(3):
        write(tmp_path / f"{at}.json", [*starved(4 + at), {"ph": "X", "ts": "x"}], distributedInfo={"rank": 0})
    assert read_profile([tmp_path]).notes[0].startswith("several traces are of rank 0")


def test_only_synchronisation_on_an_idle_gpu_is_a_stall(tmp_path: Path) -> None:
    events = [
        *kernel(1, 0, 10, 10 * MS),
        event("cuda_runtime", "cudaStreamSynchronize", 100, 9 * MS, correlation=90),
        event("cuda_runtime", "cudaDeviceSynchronize", 10 * MS, 5 * MS, correlation=91),
        *kernel(2, 19 * MS, 20 * MS, 10 * MS),
    ]
    assert _use(read_profile([write(tmp_path / "t.json", events)])).sync_stall == 5 * 1_000_000 - 10_000


def test_copies_from_pageable_memory_are_a_cause(tmp_path: Path) -> None:
    events = []
    for at in range(5):
        name = "Memcpy HtoD (Pageable -> Device)" if at else "Memcpy HtoD (Pinned -> Device)"
        events.append(
            event("gpu_memcpy", name, at * 20 * MS, 10 * MS, device=0, stream=7, correlation=at, bytes=1_000_000)
        )
    found = read_profile([write(tmp_path / "t.json", events)])
    assert (_use(found).pageable_bytes, _use(found).copied_bytes) == (4_000_000, 5_000_000)
    assert "pageable-transfer" in [finding.signature for finding in found.findings]


@pytest.mark.parametrize("late", [None, 1])
def test_the_last_rank_to_arrive_is_named_whatever_the_clocks(tmp_path: Path, late: int | None) -> None:
    for rank in range(4):
        events = []
        for at in range(20):
            length = 2 * MS if rank == late else 5 * MS + 10 * ((at * 7 + rank * 3) % 5)
            start = rank * 1e9 + at * 20 * MS
            events += kernel(at, start, start + 10, length, "ncclDevKernel_AllReduce_Sum_bf16_RING")
        write(tmp_path / f"rank{rank}.json", events, distributedInfo={"rank": rank})
    found = read_profile([tmp_path])
    assert [use.rank for use in found.gpus] == [0, 1, 2, 3]
    assert [finding.identity["rank"] for finding in found.findings if finding.signature == "straggler-rank"] == (
        [] if late is None else [str(late)]
    )


def _ranks(
    folder: Path, slow: float = 1, late: float = 0, jitter: float = 0, collective: float = 1, seed: int = 3
) -> Profile:
    """Traces of four ranks: 20 steps of three kernels of 2 ms, and a collective that begins when the last one is there.

    Rank 2 is slower by `slow`, and its host late by `late` ms in each step.
    """
    rng = random.Random(seed)
    events: list[list[Any]] = [[] for _ in range(4)]
    begin = 0.0
    for step in range(20):
        arrived = []
        for rank in range(4):
            at = begin + 10
            for part in range(3):
                length = (2 + rng.random() * jitter) * MS * (slow if rank == 2 else 1)
                at += late * MS if rank == 2 and not part else 0
                events[rank] += kernel(step * 4 + part, at - 5 if late and rank == 2 else begin, at, length)
                at += length + 1
            arrived.append(at)
        begin = max(arrived) + collective * MS
        for rank, at in enumerate(arrived):
            events[rank] += kernel(step * 4 + 3, at - 100, at, begin - at, "ncclDevKernel_AllReduce_Sum_bf16_RING", 9)
    for rank in range(4):
        write(folder / f"rank{rank}.json", events[rank], distributedInfo={"rank": rank})
    return read_profile([folder])


def test_waiting_for_a_slow_rank_is_no_communication(tmp_path: Path) -> None:
    slow = _ranks(tmp_path, slow=1.6)
    assert [(one.signature, one.identity) for one in slow.findings] == [("straggler-rank", {"rank": "2"})]
    assert slow.findings[0].lost_share == pytest.approx(3.6 / 10.6, rel=0.2)
    assert slow.gpus[0].communication / slow.gpus[0].span == pytest.approx(4.6 / 10.6, abs=0.02)
    assert slow.gpus[0].whole.exposed == pytest.approx(1 / 10.6, abs=0.02)
    network = _ranks(tmp_path, collective=6)
    assert {one.signature for one in network.findings} == {"comm-bound"}


@pytest.mark.parametrize("seed", range(6))
def test_a_rank_that_is_last_by_chance_is_no_straggler(tmp_path: Path, seed: int) -> None:
    assert _ranks(tmp_path, jitter=2, seed=seed).findings == ()


def _grid(folder: Path, *, labelled: bool, begin: float = 0) -> Profile:
    """Four ranks, of which 3 is slow: {0, 1} and {2, 3} work together in each layer, {0, 2} and {1, 3} after a step."""
    rng = random.Random(5)
    events: list[list[Any]] = [[] for _ in range(4)]
    now, number = [0.0] * 4, 0
    pairs, data = [(0, 1), (2, 3)], [(0, 2), (1, 3)]
    for _step in range(25):
        for group, name in [*[(pair, "tp") for _ in range(4) for pair in pairs], *[(pair, "dp") for pair in data]]:
            number += 1
            for rank in group if name == "tp" else ():
                length = (2.5 if rank == 3 else 1.5) * MS * rng.uniform(0.99, 1.01)
                events[rank] += kernel(number * 2, now[rank], now[rank] + 10, length)
                now[rank] += length + 10
            end = max(now[rank] for rank in group) + 0.2 * MS
            place = 0 if group in pairs else 2
            words = {"Process Group Name": str(place + group[1] % 2), "Process Group Description": name,
                     "Process Group Ranks": str(list(group)), "Collective name": "allreduce"}  # fmt: skip
            for rank in group:
                made = kernel(
                    number * 2 + 1, now[rank] - 5, now[rank], end - now[rank],
                    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 20 if name == "tp" else 28,
                )  # fmt: skip
                made[1]["args"] |= words if labelled else {}
                events[rank] += made
                now[rank] = end
    for rank in range(4):
        for one in events[rank]:
            one["ts"] += begin + rank * 7e8
        write(folder / f"rank{rank}.json", events[rank], distributedInfo={"rank": rank})
    return read_profile([folder])


@pytest.mark.parametrize("labelled", [True, False])
def test_waits_are_those_of_each_process_group(tmp_path: Path, labelled: bool) -> None:
    found = _grid(tmp_path, labelled=labelled)
    assert [one.identity for one in found.findings if one.signature == "straggler-rank"] == [{"rank": "3"}]
    (late,) = (one for one in found.findings if one.signature == "straggler-rank")
    assert late.lost_share == pytest.approx(1 / 2.75, rel=0.15)
    of_group = {one.ranks: one for one in found.groups}
    # Of groups that always leave together no one can be told apart from the other, without a name.
    assert set(of_group) == {(0, 1), (2, 3), *([(0, 2), (1, 3)] if labelled else [(0, 1, 2, 3)])}
    assert of_group[2, 3].last == 3
    assert of_group[2, 3].count == 100
    assert of_group[2, 3].waiting == pytest.approx(100 * 1.0 * MS * 1e3 / 2, rel=0.1)
    assert of_group[0, 1].waiting < 0.05 * of_group[2, 3].waiting
    assert not labelled or of_group[2, 3].name.endswith("(tp)")


def test_several_traces_of_each_rank_are_compared_round_by_round(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        _grid(tmp_path / str(number), labelled=True, begin=number * 1e10)
    found = read_profile([tmp_path])
    assert [one.identity for one in found.findings if one.signature == "straggler-rank"] == [{"rank": "3"}]
    (tensor,) = (one for one in found.groups if one.ranks == (2, 3))
    assert (tensor.count, tensor.last) == (200, 3)


def test_a_broadcast_is_no_wait_for_its_root(tmp_path: Path) -> None:
    for rank in range(4):
        events = []
        for at in range(20):
            events += kernel(
                at, at * 20 * MS, at * 20 * MS + 10, (1 if rank == 0 else 8) * MS, "ncclDevKernel_Broadcast_RING_LL"
            )
        write(tmp_path / f"rank{rank}.json", events, distributedInfo={"rank": rank})
    assert not read_profile([tmp_path]).groups


def test_a_group_with_a_member_without_a_trace_names_no_one(tmp_path: Path) -> None:
    _grid(tmp_path, labelled=True)
    (tmp_path / "rank3.json").unlink()
    found = read_profile([tmp_path])
    assert {one.ranks for one in found.groups} == {(0, 1), (0, 2)}
    assert "straggler-rank" not in {one.signature for one in found.findings}


def _nsys(path: Path, tables: bool = True) -> Path:
    with sqlite3.connect(path) as database:
        database.execute("create table StringIds (id integer, value text)")
        database.executemany(
            "insert into StringIds values (?, ?)",
            [(1, "gemm"), (2, "cudaLaunchKernel_v7000"), (3, "cudaStreamSynchronize_v3020")],
        )
        if tables:
            database.execute(
                "create table CUPTI_ACTIVITY_KIND_KERNEL "
                "(start, end, deviceId, streamId, correlationId, globalPid, shortName)"
            )
            database.execute("create table CUPTI_ACTIVITY_KIND_RUNTIME (start, end, globalTid, correlationId, nameId)")
            database.execute(
                "create table CUPTI_ACTIVITY_KIND_MEMCPY "
                "(start, end, deviceId, streamId, correlationId, globalPid, bytes, copyKind, srcKind)"
            )
            database.execute("create table NVTX_EVENTS (start, end, globalTid, eventType, text, textId)")
            process = 5 << 24
            for at in range(4):
                low = at * 10_000_000
                database.execute(
                    "insert into CUPTI_ACTIVITY_KIND_KERNEL values (?,?,0,7,?,?,1)", (low, low + 4_000_000, at, process)
                )
                database.execute(
                    "insert into CUPTI_ACTIVITY_KIND_RUNTIME values (?,?,?,?,2)", (low - 10, low - 5, process | 9, at)
                )
                database.execute(
                    "insert into NVTX_EVENTS values (?,?,?,59,?,null)",
                    (low, low + 5_000_000, process | 9, f"stream_process_batch_{at}"),
                )
            database.execute(
                "insert into CUPTI_ACTIVITY_KIND_MEMCPY values (35000000,36000000,0,7,90,?,64,1,0)", (process,)
            )
            database.execute("insert into CUPTI_ACTIVITY_KIND_RUNTIME values (4000000,8000000,?,99,3)", (process | 9,))
    return path


def test_an_export_of_nsight_systems_is_read_with_its_ranges(tmp_path: Path) -> None:
    found = read_profile([_nsys(tmp_path / "run.sqlite")])
    use = _use(found)
    assert (use.span, use.busy, use.compute, use.copy) == (36_000_000, 17_000_000, 16_000_000, 1_000_000)
    assert use.host_wait == 18_000_000
    assert use.sync_stall == 4_000_000
    assert (use.pageable_bytes, use.copied_bytes) == (64, 64)
    (named,) = found.ranges
    assert (named.name, named.count, named.between, named.longest_between) == (
        "stream_process_batch_#", 4, 15_000_000, 5_000_000,
    )  # fmt: skip


def test_the_time_between_ranges_is_the_mean_of_each_process(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rank in range(2):
        events = kernel(1, 0, 10, 100 * MS + rank)
        events += [event("user_annotation", f"stream_process_batch_{at}", at * 20 * MS, 8 * MS) for at in range(5)]
        write(tmp_path / f"rank{rank}.json", events, distributedInfo={"rank": rank})
    assert main(["profile", str(tmp_path)]) == 0
    assert re.search(r"stream_process_batch_# +10 +8\.0 ms +12\.0 ms +12\.0 ms", capsys.readouterr().out)


def test_graphs_that_were_traced_as_a_whole_are_work_of_the_gpu(tmp_path: Path) -> None:
    path = _nsys(tmp_path / "run.sqlite")
    with sqlite3.connect(path) as database:
        database.execute(
            "create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE "
            "(start, end, deviceId, streamId, correlationId, globalPid, graphId, graphExecId)"
        )
        database.execute(
            "insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (4500000, 9500000, 0, 7, 50, ?, 1, 2)", (5 << 24,)
        )
    found = read_profile([path])
    assert (_use(found).busy, _use(found).compute) == (22_000_000, 21_000_000)
    (note,) = found.notes
    assert "1 CUDA graph without the kernels inside" in note
    assert "--cuda-graph-trace=node" in note


def test_a_short_name_hides_no_collective(tmp_path: Path) -> None:
    """A library's kernels for experts are "dispatch" and "combine" without their namespace."""
    path = _nsys(tmp_path / "run.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("alter table CUPTI_ACTIVITY_KIND_KERNEL add column demangledName")
        names = [(4, "dispatch"), (5, "void deep_ep::intranode::dispatch<8>(int)")]
        database.executemany("insert into StringIds values (?, ?)", names)
        database.execute("update CUPTI_ACTIVITY_KIND_KERNEL set shortName = 4, demangledName = 5 where start = 0")
    use = _use(read_profile([path]))
    assert (use.compute, use.communication) == (12_000_000, 4_000_000)
    assert [name.split()[0] for name in use.collectives] == ["dispatch"]


def test_a_trace_that_ends_in_the_middle_is_evaluated_up_to_there(tmp_path: Path) -> None:
    whole = write(tmp_path / "rank0.json", starved(30)).read_bytes()
    for name, content in (
        ("cut.json", whole[: len(whole) // 2]),
        ("cut.json.gz", gzip.compress(whole)[: len(gzip.compress(whole)) * 3 // 4]),
        ("comma.json", whole[: whole.rindex(b"},")] + b"},"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        found = read_profile([path])
        assert _use(found).busy >= 10 * 30_000_000, name
        assert any("ends in the middle" in note for note in found.notes), name


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "nan", "-nan", "inf"])
def test_a_number_that_is_none_costs_at_most_its_event(tmp_path: Path, number: str) -> None:
    around = {"deviceProperties": [{"id": 0, "name": "Test GPU", "share": 0.5}], "distributedInfo": {"rank": 3}}
    whole = write(tmp_path / "t.json", starved(30), **around).read_text()
    as_argument = whole.replace('"device": 0,', f'"device": 0, "text, inf, nan": {number}, "list": [{number}],')
    for text in (as_argument, whole.replace('"share": 0.5', f'"share": {number}')):
        (tmp_path / "t.json").write_text(text)
        found = read_profile([tmp_path / "t.json"])
        use = _use(found)
        assert (use.product, use.rank, use.busy, found.notes) == ("Test GPU", 3, 29 * 30_000_000, [])
    first = starved(30)
    first[3]["dur"] = "?"
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": first}).replace('"?"', number))
    write(tmp_path / "good.json", starved(), distributedInfo={"rank": 1})
    assert len(read_profile([tmp_path]).gpus) == 2


@pytest.mark.parametrize("steps", [30, 2000], ids=["small", "pieces"])
def test_a_damaged_event_costs_itself_alone(tmp_path: Path, steps: int) -> None:
    text = json.dumps({"traceEvents": starved(steps), "deviceProperties": [{"id": 0, "name": "Test GPU"}]})
    place = text.index('"gemm"', len(text) // 3)
    size = 30_000_000 * (steps - 1)
    for damaged, lost in (
        (text[:place] + "####" + text[place + 4 :], 10_000_000),
        (text[:place] + "\x00\x01" + text[place + 2 :], 10_000_000),
        (text.replace('}], "device', '},], "device'), 0),
        (text.replace('"gemm"', r'"C:\Users\k"'), 0),
    ):
        (tmp_path / "t.json").write_text(damaged)
        found = read_profile([tmp_path / "t.json"])
        use = _use(found)
        assert (use.busy, use.product) == (size - lost, "Test GPU")
        assert len(found.partial) == (lost > 0)
        assert all("damaged in 1 place: " in note for note in found.notes)
        assert len(found.notes) == (lost > 0)


def test_what_stands_around_the_events_may_be_larger_than_they_are(tmp_path: Path) -> None:
    properties = [{"id": at, "name": f"GPU {at}", "extra": [{"a": 1}, {"b": 2}]} for at in range(5000)]
    before = {"metadata": properties, "traceEvents": starved(), "deviceProperties": properties}
    path = tmp_path / "t.json"
    path.write_text(json.dumps(before))
    found = read_profile([path])
    assert _use(found).product == "GPU 0"
    assert not found.notes


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.json", b"", "no trace events"),
        ("t.json", b'{"a": 1}', "no trace events"),
        ("t.json", b'{"traceEvents": []}', "no trace events"),
        ("t.json.gz", b"\x1f\x8bbroken", "the file is damaged"),
        ("t.sqlite", b"no database", "not readable as SQLite"),
        ("t.nsys-rep", b"", "nsys export --type sqlite"),
        ("t.qdrep", b"", "nsys export --type sqlite"),
    ],
)
def test_a_file_that_is_no_trace_gets_one_line(
    tmp_path: Path, name: str, content: bytes, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    assert main(["profile", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_traces_without_gpus_and_foreign_databases_are_refused(tmp_path: Path) -> None:
    cpu = write(tmp_path / "cpu.json", [event("cpu_op", "aten::add", 0, 5)])
    with pytest.raises(UsageError, match="without a GPU"):
        read_profile([cpu])
    with pytest.raises(UsageError, match="no GPU work was traced"):
        read_profile([_nsys(tmp_path / "empty.sqlite", tables=False)])
    with sqlite3.connect(tmp_path / "foreign.sqlite") as database:
        database.execute("create table t (a)")
    with pytest.raises(UsageError, match="no export of nsys"):
        read_profile([tmp_path / "foreign.sqlite"])
    with pytest.raises(UsageError, match="no such file"):
        read_profile([tmp_path / "absent.json"])


def test_copies_of_a_trace_count_once_and_bad_events_are_left_out(tmp_path: Path) -> None:
    bad = [{"ph": "X", "cat": "kernel", "name": 5, "ts": [], "dur": 1}, {"ph": "X", "ts": "x", "dur": 1}]
    write(tmp_path / "a.json", [*starved(), *bad])
    write(tmp_path / "b.json", starved())
    found = read_profile([tmp_path])
    assert len(found.gpus) == 1
    assert any("counts once" in note for note in found.notes)
    assert any("wrong type" in note for note in found.notes)


def test_names_in_traces_are_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    hostile = "\x1b[31m[bold]<img src=x onerror=1>|`x`\n# head"
    events = [*kernel(1, 0, 10, MS, hostile), *kernel(2, 50 * MS, 50 * MS, MS, hostile)]
    events += [event("user_annotation", hostile, 5 * MS, 40 * MS), event("cpu_op", hostile, 2 * MS, 40 * MS)]
    path = write(tmp_path / "t.json", events, deviceProperties=[{"id": 0, "name": hostile}])
    for form in ([], ["--markdown"], ["--json"]):
        assert main(["profile", str(path), *form]) == 0
        out = capsys.readouterr().out
        assert "\x1b" not in out
        assert form == ["--json"] or "\n# head" not in out
        if form == ["--markdown"]:
            assert "<img" not in out
        if form == ["--json"]:
            assert json.loads(out)["gpus"][0]["idle_pct"] > 90


def test_two_traces_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    slow, fast = write(tmp_path / "slow.json", starved(20)), write(tmp_path / "fast.json", starved(20, wait=1))
    assert main(["compare", str(slow), str(fast), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "a step 100 ms → 41 ms: waiting for the next batch 60 ms → 1 ms" in document["sentence"]
    change = document["metrics"]["step_data_ms"]
    assert change["verdict"] == "better"
    assert change["ci95"][0] < change["ci95"][1] < 0
    stages = [metric for name, metric in document["metrics"].items() if name.startswith("step_")]
    assert sum(metric["before"]["mean"] for metric in stages) == pytest.approx(100, rel=0.02)
    assert sum(metric["after"]["mean"] for metric in stages) == pytest.approx(41, rel=0.02)
    assert document["verdict"] == "improved"  # stalls take as long as before, of a shorter step
    assert [finding["signature"] for finding in document["findings"]["new"]] == ["host-stall"]
    assert [finding["signature"] for finding in document["findings"]["gone"]][:1] == ["data-starved"]
    assert not any(name.endswith("_share") and "pageable" not in name for name in document["metrics"])
    assert main(["compare", str(fast), str(slow), "--fail-on", "regression"]) == 1
    capsys.readouterr()
    assert main(["compare", str(fast), str(fast), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "unchanged"


def test_a_range_that_only_one_trace_has_is_named_and_changes_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def streamed(parse: float) -> list[Any]:
        events: list[Any] = []
        for batch in range(40):
            at = batch * (20 + parse) * MS
            events.append(event("user_annotation", f"stream_process_batch_{batch}", at, (19 + parse) * MS))
            if parse:
                events.append(event("user_annotation", "_parse_raw_data", at, parse * MS))
            events += kernel(batch, at + parse * MS, at + parse * MS + 10, 19 * MS - 10)
        return events

    local, socket = write(tmp_path / "a.json", streamed(0)), write(tmp_path / "b.json", streamed(15))
    assert main(["compare", str(local), str(socket), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert "a step 20 ms → 35 ms: stalls of the host 0.01 ms → 15 ms" in document["sentence"]
    assert document["verdict"] == "regressed"
    assert "range_ms" not in document["metrics"]
    assert any("range_ms{_parse_raw_data} (mean 15 ms)" in note for note in document["notes"])


def test_steps_of_a_short_trace_are_compared_and_equal_kernels_are_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six steps: the wait before the first kernel is no part of the traced time, that of whole steps is complete."""
    quick, late = write(tmp_path / "a.json", starved(wait=20)), write(tmp_path / "b.json", starved(wait=60))
    assert main(["compare", str(quick), str(late), "--json"]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    whole, parts = metrics["profiled_step_ms"], [metrics[name] for name in STAGES]
    assert (whole["verdict"], whole["change"]) == ("worse", pytest.approx(40, abs=0.1))
    assert sum(part["change"] for part in parts) == pytest.approx(40, abs=0.1)
    assert metrics["step_data_ms"]["change"] == pytest.approx(40, abs=1)
    assert metrics["step_compute_ms"]["verdict"] == "same"


def test_batches_that_follow_each_other_at_once_are_steps_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of data that are made in the process nothing is waited for, of those from a socket 15 ms each time."""

    def streamed(wait: int) -> list[Any]:
        events: list[Any] = []
        for batch in range(30):
            at = batch * (20 + wait) * MS
            events.append(event("user_annotation", f"stream_process_batch_{batch}", at, 20 * MS))
            events += kernel(batch, at + 10, at + 20, 20 * MS - 20)
        return events

    local, socket = write(tmp_path / "a.json", streamed(0)), write(tmp_path / "b.json", streamed(15))
    assert main(["compare", str(local), str(socket), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["verdict"] == "regressed"
    assert "a step 20 ms → 35 ms: waiting for the next batch 0 ms → 15 ms" in document["sentence"]


def test_a_trace_and_a_log_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = write(tmp_path / "trace.json", starved())
    (tmp_path / "run.log").write_text("2026-03-02 08:15:10 step 1 loss 2.0\n")
    assert main(["compare", str(trace), str(tmp_path / "run.log")]) == 2
    assert "the other has none" in capsys.readouterr().err


def test_the_time_between_named_ranges_is_compared(tmp_path: Path) -> None:
    from perfmon.profile import as_runs

    events = kernel(1, 0, 10, 400 * MS)
    for at in range(20):
        events.append(event("user_annotation", f"stream_process_batch_{at}", at * 20 * MS, 8 * MS))
    found = read_profile([write(tmp_path / "t.json", events)])
    (_, _, samples, _), _ = as_runs(found, found)
    gaps = samples.metrics["range_gap_ms"]
    assert set(gaps.values) == {12.0}
    assert gaps.group(0) == "stream_process_batch_#"


def test_work_of_the_last_step_is_left_out_by_the_latest_start_of_a_step(tmp_path: Path) -> None:
    """The GPU's own annotation of a step begins later than the host's; work that names no launch counts by its own."""
    events = [
        event("user_annotation", "ProfilerStep#1", 0, 100),
        event("user_annotation", "ProfilerStep#2", 100, 100),
        event("gpu_user_annotation", "ProfilerStep#2", 130, 100, device=0, stream=7),
        *kernel(1, 10, 20, 50),
        *kernel(2, 110, 140, 10),  # launched in the last step, before the GPU begins it
        *kernel(3, 131, 160, 10),
        event("kernel", "gemm", 75, 5, device=0, stream=7),  # no launch
        event("kernel", "gemm", 190, 5, device=0, stream=7),
        *kernel(4, 20, 100, 5)[1:],  # its launch is not in the trace
    ]
    use = _use(read_profile([write(tmp_path / "t.json", events)]))
    assert (use.span, use.busy) == (130_000, 65_000)


def test_launches_of_every_backend_are_known(tmp_path: Path) -> None:
    for category in ("hip_runtime", "mtia_runtime", "cuda_driver", "privateuse1_runtime", "Runtime"):
        events = [*kernel(1, 0, 10, 10), *kernel(2, 50, 60, 10)]
        for launch in events[::2]:
            launch["cat"] = category
        assert _use(read_profile([write(tmp_path / f"{category}.json", events)])).streams == {7: (40_000, 0, 0)}


@pytest.mark.parametrize("key", ["deviceProperties", "computeProperties"])
def test_the_product_of_a_gpu_is_named(tmp_path: Path, key: str) -> None:
    around = {key: [{"id": 0, "name": "Fast GPU 32GB"}]}
    assert _use(read_profile([write(tmp_path / "t.json", kernel(1, 0, 10, 100), **around)])).product == "Fast GPU 32GB"


def test_a_single_kernel_without_a_length_is_a_trace(tmp_path: Path) -> None:
    use = _use(read_profile([write(tmp_path / "t.json", kernel(1, 0, 10, 0))]))
    assert (use.span, use.busy) == (0, 0)


def test_work_without_a_stream_counts_where_none_has_one(tmp_path: Path) -> None:
    apart = [event("mtia_ccp_events", "dma_in", at, 10, device=0, correlation=9) for at in (0, 30)]
    assert _use(read_profile([write(tmp_path / "alone.json", apart)])).busy == 20_000
    both = [*apart, *kernel(1, 0, 50, 10)]
    assert _use(read_profile([write(tmp_path / "both.json", both)])).busy == 10_000


def _note(path: Path) -> str:
    found = read_profile([path])
    assert found.gpus
    (note,) = found.notes
    return note


def test_nanoseconds_as_unit_are_seen_and_stated(tmp_path: Path) -> None:
    events = [dict(one, ts=int(one["ts"]) * 1000, dur=int(one["dur"]) * 1000) for one in starved()]
    path = write(tmp_path / "t.json", events)
    assert "times are nanoseconds" in _note(path)
    assert _use(read_profile([path])).span == 432_000_000


def test_what_cannot_be_a_time_or_a_number_is_left_out(tmp_path: Path) -> None:
    odd = [dict(one, ts=1e300) for one in kernel(90, 0, 10, 10)]
    assert "2 events with times out of range" in _note(write(tmp_path / "t.json", [*starved(), *odd]))
    huge = [event("kernel", "gemm", 1, 5, device=0, stream=2**65, correlation=2**70)]
    assert read_profile([write(tmp_path / "huge.json", huge)]).gpus


def test_text_that_is_no_trace_is_one_line_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    (tmp_path / "binary.json").write_bytes(b"\x00\xff" * 1000)
    (tmp_path / "empty.sqlite").write_bytes(b"")
    write(tmp_path / "good.json", starved())
    assert main(["profile", str(tmp_path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert len(document["gpus"]) == 1
    assert sorted(note.partition(": ")[0].rpartition("/")[2] for note in document["notes"]) == [
        "binary.json", "deep.json", "empty.sqlite",
    ]  # fmt: skip


def test_a_partial_trace_is_said_to_be_partial(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path / "t.json", starved())
    path.write_text(path.read_text()[:-2000])
    assert main(["profile", str(path)]) == 0
    assert "1 GPU (partial: see the notes)" in capsys.readouterr().out
    assert main(["profile", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["partial"] == [str(path)]


def test_short_kernels_are_launch_bound_and_exposed_collectives_communication_bound(tmp_path: Path) -> None:
    events = []
    for at in range(300):
        events += kernel(at, at * 100, at * 100 + 10, 5)
    found = read_profile([write(tmp_path / "short.json", events)])
    assert [one.signature for one in found.findings][:1] == ["launch-bound"]
    assert found.findings[0].lost_share == pytest.approx(0.95, abs=0.02)
    events = []
    for at in range(100):
        events += kernel(2 * at, 0, 10 + at * 100, 55)
        events += kernel(2 * at + 1, 0, 65 + at * 100, 45, "ncclDevKernel_AllReduce_Sum", stream=9)
    found = read_profile([write(tmp_path / "comm.json", events)])
    assert [one.signature for one in found.findings] == ["comm-bound"]
    assert found.findings[0].lost_share == pytest.approx(0.45, abs=0.02)


def test_long_gaps_without_launches_are_a_stall_of_the_host(tmp_path: Path) -> None:
    events, begin = list[Any](), 0.0
    for step in range(4):
        for part in range(100):
            events += kernel(step * 100 + part, begin + part * 10, begin + 10 + part * MS, MS)
        events.append(event("cpu_op", "write_log", begin + 100 * MS, 60 * MS))
        begin += 160 * MS
    found = read_profile([write(tmp_path / "t.json", events)])
    assert _use(found).queue_mean > 10
    assert [one.signature for one in found.findings] == ["host-stall"]
    assert found.findings[0].lost_share == pytest.approx(180 / 580, abs=0.02)
    assert "write_log 60.0 ms" in found.findings[0].evidence[0].text


@pytest.mark.parametrize(("busy", "is_idle"), [(3, True), (40, True), (60, False)])
def test_a_gpu_is_idle_below_half_of_the_time_whatever_the_reason(tmp_path: Path, busy: int, is_idle: bool) -> None:
    events = []
    for at in range(300):
        events += kernel(at, at, 1000 + at * 100, busy)  # launched in time
    found = read_profile([write(tmp_path / "t.json", events)])
    assert [one.signature for one in found.findings] == (["gpu-idle"] if is_idle else [])


def test_a_gap_is_explained_by_what_is_most_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events = [*kernel(1, 0, 10, MS), *kernel(2, 101 * MS, 101.1 * MS, MS)]
    events += [
        event("user_annotation", "stream_process_batch_4", -MS, 103 * MS),
        event("python_function", "pipeline.py(12): process", 0, 101 * MS),
        event("python_function", "data.py(7): parse", 20 * MS, 70 * MS),
        event("python_function", "data.py(9): one_of_millions", 30 * MS, 0.3 * MS),
        event("cpu_op", "aten::copy_", 92 * MS, 4 * MS),
    ]
    found = read_profile([write(tmp_path / "t.json", events)])
    (gap,) = _use(found).gaps
    assert gap.host == (("data.py(7): parse (in pipeline.py(12): process)", 100_090_000),)
    assert main(["profile", str(tmp_path / "t.json")]) == 0
    assert "data.py(7): parse" in capsys.readouterr().out


def test_late_batches_are_a_warning_from_a_twentieth_of_the_time_on_and_one_late_batch_is_none(tmp_path: Path) -> None:
    severities = []
    for wait in (1, 6, 60):
        found = read_profile([write(tmp_path / "t.json", starved(20, wait=wait))])
        severities.append([one.severity.value for one in found.findings if one.signature == "data-starved"])
    assert severities == [[], ["warning"], ["critical"]]
    events = starved(20, wait=1)
    for one in events:
        if one["ts"] - events[0]["ts"] >= 20 * 41 * MS / 2:
            one["ts"] += 100 * MS
    loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    events.append(event("cpu_op", loading, 20 * 41 * MS / 2, 100 * MS))
    assert "data-starved" not in {one.signature for one in read_profile([write(tmp_path / "t.json", events)]).findings}


def test_costs_are_the_parts_of_the_trace_that_the_tables_show(tmp_path: Path) -> None:
    events: list[Any] = []
    for step in range(20):
        at = step * 100 * MS
        loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        events += [
            event("user_annotation", f"ProfilerStep#{step}", at, 100 * MS),
            event("cpu_op", loading, at, 40 * MS),
        ]
        events.append(event("cuda_runtime", "cudaMemcpyAsync", at + 40 * MS, 20 * MS, correlation=step * 2))
        name = "Memcpy HtoD (Pageable -> Device)"
        events.append(
            event("gpu_memcpy", name, at + 41 * MS, 19 * MS, device=0, stream=9, correlation=step * 2, bytes=10**8)
        )
        events += kernel(step * 2 + 1, at + 60 * MS, at + 60 * MS + 10, 39 * MS)
    found = read_profile([write(tmp_path / "t.json", events)])
    costs = {one.signature: one.lost_share for one in found.findings if not one.explained_by}
    whole = _use(found).whole
    assert costs == {"data-starved": whole.data, "pageable-transfer": whole.fed}
    assert costs == pytest.approx({"data-starved": 0.39, "pageable-transfer": 0.21}, abs=0.02)


def test_a_gpu_that_copies_all_the_time_is_busy_and_bound_by_transfers(tmp_path: Path) -> None:
    """Kernels alone are busy for 2.3 %; the host waits for the copies, and the GPU is not idle in the meantime."""
    events: list[Any] = []
    for at in range(40):
        begin = at * 25 * MS
        events.append(event("cuda_runtime", "cudaMemcpyAsync", begin - 20 * MS, 10, correlation=at * 2))
        name = "Memcpy HtoD (Pinned -> Device)"
        events.append(event("gpu_memcpy", name, begin, 24.3 * MS, device=0, stream=9, correlation=at * 2, bytes=10**9))
        events += kernel(at * 2 + 1, begin - 15 * MS, begin + 24.3 * MS, 0.58 * MS)
        events.append(event("cuda_runtime", "cudaStreamSynchronize", begin, 20 * MS))
    found = read_profile([write(tmp_path / "t.json", events)])
    use = _use(found)
    assert (use.busy / use.span, use.compute / use.span) == pytest.approx((0.995, 0.023), abs=0.003)
    assert use.sync_stall == 0
    assert [one.signature for one in found.findings] == ["transfer-bound"]


def test_work_without_a_process_is_that_of_the_only_one(tmp_path: Path) -> None:
    path = _nsys(tmp_path / "run.sqlite")
    with sqlite3.connect(path) as database:
        database.execute("update CUPTI_ACTIVITY_KIND_KERNEL set globalPid = 0")
    assert len(read_profile([path]).gpus) == 1


def test_a_busy_gpu_gives_no_finding(tmp_path: Path) -> None:
    events = []
    for at in range(300):
        events += kernel(at, at * 20, 5000 + at * 100, 99)
    assert read_profile([write(tmp_path / "t.json", events)]).findings == ()


def test_a_stream_that_waits_for_its_queue_is_starved(tmp_path: Path) -> None:
    """Ranges of batches, as an actor names them that polls a queue: 12 ms of work, 28 ms until the next one."""
    events = []
    for at in range(20):
        begin = at * 40 * MS
        events.append(event("user_annotation", f"stream_process_batch_{at}", begin, 12 * MS))
        events += kernel(at, begin + 100, begin + 200, 11 * MS)
    found = read_profile([write(tmp_path / "t.json", events)])
    assert [one.signature for one in found.findings][:1] == ["data-starved"]
    assert found.findings[0].lost_share == pytest.approx(0.7, abs=0.03)
    assert found.ranges[0].between == 19 * 28_000_000


@pytest.mark.slow
def test_many_ranks_are_read_in_processes(tmp_path: Path) -> None:
    for rank in range(40):
        write(tmp_path / f"rank{rank}.json.gz", starved(2), distributedInfo={"rank": rank})
    found = read_profile([tmp_path])
    assert [use.rank for use in found.gpus] == list(range(40))
    assert found.notes == []
