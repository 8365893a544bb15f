"""Logs of NCCL Inspector of a made-up job, with a fault that is known: for tests and benchmarks.

Every rank has its own time. It computes, then joins a collective; that ends for all when the last one has joined and
the data are transferred. So a slow rank makes the ranks of its node late for the next operation, as in a real job.

    python -m lab.nccl_logs FOLDER --nodes 4 --gpus 8 --steps 10 --slow-rank 13
"""

from __future__ import annotations

import argparse
import gzip
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

START_US = 1_772_439_307_000_000
MIB = 1 << 20
_INTERVAL_US = 500_000
_RING = {"AllGather", "ReduceScatter", "AllGatherV"}
_VERSIONS = {"2.28": "v4.0", "2.30": "v4.0", "4.1": "v4.1", "4.2": "v4.2", "4.3": "v4.3"}


@dataclass(slots=True)
class Comm:
    """A communicator: its members as ranks of the job."""

    id: str
    name: str
    ranks: Sequence[int]
    nnodes: int
    gbs: float
    alpha_us: float
    sequence: dict[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """Type by ranks and nodes."""
        if len(self.ranks) == 1:
            return "single-rank"
        return "nvlink-only" if self.nnodes == 1 else "hca-only" if self.nnodes == len(self.ranks) else "mixed"


@dataclass(frozen=True, slots=True)
class Faults:
    """Faults of a job."""

    slow_rank: int | None = None
    delay_us: float = 1500.0
    """Time that the slow rank computes longer before each collective of a layer."""
    delay_spread: float = 0.2
    """Relative standard deviation of that time."""
    also_slow: tuple[int, ...] = ()
    """Other ranks that are as slow."""
    slow_adapter: int | None = None
    """Local GPU whose network adapter, on one node, is slow."""
    slow_nvlink: int | None = None
    """Node with slow NVLink."""
    slow_sends: int | None = None
    """Rank whose sends and receives take `factor` times as long."""
    factor: float = 2.5
    """Transfer time over a slow link relative to a healthy one."""
    since: float = 0.0
    """Share of the job after which the fault begins."""
    paused_rank: int | None = None
    """Rank that stops for `pause_us` before the first collective of a step."""
    pause_us: float = 10e6
    pause_at: tuple[float, ...] = (0.5,)
    """Shares of the job after which it stops; 0 is a late start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The job."""

    nodes: int = 2
    gpus: int = 4
    steps: int = 8
    layers: int = 4
    seed: int = 1
    form: str = "2.30"
    ending: str = "log"
    compute_us: float = 400.0
    jitter: float = 0.06
    """Relative standard deviation of compute times."""
    tail: float = 0.0
    """Shape of the Pareto distribution of delays that any rank has besides, in units of the jitter; 0 is none."""
    faults: Faults = Faults()
    lost_records: float = 0.0
    """Share of records that are missing."""
    replicas: int = 1
    """Copies of the model, each on its own nodes, in order."""
    microbatches: int = 0
    """Activations of a step that each node sends to the next, as pipeline stages do, and gradients that come back."""


class Writer:
    """Runs the job and keeps the lines of each rank."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._random = random.Random(plan.seed)  # noqa: S311 - no secret
        world = plan.nodes * plan.gpus
        self.hosts = [f"node-{self._random.randint(100, 999)}-{at:03d}" for at in range(plan.nodes)]
        self.pids = [self._random.randint(10_000, 900_000) for _ in range(world)]
        self._clock = [0.0] * world
        self._lines: list[list[str]] = [[] for _ in range(world)]
        self._context: dict[int, tuple[int, str]] = {}
        self.comms = list(self._layout())
        self.records = 0

    def _layout(self) -> Iterator[Comm]:
        plan = self.plan

        def name() -> str:
            return f"0x{self._random.getrandbits(64):x}"[:16]

        for node in range(plan.nodes):
            yield Comm(name(), "tensor", range(node * plan.gpus, (node + 1) * plan.gpus), 1, 350.0, 15.0)
        if plan.nodes > 1:
            apart = plan.gpus if plan.replicas == 1 else plan.nodes // plan.replicas * plan.gpus
            for first in range(apart):
                ranks = range(first, plan.nodes * plan.gpus, apart)
                yield Comm(name(), "data", ranks, len(ranks), 46.0, 30.0)
            yield Comm(name(), "world", range(plan.nodes * plan.gpus), plan.nodes, 300.0, 50.0)

    def run(self) -> None:
        """All steps."""
        plan = self.plan
        for step in range(plan.steps):
            faults = plan.faults if step >= plan.faults.since * plan.steps else Faults()
            if plan.faults.paused_rank is not None and step in {int(at * plan.steps) for at in plan.faults.pause_at}:
                self._clock[plan.faults.paused_rank] += plan.faults.pause_us
            for _ in range(plan.layers):
                self._compute(faults)
                self._all("tensor", "AllGather", 8 * MIB, faults)
                self._compute(faults)
                self._all("tensor", "ReduceScatter", 8 * MIB, faults)
            stages = plan.nodes // plan.replicas
            for _ in range(plan.microbatches):
                for first in range(0, plan.nodes, stages):
                    self._stages(range(first + 1, first + stages), -1, faults)
                    self._stages(range(first + stages - 2, first - 1, -1), 1, faults)
            self._all("data", "ReduceScatter", 24 * MIB, faults)
            self._all("data", "AllReduce", 64 * MIB, faults)
            self._all("world", "AllReduce", 32 << 10, faults)

    def _compute(self, faults: Faults) -> None:
        usual, spread = self.plan.compute_us, self.plan.jitter
        for rank in range(len(self._clock)):
            self._clock[rank] += max(0.2 * usual, self._random.gauss(usual, spread * usual))
            if self.plan.tail:
                self._clock[rank] += (self._random.paretovariate(self.plan.tail) - 1.0) * spread * usual
        for rank in () if faults.slow_rank is None else (faults.slow_rank, *faults.also_slow):
            self._clock[rank] += max(0.0, self._random.gauss(1.0, faults.delay_spread)) * faults.delay_us

    def _stages(self, nodes: Sequence[int], step: int, faults: Faults) -> None:
        """Each GPU receives what that of the neighbouring node has computed."""
        world = self.plan.nodes * self.plan.gpus
        comm = next(comm for comm in self.comms if len(comm.ranks) == world)
        for node in nodes:
            for target in range(node * self.plan.gpus, (node + 1) * self.plan.gpus):
                source = target + step * self.plan.gpus
                self._clock[source] += max(0.0, self._random.gauss(1.0, 0.1)) * self.plan.compute_us
                self._send(comm, source, target, 16 * MIB, faults)

    def _send(self, comm: Comm, source: int, target: int, size: int, faults: Faults) -> None:
        transfer = (20.0 + size / 45e3) * (faults.factor if faults.slow_sends in (source, target) else 1.0)
        begun = self._clock[source], self._clock[target]
        end = max(begun) + transfer * self._random.lognormvariate(0, 0.05)
        for kind, rank, peer, start in (("Send", source, target, begun[0]), ("Recv", target, source, begun[1])):
            self._clock[rank] = end
            if self._random.random() < self.plan.lost_records:
                continue
            kernel = max(1, int(end - start))
            place = comm.ranks.index(rank)
            sequence = comm.sequence[f"{kind} {rank}"] = comm.sequence.get(f"{kind} {rank}", 0) + 1
            body = (
                f'"p2p":"{kind}","p2p_sn":{sequence},"p2p_peer":{comm.ranks.index(peer)},"p2p_msg_size_bytes":{size},'
                f'"p2p_exec_time_us":{kernel},"p2p_timing_source":"kernel_gpu",'
                f'"p2p_algobw_gbs":{size / 1e3 / kernel:.6f},"p2p_busbw_gbs":{size / 1e3 / kernel:.6f}'
            )
            self._write(rank, comm, place, f'"p2p_perf":{{{body}}}')

    def _all(self, name: str, collective: str, size: int, faults: Faults) -> None:
        for comm in self.comms:
            if comm.name == name:
                self._collective(comm, collective, size, faults)

    def _collective(self, comm: Comm, collective: str, size: int, faults: Faults) -> None:
        ranks, plan = len(comm.ranks), self.plan
        traffic = size * ranks if collective in _RING else size
        factor = 2 * (ranks - 1) / ranks if collective == "AllReduce" else (ranks - 1) / ranks
        transfer = comm.alpha_us + traffic * factor / (comm.gbs * size / (size + MIB)) / 1e3
        slow_adapter = comm.name == "data" and comm.ranks[0] % plan.gpus == faults.slow_adapter
        slow_nvlink = comm.name == "tensor" and comm.ranks[0] // plan.gpus == faults.slow_nvlink
        transfer *= (faults.factor if slow_adapter or slow_nvlink else 1.0) * self._random.lognormvariate(0, 0.03)
        end = max(self._clock[rank] for rank in comm.ranks) + transfer
        sequence = comm.sequence.get(collective, 0)
        comm.sequence[collective] = sequence + 1
        for position, rank in enumerate(comm.ranks):
            kernel = max(1, int((end - self._clock[rank]) * self._random.gauss(1.0, 0.002)))
            self._clock[rank] = end
            if plan.lost_records and self._random.random() < plan.lost_records:
                continue
            algorithm = traffic / 1e3 / kernel
            algo = ',"coll_algo":"RING","coll_proto":"SIMPLE"' if plan.form in ("4.2", "4.3") else ""
            body = (
                f'"coll":"{collective}"{algo},"coll_sn":{sequence},"coll_msg_size_bytes":{size},'
                f'"coll_exec_time_us":{kernel},"coll_timing_source":"kernel_gpu",'
                f'"coll_algobw_gbs":{algorithm:.6f},"coll_busbw_gbs":{algorithm * factor:.6f}'
            )
            self._write(rank, comm, position, f'"coll_perf":{{{body}}}')

    def _write(self, rank: int, comm: Comm, position: int, record: str) -> None:
        tick = START_US + (int(self._clock[rank]) // _INTERVAL_US + 1) * _INTERVAL_US + rank * 97
        context = self._head(rank, comm, position, tick)
        lines = self._lines[rank]
        if self.plan.form in ("4.1", "4.2", "4.3") and self._context.get(rank) != (tick, comm.id):
            self._context[rank] = (tick, comm.id)
            lines.append(f'{context},"dump_stats":{{"coll_records":1,"coll_dropped_total":0,"p2p_dropped_total":0}}}}')
        lines.append(f"{{{record}}}" if self.plan.form == "4.3" else f"{context},{record}}}")
        self.records += 1

    def _head(self, rank: int, comm: Comm, position: int, tick: int) -> str:
        name = "" if self.plan.form == "2.28" else f'"comm_name":"{comm.name}",'
        return (
            f'{{"header":{{"id":"{comm.id}",{name}"rank":{position},"n_ranks":{len(comm.ranks)},"nnodes":{comm.nnodes}}},'
            f'"metadata":{{"inspector_output_format_version":"{_VERSIONS[self.plan.form]}","git_rev":"",'
            f'"rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":{tick},'
            f'"hostname":"{self.hosts[rank // self.plan.gpus]}","pid":{self.pids[rank]}}}'
        )

    def save(self, folder: Path) -> list[Path]:
        """One file a rank."""
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for rank, lines in enumerate(self._lines):
            file = folder / f"{self.hosts[rank // self.plan.gpus]}-pid{self.pids[rank]}.{self.plan.ending}"
            data = "".join(f"{line}\n" for line in lines).encode()
            file.write_bytes(gzip.compress(data, 6, mtime=0) if self.plan.ending.endswith(".gz") else data)
            files.append(file)
        return files


def write(folder: Path, plan: Plan) -> Writer:
    """Run a job and write its logs."""
    writer = Writer(plan)
    writer.run()
    writer.save(folder)
    return writer


def main() -> None:
    """Write the logs of one job."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--form", choices=list(_VERSIONS), default="2.30")
    parser.add_argument("--ending", choices=["log", "jsonl", "log.gz", "jsonl.gz"], default="log")
    parser.add_argument("--slow-rank", type=int)
    parser.add_argument("--slow-adapter", type=int)
    parser.add_argument("--slow-nvlink", type=int)
    args = parser.parse_args()
    faults = Faults(slow_rank=args.slow_rank, slow_adapter=args.slow_adapter, slow_nvlink=args.slow_nvlink)
    plan = Plan(args.nodes, args.gpus, args.steps, args.layers, args.seed, args.form, args.ending, faults=faults)
    print(f"{write(args.folder, plan).records:,} records in {args.folder}")


if __name__ == "__main__":
    main()
