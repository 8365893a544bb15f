"""A simulated run of asynchronous RL that writes the logs of such a run, healthy or not."""

from __future__ import annotations

from .output import demo_timeline
from .simulation import SCENARIOS
