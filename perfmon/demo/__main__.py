"""`python -m perfmon.demo FOLDER`: writes the logs of a built-in run."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from perfmon.core import PerfmonError

from .output import write_demo
from .scenarios import SCENARIOS


def main() -> int:
    """Writes the logs and prints their paths."""
    scenarios = "\n".join(f"  {name:<24}{scenario.title}" for name, scenario in SCENARIOS.items())
    parser = argparse.ArgumentParser(
        prog="python -m perfmon.demo",
        description="Write the logs of a simulated run.",
        epilog=f"scenarios:\n{scenarios}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="output folder; created if missing")
    parser.add_argument("--scenario", metavar="NAME", default="frontend-queue", help="fault of the run")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="the same seed gives the same bytes")
    parser.add_argument(
        "--minutes", metavar="M", type=float, default=10.0, help="length of the run in minutes (default: 10)"
    )
    parser.add_argument("--fixed", action="store_true", help="the same run after the advice was followed")
    args = parser.parse_args()
    try:
        written = write_demo(args.folder, args.scenario, args.seed, args.minutes, fixed=args.fixed)
    except PerfmonError as error:
        print(f"perfmon: {error}", file=sys.stderr)
        return error.exit_code
    print(*written, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
