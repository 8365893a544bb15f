"""Pollers: GPUs, hosts, networks, engines, Ray and Slurm, asked at a pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .base import Places, Poller, nowhere
    from .local import LocalMachine
    from .reading import Area, PolledBlock, Reading, format_reading, is_poll, polled_blocks
    from .registry import maker_of, pollers_for
    from .request import DEFAULT, FORMS, Asked, parse_asked
    from .scheduler import PollScheduler, asked_once, poll_log

__getattr__ = lazy_face(
    __name__,
    {
        "base": "Places,Poller,nowhere",
        "local": "LocalMachine",
        "reading": "Area,PolledBlock,Reading,is_poll,format_reading,polled_blocks",
        "registry": "maker_of,pollers_for",
        "request": "Asked,DEFAULT,FORMS,parse_asked",
        "scheduler": "PollScheduler,asked_once,poll_log",
    },
)
