"""Each pattern of the quick reference, alone and with its remarks, gives the diagnosis written under it."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.offline import diagnose_texts

PATTERNS: list[tuple[str, str | None, str]] = [
    (
        "fast update",
        None,
        """\
[weights][abc123] client.send url=http://192.168.1.100:8000 path=/models/.../step_42 t=1234.567890
[weights][abc123] server.recv path=/update_weights t=1234.567901  [~11ms gap]
[weights][abc123] rpc.start op=update_weights t=1234.568012
[weights][abc123] rpc.done op=update_weights t=1235.823456 rpc_ms=1255.4
[weights][abc123] client.done wall_ms=1255.6 rpc_ms=1255.4 queue_ms=0.2

✅ Good: queue_ms ~0ms, rpc_ms reasonable for model size
""",
    ),
    (
        "front-end queue",
        "frontend-queue",
        """\
[weights][def456] client.send url=http://192.168.1.100:8000 path=/models/.../step_43 t=1240.123456
[weights][def456] server.recv path=/update_weights t=1270.456789  [~30 SECOND GAP!]
[weights][def456] rpc.start op=update_weights t=1270.456890
[weights][def456] rpc.done op=update_weights t=1271.678901 rpc_ms=1222.0
[weights][def456] client.done wall_ms=31555.4 rpc_ms=1222.0 queue_ms=30333.4

⚠️  Problem: queue_ms = 30s! Server was busy accepting/handling other requests.
""",
    ),
    (
        "slow engine",
        "slow-weight-load",
        """\
[weights][ghi789] client.send url=http://192.168.1.100:8000 path=/models/.../step_44 t=1280.234567
[weights][ghi789] server.recv path=/update_weights t=1280.234578  [~11ms gap - fast accept]
[weights][ghi789] rpc.start op=update_weights t=1280.234689
[weights][ghi789] rpc.done op=update_weights t=1295.345678 rpc_ms=15111.0  [~15s RPC!]
[weights][ghi789] client.done wall_ms=15111.1 rpc_ms=15111.0 queue_ms=0.1

⚠️  Problem: rpc_ms = 15s! Weight loading itself is slow (I/O or GPU transfer).
""",
    ),
    (
        "checkpoint at once",
        None,
        """\
[ckpt] write.done step=42 write_ms=823.4
[ckpt] wait.start target_step=42
[ckpt] wait.done target_step=42 wait_ms=12.3

✅ Good: Checkpoint written and immediately available
""",
    ),
    (
        "slow checkpoint write",
        "slow-checkpoint-write",
        """\
[ckpt] write.done step=43 write_ms=8234.5

⚠️  Problem: Taking 8+ seconds to write checkpoint (slow disk or large model)
""",
    ),
    (
        "long checkpoint wait",
        "checkpoint-stall",
        """\
[ckpt] wait.start target_step=43
[ckpt] wait.done target_step=43 wait_ms=5432.1

⚠️  Problem: Orchestrator waited 5+ seconds for checkpoint (trainer slow or polling issue)
""",
    ),
    (
        "usual batch",
        None,
        """\
[gen] batch.start inflight=96 target_batch=64
[gen] batch.done completions=64 dur_ms=2345.6 inflight=96

✅ Good: Batch completed in reasonable time
""",
    ),
    (
        "spike during an update",
        "generation-contention",
        """\
[gen] batch.start inflight=128 target_batch=64
[weights][xyz] client.send ...
[weights][xyz] client.done wall_ms=30000 queue_ms=29000 ...
[gen] batch.done completions=64 dur_ms=45678.9 inflight=140

⚠️  Problem: Generation batch spiked to 45s coinciding with weight update queue delay
         Indicates shared resource contention.
""",
    ),
    (
        "good quality",
        None,
        """\
[rollout] trunc_pct=2.3 current_step=10 ckpt_step=9 staleness=1

✅ Good: Low truncation, staleness within async_level
""",
    ),
    (
        "high truncation",
        "rollout-truncation",
        """\
[rollout] trunc_pct=78.5 current_step=10 ckpt_step=9 staleness=1

