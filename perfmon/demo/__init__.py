"""A built-in run: a small simulation of asynchronous RL writes the logs that such a run leaves, healthy or not."""

from __future__ import annotations

from .feed import demo_timeline
from .scenarios import SCENARIOS, Scenario
from .writer import write_demo

__all__ = ["SCENARIOS", "Scenario", "demo_timeline", "write_demo"]
