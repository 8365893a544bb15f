"""Pollers: GPUs, hosts, networks, engines, Ray and Slurm, queried at an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .base import DiskPaths, LocalMachine, Poller, no_disk_paths
    from .reading import (
        DEFAULT,
        FORMS,
        Area,
        PolledBlock,
        PollRequest,
        Reading,
        format_reading,
        is_poll,
        parse_request,
        polled_blocks,
    )
    from .registry import pollers_for
    from .scheduler import PollScheduler, poll_log, poll_once

__getattr__ = lazy_face(
    __name__,
    {
        "base": "DiskPaths,LocalMachine,Poller,no_disk_paths",
        "reading": (
            "Area,DEFAULT,FORMS,PollRequest,PolledBlock,Reading,format_reading,is_poll,parse_request,polled_blocks"
        ),
        "registry": "pollers_for",
        "scheduler": "PollScheduler,poll_log,poll_once",
    },
)
