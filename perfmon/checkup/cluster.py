"""Ray and Slurm."""

from __future__ import annotations

import os
from pathlib import Path

from .asking import Silent, asked, first_line, program
from .check import Finding, found, limited, missing

_RAY_METRICS = Path("/tmp/ray/prom_metrics_service_discovery.json")  # noqa: S108 - where Ray itself puts it
_RAY_SESSION = Path("/tmp/ray/session_latest")  # noqa: S108 - likewise
_NO_RAY = "no queues of Ray, no waits of its tasks"
_NO_SLURM = "no jobs and nodes of Slurm"


def ray(_: float) -> Finding:
    """Whether it runs here, and whether it tells where its metrics are."""
    if not os.path.lexists(_RAY_SESSION):
        path = program("ray")
        return missing(
            "installed, but nothing of it has run here" if path else "not installed, and not running",
            _NO_RAY,
            "ray start --head" if path else "",
        )
    if not _RAY_METRICS.is_file():
        return limited("it ran here; where its metrics are is not told", _NO_RAY, "pip install 'ray[default]'")
    return found(f"it tells where its metrics are: {_RAY_METRICS}")


def slurm(patience_s: float) -> Finding:
    """Whether its programs are here, and its controller answers."""
    there = [name for name in ("squeue", "sacct", "scontrol") if program(name)]
    if not there:
        return missing("not installed", _NO_SLURM, "look from a login node: perfmon ssh NODE")
    job = f", inside job {os.environ['SLURM_JOB_ID'][:20]}" if os.environ.get("SLURM_JOB_ID", "").isdecimal() else ""
    if "scontrol" not in there:
        return limited(
            f"{', '.join(there)} only{job}", "nodes and reasons are not told", "install all of Slurm's clients"
        )
    try:
        told = first_line(asked(patience_s, "scontrol", "ping"))
    except Silent as error:
        return limited(f"installed{job}; the controller does not answer: {error}", _NO_SLURM, "scontrol ping says more")
    return found(f"{told}{job}")
