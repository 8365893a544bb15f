"""One process of the lab: `python -m lab.worker ROLE PLAN PARENT`."""

from __future__ import annotations

import sys
from pathlib import Path

from .plan import Plan
from .process import die_with, go_first


def main(role: str, plan_file: str, parent: str) -> None:
    """Plays a role until it is interrupted, or its parent is gone."""
    die_with(int(parent))
    go_first()
    plan = Plan.read(Path(plan_file))
    if role == "inference":
        from .inference import serve

        serve(plan)
    elif role == "trainer":
        from .trainer import train

        train(plan)
    else:
        from .orchestrator import orchestrate

        orchestrate(plan)


if __name__ == "__main__":
    main(*sys.argv[1:])
