"""Pollers: GPUs, hosts, networks, engines, Ray and Slurm, queried at an interval."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .base import LocalMachine
    from .reading import (
        Area,
        DiskPaths,
        PolledBlock,
        Poller,
        Reading,
        format_reading,
        is_poll,
        no_disk_paths,
        polled_blocks,
    )
    from .request import DEFAULT, FORMS, PollRequest, parse_request, requests_for
    from .scheduler import PollScheduler, make_pollers, poll_log, poll_once

__getattr__ = lazy_face(__name__)
