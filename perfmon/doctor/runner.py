"""All checks, run at the same time with a deadline, and their report."""

from __future__ import annotations

import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from perfmon._version import __version__
from perfmon.core import evidence_text

from . import checks, remote_checks
from .base import Check, Finding, State

# --- All checks, in the order of the report ---


@dataclass(frozen=True, slots=True)
class Probe:
    """Something to look at."""

    id: str
    group: str
    title: str
    look: Callable[[float], Finding]
    """Looks, for so many seconds at most; TimeoutError where that was not enough. It changes nothing."""
    purpose: str
    """Impact if it does not respond."""


_HERE, _SCREEN, _THERE = "perfmon itself", "terminal", "remote hosts"
_LOGS, _GPUS, _JOBS = "local logs and runs", "GPUs", "queues and jobs"

PROBES = (
    Probe("scanner", _HERE, "compiled search", checks.scanner, "logs are read at full speed"),
    Probe("libraries", _HERE, "libraries", checks.libraries, "no library is missing"),
    Probe("plots", _HERE, "plots", checks.plots, "reports can contain plots"),
    Probe("terminal", _SCREEN, "terminal", checks.terminal, "the monitor can open"),
    Probe("colours", _SCREEN, "colours", checks.colours, "number of colours"),
    Probe("utf-8", _SCREEN, "UTF-8", checks.characters, "character set"),
    Probe("tmux", _SCREEN, "tmux", checks.tmux, "a status line is possible"),
    Probe("inotify", _LOGS, "inotify", checks.inotify, "file changes are noticed at once"),
    Probe("runs", _LOGS, "runs", checks.runs, "runs on this machine"),
    Probe("ssh-agent", _THERE, "SSH agent", remote_checks.agent, "keys are usable without passphrase"),
    Probe("known-hosts", _THERE, "known hosts", remote_checks.known_hosts, "trusted hosts"),
    Probe("ssh-keys", _THERE, "SSH keys", remote_checks.keys, "available keys"),
    Probe("nvml", _GPUS, "NVML", checks.nvml, "NVIDIA GPUs can be polled"),
    Probe("nvidia-smi", _GPUS, "nvidia-smi", checks.nvidia_smi, "nvidia-smi works"),
    Probe("amd", _GPUS, "AMD", checks.amd, "AMD GPUs can be polled"),
    Probe("endpoints", _JOBS, "endpoints", remote_checks.endpoints, "engines that can be polled"),
    Probe("ray", _JOBS, "Ray", remote_checks.ray, "a local Ray cluster runs"),
    Probe("slurm", _JOBS, "Slurm", remote_checks.slurm, "Slurm responds"),
)
"""All but the configuration, of which only the command knows which files were named."""


# --- Looks at everything at the same time, and waits for nobody longer than it was told to ---

_SPARE = 0.8
"""Share of the time that a look may use itself, to report more than that it took too long."""
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
            reason = evidence_text(f"{type(error).__name__}: {error}")
            findings[probe.id] = Finding(State.UNKNOWN, f"check failed: {reason}", probe.purpose)

    # Daemons: a driver call that hangs cannot be ended, and must not keep the program.
    threads = [
        threading.Thread(target=look, args=(probe,), name=f"perfmon-{probe.id}", daemon=True) for probe in probes
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, begun + patience_s - time.monotonic()))
    return [
        Check(probe.id, probe.group, probe.title, findings.get(probe.id) or _silent(probe, patience_s))
        for probe in probes
    ]


def _silent(probe: Probe, patience_s: float) -> Finding:
    return Finding(
        State.UNKNOWN, f"no answer within {patience_s:g} s", probe.purpose, "try again: perfmon doctor --patience 10s"
    )


# --- A check-up in words that fit 80 columns and need no colours, and as a document for programs ---

SCHEMA = 1
WIDTH = 80
_TITLE, _STATE = 17, 9


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """One line for what was found; more for what was not: its impact, and the fix."""
    for group, of_group in groupby(checks, key=lambda check: check.group):
        yield group
        for check in of_group:
            yield from _lines(check)
        yield ""
    counts = Counter(check.finding.state for check in checks)
    states = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
    yield f"{states}: {'fix broken items first' if counts[State.BROKEN] else 'nothing is broken'}"


def _lines(check: Check) -> Iterator[str]:
    finding = check.finding
    head = f"  {check.title:<{_TITLE}}{finding.state.value:<{_STATE}}"
    yield from _wrapped(head, finding.detail) or [head.rstrip()]
    for word, text in (("impact:", finding.impact), ("fix:", finding.fix)):
        yield from _wrapped(f"{'':<{2 + _TITLE}}{word:<{_STATE}}", text)


def _wrapped(head: str, text: str) -> list[str]:
    indent = " " * len(head)
    return textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)


def document(checks: Iterable[Check]) -> dict[str, Any]:
    """The checks for programs: schema 1."""
    return {
        "schema": SCHEMA,
        "perfmon": __version__,
        "checks": [
            {
                "id": check.id,
                "group": check.group,
                "title": check.title,
                "state": check.finding.state.value,
                "detail": check.finding.detail,
                "impact": check.finding.impact,
                "fix": check.finding.fix,
                "costs": check.finding.impact,  # the former names of these two, for one release
                "mend": check.finding.fix,
            }
            for check in checks
        ],
    }
