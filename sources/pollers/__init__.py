"""Pollers: GPUs, hosts, networks, engines, Ray and Slurm, asked at a pace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .base import Places, Poller, nowhere
    from .local import HereMachine
    from .reading import Area, PolledBlock, Reading, is_poll, line_of, polled_blocks
    from .registry import maker_of, pollers_for
    from .request import DEFAULT, FORMS, Asked, parse_asked
    from .scheduler import Pacing, asked_once, poll_log

__all__ = [
    "DEFAULT",
    "FORMS",
    "Area",
    "Asked",
    "HereMachine",
    "Pacing",
    "Places",
    "PolledBlock",
    "Poller",
    "Reading",
    "asked_once",
    "is_poll",
    "line_of",
    "maker_of",
    "nowhere",
    "parse_asked",
    "poll_log",
    "polled_blocks",
    "pollers_for",
]

__getattr__ = lazy_face(
    __name__,
    {
        "base": "Places,Poller,nowhere",
        "local": "HereMachine",
        "reading": "Area,PolledBlock,Reading,is_poll,line_of,polled_blocks",
        "registry": "maker_of,pollers_for",
        "request": "Asked,DEFAULT,FORMS,parse_asked",
        "scheduler": "Pacing,asked_once,poll_log",
    },
)
