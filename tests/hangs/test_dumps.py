"""Dumps of all versions and forms, genuine ones from Gloo included, become the same states; bad files are named."""

from __future__ import annotations

import gzip
import json
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfmon.hangs import Answer, find_dumps, judge, read_dumps, summary
from perfmon.hangs.dump_files import DumpReader
from perfmon.hangs.dumps import Dumps, state_of

from .generator import make

GLOO = Path(__file__).parent / "gloo"
BEHIND = {"late": 2, "size": 2, "operation": 2, "chain": 1}


def write(folder: Path, tables: dict[int, dict[str, Any]], prefix: str = "comm_lib_trace_rank_") -> None:
    """The dumps of ranks, as pickles."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, table in tables.items():
        (folder / f"{prefix}{rank}").write_bytes(pickle.dumps(table, 2))


@pytest.mark.parametrize("fault", sorted(BEHIND))
def test_genuine_dumps_of_gloo(fault: str) -> None:
    dumps = read_dumps(GLOO / fault)
    verdict, _ = judge(dumps.evidence())
    assert dumps.notes == []
    assert (verdict.answer, verdict.ranks) == (Answer.NAMED, (BEHIND[fault],))


def test_the_call_site_is_that_of_the_program() -> None:
    dumps = read_dumps(GLOO / "late")
    assert {one.site for one in dumps.states[0].outstanding()} == {"train.py:49 in main"}


@pytest.mark.parametrize("name", ["nccl_trace_rank_container-node02_5", "_dump_5", "rank5", "trace.rank_5.json", "5"])
def test_the_rank_is_the_number_at_the_end_of_the_name(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes((GLOO / "late" / "comm_lib_trace_rank_0").read_bytes())
    assert [state.rank for state in read_dumps(tmp_path).states] == [5]


def test_other_files_are_no_dumps(tmp_path: Path) -> None:
    (tmp_path / "model_0").write_bytes(b"\x00" * 100)
    (tmp_path / "part-7.json").write_text('{"loss": 1.0}')
    (tmp_path / "events_1").write_text("text\n")
    (tmp_path / "folder_2").mkdir()
    assert (read_dumps(tmp_path).files, read_dumps(tmp_path).notes) == (0, [])


def test_a_pickle_that_would_run_code_is_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path, make(0, "host").dumps)
    (tmp_path / "comm_lib_trace_rank_0").write_bytes(b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00id\x85R.")
    dumps = read_dumps(tmp_path)
    assert dumps.notes == ["comm_lib_trace_rank_0: refused: it would call posix.system, and a dump contains only data"]
    assert 0 not in {state.rank for state in dumps.states}


def test_torn_dumps_give_what_came_before(tmp_path: Path) -> None:
    hang = make(0, "host")
    write(tmp_path, hang.dumps)
    path = tmp_path / "comm_lib_trace_rank_1"
    path.write_bytes(path.read_bytes()[:-40])
    dumps = read_dumps(tmp_path)
    assert [state.rank for state in dumps.states if state.truncated] == [1]
    assert dumps.notes == [f"1 dump ended early: {dumps.states[1].notes[0]}"]
    assert judge(dumps.evidence())[0].ranks == tuple(hang.culprits)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.99])
def test_torn_json_gives_whole_entries(share: float, tmp_path: Path) -> None:
    table = json.loads((GLOO / "late" / "fr_trace_0.json").read_text())
    text = json.dumps(table)
    (tmp_path / "fr_trace_0.json").write_text(text[: int(len(text) * share)])
    dumps = read_dumps(tmp_path)
    if dumps.states:
        assert dumps.states[0].truncated
        assert len(dumps.states[0].operations) <= len(table["entries"])
    else:
        assert dumps.notes == ["fr_trace_0.json: torn before the first entry"]


def test_pickle_and_json_of_a_rank_are_one_dump() -> None:
    dumps = read_dumps(GLOO / "late")
    assert (dumps.files, [state.rank for state in dumps.states]) == (6, [0, 1, 2])


def test_pickle_and_json_hold_the_same(tmp_path: Path) -> None:
    for name in ("comm_lib_trace_rank_2", "fr_trace_2.json"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes((GLOO / "chain" / name).read_bytes())
    one, other = (read_dumps(folder).states[0] for folder in sorted(tmp_path.iterdir()))
    keys = ("seq", "name", "record", "finished", "numel_in", "dtypes", "created_ns")
    assert [[getattr(op, key) for key in keys] for op in one.operations] == [
        [getattr(op, key) for key in keys] for op in other.operations
    ]


def test_dumps_of_an_earlier_attempt_are_ignored(tmp_path: Path) -> None:
    hang = make(1, "host")
    write(tmp_path / "attempt_0", make(2, "host").dumps)
    for path in (tmp_path / "attempt_0").iterdir():
        os.utime(path, (1e9, 1e9))
    write(tmp_path / "attempt_1", hang.dumps)
    dumps = read_dumps(tmp_path)
    assert judge(dumps.evidence())[0].ranks == tuple(hang.culprits)
    assert "of an earlier attempt or another job" in dumps.notes[0]


def test_dumps_of_two_jobs_that_were_copied_together_are_not_mixed(tmp_path: Path) -> None:
    """A rank without an outstanding operation has no time by which its dump could be chosen."""
    for seed in range(12):
        mine, other = make(seed, "host"), make(seed + 50, "device")
        for table in mine.dumps.values():
            table["entries"] = [entry for entry in table["entries"] if entry["state"] != "completed"]
            for entry in table["entries"]:
                entry["time_created_ns"] += 3_600_000_000_000
        folder = tmp_path / str(seed)
        write(folder / "b", mine.dumps)
        write(folder / "a", other.dumps)
        alone, both = (judge(read_dumps(one).evidence())[0] for one in (folder / "b", folder))
        assert (both.answer, both.ranks, both.candidates) == (alone.answer, alone.ranks, alone.candidates)
        assert "another job, ignored" in read_dumps(folder).notes[0]


@pytest.mark.parametrize("name", ["rank_{}", "{}"])
def test_dumps_in_a_folder_per_rank(name: str, tmp_path: Path) -> None:
    hang = make(1, "host")
    for rank, table in hang.dumps.items():
        folder = tmp_path / "attempt" / name.format(rank)
        folder.mkdir(parents=True)
        (folder / "nccl_trace.pkl").write_bytes(pickle.dumps(table, 2))
        (folder / "stdout.log").write_text("step 1\n")
    dumps = read_dumps(tmp_path)
    assert (judge(dumps.evidence())[0].ranks, dumps.notes) == (tuple(hang.culprits), [])


def test_dumps_that_all_end_early_do_not_show_that_nothing_hangs(tmp_path: Path) -> None:
    hang = make(1, "host")
    for rank, table in hang.dumps.items():
        table["entries"] = [entry for entry in table["entries"] if entry["state"] == "completed"] or table["entries"]
        data = pickle.dumps(table, 2)
        (tmp_path / f"rank_{rank}_of_{hang.world}.pkl").write_bytes(data[: len(data) * 2 // 3])
    dumps = read_dumps(tmp_path)
    assert sorted(state.rank for state in dumps.states) == sorted(hang.dumps)
    assert judge(dumps.evidence())[0].answer is Answer.UNKNOWN


def test_dumps_in_a_folder_per_host_are_of_one_job(tmp_path: Path) -> None:
    hang = make(1, "host")
    for rank, table in hang.dumps.items():
        write(tmp_path / f"host-{rank // 2}", {rank: table})
    dumps = read_dumps(tmp_path)
    assert (judge(dumps.evidence())[0].ranks, dumps.notes) == (tuple(hang.culprits), [])


def test_dumps_of_an_earlier_job_with_more_ranks_are_ignored(tmp_path: Path) -> None:
    """The files of its first ranks were overwritten."""
    hang = make(1, "host")
    larger = next(other for other in map(make, range(100)) if other.world > hang.world)
    write(tmp_path, {hang.world + at: table for at, table in larger.dumps.items()})
    for path in tmp_path.iterdir():
        os.utime(path, (1e9, 1e9))
    write(tmp_path, hang.dumps)
    evidence = read_dumps(tmp_path).evidence()
    assert (len(evidence.world), judge(evidence)[0].ranks) == (hang.world, tuple(hang.culprits))


def test_lists_of_ranks_without_brackets(tmp_path: Path) -> None:
    """As TorchComms writes them."""
    hang = make(3, "device")
    for table in hang.dumps.values():
        for group in table["pg_config"].values():
            group["ranks"] = group["ranks"].strip("[]").replace(" ", "")
    write(tmp_path, hang.dumps, "torchcomm_fr_trace_")
    assert judge(read_dumps(tmp_path).evidence())[0].ranks == tuple(hang.culprits)


def test_names_of_later_backends(tmp_path: Path) -> None:
    """`nccl2:all_reduce`, `c10d:allreduce`: these never report completed, what is retired is finished."""
    hang = make(3, "host")
    for table in hang.dumps.values():
        for entry in table["entries"]:
            entry["profiling_name"] = entry["profiling_name"].replace("nccl:", "nccl2:")
            entry["state"] = "scheduled"
    write(tmp_path, hang.dumps)
    assert judge(read_dumps(tmp_path).evidence())[0].ranks == tuple(hang.culprits)


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"version": 3},
        {"entries": None, "pg_config": 7, "pg_status": []},
        {"entries": [None, 1, {}, {"state": "completed"}], "pg_config": {"0": None, "1": {"ranks": None}}},
        {"entries": [{"state": "scheduled", "profiling_name": "x", "process_group": [None], "record_id": "1"}]},
        {"pg_status": {"x": 1, "0": None, "1": {"last_enqueued_collective": "a"}}},
        {"entries": [{"state": "started", "profiling_name": "nccl:send 0->9", "process_group": ["0", "d"],
                      "input_sizes": [[-1]], "frames": [{"filename": 3}, None], "is_p2p": True}]},
    ],
)  # fmt: skip
def test_fields_of_any_kind_are_read_or_left_out(table: dict[str, Any], tmp_path: Path) -> None:
    write(tmp_path, {0: table, 1: table})
    dumps = read_dumps(tmp_path)
    verdict, _ = judge(dumps.evidence())
    assert verdict.answer in (Answer.NO_HANG, Answer.UNKNOWN, Answer.ARRIVED)


def test_a_file_whose_entries_are_no_list_is_no_dump(tmp_path: Path) -> None:
    write(tmp_path, {0: {"entries": 5}, 1: {"entries": "x", "pg_config": {}}})
    dumps = read_dumps(tmp_path)
    assert dumps.states == []
    assert [note for note in dumps.notes if "rank_0" in note and "entries are no list" in note]


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.sampled_from(["", "0", "[0, 1]", "nccl:send 0->1"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["0", "1", "ranks"]), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = ("record_id", "pg_id", "process_group", "collective_seq_id", "p2p_seq_id", "profiling_name", "state", "retired",
        "input_sizes", "input_dtypes", "frames", "is_p2p", "time_created_ns")  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    tops=st.dictionaries(st.sampled_from(["entries", "pg_config", "pg_status", "version"]), ANY, max_size=4),
    changes=st.dictionaries(st.sampled_from(KEYS), ANY, max_size=4),
    seed=st.integers(0, 8),
)
def test_any_data_in_a_dump_is_read_without_an_error(tops: dict[str, Any], changes: dict[str, Any], seed: int) -> None:
    tables = make(seed).dumps
    for table in tables.values():
        for entry in table["entries"]:
            entry.update(changes)
        table.update(tops)
    dumps = Dumps()
    dumps.states = [state_of(table, rank, "x", dumps) for rank, table in tables.items()]
    evidence = dumps.evidence()
    verdict, _ = judge(evidence)
    assert summary(verdict, evidence)


def test_values_that_are_endless_when_written_out_are_not(tmp_path: Path) -> None:
    """Lists that hold the same list twice, a hundred levels deep, as names and ranks."""
    endless: list[Any] = []
    for _ in range(100):
        endless = [endless, endless]
    table = {"version": endless, "pg_config": {"0": {"desc": endless, "ranks": endless}}, "pg_status": {"0": endless},
             "entries": [{"state": endless, "profiling_name": endless, "process_group": endless},
                         {"state": "started", "profiling_name": "nccl:x", "process_group": [endless, endless],
                          "record_id": endless, "input_dtypes": endless, "input_sizes": endless}]}  # fmt: skip
    write(tmp_path, {0: table, 1: table})
    assert read_dumps(tmp_path).files == 2


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    hang = make(0, "host")
    for table in hang.dumps.values():
        for group in table["pg_config"].values():
            group["desc"] = "\x1b[31mred\x07\n# title"
    write(tmp_path, hang.dumps)
    dumps = read_dumps(tmp_path)
    assert all("\x1b" not in text and "\n" not in text for text in dumps.descriptions.values())


def test_a_dump_is_read_once_and_again_when_it_was_still_being_written(tmp_path: Path) -> None:
    whole = {path.name: path.read_bytes() for path in find_dumps(GLOO / "late")}
    name = next(name for name in sorted(whole) if name.endswith("_0"))
    for other, data in whole.items():
        (tmp_path / other).write_bytes(data if other != name else data[: len(data) // 2])
    reader, paths = DumpReader(), {path: rank for path, rank in find_dumps(tmp_path).items() if path.suffix != ".json"}
    first = reader.read(paths)
    again = reader.read(paths)
    assert [state.truncated for state in first.states] == [True, False, False]
    assert all(old is new for old, new in zip(first.states, again.states, strict=True))
    (tmp_path / name).write_bytes(whole[name])
    last = reader.read(paths)
    assert [state.truncated for state in last.states] == [False, False, False]
    assert [old is new for old, new in zip(first.states, last.states, strict=True)] == [False, True, True]
    assert judge(last.evidence())[0].ranks == (BEHIND["late"],)


def test_reading_ends_in_time(tmp_path: Path) -> None:
    """What is left is read by the next call."""
    reader, paths = DumpReader(), find_dumps(GLOO / "late")
    assert (reader.read(paths, until=0.0).states, reader.left) == ([], len(paths))
    assert (len(reader.read(paths).states), reader.left) == (3, 0)


def test_dumps_of_two_jobs_in_one_folder_are_not_mixed(tmp_path: Path) -> None:
    """Other names or another number of ranks: one job is judged, the other is named."""
    for at, seed in enumerate(range(3, 9)):
        mine, other = make(seed, "host"), make(seed + 40, "host")
        for table in mine.dumps.values():
            for entry in table["entries"]:
                entry["time_created_ns"] += 3_600_000_000_000
        folder = tmp_path / str(at)
        write(folder, mine.dumps, "job_7_rank_")
        write(folder, other.dumps, "job_5_rank_")
        dumps = read_dumps(folder)
        assert judge(dumps.evidence())[0].ranks == tuple(mine.culprits)
        assert dumps.notes == [
            f"{len(other.dumps)} dumps of an earlier attempt or another job, ignored: {at}/job_5_rank_*"
        ]


@pytest.mark.parametrize("is_copy", [False, True])
def test_a_stale_dump_of_an_earlier_attempt_is_left_out(is_copy: bool, tmp_path: Path) -> None:
    """Its rank wrote none this time; a copy of the folder keeps no times, and the numbers of operations show it."""
    hang = next(
        one for seed in range(100)
        if (one := make(seed, "host")).world >= 8
        and all(any(e["process_group"][0] == "0" for e in table["entries"]) for table in one.dumps.values())
    )  # fmt: skip
    lost = next(rank for rank in hang.dumps if rank not in hang.culprits)
    write(tmp_path, {lost: hang.dumps[lost]})
    if not is_copy:
        path = tmp_path / f"comm_lib_trace_rank_{lost}"
        os.utime(path, (path.stat().st_mtime - 1200,) * 2)
    for rank, table in hang.dumps.items():
        for entry in table["entries"]:
            entry["time_created_ns"] += 1_200_000_000_000
        if rank != lost:
            write(tmp_path, {rank: table})
    dumps = read_dumps(tmp_path)
    assert dumps.notes == [
        f"comm_lib_trace_rank_{lost}: of an earlier attempt, 20 min before the last operation, ignored (if not, the"
        " clocks of the hosts differ)"
    ]
    assert sorted(state.rank for state in dumps.states) == sorted(set(hang.dumps) - {lost})
    assert judge(dumps.evidence())[0].ranks == tuple(hang.culprits)


def test_a_rank_that_was_idle_for_longer_than_a_time_out_counts(tmp_path: Path) -> None:
    """The other ranks have worked without it, and wait for it now."""
    hang = make(9, "host")
    (late,) = hang.culprits
    for entry in hang.dumps[late]["entries"]:
        entry["time_created_ns"] -= 1
    for rank, table in hang.dumps.items():
        for entry in table["entries"]:
            if rank != late and entry["state"] != "completed":
                entry["time_created_ns"] += 900_000_000_000
    write(tmp_path, hang.dumps)
    dumps = read_dumps(tmp_path)
    assert (dumps.notes, judge(dumps.evidence())[0].ranks) == ([], (late,))


@pytest.mark.parametrize("name", ["rank_{}/fr.pkl", "{}/fr", "rank_{}/flight.json", "trace_{}.json.gz", "{}/fr.gz"])
def test_names_of_dumps(name: str, tmp_path: Path) -> None:
    for rank in range(3):
        path = tmp_path / name.format(rank)
        path.parent.mkdir(exist_ok=True)
        data = (GLOO / "late" / f"fr_trace_{rank}.json").read_bytes()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    dumps = read_dumps(tmp_path)
    assert (dumps.notes, judge(dumps.evidence())[0].ranks) == ([], (2,))


@pytest.mark.parametrize("content", [b"", b"\x00" * 64, b"no such file\n"])
def test_a_dump_without_content_is_named(content: bytes, tmp_path: Path) -> None:
    hang = make(0, "host")
    write(tmp_path, hang.dumps)
    lost = next(rank for rank in hang.dumps if rank not in hang.culprits)
    (tmp_path / f"comm_lib_trace_rank_{lost}").write_bytes(content)
    (note,) = read_dumps(tmp_path).notes
    assert note.startswith(f"comm_lib_trace_rank_{lost}: {'not readable' if content else 'empty'}")