⚠️  Problem: 78% truncation! max_seq_len too small or problems too long.
""",
    ),
    (
        "barrier hit",
        "async-barrier",
        """\
[rollout] trunc_pct=3.2 current_step=15 ckpt_step=10 staleness=5

⚠️  Note: Staleness = async_level (5), orchestrator hit async barrier.
         Check why checkpoint wasn"t ready sooner.
""",
    ),
]
CASES = [pytest.param(signature, text, id=name) for name, signature, text in PATTERNS]
MAY_BE_FOUND_TOO = {"generation-contention": {"frontend-queue"}}


_DURATION = re.compile(r"(client\.done|batch\.done|wait\.done).* (?:wall|dur|wait)_ms=([\d.]+)")


def bare(text: str) -> str:
    """As it stands."""
    return text


def dated(text: str) -> str:
    """Behind the header of loguru, at times that agree with the durations in the lines."""
    begins = {"client.done": 0.0, "batch.done": 0.0, "wait.done": 0.0}
    now, lines = datetime.fromisoformat("2026-03-02T09:21:32"), []
    seconds = 0.0
    for line in text.splitlines():
        for end in begins:
            if end.replace("done", "start") in line or end.replace("done", "send") in line:
                begins[end] = seconds
        result = _DURATION.search(line)
        if result:
            seconds = max(seconds, begins.get(result[1], 0.0) + float(result[2]) / 1000)
        lines.append(f"{now + timedelta(seconds=seconds):%H:%M:%S}    INFO {line}\n")
    return "".join(lines)


def ticking(text: str) -> str:
    """Behind a header with a date, a millisecond further each line."""
    lines = enumerate(text.splitlines())
    return "".join(f"2026-03-02 09:21:32.{at:03d} | INFO     | run:main:{at} - {line}\n" for at, line in lines)


def diagnosis(text: str) -> Diagnosis:
    """Of one log that holds only this."""
    return diagnose_texts({"orchestrator.log": text})


@pytest.mark.parametrize("dress", [bare, dated, ticking])
@pytest.mark.parametrize(("signature", "text"), CASES)
def test_a_pattern_gives_its_diagnosis_and_nothing_else(
    signature: str | None, text: str, dress: Callable[[str], str]
) -> None:
    snapshot = diagnosis(dress(text))
    fired = {finding.signature for finding in snapshot.findings}
    assert (snapshot.verdict.signature if snapshot.verdict else None) == signature
    assert fired - MAY_BE_FOUND_TOO.get(signature or "", set()) == ({signature} if signature else set())
    assert {finding.state for finding in snapshot.findings} <= {"firing"}


@pytest.mark.parametrize(("signature", "text"), CASES)
def test_the_shares_of_a_pattern_sum_to_one(signature: str | None, text: str) -> None:
    snapshot = diagnosis(text)
    assert sum(entry.share for entry in snapshot.ledger) == pytest.approx(1.0)
    assert all(entry.lost_s >= 0 for entry in snapshot.ledger)


@pytest.mark.parametrize(("signature", "text"), [case for case in CASES if case.values[0]])
def test_a_verdict_reads_well_and_shows_its_figure(signature: str, text: str) -> None:
    snapshot = diagnosis(text)
    assert snapshot.verdict is not None
    sentence = snapshot.verdict.sentence
    for fault in ("?.", "(1 times)", "unknown", "no line tells", "  ", "1 of 1 samples", "1 steps", "[", "{"):
        assert fault not in sentence
    figures = ("queue_ms=", "rpc_ms=", "write_ms=", "wait_ms=", "dur_ms=", "trunc_pct=", "staleness=")
    finding = next(f for f in snapshot.findings if f.signature == signature)
    assert any(figure in finding.evidence[0].text for figure in figures)


def test_all_eleven_in_one_log_are_told() -> None:
    snapshot = diagnosis("\n".join(text for _, _, text in PATTERNS))
    assert snapshot.verdict is not None
    wanted = {signature for _, signature, _ in PATTERNS if signature}
    # Among samples of 1 and 1 a staleness of 5 is no barrier that the run keeps to.
    assert wanted - {"async-barrier"} | {"stale-rollouts"} <= {finding.signature for finding in snapshot.findings}
