"""Lines that only a field dates, among others that a header dates or nothing does: the same, however a log is cut."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

from feeding import feed
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from perfmon.core.config import Config
from perfmon.pipeline.session import Session
from perfmon.reports.json_report import document

BEGIN = datetime(2026, 5, 11, 10, tzinfo=UTC)
PLAIN = ("plain", "plain chatter", "undated", "undated chatter", "late plain", "legs", "frames", "ticks")
ROWS = (
    "row", "row chatter", "named row", "iso row", "message", "logfmt", "logfmt chatter", "behind a rank", "late row",
    "container", "item",
)  # fmt: skip
KINDS = (*PLAIN, *ROWS, "day", "day chatter")
SHORT, LONG = [0, 0, 1, 2, 7], [0, 0, 1, 2, 7, 30, 90, 700]
"""A silence that ends just before a late line is found only where the block ends: see test_late_lines.py."""


def _line(message: str, at: datetime, number: int, zone_s: int = 0) -> str:
    utc, late = at - timedelta(seconds=zone_s), at - timedelta(seconds=30)
    iso, epoch, late_s = f"{utc:%Y-%m-%dT%H:%M:%S}Z", utc.timestamp(), late.timestamp() - zone_s
    plain = f"{at:%Y-%m-%d %H:%M:%S},000 - root - INFO - "
    return {
        "plain": f"{plain}[rollout] trunc_pct=40.0 staleness=1",
        "plain chatter": f"{plain}chatter",
        "undated": f"[ckpt] write.done step={number} write_ms=8000",
        "undated chatter": "chatter",
        "row": json.dumps({"step": number, "time": epoch, "time/step": 60.0, "time/wait_for_batch": 50.0}),
        "row chatter": json.dumps({"step": number, "time": epoch, "something": 1}),
        "named row": json.dumps({"ts": epoch, "queue_ms": 5000.0, "rpc_ms": 500.0}),
        "iso row": json.dumps({"step": number, "step_time": 4.0, "data_time": 3.0, "timestamp": iso}),
        "message": json.dumps({"timestamp": iso, "message": f"[ckpt] wait.done target_step={number} wait_ms=9000"}),
        "logfmt": f"level=info ts={iso} msg=saved write_ms=9000 step={number}",
        "logfmt chatter": f"level=info ts={iso} msg=chatter",
        "behind a rank": f'[rank0]: {json.dumps({"ts": epoch, "wait_ms": 9000, "step": number})}',
        "late row": json.dumps({"ts": late_s, "something": 1}),
        "late plain": f"{late:%Y-%m-%d %H:%M:%S},000 - root - INFO - late",
        "day": f"{at:%H:%M:%S}    INFO [rollout] trunc_pct=40.0 staleness=1",
        "day chatter": f"{at:%H:%M:%S}    INFO chatter",
        "container": f'{iso} stdout F {json.dumps({"ts": epoch - 1, "wait_ms": 9000})}',
        "frames": f"{plain}10%|1\r{plain}[rollout] trunc_pct=40.0\r{plain}20%",
        "item": f"[Rank 5] {{'count': {number}, 'size': 3858694144, 'wait': 12.5, 'time': {epoch}}}]",
        "ticks": f"[weights][u{number}] client.send url=http://h:8000 path=/m t={epoch - 1.7e9:.3f}",
        "legs": f"{plain}[weights][u{number}] client.done wall_ms=31000 rpc_ms=1000 queue_ms=30000",
    }[message]  # fmt: skip


@st.composite
def logs(draw: st.DrawFn) -> list[str]:
    """Lines of a run, of some of these kinds."""
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    days = {"day", "day chatter"} & set(kinds)
    late = {"late row", "late plain"} & set(kinds)
    zone_s = 0 if late else draw(st.sampled_from([0, 0, 7200, -18_000, 19_800]))
    if late and days:
        kinds = [kind for kind in kinds if kind not in late]
    # Of what zone a clock is that says none tells a neighbour of the same minute that says one.
    pauses = st.sampled_from(SHORT if late else LONG[:-1] if zone_s or days else LONG)
    at, lines = BEGIN, []
    for number in range(draw(st.integers(1, 30))):
        at += timedelta(seconds=draw(pauses))
        lines.append(_line(draw(st.sampled_from(kinds)), at, number, zone_s) + "\n")
    return lines


_ROLLOUT = "2026-05-11 10:0{} - root - INFO - [rollout] trunc_pct=40.0 staleness=1\n"
TICKED_FIRST = [
    "[weights][u0] client.send url=http://h:8000 path=/m t=78493600.000\n",
    *[_ROLLOUT.format("0:00,000")] * 18,
    _ROLLOUT.format("1:30,000"),
]
"""What a log begins with again, behind a line that only its `t=` dates."""


def _result_of(blocks: list[str]) -> Any:
    session = Session(Config())
    state = feed(session, "run.log", blocks)
    result = document(session.snapshot())
    gaps = sorted((gap.start, gap.end) for gap in state.gaps)
    parts = ("verdict", "findings", "ledger", "metrics", "run")
    return {"gaps": gaps, **json.loads(json.dumps({part: result[part] for part in parts}))}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(lines=logs(), cuts=st.lists(st.integers(0, 30), max_size=4))
@example(lines=TICKED_FIRST, cuts=[])
def test_they_tell_the_same_however_a_log_is_cut(lines: list[str], cuts: list[int]) -> None:
    edges = sorted({0, len(lines), *(min(cut, len(lines)) for cut in cuts)})
    whole = _result_of(["".join(lines)])
    assert _result_of(lines) == whole
    assert _result_of(["".join(lines[low:high]) for low, high in pairwise(edges)]) == whole


def test_rows_that_say_their_zone_lie_among_lines_of_the_local_time() -> None:
    for zone_s in (7200, -18_000, 19_800):
        lines = [_line(("plain", "row")[at % 2], BEGIN + timedelta(seconds=30 * at), at, zone_s) for at in range(60)]
        run = _result_of(["".join(f"{line}\n" for line in lines)])["run"]
        assert (run["wall_s"], run["sources"][0]["notes"]) == (30 * 59 + 30, [])  # the first row ends a step of 60 s
