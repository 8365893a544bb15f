"""Machines that are reached over SSH: nothing is installed there, and nothing is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .discovery import Discovery, describe, discover, discover_here, find_logs, requests_for, with_metrics
    from .fetch import HostCopy, manifest, redact
    from .files import Files
    from .fleet import FOUND_S, Fleet, FleetOptions
    from .model import HostState, Phase, RemoteSpec, at_home, parse_host, parse_remote
    from .selection import Selection, copy_selected

__getattr__ = lazy_face(
    __name__,
    {
        "discovery": "Discovery,describe,discover,discover_here,find_logs,requests_for,with_metrics",
        "fetch": "HostCopy,manifest,redact",
        "files": "Files",
        "fleet": "FOUND_S,Fleet,FleetOptions",
        "model": "HostState,Phase,RemoteSpec,at_home,parse_host,parse_remote",
        "selection": "Selection,copy_selected",
    },
)
