"""Runs pipelines that are drawn by chance, with a fault or none: `python -m lab.variants --seeds 1-44 --keep`.

Speeds, sizes and the strength of the fault are drawn by the seed, so that no threshold can be made for them.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from .cases import PIPELINE_BEGINS_S, RAY_S, Case
from .command_line import how_many, in_order
from .conductor import Lab, memory, run_together
from .matrix import TOLERANCE, Row, line_of, row
from .page import RESULTS
from .plan import Plan
from .recorded import Recorded

KINDS = (
    ("pipeline",), ("slow-producer",), ("bursty-producer",), ("throttled-link",), ("slow-parse",), ("slow-queue",),
    ("slow-serialise",), ("slow-consumer",), ("blocked-consumer",), ("dead-consumer",), ("warm-up",),
    ("ray-queue",), ("ray-queue", "slow-producer"), ("ray-queue", "bursty-producer"), ("ray-queue", "slow-serialise"),
    ("ray-queue", "slow-consumer"), ("ray-queue", "dead-consumer"),
)  # fmt: skip
"""Of seed after seed."""
_KERNEL_MIB = 12.0
"""What sockets hold on the way, at most."""
_DRAIN_S = 40.0
"""So long the longest queue may last once a fault has begun."""
_WATCHED_S = 50.0
"""Of the fault, once it costs something."""


def drawn(seed: int) -> Plan:
    """The run of a seed; its folder is to be set."""
    rng = random.Random(seed)  # noqa: S311 - no secret hangs on it
    names = KINDS[seed % len(KINDS)]
    consume = _log_uniform(rng, 0.1, 0.8)
    slower = rng.uniform(1.5, 4.0)
    """So many times as long as the consumer takes."""
    item = round(64 * _log_uniform(rng, 0.5, 3.0)) / 64
    left = _DRAIN_S * (1 / consume - 1 / (slower * consume))
    queue = min(rng.choice((1, 2, 4, 8, 16, 32, 64)), max(1, int(left)))
    setting: dict[str, object] = {
        "consume_s": consume,
        "produce_s": consume * rng.uniform(0.6, 0.92),
        "parse_s": consume * rng.uniform(0.02, 0.3),
        "item_mib": item,
        "queue_items": queue,
    }
    gap = rng.uniform(4.0, 15.0)
    bursty = rng.uniform(1.4, 2.2)
    strength: dict[str, object] = {
        "produce_s": consume * (bursty if "bursty-producer" in names else slower),
        "burst": max(2, round(gap / (consume * bursty))),
        "link_mib_s": item / (consume * slower),
        "parse_s": consume * slower,
        "queue_s": consume * rng.uniform(0.8, 2.0),
        "serialise_s": consume * slower,
        "store_s": consume * rng.uniform(0.7, 3.0),
    }
    if "warm-up" in names:
        setting |= {"starts_after_s": rng.uniform(5.0, 40.0), "first_batch_s": rng.uniform(5.0, 25.0)}
    before = PIPELINE_BEGINS_S + (RAY_S if "ray-queue" in names else 0.0)
    stored = queue + 2 + _KERNEL_MIB / item
    lasts = (
        stored * consume * slower / (slower - 1)
        if names[-1] in ("slow-producer", "throttled-link")
        else (queue * consume * slower / (slower - 1))
    )
    if "bursty-producer" in names:
        lasts = (queue + 2) * consume * bursty / (bursty - 1) + 2 * gap
    return Plan(
        out="", seed=seed, faults=names, begins_s=before, seconds=before + lasts + _WATCHED_S,
        setting=setting, strength=strength,
    )  # fmt: skip


def _log_uniform(rng: random.Random, low: float, high: float) -> float:
    return float(low * (high / low) ** rng.random())


def judged(each: Row) -> bool:
    """The right verdict in time and at its price; of a healthy run none, nor anything else that is found."""
    if not each.case.expected:
        return each.judgement.verdict is None and not each.judgement.found_at
    return each.right and each.in_time and not each.early and abs(each.error or 0.0) <= TOLERANCE


def summary(plan: Plan, each: Row) -> dict[str, Any]:
    """What is kept of a run."""
    at = [at for at in each.detected_s.values() if at is not None]
    return {
        "seed": plan.seed,
        "run": each.case.name,
        "expected": list(each.case.expected),
        "verdict": each.called,
        "first": each.first,
        "detected_s": round(max(at), 1) if at else None,
        "error": None if each.error is None else round(each.error, 3),
        "alarms": sorted(each.judgement.found_at) if not each.case.expected else list(each.early),
        "ok": judged(each),
    }


def main(argv: list[str] | None = None) -> int:
    """The exit status: 1 where something was judged wrongly."""
    parser = argparse.ArgumentParser(prog="python -m lab.variants", description=__doc__.splitlines()[0])
    seeds = f"1-{2 * len(KINDS)}"
    parser.add_argument("--seeds", type=_seeds, default=seeds, help="one run each (default: %(default)s)")
    parser.add_argument("--at-once", type=how_many, default=2, help="runs at once (default: 2)")
    parser.add_argument("--keep", action="store_true", help="add what came of it to lab/results/variants.json")
    parser.add_argument("--folder", type=Path, help="where recordings of the runs are kept (default: nowhere)")
    requests = parser.parse_args(argv)
    return in_order(lambda: _run(requests))


def _seeds(text: str) -> list[int]:
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def _run(requests: argparse.Namespace) -> int:
    found: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="lab-", dir=memory()) as scratch:
        plans = [replace(drawn(seed), out=f"{scratch}/{seed}") for seed in requests.seeds]
        run_together([Lab(plan) for plan in plans], requests.at_once)
        for plan in plans:
            recorded = Recorded.of_folder(plan.folder)
            if requests.folder:
                requests.folder.mkdir(parents=True, exist_ok=True)
                recorded.write(requests.folder / f"{plan.seed}.json.gz")
            each = row(Case("+".join(plan.faults), plan.faults), recorded)
            found[plan.seed] = summary(plan, each)
            print(f"{'ok   ' if judged(each) else 'WRONG'} {plan.seed} {line_of(each)}", flush=True)
    if requests.keep:
        path = RESULTS / "variants.json"
        kept: Mapping[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {"runs": []}
        runs = {run["seed"]: run for run in kept["runs"]} | found
        path.write_text(json.dumps({"runs": [runs[seed] for seed in sorted(runs)]}, indent=1) + "\n", "utf-8")
    return int(not all(one["ok"] for one in found.values()))


if __name__ == "__main__":
    sys.exit(main())
