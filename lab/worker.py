"""One process of the lab: `python -m lab.worker ROLE PLAN PARENT`."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from .plan import Plan
from .process import die_with, go_first

_PLAYED_BY = {
    "inference": ("inference", "serve"),
    "trainer": ("trainer", "train"),
    "orchestrator": ("orchestrator", "orchestrate"),
    "queue": ("channel", "serve"),
    "consumer": ("consumer", "consume"),
    "producer": ("producer", "produce"),
    "streamer": ("streamer", "stream"),
    "polls": ("polls", "poll"),
    "polls-streamer": ("polls", "poll_streamer"),
}
"""Module and function, by role."""


def main(role: str, plan_file: str, parent: str) -> None:
    """Plays a role until it is interrupted, or its parent is gone."""
    die_with(int(parent))
    plan = Plan.read(Path(plan_file))
    if role != "queue" or not plan.knobs().ray_queue:  # what a Ray cluster starts would go first, too
        go_first()
    module, function = _PLAYED_BY[role]
    getattr(import_module(f".{module}", __package__), function)(plan)


if __name__ == "__main__":
    main(*sys.argv[1:])
