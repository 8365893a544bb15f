"""Rate at which `perfmon nccl` names the slow rank or link of made-up jobs of many sizes, and accuses no other.

python bench/nccl_faults.py --seeds 200
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab.nccl_logs import Faults, Plan, Writer, write
from perfmon.core import Block, Config
from perfmon.nccl import Job, JobAnalysis, LiveJob
from perfmon.pipeline import Session

KINDS = ("slow-rank", "slow-adapter", "slow-nvlink", "healthy")


def plan_of(seed: int) -> tuple[str, Plan]:
    """A fault and a job: shapes, lengths, jitter and sizes of the fault vary."""
    pick = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    nodes, gpus = pick.choice([(2, 2), (2, 4), (4, 2), (4, 4), (2, 8), (8, 2), (8, 4), (4, 8), (1, 8)])
    if kind == "slow-adapter":
        nodes = max(2, nodes)
    if kind == "slow-nvlink":
        nodes = max(3, nodes)
    faults = {
        "slow-rank": Faults(slow_rank=pick.randrange(nodes * gpus), delay_us=pick.uniform(300, 4000)),
        "slow-adapter": Faults(slow_adapter=pick.randrange(gpus), factor=pick.uniform(1.5, 4)),
        "slow-nvlink": Faults(slow_nvlink=pick.randrange(nodes), factor=pick.uniform(1.5, 4)),
        "healthy": Faults(),
    }[kind]
    plan = Plan(
        nodes,
        gpus,
        steps=pick.randint(6, 16),
        layers=pick.randint(2, 4),
        seed=seed,
        form=pick.choice(["2.30", "4.2", "4.3"]),
        compute_us=pick.uniform(200, 2000),
        jitter=pick.uniform(0.02, 0.12),
        faults=faults,
        lost_records=pick.choice([0.0, 0.0, 0.02]),
    )
    return kind, plan


def expected(kind: str, plan: Plan, writer: Writer) -> list[tuple[str, str]]:
    """(signature, start of who) that must be found."""
    faults = plan.faults
    if faults.slow_rank is not None:
        host, pid = writer.hosts[faults.slow_rank // plan.gpus], writer.pids[faults.slow_rank]
        return [("nccl-slow-rank", f"rank {faults.slow_rank} on {host} (pid {pid})")]
    if kind == "slow-adapter":
        comm = next(c for c in writer.comms if c.name == "data" and c.ranks[0] == faults.slow_adapter)
    elif kind == "slow-nvlink":
        comm = writer.comms[faults.slow_nvlink or 0]
    else:
        return []
    return [("nccl-slow-link", f"{comm.kind} communicator {comm.id} {comm.name}")]


def pipeline_of(seed: int) -> Plan:
    """A job of pipelines with a slow rank; a third of the jobs is healthy."""
    pick = random.Random(seed)
    replicas = pick.choice([1, 2])
    nodes, gpus = pick.choice([2, 4]) * replicas, pick.choice([2, 4, 8])
    faults = Faults(slow_rank=pick.randrange(nodes * gpus), delay_us=pick.uniform(300, 3000)) if seed % 3 else Faults()
    return Plan(
        nodes,
        gpus,
        steps=pick.randint(8, 14),
        layers=pick.randint(2, 4),
        seed=seed,
        compute_us=pick.uniform(400, 2000),
        jitter=pick.uniform(0.02, 0.1),
        faults=faults,
        replicas=replicas,
        microbatches=pick.choice([2, 4, 8]),
    )


def analyzed(plan: Plan) -> tuple[Writer, JobAnalysis]:
    """The analysis of a made-up job."""
    with tempfile.TemporaryDirectory() as folder:
        writer = write(Path(folder), plan)
        with Job([Path(folder)]) as job:
            return writer, job.analyze()


def pipelines(first: int, seeds: int) -> None:
    """Print how often a slow rank in a pipeline is named."""
    slow = named = wrong = 0
    for seed in range(first, first + seeds):
        plan = pipeline_of(seed)
        writer, found = analyzed(plan)
        wanted = expected("slow-rank" if plan.faults.slow_rank is not None else "healthy", plan, writer)
        accused = [(finding.signature, finding.identity["group"]) for finding in found.findings]
        slow += bool(wanted)
        named += bool(wanted) and accused == wanted
        wrong += any(one not in wanted for one in accused)
    print(f"pipelines: the slow rank is named in {named} of {slow} jobs, another rank or a link in {wrong} of {seeds}")


def interrupted_plan(seed: int) -> Plan:
    """A job without a slow rank: one stops up to four times, one starts late, or delays of all are heavy-tailed."""
    pick = random.Random(seed)
    nodes, gpus = pick.choice([(1, 8), (2, 4), (2, 2), (2, 1), (1, 2), (1, 4), (4, 4)])
    rank = pick.randrange(nodes * gpus)
    plan = Plan(nodes, gpus, pick.randint(50, 90), 2, seed, compute_us=pick.uniform(60e3, 90e3), jitter=0.01)
    if seed % 3 == 0:
        stops = tuple(pick.uniform(0.05, 0.95) for _ in range(pick.randint(1, 4)))
        return replace(plan, faults=Faults(paused_rank=rank, pause_us=pick.uniform(0.3e6, 20e6), pause_at=stops))
    if seed % 3 == 1:
        return replace(plan, faults=Faults(paused_rank=rank, pause_us=pick.uniform(5e6, 120e6), pause_at=(0.0,)))
    return replace(plan, tail=pick.choice([1.2, 1.5, 2.0]))


def live_findings(folder: Path) -> list[tuple[str, str]]:
    """(signature, who) of the findings while the logs are written, a second of the job at a time."""
    lines = sorted(
        (int(line.partition(b'"dump_timestamp_us":')[2].partition(b",")[0]), path.name, line)
        for path in folder.iterdir()
        for line in path.read_bytes().splitlines(keepends=True)
    )
    job, session, found, due = LiveJob(), Session(Config()), set[tuple[str, str]](), lines[0][0]
    source = session.add_source("nccl-inspector")
    for at, name, line in [*lines, (lines[-1][0] + 10_000_000, "", b"")]:
        for clock in range(due, at + 1, 1_000_000):
            due = clock + 1_000_000
            if text := "".join(f"{one}\n" for one in job.advance(caught_up=True, clock=clock / 1e6)):
                session.feed(source, Block(text.encode(), 0, 1))
                found |= {
                    (one.signature, one.identity["group"])
                    for one in session.snapshot().findings
                    if one.state != "pending" and one.signature.startswith("nccl-")
                }
        job.feed(name, line, at / 1e6)
    return sorted(found)


def interrupted(first: int, seeds: int) -> None:
    """Print how often a rank is accused that is not slow, in complete logs and live."""
    wrong, wrong_live = 0, 0
    for seed in range(first, first + seeds):
        with tempfile.TemporaryDirectory() as folder:
            plan = interrupted_plan(seed)
            write(Path(folder), plan)
            with Job([Path(folder)]) as job:
                complete = [finding.signature for finding in job.analyze().findings]
            live = [signature for signature, _ in live_findings(Path(folder))]
        wrong += bool(complete)
        wrong_live += bool(live)
        if complete or live:
            print(f"seed {seed} {plan.nodes}x{plan.gpus} tail {plan.tail} {plan.faults}: found {complete}, live {live}")
    print(f"a pause, a late start or heavy tails: someone is accused in {wrong} of {seeds} jobs, live in {wrong_live}")


def checkpointed_plan(seed: int) -> Plan:
    """A job with a slow rank in which another one stops one to four times, as the rank that writes checkpoints."""
    pick = random.Random(seed)
    nodes, gpus = pick.choice([(1, 8), (2, 4), (4, 4), (2, 8)])
    slow = pick.randrange(1, nodes * gpus)
    count = pick.randint(1, 4)
    return Plan(
        nodes,
        gpus,
        steps=pick.randint(40, 80),
        layers=2,
        seed=seed,
        compute_us=pick.uniform(1000, 20_000),
        jitter=pick.uniform(0.02, 0.1),
        faults=Faults(
            slow_rank=slow,
            delay_us=pick.uniform(2000, 8000),
            paused_rank=0,
            pause_us=pick.uniform(0.3e6, 20e6),
            pause_at=tuple((at + 0.7) / (count + 0.5) for at in range(count)),
        ),
    )


def checkpointed(first: int, seeds: int) -> None:
    """Print how often a slow rank is named while another one writes checkpoints."""
    named = wrong = 0
    for seed in range(first, first + seeds):
        plan = checkpointed_plan(seed)
        writer, found = analyzed(plan)
        wanted = expected("slow-rank", plan, writer)
        accused = [(finding.signature, finding.identity["group"]) for finding in found.findings]
        named += accused == wanted
        wrong += any(one not in wanted for one in accused)
        if accused != wanted:
            print(f"seed {seed} {plan.nodes}x{plan.gpus} {plan.faults}: found {accused}")
    print(f"a slow rank, and another that stops 1 to 4 times: named in {named} of {seeds} jobs, another in {wrong}")


def incomplete_plan(seed: int) -> Plan:
    """A job of which logs will be missing; a third of the jobs is healthy."""
    pick = random.Random(seed)
    nodes, gpus = pick.choice([(2, 2), (2, 4), (4, 2), (4, 4), (3, 4), (8, 2)])
    slow = pick.randrange(nodes * gpus) if seed % 3 else None
    return Plan(
        nodes,
        gpus,
        steps=pick.randint(80, 100),
        layers=pick.randint(2, 3),
        seed=seed,
        compute_us=pick.uniform(40e3, 80e3),
        jitter=pick.uniform(0.003, 0.02),
        faults=Faults(slow_rank=slow, delay_us=pick.uniform(8e3, 40e3)),
    )


def incomplete(first: int, seeds: int) -> None:
    """Print how often someone is accused wrongly where logs of a rank, a host or one rank of each host are missing."""
    named, slow, wrong, named_live, wrong_live = 0, 0, 0, 0, 0
    for seed in range(first, first + seeds):
        plan, pick = incomplete_plan(seed), random.Random(seed)
        with tempfile.TemporaryDirectory() as folder:
            writer = write(Path(folder), plan)
            node, gpu = pick.randrange(plan.nodes), pick.randrange(plan.gpus)
            if seed % 2 and plan.faults.slow_rank is not None:  # mostly it is the slow one that is missing
                node, gpu = divmod(plan.faults.slow_rank, plan.gpus)
            host, places = (
                range(node * plan.gpus, (node + 1) * plan.gpus),
                range(gpu, plan.nodes * plan.gpus, plan.gpus),
            )
            ranks = pick.choice([[node * plan.gpus + gpu], list(host), list(places)])
            for rank in ranks:
                (Path(folder) / f"{writer.hosts[rank // plan.gpus]}-pid{writer.pids[rank]}.log").unlink()
            with Job([Path(folder)]) as job:
                complete = [(finding.signature, finding.identity["group"]) for finding in job.analyze().findings]
            live = live_findings(Path(folder))
        wanted = [] if plan.faults.slow_rank in (None, *ranks) else expected("slow-rank", plan, writer)
        slow += bool(wanted)
        named += bool(wanted) and complete == wanted
        named_live += bool(wanted) and live == wanted
        wrong += any(one not in wanted for one in complete)
        wrong_live += any(one not in wanted for one in live)
        if complete != wanted or live != wanted:
            slowed = plan.faults.slow_rank
            print(f"seed {seed} {plan.nodes}x{plan.gpus} slow {slowed} without {ranks}: found {complete}, live {live}")
    print(
        f"logs of ranks are missing: the slow rank is named in {named} of {slow} jobs where its log is there, live in "
        f"{named_live}; someone is accused wrongly in {wrong} of {seeds} jobs, live in {wrong_live}"
    )


def shares(found: JobAnalysis, rank: int) -> tuple[float, float]:
    """Share of caused wait of the slow rank, and the largest one of another."""
    own = sum(wait.share for wait in found.ranks if wait.seat.rank == rank)
    return own, max((wait.share for wait in found.ranks if wait.seat.rank != rank), default=0.0)


def main() -> None:
    """Print the rates."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--pipelines", type=int, default=60, help="jobs of pipelines, after the others")
    parser.add_argument(
        "--interrupted", type=int, default=60, help="jobs where ranks stop, without a slow rank and with one"
    )
    parser.add_argument("--incomplete", type=int, default=60, help="jobs without the logs of some ranks")
    args = parser.parse_args()
    total, right, ranks_at_links, concentrated = Counter[str](), Counter[str](), 0, 0
    for seed in range(args.first, args.first + args.seeds):
        kind, plan = plan_of(seed)
        writer, found = analyzed(plan)
        accused = [(finding.signature, finding.identity["group"]) for finding in found.findings]
        wanted = expected(kind, plan, writer)
        total[kind] += 1
        right[kind] += accused == wanted
        if kind in ("slow-adapter", "slow-nvlink"):
            ranks_at_links += any(signature == "nccl-slow-rank" for signature, _ in accused)
        note = ""
        if plan.faults.slow_rank is not None:
            own, other = shares(found, plan.faults.slow_rank)
            concentrated += own >= 0.8 and other <= 0.05
            note = f" share {own:.2f}, next {other:.2f}"
        if accused != wanted:
            faults = plan.faults
            size = f"delay {faults.delay_us:.0f} us" if kind == "slow-rank" else f"factor {faults.factor:.2f}"
            print(f"seed {seed} {kind} {plan.nodes}x{plan.gpus} {size}: found {accused}, expected {wanted}{note}")
    for kind in KINDS:
        print(f"{kind:13} {right[kind]:4} of {total[kind]:4} right")
    print(f"all           {right.total():4} of {total.total():4} right ({right.total() / max(1, total.total()):.1%})")
    print(f"slow rank has 80 % of caused wait or more and no other above 5 %: {concentrated} of {total['slow-rank']}")
    print(f"ranks accused where a link is slow: {ranks_at_links}")
    pipelines(args.first, args.pipelines)
    interrupted(args.first, args.interrupted)
    checkpointed(args.first, args.interrupted)
    incomplete(args.first, args.incomplete)


if __name__ == "__main__":
    main()
