"""A demo run that is watched through a window adds up to what the whole of it says when it is over."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfmon.alerting.alerts import AlertManager
from perfmon.clocks.alignment import align
from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.demo.output import write_demo
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session
from perfmon.viewmodel import Alert


def _watched(folder: Path, window_s: float) -> tuple[tuple[Alert, ...], Diagnosis]:
    """The alerts of a run after its end, and what is said of all of it."""
    session, book = Session(Config()), AlertManager(window_s)
    for path in sorted(folder.glob("*.log")):
        session.feed(session.add_source(path.name), Block(path.read_bytes(), 0, 1))
    whole, alignment = session.snapshot(), align(session.store)
    now = whole.run.start + window_s
    while now < whole.run.end + window_s:
        book.update(session.present((now - window_s, now), alignment, None), now, None)
        now += 7.0
    return book.alerts(now), whole


@pytest.mark.parametrize("scenario", ["frontend-queue", "kv-cache-pressure", "trainer-bound"])
def test_windows_add_up_to_the_run(scenario: str, tmp_path: Path) -> None:
    write_demo(tmp_path, scenario)
    alerts, whole = _watched(tmp_path, 300.0)
    alert = next(alert for alert in alerts if alert.key[0] == scenario)
    finding = next(finding for finding in whole.findings if finding.signature == scenario)
    assert alert.count == finding.count
    assert alert.lost_s == pytest.approx(finding.lost_s, abs=0.1)
