"""An engine that is in its own log and polled as well is one engine, and a sick one among several has a name."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from perfmon.diagnosis.result import Finding
from perfmon.pipeline.offline import diagnose_texts

BEGIN = datetime(2026, 3, 2, 8, 15)
Course = Callable[[int], tuple[int, int, float]]
"""Second → requests that run, that wait, and how full the cache is, in %."""


def full(at: int) -> tuple[int, int, float]:
    """The cache is full, and much waits."""
    return 120 + at // 5 % 4, 90 + at // 5 % 7, 97.0 + at // 5 % 4 / 10


def well(at: int) -> tuple[int, int, float]:
    """Busy, with room."""
    return 92 + at // 5 % 5, at // 5 % 2, 50.0 + at // 5 % 3


def stuck(at: int) -> tuple[int, int, float]:
    """Well for a minute, then nothing is admitted any more."""
    return well(at) if at < 60 else (2, 41, 12.0)


def speed(running: int) -> float:
    """Tokens a second."""
    return 24.0 * running


def log(course: Course, engine: str = "000", seconds: int = 300, begin: int = 0) -> str:
    """What vLLM prints every 10 s."""
    line = (
        "INFO {} [loggers.py:336] Engine {}: Avg prompt throughput: 812.4 tokens/s, Avg generation throughput: {:.1f}"
        " tokens/s, Running: {} reqs, Waiting: {} reqs, GPU KV cache usage: {:.1f}%, Prefix cache hit rate: 41.0%"
    )
    lines = []
    for at in range(begin, seconds, 10):
        running, waiting, kv = course(at)
        lines.append(line.format(_stamp(at, "%m-%d %H:%M:%S"), engine, speed(running), running, waiting, kv))
    return "\n".join(lines)


def polls(course: Course, name: str = "gpu-1:8000/0", seconds: int = 300, begin: int = 0) -> str:
    """What a poller finds out every 5 s, out of step with the log."""
    line = (
        "{}.118 [poll] queue host=head name={} running={} waiting={} kv_usage_pct={} gen_tps={:.1f} preemptions=0"
        " preemptions_per_min=0 kind=vllm model=Qwen/Qwen3-8B"
    )
    lines = []
    for at in range(begin + 3, seconds, 5):
        running, waiting, kv = course(at)
        lines.append(line.format(_stamp(at, "%Y-%m-%d %H:%M:%S"), name, running, waiting, kv, speed(running)))
    return "\n".join(lines)


def _stamp(at: int, how: str) -> str:
    return (BEGIN + timedelta(seconds=at)).strftime(how)


def found(**logs: str) -> list[Finding]:
    """The findings about engines."""
    snapshot = diagnose_texts({f"{name}.log": text for name, text in logs.items()})
    wanted = ("kv-cache-pressure", "engine-stuck")
    return [finding for finding in snapshot.findings if finding.signature in wanted and finding.state != "pending"]


def groups(*findings: Finding) -> list[str]:
    """Which engines are named."""
    return sorted(finding.identity["group"] for finding in findings)


def test_an_engine_in_its_log_and_polled_is_found_once_and_costs_what_it_costs() -> None:
    (alone,) = found(head_polls=polls(full))
    (both,) = found(vllm=log(full), head_polls=polls(full))
    assert both.identity == {"group": "000"}
    assert both.sentence == alone.sentence
    assert both.lost_s == pytest.approx(alone.lost_s, rel=0.05)


def test_what_its_log_told_before_it_was_polled_counts() -> None:
    (late,) = found(vllm=log(full), head_polls=polls(full, begin=240))
    (whole,) = found(vllm=log(full))
    assert late.identity == whole.identity == {"group": "000"}
    assert late.first_s == whole.first_s
    assert late.lost_s == pytest.approx(whole.lost_s, rel=0.05)


def test_an_alert_keeps_its_name_when_polling_begins() -> None:
    before = found(vllm=log(full, seconds=120))
    after = found(vllm=log(full, seconds=130), head_polls=polls(full, begin=120, seconds=130))
    assert groups(*before) == groups(*after) == ["000"]


def test_a_sick_one_in_a_log_is_not_hidden_by_a_well_one_that_is_polled() -> None:
    (finding,) = found(vllm=log(full), head_polls=polls(well))
    assert finding.identity == {"group": "000"}
    (other,) = found(vllm=log(well), head_polls=polls(full))
    assert other.identity == {"group": "head:gpu-1:8000/0"}


@pytest.mark.parametrize("sick", [0, 1, 2])
def test_one_sick_engine_of_a_server_is_named_once(sick: int) -> None:
    courses = [full if at == sick else well for at in range(3)]
    lines = "\n".join(sorted("\n".join(log(c, f"{at:03d}") for at, c in enumerate(courses)).splitlines()))
    polled = "\n".join(sorted("\n".join(polls(c, f"gpu-1:8000/{at}") for at, c in enumerate(courses)).splitlines()))
    assert groups(*found(vllm=lines, head_polls=polled)) == [f"{sick:03d}"]


def test_of_several_servers_whose_engines_have_one_name_the_sick_one_is_named_by_its_log() -> None:
    logs = {f"vllm-{at}": log(full if at == 1 else well) for at in range(3)}
    assert groups(*found(**logs)) == ["vllm-1.log:000"]
    polled = {f"polls_{at}": polls(full if at == 1 else well, f"gpu-{at}:8000/0") for at in range(3)}
    assert groups(*found(**logs, **polled)) == ["vllm-1.log:000"]


def test_one_that_is_stuck_is_seen_beside_others_of_its_name() -> None:
    (finding,) = found(a=log(well), b=log(stuck), c=log(well))
    assert (finding.signature, finding.identity["group"]) == ("engine-stuck", "b.log:000")
    assert finding.sentence.startswith(
        "engine b.log:000: in 24 of 90 samples it generated 48 tokens/s for 2 running requests"
    )


def test_a_server_that_was_started_anew_with_another_log_is_the_same_engine() -> None:
    logs = {"first": log(full, seconds=150), "second": log(full, begin=160)}
    assert groups(*found(**logs)) == ["000"]


def test_a_log_that_names_no_engine_is_that_of_the_only_one_that_is_polled() -> None:
    line = "[{}] Decode batch, #running-req: {}, #token: 44700, token usage: {:.2f}, cuda graph: True, gen throughput (token/s): {:.2f}, #queue-req: {}"  # noqa: E501
    lines = []
    for at in range(0, 300, 10):
        running, waiting, kv = full(at)
        lines.append(line.format(_stamp(at, "%Y-%m-%d %H:%M:%S"), running, kv / 100, speed(running), waiting))
    assert len(found(sglang="\n".join(lines), head_polls=polls(full))) == 1
