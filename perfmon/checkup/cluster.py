"""Ray and Slurm."""

from __future__ import annotations

import os
from pathlib import Path

from .asking import Silent, asked, first_line, program
from .check import Finding, found, limited, missing

_RAY_METRICS = Path("/tmp/ray/prom_metrics_service_discovery.json")  # noqa: S108 - where Ray itself puts it
_RAY_SESSION = Path("/tmp/ray/session_latest")  # noqa: S108 - likewise
_NO_RAY = "no Ray queues and task waits"
_NO_SLURM = "no Slurm jobs and nodes"


def ray(_: float) -> Finding:
    """Check for a local Ray, and the address of its metrics."""
    if not os.path.lexists(_RAY_SESSION):
        path = program("ray")
        return missing(
            "installed, but not running" if path else "not installed, and not running",
            _NO_RAY,
            "ray start --head" if path else "",
        )
    if not _RAY_METRICS.is_file():
        return limited("it ran here, but the address of its metrics is unknown", _NO_RAY, "pip install 'ray[default]'")
    return found(f"metrics: {_RAY_METRICS}")


def slurm(patience_s: float) -> Finding:
    """Check for the Slurm clients, and a response of its controller."""
    there = [name for name in ("squeue", "sacct", "scontrol") if program(name)]
    if not there:
        return missing("not installed", _NO_SLURM, "use a login node: perfmon ssh NODE")
    job = f", inside job {os.environ['SLURM_JOB_ID'][:20]}" if os.environ.get("SLURM_JOB_ID", "").isdecimal() else ""
    if "scontrol" not in there:
        return limited(f"{', '.join(there)} only{job}", "no nodes and reasons", "install all Slurm clients")
    try:
        told = first_line(asked(patience_s, "scontrol", "ping"))
    except Silent as error:
        return limited(
            f"installed{job}; the controller does not respond: {error}", _NO_SLURM, "run scontrol ping for details"
        )
    return found(f"{told}{job}")
