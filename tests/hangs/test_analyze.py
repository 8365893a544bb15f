"""`perfmon analyze` names the rank that is behind in a stall or a time-out, by the dumps next to the logs."""

from __future__ import annotations

import os
import pickle
import shutil
from pathlib import Path

import pytest

import perfmon
from perfmon.diagnosis import Finding

from .test_lines import timeout

GLOO = Path(__file__).parent / "gloo"
STEP = "2026-10-03 {clock} [rollout] trunc_pct=2.0 current_step={n} ckpt_step={n} staleness=1"


def run(folder: Path, fault: str, *last: str) -> Path:
    """Steps every 30 s until 10:09:30, then other lines, next to the dumps of a hang."""
    steps = [STEP.format(clock=f"10:{n // 2:02d}:{n % 2 * 30:02d}", n=n) for n in range(20)]
    beats = [f"2026-10-03 10:{minute}:00 INFO heartbeat" for minute in (15, 20, 25)]
    shutil.copytree(GLOO / fault, folder, copy_function=shutil.copyfile, dirs_exist_ok=True)
    (folder / "train.log").write_text("\n".join([*steps, *beats, *last]) + "\n")
    return folder


def finding(folder: Path) -> Finding:
    """The finding that the verdict is about."""
    diagnosis = perfmon.analyze([folder])
    assert diagnosis.verdict is not None
    return next(found for found in diagnosis.findings if found.signature == diagnosis.verdict.signature)


def test_a_stall(tmp_path: Path) -> None:
    found = finding(run(tmp_path, "late"))
    assert found.signature == "stall"
    assert "; behind: rank 2 (all_reduce 5 in default_pg; 2 of 2 waiting ranks wait for it)" in found.sentence


def test_the_last_lines_of_the_rank_are_evidence(tmp_path: Path) -> None:
    folder = run(tmp_path, "late")
    (folder / "rank_2.log").write_text("2026-10-03 10:00:00 start\n2026-10-03 10:09:40 saving shard 7 to /mnt/x\n")
    evidence = [(line.source.rpartition("/")[2], line.line, line.text) for line in finding(folder).evidence]
    assert ("rank_2.log", 2, "2026-10-03 10:09:40 saving shard 7 to /mnt/x") in evidence


def test_a_time_out(tmp_path: Path) -> None:
    """The lines show who waited, the dumps of all ranks that the chain ends at rank 1."""
    line = timeout(2, 5).replace("E1003 10:10", "E1003 10:30")
    found = finding(run(tmp_path, "chain", line))
    assert found.signature == "collective-timeout"
    assert found.identity["rank"] == "1"
    assert "; behind: rank 1 (all_reduce 5 in default_pg;" in found.sentence


def test_without_dumps_a_stall_names_no_rank(tmp_path: Path) -> None:
    run(tmp_path, "late")
    for path in (*tmp_path.glob("comm*"), *tmp_path.glob("*.json")):
        path.unlink()
    assert "behind" not in finding(tmp_path).sentence


@pytest.mark.parametrize(("world", "words"), [(0, False), (8, False), (7, True)])
def test_no_rank_is_cleared_while_the_size_of_the_job_is_unknown(world: int, words: bool, tmp_path: Path) -> None:
    """Ranks 0 to 6 wait in the same operation: of 8 ranks, or of a number that no dump lists, the last may be late."""
    folder = run(tmp_path, "late")
    for path in (*tmp_path.glob("comm*"), *tmp_path.glob("*.json")):
        path.unlink()
    entry = {"record_id": 5, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": 5,
             "profiling_name": "nccl:all_reduce", "input_sizes": [[4]], "state": "scheduled"}  # fmt: skip
    table: dict[str, object] = {"version": "2.4", "entries": [entry]}
    if world:
        table["pg_config"] = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}}
    for rank in range(7):
        (folder / f"nccl_trace_rank_{rank}").write_bytes(pickle.dumps(table, 2))
    sentence = finding(folder).sentence
    assert ("all arrived" in sentence) is words
    assert ("behind: rank 7" in sentence) is (world == 8)


def test_dumps_of_an_earlier_run_are_not_of_this_one(tmp_path: Path) -> None:
    run(tmp_path, "late")
    for path in (*tmp_path.glob("comm*"), *tmp_path.glob("*.json")):
        os.utime(path, (1e9, 1e9))
    assert "behind" not in finding(tmp_path).sentence


def test_a_hostile_dump_does_not_stop_the_analysis(tmp_path: Path) -> None:
    run(tmp_path, "late")
    (tmp_path / "comm_lib_trace_rank_0").write_bytes(b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00id\x85R.")
    assert finding(tmp_path).signature == "stall"


def test_dumps_of_an_earlier_attempt_in_the_same_folder_are_not_of_this_stall(tmp_path: Path) -> None:
    """The first attempt wrote dumps at 10:20; the second progressed until 10:33 and then stalled, until 10:55."""
    restarted = [STEP.format(clock=f"10:{24 + n // 2}:{n % 2 * 30:02d}", n=n) for n in range(20)]
    beats = [f"2026-10-03 10:{minute}:00 INFO heartbeat" for minute in (40, 45, 50, 55)]
    folder = run(tmp_path, "late")
    log = folder / "train.log"
    log.write_text("\n".join([*log.read_text().splitlines()[:20], *restarted, *beats]) + "\n")
    os.utime(log, (1.8e9, 1.8e9))

    def sentence_of_dumps_at(ago_s: float) -> str:
        for path in (*tmp_path.glob("comm*"), *tmp_path.glob("*.json")):
            os.utime(path, (1.8e9 - ago_s, 1.8e9 - ago_s))
        return finding(folder).sentence

    assert "; behind: rank 2" in sentence_of_dumps_at(60.0)
    assert "behind" not in sentence_of_dumps_at(35.0 * 60.0)
    assert "behind" not in sentence_of_dumps_at(25.0 * 60.0)


def shared_dumps(folder: Path, monkeypatch: pytest.MonkeyPatch, seq: int) -> Finding:
    """The finding of a run whose dumps are in the folder that torch uses by default, and whose rank 1 timed out."""
    line = timeout(1, seq, numel=4).replace("E1003 10:10", "E1003 10:30")
    run(folder / "run", "late", line)
    cache = folder / "cache" / "torch"
    cache.mkdir(parents=True)
    for path in (*(folder / "run").glob("comm*"), *(folder / "run").glob("*.json")):
        path.rename(cache / f"comm_lib_trace_rank_{path.stem.rpartition('_')[2]}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    return finding(folder / "run")


def test_dumps_in_the_default_folder_count_if_they_are_of_this_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line of rank 1 names the operation that its dump lists as unfinished, or another one."""
    assert "; behind: rank 2 (all_reduce 5 in default_pg;" in shared_dumps(tmp_path / "a", monkeypatch, 5).sentence
    assert "waiting ranks" not in shared_dumps(tmp_path / "b", monkeypatch, 6).sentence
