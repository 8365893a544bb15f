"""Looks at everything at the same time, and waits for nobody longer than it was told to."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from perfmon.text import evidence_text

from .asking import end_all
from .check import Check, Finding, State
from .probes import Probe

_SPARE = 0.8
"""Share of the time that a look may use itself, to tell more than that it took too long."""
_LEAST_S = 0.05


def examine(probes: Iterable[Probe], patience_s: float) -> list[Check]:
    """Results of all probes, in their order, after `patience_s` seconds at most. Never raises."""
    findings: dict[str, Finding] = {}
    probes, begun = tuple(probes), time.monotonic()

    def look(probe: Probe) -> None:
        try:
            findings[probe.id] = probe.look(max(_LEAST_S, begun + _SPARE * patience_s - time.monotonic()))
        except TimeoutError:
            findings[probe.id] = _silent(probe, patience_s)
        except Exception as error:  # a look that fails says so itself: all others count
            said = evidence_text(f"{type(error).__name__}: {error}")
            findings[probe.id] = Finding(State.UNKNOWN, f"check failed: {said}", probe.tells)

    # Daemons: a driver call that hangs cannot be ended, and must not keep the program.
    threads = [
        threading.Thread(target=look, args=(probe,), name=f"perfmon-{probe.id}", daemon=True) for probe in probes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, begun + patience_s - time.monotonic()))
    end_all()
    return [
        Check(probe.id, probe.group, probe.title, findings.get(probe.id) or _silent(probe, patience_s))
        for probe in probes
    ]


def _silent(probe: Probe, patience_s: float) -> Finding:
    return Finding(
        State.UNKNOWN, f"no answer within {patience_s:g} s", probe.tells, "try again: perfmon doctor --patience 10s"
    )
