"""Watches healthy runs and counts false alarms: `python -m lab.healthy --minutes 10 --seeds 101,102,103`."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from .command_line import duration, in_order
from .conductor import Lab, memory, run_together
from .evaluation import judge
from .faults import HEALTHY, HEALTHY_RUNS
from .page import RESULTS
from .plan import Plan
from .recorded import Recorded


def main(argv: list[str] | None = None) -> int:
    """The exit status: 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m lab.healthy", description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=duration, default=10.0, help="how long each run takes (default: 10)")
    parser.add_argument(
        "--seeds", type=_seeds, default="101,102,103", help="one run each, all at once (default: 101,102,103)"
    )
    parser.add_argument(
        "--run",
        choices=HEALTHY_RUNS,
        default=HEALTHY,
        help="the kind of run, one without a fault (default: %(default)s)",
    )
    parser.add_argument("--keep", action="store_true", help="write what came of it to lab/results/RUN.json")
    parser.add_argument(
        "--within", type=Path, default=memory(), help="where the runs' files are meanwhile (default: in memory)"
    )
    parser.add_argument(
        "--evidence",
        type=Path,
        default=Path(tempfile.gettempdir()) / "lab-alarms",
        help="where logs and journal of runs with an alarm are kept (default: %(default)s)",
    )
    args = parser.parse_args(argv)
    return in_order(lambda: _watch(args))


def _seeds(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _watch(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory(prefix="lab-", dir=args.within) as folder:
        faults = () if args.run == HEALTHY else (args.run,)
        plans = [
            Plan(out=str(Path(folder) / str(seed)), seed=seed, seconds=60.0 * args.minutes, faults=faults)
            for seed in args.seeds
        ]
        run_together([Lab(plan) for plan in plans])
        runs = [_judged(plan, args.evidence) for plan in plans]
    for run in runs:
        print(run)
    if args.keep:
        option = "" if args.run == HEALTHY else f" --run {args.run}"
        command = f"python -m lab.healthy{option} --minutes {args.minutes:g} --seeds {','.join(map(str, args.seeds))}"
        results = {"command": command, "runs": runs}
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"{args.run}.json").write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    return int(any(run["alarms"] or run["verdict"] for run in runs))


def _judged(plan: Plan, evidence: Path) -> dict[str, object]:
    """What was found. Of a run with an alarm the logs are kept, and the journal: was it slow in truth?"""
    judgement = judge(Recorded.of_folder(plan.folder))
    if judgement.found_at or judgement.verdict:
        kept = evidence / f"seed-{plan.seed}"
        files = shutil.ignore_patterns("checkpoints", "rollouts")
        shutil.copytree(plan.folder, kept, ignore=files, dirs_exist_ok=True)
        print(f"lab: kept {kept}", file=sys.stderr)
    alarms = {name: round(at) for name, at in judgement.found_at.items()}
    return {
        "seed": plan.seed,
        "observed_s": round(judgement.observed_s),
        "alarms": alarms,
        "verdict": judgement.verdict,
    }


if __name__ == "__main__":
    sys.exit(main())
