"""Checks of everything perfmon can use on this machine, with impact and fix of each problem."""

from __future__ import annotations

from .check import Check, State
from .probes import PROBES, Probe
from .running import examine

__all__ = ["PROBES", "Check", "Probe", "State", "examine"]
