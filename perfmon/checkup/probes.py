"""What is looked at, in the order in which it is told."""

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
    """What is not known where it does not answer."""


_HERE, _SCREEN, _THERE = "perfmon itself", "the screen", "other machines"
_LOGS, _GPUS, _JOBS = "logs and runs here", "GPUs", "queues and jobs"

PROBES = (
    Probe("scanner", _HERE, "compiled search", installation.scanner, "whether logs are read at full speed"),
    Probe("libraries", _HERE, "libraries", installation.libraries, "whether a library is missing"),
    Probe("plots", _HERE, "plots", installation.plots, "whether reports can hold plots"),
    Probe("terminal", _SCREEN, "terminal", terminal.terminal, "whether the monitor can open"),
    Probe("colours", _SCREEN, "colours", terminal.colours, "how many colours there are"),
    Probe("utf-8", _SCREEN, "UTF-8", terminal.characters, "which characters are shown"),
    Probe("tmux", _SCREEN, "tmux", terminal.tmux, "whether a status line is possible"),
    Probe("inotify", _LOGS, "inotify", logs.inotify, "whether changes of logs are told at once"),
    Probe("runs", _LOGS, "runs", logs.runs, "what runs on this machine"),
    Probe("ssh-agent", _THERE, "SSH agent", reaching.agent, "whether keys need their passphrase"),
    Probe("known-hosts", _THERE, "known hosts", reaching.known_hosts, "which hosts are trusted"),
    Probe("ssh-keys", _THERE, "SSH keys", reaching.keys, "which keys there are"),
    Probe("nvml", _GPUS, "NVML", gpus.nvml, "whether NVIDIA GPUs can be asked"),
    Probe("nvidia-smi", _GPUS, "nvidia-smi", gpus.nvidia_smi, "whether nvidia-smi works"),
    Probe("amd", _GPUS, "AMD", gpus.amd, "whether AMD GPUs can be asked"),
    Probe("endpoints", _JOBS, "endpoints", endpoints.endpoints, "which engines can be asked"),
    Probe("ray", _JOBS, "Ray", cluster.ray, "whether a Ray cluster runs here"),
    Probe("slurm", _JOBS, "Slurm", cluster.slurm, "whether Slurm answers"),
)
"""All but the configuration, of which only the command knows which files were named."""
