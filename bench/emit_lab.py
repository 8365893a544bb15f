"""How much longer a step of the lab takes when it tells what it does: pairs of runs, with and without, at once.

python bench/emit_lab.py --seconds 240 --pairs 2 --keep
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from lab.conductor import Lab, run_together
from lab.page import RESULTS
from lab.plan import Plan
from lab.truth import read_journal


def main() -> int:
    """Prints, and with --keep writes to lab/results/emit.json, by how many percent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--within", type=Path)
    parser.add_argument("--keep", action="store_true")
    requests = parser.parse_args()
    with_it, without = list[float](), list[float]()
    for pair in range(requests.pairs):
        with tempfile.TemporaryDirectory(prefix="lab-", dir=requests.within) as folder:
            plans = [
                Plan(out=f"{folder}/{emit}", seed=pair, seconds=requests.seconds, emit=emit) for emit in (True, False)
            ]
            run_together([Lab(plan) for plan in plans])
            with_it += _steps(plans[0])
            without += _steps(plans[1])
    slowdown = 100.0 * (statistics.fmean(with_it) / statistics.fmean(without) - 1.0)
    variance = statistics.variance(with_it) / len(with_it) + statistics.variance(without) / len(without)
    error = 100.0 * variance**0.5 / statistics.fmean(without)
    steps = min(len(with_it), len(without))
    print(f"a step takes {slowdown:+.2f} % (± {error:.2f} %) longer, {steps} steps each")
    if requests.keep:
        within = f" --within {requests.within}" if requests.within is not None else ""
        command = f"python bench/emit_lab.py --seconds {requests.seconds:g} --pairs {requests.pairs}{within}"
        results = {"command": command, "slowdown_pct": slowdown, "error_pct": error, "steps": steps}
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "emit.json").write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    return 0


def _steps(plan: Plan) -> list[float]:
    """Seconds from batch to batch, without the first few."""
    ends = [end for _, end in read_journal(plan.folder / "journal")["batch"]][3:]
    return [later - earlier for earlier, later in pairwise(ends)]


if __name__ == "__main__":
    sys.exit(main())
