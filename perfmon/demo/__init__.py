"""A simulated run of asynchronous RL that writes the logs of such a run, healthy or not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfmon._faces import lazy_face

if TYPE_CHECKING:
    from .output import demo_timeline
    from .scenarios import SCENARIOS, scenario_of

__getattr__ = lazy_face(__name__)
