"""What of perfmon works on this machine, what that costs where it does not, and the mend."""

from __future__ import annotations

from .check import Check, State
from .probes import PROBES, Probe
from .running import examine

__all__ = ["PROBES", "Check", "Probe", "State", "examine"]
