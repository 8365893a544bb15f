"""Hangs with a known cause, over sizes of jobs, groups and faults: the rank that is behind is named, no other one."""

from __future__ import annotations

import json
import pickle
import random
from collections import Counter
from pathlib import Path

import pytest

from perfmon.hangs import Answer, Verdict, judge, read_dumps
from perfmon.hangs.dumps import Dumps, state_of

from .generator import FAULTS, Hang, make

QUICK, ALL = 45, 270
SHARE = 0.95


def verdict_of(hang: Hang) -> Verdict:
    """The verdict about its dumps, without files."""
    dumps = Dumps()
    dumps.states = [state_of(table, rank, str(rank), dumps) for rank, table in hang.dumps.items()]
    return judge(dumps.evidence())[0]


def is_right(hang: Hang, verdict: Verdict) -> bool:
    """Exactly the culprits are named; where the dumps cannot decide they are among the candidates."""
    named = set(verdict.ranks)
    if not hang.decidable:
        return named == hang.culprits or (not named and hang.culprits <= set(verdict.candidates))
    if hang.fault == "link":
        return verdict.answer is Answer.ARRIVED
    if hang.fault == "two-hosts":  # the second may have stopped where no one waits for it yet
        return bool(named) and named <= hang.culprits
    return named == hang.culprits


def check(seeds: range) -> None:
    """No innocent rank in any, and nearly all are right, of each fault and in all."""
    right, total = Counter[str](), Counter[str]()
    for seed in seeds:
        hang = make(seed)
        verdict = verdict_of(hang)
        assert set(verdict.ranks) <= hang.culprits, f"seed {seed} ({hang.fault}): {verdict.ranks}"
        total[hang.fault] += 1
        right[hang.fault] += is_right(hang, verdict)
    assert set(total) == set(FAULTS)
    assert sum(right.values()) >= SHARE * sum(total.values()), dict(right)
    assert all(right[fault] >= 0.8 * total[fault] for fault in FAULTS), dict(right)


def test_hangs_of_some_seeds() -> None:
    check(range(QUICK))


@pytest.mark.slow
def test_hangs_of_many_seeds() -> None:
    check(range(QUICK, ALL))


@pytest.mark.parametrize("loss", ["one", "tenth", "status", "ring", "torn"])
def test_no_innocent_rank_is_named_with_less_evidence(loss: str) -> None:
    """A rank that left no dump may be named as such; ranks with one are only named if they are to blame."""
    named = 0
    for seed in range(QUICK):
        hang, rng = make(seed), random.Random(seed)
        ranks = sorted(hang.dumps)
        gone = rng.sample(ranks, max(1, len(ranks) // 10) if loss == "tenth" else 1) if loss in ("one", "tenth") else []
        for rank in gone:
            del hang.dumps[rank]
        for table in hang.dumps.values():
            if loss == "status":
                table["pg_status"] = {}
            if loss == "ring":
                table["entries"] = table["entries"][-3:]
        dumps = Dumps()
        dumps.states = [state_of(table, rank, str(rank), dumps) for rank, table in hang.dumps.items()]
        for state in rng.sample(dumps.states, len(dumps.states) // 3) if loss == "torn" else []:
            state.truncated, state.operations = True, state.operations[: len(state.operations) // 2]
        verdict, _ = judge(dumps.evidence())
        assert set(verdict.ranks) <= hang.culprits | set(gone), f"seed {seed} ({hang.fault}): {verdict.ranks}"
        named += bool(verdict.ranks)
    assert named >= QUICK // 4


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_files_of_a_generated_hang(form: str, tmp_path: Path) -> None:
    for seed in range(9):
        hang = make(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        for rank, table in hang.dumps.items():
            if form == "pickle":
                (folder / f"nccl_trace_rank_node7_{rank}").write_bytes(pickle.dumps(table, 2))
            else:
                (folder / f"trace_{rank}.json").write_text(json.dumps(as_json(table), sort_keys=True))
        dumps = read_dumps(folder)
        assert (dumps.files, dumps.notes) == (len(hang.dumps), [])
        found = judge(dumps.evidence())[0]
        assert (found.ranks, found.answer) == (verdict_of(hang).ranks, verdict_of(hang).answer)


def as_json(table: dict[str, object]) -> dict[str, object]:
    """As the JSON writer of torch does: text for the numbers of `pg_status`, 0 for None, no `entries` if empty."""
    copy = json.loads(json.dumps(table))
    copy["pg_status"] = {
        key: {name: str(value) for name, value in row.items()} for key, row in copy["pg_status"].items()
    }
    for entry in copy["entries"]:
        for name in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            entry[name] = entry[name] or 0
    if not copy["entries"]:
        del copy["entries"]
    return dict(copy)
