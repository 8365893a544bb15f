"""What pollers say of the present beside a run that is silent: judged by itself, told with what the run ended with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from perfmon.alerts import alert_key, of_pollers
from perfmon.diagnosis import verdict_of
from perfmon.rules.schema import Signature
from perfmon.snapshot import Finding, Moment, Snapshot

_OVER, _HOLDS = "resolved", ("firing", "resolving")
_FAULT = "fault"


def with_present(of_run: Snapshot, of_now: Snapshot, signatures: Iterable[Signature]) -> Snapshot:
    """What is known of the end of a run, with what pollers alone prove now, which costs it nothing any more.

    What they had proved at the run's end is over where they prove it no more. A fault is the answer where the run
    itself gave none.
    """
    later = of_now.run.start - of_run.run.start
    proved = [finding for finding in of_now.findings if of_pollers(finding)]
    known = {finding.signature for finding in proved}
    present = {alert_key(finding): _moved(finding, later, known) for finding in proved}
    ended = [
        replace(finding, state=_OVER) if of_pollers(finding) else finding
        for finding in of_run.findings
        if alert_key(finding) not in present
    ]
    findings = (*present.values(), *ended)
    made = replace(of_run, findings=tuple(sorted(findings, key=lambda f: (-f.severity.rank, -f.lost_s, f.signature))))
    ranks = {signature.id: signature.rank for signature in signatures if signature.kind == _FAULT}
    faults = [one for one in present.values() if one.signature in ranks and one.state in _HOLDS]
    if of_run.verdict is None and faults:
        verdict = verdict_of(min(faults, key=lambda one: ranks[one.signature]))
        return replace(made, verdict=verdict, summary=verdict.sentence)
    return made


def _moved(finding: Finding, seconds: float, known: set[str]) -> Finding:
    """As seen from the window of the run."""
    moments = [Moment(one.id, one.start_s + seconds, one.end_s + seconds, one.key) for one in finding.moments]
    return replace(
        finding,
        first_s=finding.first_s + seconds,
        last_s=finding.last_s + seconds,
        lost_s=0.0,
        lost_share=0.0,
        lost=(),
        moments=tuple(moments),
        explained_by=finding.explained_by if finding.explained_by in known else None,
    )
