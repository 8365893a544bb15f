"""Weight updates that follow one another every few seconds: each is one, and the one that does not come is missed."""

from __future__ import annotations

from perfmon.core.config import Config
from perfmon.core.model import Block
from perfmon.diagnosis.result import Diagnosis
from perfmon.pipeline.session import Session

_URLS = ("http://10.0.0.5:8000", "http://10.0.0.6:8000")


def _clock(second: float) -> str:
    return f"2026-03-02 10:{int(second) // 60:02d}:{second % 60:06.3f}"


def _run(updates: int, urls: tuple[str, ...] = _URLS[:1], steps: int = 20) -> Diagnosis:
    """A step every three seconds; the first `updates` of them are followed by an update of each server."""
    lines = []
    for step in range(1, steps):
        second = 3.0 * step
        policy = min(step - 2, updates)
        lines.append(f"{_clock(second)} [rollout] trunc_pct=2.0 current_step={step} ckpt_step={policy} staleness=2")
        for at, url in enumerate(urls if step <= updates else ()):
            sent = second + 0.5 + 0.3 * at
            trace = f"{step:x}{at}a"
            lines.append(f"{_clock(sent)} [weights][{trace}] client.send url={url} t={sent:.6f}")
            lines.append(f"{_clock(sent + 0.3)} [weights][{trace}] client.done wall_ms=260.0 rpc_ms=255.0 queue_ms=5.0")
    session = Session(Config())
    session.feed(session.add_source("orchestrator.log"), Block("\n".join([*lines, ""]).encode(), 0, 1))
    return session.snapshot()


def _missed(snapshot: Diagnosis) -> list[float]:
    return [
        finding.last_s - finding.first_s for finding in snapshot.findings if finding.signature == "no-weight-updates"
    ]


def test_updates_that_end_are_missed_however_quickly_they_came() -> None:
    assert _missed(_run(updates=6)), "the lines of two updates within five seconds are not about one"


def test_policies_that_are_still_on_their_way_are_no_updates() -> None:
    (missed,) = _missed(_run(updates=6))
    assert 35.0 < missed < 40.0


def test_nothing_is_missed_while_they_come() -> None:
    assert not _missed(_run(updates=20))


def test_updates_of_several_servers_are_one() -> None:
    assert _missed(_run(updates=6, urls=_URLS)) == _missed(_run(updates=6))
