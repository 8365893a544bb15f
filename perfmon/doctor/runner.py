"""All checks, run at the same time with a deadline, and their report; checks of what a network reaches."""

from __future__ import annotations

import asyncio
import os
import socket
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from perfmon._version import __version__
from perfmon.core import evidence_text

from . import checks
from .checks import Check, CommandError, Finding, State, first_line, found, limited, missing, output_of, program

# --- Checks of SSH: keys, agent, known hosts ---

_LIST, _LISTED = 11, 12
"""Messages of the agent's protocol: the request for the identities, and the answer."""
_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa", "id_ed25519_sk", "id_ecdsa_sk")
_PASSPHRASES = "the passphrases of keys are requested on every start"


def agent(patience_s: float) -> Finding:
    """Check the agent, and its number of keys."""
    path = os.environ.get("SSH_AUTH_SOCK", "")
    if not path:
        return missing("SSH_AUTH_SOCK is not set", _PASSPHRASES, "eval $(ssh-agent), then ssh-add")
    try:
        count = _held(path, patience_s)
    except TimeoutError:
        raise
    except (OSError, ValueError):
        return missing("SSH_AUTH_SOCK points to no agent", _PASSPHRASES, "eval $(ssh-agent), then ssh-add")
    if not count:
        return limited("it has no keys", _PASSPHRASES, "ssh-add")
    return found(f"holds {count} {'key' if count == 1 else 'keys'}")


def _held(path: str, patience_s: float) -> int:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(patience_s)
        client.connect(path)
        client.sendall(b"\0\0\0\1" + bytes([_LIST]))
        with client.makefile("rb") as stream:
            answer = stream.read(9)
    if len(answer) < 9 or answer[4] != _LISTED:
        raise ValueError("no list of keys")
    return int.from_bytes(answer[5:9], "big")


def known_hosts(_: float) -> Finding:
    """Number of known hosts."""
    places = [Path("~/.ssh/known_hosts").expanduser(), Path("/etc/ssh/ssh_known_hosts")]
    count = sum(_entries(path) for path in places)
    if not count:
        fix = "connect once by ssh, or perfmon ssh --accept-new HOST"
        return missing("no known hosts yet", "each host key must be confirmed once", fix)
    return found(f"{count} {'entry' if count == 1 else 'entries'}")


def _entries(path: Path) -> int:
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return 0
    return sum(bool(line.strip()) and not line.lstrip().startswith("#") for line in text.splitlines())


def keys(_: float) -> Finding:
    """Keys in the default locations of ssh."""
    folder = Path("~/.ssh").expanduser()
    there = [name for name in _KEYS if os.access(folder / name, os.R_OK)]
    if there:
        return found(", ".join(there))
    impact = "hosts require a password, unless the agent or ~/.ssh/config provides a key"
    return missing(f"none in {folder}", impact, "ssh-keygen -t ed25519")


# --- Pages of metrics of this machine, at the ports where engines and trainers serve them by default ---

PORTS = (*range(8000, 8004), *range(30000, 30004))
"""vLLM, TRL and prime-rl begin at 8000, SGLang at 30000; further engines of a machine follow."""
_KINDS = (("vllm", "vllm:"), ("sglang", "sglang:"), ("prime-rl", "trainer_step"))
"""SOURCE, and what the names on its page begin with."""
_IMPACT = "queues and caches of engines come from logs only"
_FIX = "SGLang needs --enable-metrics, vLLM serves metrics by default; remote: perfmon logs/ vllm=URL"


def endpoints(patience_s: float) -> Finding:
    """Default ports that respond with metrics, as the sources that poll them."""
    specs = asyncio.run(_specs(patience_s))
    if specs:
        return found(" ".join(specs))
    shown = f"{PORTS[0]}-{PORTS[3]} and {PORTS[4]}-{PORTS[7]}"
    return missing(f"no metrics at local ports {shown}", _IMPACT, _FIX)


async def _specs(patience_s: float) -> list[str]:
    specs = await asyncio.gather(*(_spec(port, patience_s) for port in PORTS))
    return [spec for spec in specs if spec]


async def _spec(port: int, patience_s: float) -> str:
    """The SOURCE that polls a port; "" for one that has no metrics."""
    from perfmon.sources import ReplyError, Url, get, open_here

    try:
        reply = await get(open_here, Url("http", "127.0.0.1", port, "/metrics"), timeout_s=patience_s)
    except ReplyError:
        return ""
    if reply.status != 200 or b"# TYPE " not in reply.body:
        return ""
    lines = reply.body.decode("utf-8", "replace").splitlines()
    kind = next((kind for kind, begin in _KINDS if any(line.startswith(begin) for line in lines)), "prometheus")
    return f"{kind}=http://127.0.0.1:{port}"


# --- Ray and Slurm ---

_RAY_METRICS = Path("/tmp/ray/prom_metrics_service_discovery.json")  # noqa: S108 - where Ray itself puts it
_RAY_SESSION = Path("/tmp/ray/session_latest")  # noqa: S108 - as above
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
        answer = first_line(output_of(patience_s, "scontrol", "ping"))
    except CommandError as error:
        return limited(
            f"installed{job}; the controller does not respond: {error}", _NO_SLURM, "run scontrol ping for details"
        )
    return found(f"{answer}{job}")


# --- All checks, in the order of the report ---

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
    Probe("ssh-agent", _THERE, "SSH agent", agent, "keys are usable without passphrase"),
    Probe("known-hosts", _THERE, "known hosts", known_hosts, "trusted hosts"),
    Probe("ssh-keys", _THERE, "SSH keys", keys, "available keys"),
    Probe("nvml", _GPUS, "NVML", checks.nvml, "NVIDIA GPUs can be polled"),
    Probe("nvidia-smi", _GPUS, "nvidia-smi", checks.nvidia_smi, "nvidia-smi works"),
    Probe("amd", _GPUS, "AMD", checks.amd, "AMD GPUs can be polled"),
    Probe("endpoints", _JOBS, "endpoints", endpoints, "engines that can be polled"),
    Probe("ray", _JOBS, "Ray", ray, "a local Ray cluster runs"),
    Probe("slurm", _JOBS, "Slurm", slurm, "Slurm responds"),
)
"""All but the configuration, of which only the command knows which files were named."""


# --- Checks everything at the same time, each within its time limit ---

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
        except Exception as error:  # a check that fails reports it: all others count
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
_WORDS = {State.MISSING: "absent"}
"""Words for people: what a machine does not have need not be missed."""


def lines(checks: Sequence[Check]) -> Iterator[str]:
    """One line for what was found; more for what was not: its impact, and the fix."""
    for group, of_group in groupby(checks, key=lambda check: check.group):
        yield group
        for check in of_group:
            yield from _lines(check)
        yield ""
    counts = Counter(check.finding.state for check in checks)
    states = ", ".join(f"{counts[state]} {_WORDS.get(state, state)}" for state in State if counts[state])
    yield f"{states}: {'fix broken items first' if counts[State.BROKEN] else 'nothing is broken'}"


def _lines(check: Check) -> Iterator[str]:
    finding = check.finding
    state = _WORDS.get(finding.state, finding.state.value)
    head = f"  {check.title:<{_TITLE}}{state:<{_STATE}}"
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
