"""Checks of the environment for `perfmon doctor`."""

from __future__ import annotations

from .base import State
from .checks import configuration
from .runner import PROBES, Probe, document, examine, lines
