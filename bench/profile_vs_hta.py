"""Cost of `perfmon profile` and of HolisticTraceAnalysis on the same trace, in one run: time, processor, peak memory.

HolisticTraceAnalysis needs an environment of its own (it brings pandas): name its Python with --hta. Without it the
floor is `json.load` of the same file. Without TRACE a trace is made, of the shape that PyTorch's profiler writes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

_HTA = """
import os, shutil, sys, tempfile
os.environ["HTA_DISABLE_NS_ROUNDING"] = "1"
from hta.trace_analysis import TraceAnalysis
with tempfile.TemporaryDirectory() as folder:
    shutil.copy(sys.argv[1], os.path.join(folder, "rank_0.json"))
    analysis = TraceAnalysis(trace_files={0: os.path.join(folder, "rank_0.json")}, trace_dir=folder)
    print(analysis.get_temporal_breakdown(visualize=False).to_string())
    analysis.get_idle_time_breakdown(visualize=False)
    analysis.get_queue_length_summary()
"""
_JSON = "import json, sys; json.load(open(sys.argv[1]))"


def made(path: Path, kernels: int) -> None:
    """Write a trace: for each kernel two operators, a launch, its flow events and the kernel."""
    rng = random.Random(7)
    events: list[dict[str, object]] = []

    def add(phase: str, category: str, name: str, at: float, seat: int, **more: object) -> None:
        events.append({"ph": phase, "cat": category, "name": name, "pid": seat, "tid": seat, "ts": at, **more})

    at = gpu = 1_712_195_495_000_000.0
    shape = {"Input Dims": [[128, 1024], [1024, 1024]], "Input type": ["float"]}
    for number in range(kernels):
        known = {"correlation": number, "External id": number}
        for name in ("aten::linear", "aten::addmm"):
            add("X", "cpu_op", name, at, 11, dur=20.5, args={"External id": number, "Ev Idx": number, **shape})
        add("X", "cuda_runtime", "cudaLaunchKernel", at + 5, 11, dur=6.25, args={"cbid": 211, **known})
        gpu = max(gpu, at + 12)
        add("s", "ac2g", "ac2g", at + 5, 11, id=number)
        add("f", "ac2g", "ac2g", gpu, 0, id=number, bp="e")
        work = {"device": 0, "context": 1, "stream": 7, "grid": [64, 1, 1], "block": [256, 1, 1], **known}
        length = rng.uniform(5, 45)
        name = f"void gemm_kernel<{number % 97}, 128, 64>(float const*, float*)"
        add("X", "kernel", name, gpu, 0, dur=length, args=work)
        gpu += length
        at += 25.0
    whole = {"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "GPU"}], "traceEvents": events}
    path.write_text(json.dumps(whole, indent=1))


def cost(command: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak MB of a command."""
    began = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} failed")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Print both costs and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", nargs="?", type=Path, help="a trace in JSON (default: one is made)")
    parser.add_argument("--kernels", type=int, default=75_000, help="kernels of the trace that is made")
    parser.add_argument("--hta", metavar="PYTHON", help="Python with HolisticTraceAnalysis installed")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = args.trace or Path(folder) / "rank_0.json"
        if args.trace is None:
            # In a process of its own: a child's peak memory begins with that of its parent.
            maker = get_context("spawn").Process(target=made, args=(trace, args.kernels))
            maker.start()
            maker.join()
        peer = [args.hta, "-c", _HTA, str(trace)] if args.hta else [sys.executable, "-c", _JSON, str(trace)]
        runs = [
            (cost([sys.executable, "-m", "perfmon", "profile", "--json", str(trace)]), cost(peer)) for _ in range(3)
        ]
        own, other = ([min(values) for values in zip(*side, strict=True)] for side in zip(*runs, strict=True))
        print(f"{trace.name}: {trace.stat().st_size / 1e6:.0f} MB, best of 3")
        names = ("perfmon profile", "HolisticTraceAnalysis" if args.hta else "json.load")
        for name, (wall, cpu, memory) in zip(names, (own, other), strict=True):
            print(f"{name} {wall:.2f} s, {cpu:.2f} s of processor, {memory:.0f} MB")
        ratios = [ours / peer for ours, peer in zip(own, other, strict=True)]
        print("ratio {:.2f} of the time, {:.2f} of the processor, {:.2f} of the memory".format(*ratios))


if __name__ == "__main__":
    main()
