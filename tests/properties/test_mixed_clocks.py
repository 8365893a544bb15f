"""However a log is cut, and whatever clocks its lines have: the same findings, and the same seconds."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from feeding import feed
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perfmon.core.config import Config
from perfmon.pipeline.session import Session
from perfmon.reports.json_report import document

BEGIN = datetime(2026, 5, 11, 10)
HEADS: dict[str, Callable[[datetime], str]] = {
    "day": lambda at: f"{at:%H:%M:%S}    INFO ",
    "iso": lambda at: f"{at:%Y-%m-%d %H:%M:%S},123 - root - INFO - ",
    "year": lambda at: f"INFO {at:%m-%d %H:%M:%S} [engine.py:1] ",
    "none": lambda _: "",
}
"""Lines of loguru, of logging, of vLLM, and such without a clock."""
KINDS = st.sampled_from(
    [("day",), ("iso",), ("day", "iso"), ("day", "year"), ("iso", "day"), ("iso", "year"), ("none",), ("iso", "none")]
)
PAUSES = st.sampled_from([0, 1, 2, 7, 7, 30, 90, 600])


def _legs(trace: str, t: float, with_t: bool) -> list[str]:
    result = f" t={t:.3f}" if with_t else ""
    done = f" t={t + 31:.3f}" if with_t else ""
    return [
        f"[weights][{trace}] client.send url=http://h:8000 path=/m{result}",
        f"[weights][{trace}] rpc.start op=update_weights{done}",
        f"[weights][{trace}] rpc.done op=update_weights{done} rpc_ms=1000",
        f"[weights][{trace}] client.done wall_ms=31000 rpc_ms=1000 queue_ms=30000",
    ]


@st.composite
def logs(draw: st.DrawFn) -> list[str]:
    """Lines of a run of some minutes."""
    kinds = draw(KINDS)
    dated = kinds != ("none",)
    with_t = draw(st.booleans()) if dated else True
    lines: list[str] = []
    at = BEGIN
    for number in range(draw(st.integers(2, 12))):
        at += timedelta(seconds=draw(PAUSES))
        message = draw(
            st.sampled_from(["legs", "legs", "step", "noise", "gen"] if len(kinds) > 1 or dated else ["legs"])
        )
        texts = {
            "legs": _legs(f"u{number}", (at - BEGIN).total_seconds() + 5000.0, with_t),
            "step": [f"Step {number} | 58.2s | Reward 0.5"],
            "noise": ["resumed"],
            "gen": ["[gen] batch.start inflight=9 target_batch=4", "[gen] batch.done completions=4 dur_ms=3000"],
        }[message]
        if dated and message == "legs" and draw(st.integers(0, 3)) == 0:
            texts = texts[::-1]
        for text in texts[draw(st.integers(0, 1)) :]:
            lines.append(f"{HEADS[draw(st.sampled_from(kinds)) if lines else kinds[0]](at)}{text}\n")
            at += timedelta(seconds=31 if "start" in text else 0)
    return lines


def _result_of(blocks: list[str]) -> Any:
    session = Session(Config())
    feed(session, "run.log", blocks)
    result = document(session.snapshot())
    return json.loads(json.dumps({key: result[key] for key in ("verdict", "findings", "ledger", "metrics")}))


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lines=logs(), cuts=st.lists(st.integers(0, 40), max_size=4))
@example(lines=[f"{HEADS['none'](BEGIN)}[weights][u0] server.recv path=/update_weights\n",
                *(f"{HEADS['iso'](BEGIN)}{text}\n" for text in _legs("a1", 1.0, False))], cuts=[])  # fmt: skip
@example(lines=[*(f"{HEADS['iso'](BEGIN)}Step {step} | Time: 58.2s | Reward: 0.5\n" for step in (4, 5)),
                "[weights][u0] client.send url=http://h:8000 path=/m\n",
                f"{HEADS['iso'](BEGIN + timedelta(seconds=22))}[weights][u0] client.done"
                " wall_ms=16000 rpc_ms=1000 queue_ms=15000\n",
                f"{HEADS['iso'](BEGIN + timedelta(seconds=24))}[ckpt] wait.done target_step=1 wait_ms=9000\n"],
         cuts=[2])  # fmt: skip
@example(lines=[f"{HEADS['iso'](BEGIN)}[weights][u0] client.done wall_ms=31000 rpc_ms=1000 queue_ms=30000\n",
                f"{HEADS['iso'](BEGIN + timedelta(seconds=32))}resumed\n",
                f"{HEADS['day'](BEGIN + timedelta(seconds=32))}Step 2 | 58.2s | Reward 0.5\n"], cuts=[])  # fmt: skip
def test_a_log_of_many_clocks_tells_the_same_however_it_is_cut(lines: list[str], cuts: list[int]) -> None:
    edges = sorted({0, len(lines), *(min(cut, len(lines)) for cut in cuts)})
    whole = _result_of(["".join(lines)])
    assert _result_of(lines) == whole
    assert _result_of(["".join(lines[low:high]) for low, high in pairwise(edges)]) == whole


def _share(cause: str, text: str) -> float:
    return float(next(entry["share"] for entry in _result_of([text])["ledger"] if entry["cause"] == cause))


def _hour_of_silence(last: str) -> str:
    steps = [
        f"{BEGIN + timedelta(minutes=at):%H:%M:%S} SUCCESS Step {at} | Time: 58.2s | Reward: 0.5" for at in range(12)
    ]
    later = [
        f"{BEGIN + timedelta(minutes=72 + at):%H:%M:%S} SUCCESS Step {12 + at} | Time: 58.2s | Reward: 0.5"
        for at in range(8)
    ]
    return "\n".join([*steps, last, *later, ""])


def test_a_line_of_another_clock_hides_no_stall() -> None:
    for line in ("2026-05-11 11:11:55,123 - root - INFO - resumed", "INFO 05-11 11:11:56 [engine.py:1] resumed"):
        assert _share("stall", _hour_of_silence(line)) == pytest.approx(_share("stall", _hour_of_silence("")), abs=0.02)
        assert _share("stall", _hour_of_silence(line)) > 0.7


def test_a_mark_before_the_first_line_is_no_part_of_it() -> None:
    log = "".join(f"{HEADS['iso'](BEGIN)}{text}\n" for text in _legs("a1", 1.0, False))
    assert _result_of([f"\ufeff{log}"]) == _result_of([log])


def test_an_update_that_says_it_took_months_costs_nothing() -> None:
    head = HEADS["iso"](BEGIN)
    log = f"{head}[weights][a] client.done wall_ms=1e10 rpc_ms=1e10 queue_ms=1e10\n{head}[rollout] staleness=1e10\n"
    result = _result_of([log])
    assert (result["verdict"], result["metrics"]) == (None, {})
