"""All checks, in the order of the report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from . import cluster, endpoints, gpus, installation, logs, reaching, terminal
from .check import Finding


@dataclass(frozen=True, slots=True)
class Probe:
    """Something to look at."""

    id: str
    group: str
    title: str
    look: Callable[[float], Finding]
    """Looks, for so many seconds at most; TimeoutError where that was not enough. It changes nothing."""
    tells: str
    """Impact if it does not respond."""


_HERE, _SCREEN, _THERE = "perfmon itself", "terminal", "remote hosts"
_LOGS, _GPUS, _JOBS = "local logs and runs", "GPUs", "queues and jobs"

PROBES = (
    Probe("scanner", _HERE, "compiled search", installation.scanner, "logs are read at full speed"),
    Probe("libraries", _HERE, "libraries", installation.libraries, "no library is missing"),
    Probe("plots", _HERE, "plots", installation.plots, "reports can contain plots"),
    Probe("terminal", _SCREEN, "terminal", terminal.terminal, "the monitor can open"),
    Probe("colours", _SCREEN, "colours", terminal.colours, "number of colours"),
    Probe("utf-8", _SCREEN, "UTF-8", terminal.characters, "character set"),
    Probe("tmux", _SCREEN, "tmux", terminal.tmux, "a status line is possible"),
    Probe("inotify", _LOGS, "inotify", logs.inotify, "file changes are noticed at once"),
    Probe("runs", _LOGS, "runs", logs.runs, "runs on this machine"),
    Probe("ssh-agent", _THERE, "SSH agent", reaching.agent, "keys are usable without passphrase"),
    Probe("known-hosts", _THERE, "known hosts", reaching.known_hosts, "trusted hosts"),
    Probe("ssh-keys", _THERE, "SSH keys", reaching.keys, "available keys"),
    Probe("nvml", _GPUS, "NVML", gpus.nvml, "NVIDIA GPUs can be polled"),
    Probe("nvidia-smi", _GPUS, "nvidia-smi", gpus.nvidia_smi, "nvidia-smi works"),
    Probe("amd", _GPUS, "AMD", gpus.amd, "AMD GPUs can be polled"),
    Probe("endpoints", _JOBS, "endpoints", endpoints.endpoints, "engines that can be polled"),
    Probe("ray", _JOBS, "Ray", cluster.ray, "a local Ray cluster runs"),
    Probe("slurm", _JOBS, "Slurm", cluster.slurm, "Slurm responds"),
)
"""All but the configuration, of which only the command knows which files were named."""
