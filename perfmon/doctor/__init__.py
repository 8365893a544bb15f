"""Checks of the environment for `perfmon doctor`."""

from __future__ import annotations

from .checks import State, configuration
from .runner import PROBES, Probe, document, examine, lines
