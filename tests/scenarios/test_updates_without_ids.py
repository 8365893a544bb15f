"""Weight updates that no trace id names: each line that tells their durations is an update of its own."""

from __future__ import annotations

import pytest

from perfmon.core.model import LEG
from perfmon.pipeline.offline import diagnose_texts
from perfmon.sources.formats.loader import load_packs
from perfmon.sources.scan.scanner import Scanner

FORMS = {
    "trace": "2026-08-21 10:{minute:02}:00 [weights] client.done wall_ms={wall} rpc_ms=1000 queue_ms={queue}",
    "key-value": "2026-08-21 10:{minute:02}:00 INFO sync queue_ms={queue} rpc_ms=1000",
    "wall and rpc": "2026-08-21 10:{minute:02}:00 INFO sync wall_ms={wall} rpc_ms=1000",
    "json": '{{"time": "2026-08-21T10:{minute:02}:00Z", "queue_ms": {queue}, "rpc_ms": 1000}}',
}


def run_of(form: str, *queues: int) -> str:
    """A log with one update a minute."""
    return "\n".join(
        FORMS[form].format(minute=minute, queue=queue, wall=queue + 1000) for minute, queue in enumerate(queues)
    )


@pytest.mark.parametrize("form", FORMS)
def test_equal_updates_are_several_and_their_queue_is_found(form: str) -> None:
    snapshot = diagnose_texts({"run.log": run_of(form, 30000, 30000, 30000, 30000)})
    assert snapshot.verdict is not None
    assert snapshot.verdict.signature == "frontend-queue"
    assert sum(finding.count for finding in snapshot.findings if finding.signature == "frontend-queue") == 4
    assert snapshot.verdict.lost_s == pytest.approx(4 * 29.9, rel=0.01)


@pytest.mark.parametrize("form", FORMS)
def test_short_queues_are_no_finding(form: str) -> None:
    snapshot = diagnose_texts({"run.log": run_of(form, 5, 5, 5, 5)})
    assert (snapshot.verdict, snapshot.findings) == (None, ())


def test_a_copy_of_a_log_adds_no_update() -> None:
    log = run_of("trace", 30000, 20000, 30000)
    snapshot = diagnose_texts({"run.log": log, "copy.log": log})
    assert sum(finding.count for finding in snapshot.findings if finding.signature == "frontend-queue") == 3


@pytest.mark.parametrize("line", ["sync queue_ms=30000 inflight=8", "sync rpc_ms=1000"])
def test_one_duration_alone_is_no_update(line: str) -> None:
    records = Scanner(load_packs()).scan(line.encode()).records
    assert records
    assert not [result for record in records for result in record[5] if result[0] == LEG]


def test_lines_with_and_without_ids_do_not_mix() -> None:
    traced = "2026-08-21 10:00:00 [weights][a1] client.done wall_ms=31000 rpc_ms=1000 queue_ms=30000\n"
    snapshot = diagnose_texts({"run.log": traced * 2 + run_of("trace", 30000, 30000) + "\n" + traced})
    assert sum(finding.count for finding in snapshot.findings if finding.signature == "frontend-queue") == 3
