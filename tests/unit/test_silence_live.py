"""A run that prints nothing any more, while somebody waits: it hangs, or it is over."""

from __future__ import annotations

import pytest

from perfmon.alerting.alerts import AlertManager
from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Finding
from perfmon.monitor.scheduling import RunClock
from perfmon.pipeline.session import Session

_STEPS = [
    f"2026-08-21 10:{at // 60:02d}:{at % 60:02d} INFO "
    f"[rollout] trunc_pct=2.0 current_step={at // 20} ckpt_step=0 staleness=0"
    for at in range(0, 600, 20)
]


def _stalls(last: str, silent_s: float) -> list[Finding]:
    """What is said of two logs of which one ends with `last`, so long after that."""
    session = Session(Config())
    for name, lines in (("orchestrator.log", [*_STEPS, last]), ("trainer.log", _STEPS)):
        session.feed(session.add_source(name), Block("".join(f"{line}\n" for line in lines).encode(), 0, 1))
    newest = session.store.sources[0].last or 0.0
    now = newest + min(silent_s, 300.0)
    snapshot = session.present((now - 600, now), align(session.store), newest + silent_s)
    return [finding for finding in snapshot.findings if finding.signature == "stall"]


@pytest.mark.parametrize(
    "last",
    ["INFO Step 30 | Time: 20.0s", "INFO Training step 30 completed", "INFO Saved checkpoint, completed"],
)
def test_a_run_that_hangs_is_told_with_all_of_its_silence(last: str) -> None:
    (stall,) = _stalls(f"2026-08-21 10:10:00 {last}", 3600.0)
    assert "1h 00m" in stall.sentence
    assert stall.lost_s == pytest.approx(300.0, abs=1.0)


@pytest.mark.parametrize("last", ["Orchestrator finished.", "Training is done", "Trainer exiting", "Job completed"])
def test_a_run_is_over_when_one_of_its_logs_says_so(last: str) -> None:
    assert not _stalls(f"2026-08-21 10:10:00 INFO {last}", 3600.0)


def test_more_is_waited_for_only_of_logs_that_are_watched() -> None:
    present = RunClock(600.0)
    present.arrived(1000.0, 1000.0)
    assert (present.now(9000.0), present.awaited(9000.0)) == (9000.0, 9000.0)
    over = RunClock(600.0)
    over.written(1000.0, changed_at=1000.0, arrived_at=9000.0)
    assert over.awaited(9000.0) is None


def test_an_alert_counts_on_while_a_run_hangs_and_keeps_that_when_it_goes_on() -> None:
    session, book = Session(Config()), AlertManager()
    state = session.add_source("orchestrator.log")
    data = "".join(f"{line}\n" for line in _STEPS).encode()
    session.feed(state, Block(data, 0, 1))
    newest, lost = state.last or 0.0, []
    for silent_s in (100.0, 200.0, 400.0, 1000.0, 3000.0):
        now = newest + min(silent_s, 300.0)
        book.update(session.present((now - 600, now), align(session.store), newest + silent_s), now, silent_s)
        lost.append([round(alert.lost_s, 1) for alert in book.alerts(now) if alert.key[0] == "stall"])
    assert lost == [[100.0], [200.0], [400.0], [1000.0], [3000.0]]
    session.feed(
        state,
        Block(
            b"2026-08-21 10:59:40 INFO [rollout] trunc_pct=2.0 current_step=30 ckpt_step=0 staleness=0\n",
            len(data),
            len(_STEPS) + 1,
        ),
    )
    for now in (newest + 3000.0, newest + 3030.0, newest + 3060.0):
        book.update(session.present((now - 600, now), align(session.store), now), now, None)
        assert [round(alert.lost_s) for alert in book.alerts(now) if alert.key[0] == "stall"] == [3000]
