"""Texts of empty views: the reason, and how to fill them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perfmon.sources.polls.reading import Area
from perfmon.surroundings import Surroundings

_NONE: Mapping[str, tuple[str, Sequence[str]]] = {
    "gpus": (
        "no GPU is monitored",
        (
            "Add the source gpu, as in: perfmon logs/ gpu. It polls NVML; over ssh nvidia-smi or amd-smi.",
            "perfmon doctor shows what is missing on this machine.",
        ),
    ),
    "hosts": (
        "no host is monitored",
        (
            "Add the source host, as in: perfmon logs/ host. For remote hosts: perfmon ssh USER@HOST.",
            "It reports CPU, memory, disks, network, and the processes of the run.",
        ),
    ),
    "queues": (
        "no queue is monitored",
        (
            "Add an engine: vllm=http://HOST:8000, sglang=URL or prometheus=URL.",
            "Or ray, slurm, net:PORT for the sockets of a port, command:'COMMAND' for a custom value.",
        ),
    ),
}
_ASKED: Mapping[str, Sequence[str]] = {
    "gpus": ("gpu", "nvidia", "nvml", "amd", "rocm"),
    "hosts": ("host", "proc"),
    "queues": ("vllm", "sglang", "ray", "slurm", "prometheus", "http", "net", "command", "queue"),
}
"""Parts of the names of pollers that would tell of these."""


def nothing(view: str) -> str:
    """That there is nothing, in a few words."""
    return _NONE[view][0]


def mends(view: str) -> Sequence[str]:
    """Instructions, a sentence each."""
    return _NONE[view][1]


def reasons(view: str, around: Surroundings) -> list[str]:
    """Errors of the pollers."""
    told = []
    for host, seen in around.of_area(Area.POLLER):
        words, name = seen.reading.words, seen.reading.name.lower()
        if words.get("why") and any(part in name for part in _ASKED[view]):
            told.append(f"{host.short}: {seen.reading.name}: {words['why'].replace('_', ' ')}")
    return told
