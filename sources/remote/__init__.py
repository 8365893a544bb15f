"""Machines that are reached over SSH: nothing is installed there, and nothing is left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .copies import HostCopy, Selection, copy_selected, manifest, redact
    from .discovery import Discovery, describe, discover, discover_here, find_logs, with_metrics
    from .files import Files
    from .fleet import FOUND_S, Fleet, FleetOptions
    from .model import Address, HostState, Phase, RemoteSpec, at_home, parse_host, parse_remote

__getattr__ = lazy_face(__name__)
