"""Checks of the environment for `perfmon doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .base import State
    from .checks import configuration
    from .runner import PROBES, Probe, document, examine, lines

__all__ = [
    "PROBES",
    "Probe",
    "State",
    "configuration",
    "document",
    "examine",
    "lines",
]

__getattr__ = lazy_face(
    __name__,
    {
        "base": "State",
        "checks": "configuration",
        "runner": "PROBES,Probe,document,examine,lines",
    },
)
