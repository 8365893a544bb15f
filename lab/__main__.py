"""`python -m lab --fault NAME --seconds 60 --out DIR`: a small real run that leaves logs, checkpoints and the truth."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .command_line import duration, in_order, moment
from .conductor import Lab
from .faults import FAULTS, HEALTHY
from .plan import Plan

_BEGINS = 0.25
"""Share of the run after which faults begin, unless it is said when."""


def main(argv: list[str] | None = None) -> int:
    """Runs the lab once; the exit status."""
    requests = _parser().parse_args(argv)
    message = (name.strip() for name in requests.fault.split(","))
    names = tuple(dict.fromkeys(name for name in message if name and name != HEALTHY))
    unknown = [name for name in names if name not in FAULTS]
    if unknown:
        print(f"lab: {unknown[0]!r} is no fault; there are {', '.join(FAULTS)}", file=sys.stderr)
        return 2
    begins = _BEGINS * requests.seconds if requests.begins is None else requests.begins
    if names and begins >= requests.seconds:
        print(
            f"lab: --begins {begins:g}: the run is over after {requests.seconds:g} s, no fault would begin",
            file=sys.stderr,
        )
        return 2
    plan = Plan(
        out=str(requests.out),
        seed=requests.seed,
        seconds=requests.seconds,
        faults=names,
        begins_s=begins,
        turns={"shared_admin": False} if requests.dedicated_admin else {},
        emit=not requests.no_emit,
    )
    return in_order(lambda: _run(plan, requests.out), f"; {requests.out} holds what there is")


def _run(plan: Plan, out: Path) -> int:
    with Lab(plan) as lab:
        lab.run()
    print(f"{out}: logs/, checkpoints/, truth.json")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab", description="A small real run with faults to switch on.")
    parser.add_argument(
        "--fault",
        default=HEALTHY,
        metavar="NAME[,NAME]",
        help="; ".join(f"{fault.name}: {fault.says}" for fault in FAULTS.values()).replace("%", "%%"),
    )
    parser.add_argument("--seconds", type=duration, default=60.0, help="how long it runs (default: 60)")
    parser.add_argument("--out", type=Path, required=True, help="a folder for the logs, the checkpoints and truth.json")
    parser.add_argument("--seed", type=int, default=0, help="of what is left to chance (default: 0)")
    parser.add_argument("--begins", type=moment, help="second at which faults begin (default: a quarter of the run)")
    parser.add_argument(
        "--dedicated-admin", action="store_true", help="weight updates have a client of their own, whatever the fault"
    )
    parser.add_argument("--no-emit", action="store_true", help="no lines for perfmon")
    return parser


if __name__ == "__main__":
    sys.exit(main())
