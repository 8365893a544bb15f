"""How long `perfmon analyze` takes beside the grep, awk and sort pipeline that it replaces, measured in one run.

    python bench/analyze_vs_grep.py [--log FILE] [--size 1e9] [--runs 5]

The log is made once (bench/data/). Both read it from the page cache, alternately; both must agree on count, mean and
maximum of `queue_ms`. Each runs once before, untimed: perfmon's modules are then compiled, as they are once installed.
Memory is that of the whole process tree, sampled in one more run that is not timed. The interpreter is the one that
runs this script; one without --enable-optimizations takes a third longer.
Debian's has them, though its CONFIG_ARGS, those of another build, do not say so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from make_log import make_log

HERE = Path(__file__).resolve().parent
_SAMPLE_S = 0.02
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of both sides; with that variable perfmon would compile what is not yet, in each run."""
_STATED = re.compile(r"queue_ms count=(\d+) mean=([\d.]+) .*max=([\d.]+)")
PIPELINE = r"""
set -e
f=$1 d=$2
stats() {
  grep -oE "$1=[0-9.]+" "$2" | cut -d= -f2 | sort -n | awk -v m="$1" '
    { v[NR] = $1; s += $1; q += $1 * $1 }
    END { if (!NR) exit
      printf "%s count=%d mean=%.3f stdev=%.1f min=%s p50=%s p90=%s p95=%s p99=%s max=%s\n", m, NR, s / NR,
        sqrt(q / NR - (s / NR) ^ 2), v[1], v[int(NR * .5) + 1], v[int(NR * .9) + 1], v[int(NR * .95) + 1],
        v[int(NR * .99) + 1], v[NR] }'
}
for tag in weights ckpt gen rollout; do grep -E "\[$tag\]" "$f" > "$d/$tag"; done
for m in queue_ms rpc_ms; do stats $m "$d/weights"; done
for m in write_ms wait_ms; do stats $m "$d/ckpt"; done
stats dur_ms "$d/gen"
for m in trunc_pct staleness; do stats $m "$d/rollout"; done
grep 'queue_ms=' "$f" | awk -F'queue_ms=' '{ print $2 + 0 "\t" $0 }' | sort -rn | head -10 > "$d/slowest"
grep -E '\[weights\]|\[gen\] batch\.(start|done)' "$f" > "$d/timeline"
"""


@dataclass(frozen=True, slots=True)
class Queue:
    """What both sides say of `queue_ms`, in milliseconds."""

    count: int
    mean: float
    max: float

    def agrees(self, other: Queue) -> bool:
        """The same values were read, whatever was rounded on the way."""
        return (
            self.count == other.count
            and abs(self.mean - other.mean) <= 1e-4 * max(1.0, other.mean)
            and abs(self.max - other.max) <= 0.051
        )


def run_pipeline(log: Path) -> tuple[float, Queue]:
    """Wall seconds of the shell pipeline and what it found."""
    with tempfile.TemporaryDirectory() as folder:
        begin = time.perf_counter()
        command = ["sh", "-c", PIPELINE, "sh", str(log), folder]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=_ENVIRONMENT)
        wall = time.perf_counter() - begin
    stated = _STATED.search(done.stdout)
    if stated is None:
        raise SystemExit(f"the pipeline found no queue_ms in {log}")
    return wall, Queue(int(stated[1]), float(stated[2]), float(stated[3]))


def analyze_command(log: Path) -> list[str]:
    """The command that is measured."""
    return [sys.executable, "-m", "perfmon", "analyze", str(log), "--json"]


def run_analyze(log: Path) -> tuple[float, Queue]:
    """Wall seconds of `perfmon analyze` and what it found."""
    begin = time.perf_counter()
    done = subprocess.run(analyze_command(log), capture_output=True, check=True, cwd=HERE.parent, env=_ENVIRONMENT)
    wall = time.perf_counter() - begin
    queue = json.loads(done.stdout)["metrics"]["queue_ms"]
    return wall, Queue(queue["count"], queue["mean"], queue["max"])


def peak_tree_bytes(command: list[str]) -> int:
    """Most memory that a command and its children held together (PSS: shared pages count once)."""
    peak = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=HERE.parent, env=_ENVIRONMENT) as running:
        while running.poll() is None:
            peak = max(peak, sum(pss_bytes(pid) for pid in tree(running.pid)))
            time.sleep(_SAMPLE_S)
    return peak


def tree(pid: int) -> list[int]:
    """A process and all below it."""
    pids = [pid]
    for parent in pids:
        try:
            for thread in os.listdir(f"/proc/{parent}/task"):
                children = Path(f"/proc/{parent}/task/{thread}/children").read_text(encoding="ascii")
                pids += [int(child) for child in children.split()]
        except OSError:  # it ended meanwhile
            continue
    return pids


def pss_bytes(pid: int) -> int:
    """Proportional set size of a process, 0 when it ended."""
    try:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def prepared(args: argparse.Namespace) -> Path:
    """The log, made when missing, in the page cache."""
    log: Path = args.log or HERE / "data" / f"run-{args.size:.0e}-{args.seed}.log"
    if not log.exists():
        log.parent.mkdir(parents=True, exist_ok=True)
        print(f"making {log}", file=sys.stderr)
        partial = log.with_suffix(".partial")
        make_log(partial, args.size, args.seed)
        partial.replace(log)
    with log.open("rb", buffering=0) as warmed:
        while warmed.read(1 << 24):
            pass
    return log.resolve()


def main() -> int:
    """Measures and prints; 1 when the two sides disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", metavar="FILE", type=Path, help="an existing log instead of a made one")
    parser.add_argument("--size", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    log = prepared(args)
    ours, theirs = [], []
    agreed = True
    run_pipeline(log)
    run_analyze(log)
    for _ in range(args.runs):
        wall, expected = run_pipeline(log)
        theirs.append(wall)
        wall, found = run_analyze(log)
        ours.append(wall)
        agreed = agreed and found.agrees(expected)
    peak = peak_tree_bytes(analyze_command(log))
    report(log, ours, theirs, peak)
    verdict = "agree" if agreed else "DISAGREE"
    print(f"queue_ms          {verdict}: count {found.count}, mean {found.mean:.1f} ms, max {found.max:.1f} ms")
    return 0 if agreed else 1


def interpreter() -> str:
    """Version of the Python that runs perfmon, and whether it says that it was optimised with a profile of itself."""
    stated = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    built = "built with --enable-optimizations" if stated else "--enable-optimizations not stated"
    return f"{platform.python_implementation()} {platform.python_version()}, {built}: {Path(sys.executable).resolve()}"


def report(log: Path, ours: list[float], theirs: list[float], peak: int) -> None:
    """The table."""
    mine, other = statistics.median(ours), statistics.median(theirs)
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"command           perfmon analyze {log.name} --json")
    print(f"interpreter       {interpreter()}")
    print(f"log               {log.stat().st_size / 1e6:.0f} MB, {len(ours)} runs each, {os.cpu_count()} cores")
    print(f"perfmon analyze   {mine:6.2f} s  (median; {min(ours):.2f} to {max(ours):.2f})")
    print(f"grep | awk | sort {other:6.2f} s  (median; {min(theirs):.2f} to {max(theirs):.2f})")
    print(f"ratio             {mine / other:6.2f}")
    print(f"peak memory       {peak / 1e6:6.0f} MB  (all processes together)")
    print(f"largest process   {largest / 1e6:6.0f} MB  (resident, of either side)")


if __name__ == "__main__":
    sys.exit(main())
