"""Pollers: GPUs, hosts, networks, engines, Ray and Slurm, asked at a pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .base import DiskPaths, Poller, no_disk_paths
    from .local import LocalMachine
    from .reading import Area, PolledBlock, Reading, format_reading, is_poll, polled_blocks
    from .registry import pollers_for
    from .request import DEFAULT, FORMS, PollRequest, parse_request
    from .scheduler import PollScheduler, poll_log, poll_once

__all__ = [
    "DEFAULT",
    "FORMS",
    "Area",
    "DiskPaths",
    "LocalMachine",
    "PollRequest",
    "PollScheduler",
    "PolledBlock",
    "Poller",
    "Reading",
    "format_reading",
    "is_poll",
    "no_disk_paths",
    "parse_request",
    "poll_log",
    "poll_once",
    "polled_blocks",
    "pollers_for",
]

__getattr__ = lazy_face(
    __name__,
    {
        "base": "DiskPaths,Poller,no_disk_paths",
        "local": "LocalMachine",
        "reading": "Area,PolledBlock,Reading,is_poll,format_reading,polled_blocks",
        "registry": "pollers_for",
        "request": "PollRequest,DEFAULT,FORMS,parse_request",
        "scheduler": "PollScheduler,poll_once,poll_log",
    },
)
