"""How long `perfmon analyze` takes beside the grep, awk and sort pipeline that it replaces, measured in one run.

    python bench/analyze_vs_grep.py [--log FILE] [--kind merged] [--size 1e9] [--runs 5] [--needles 0]

The log is made once (bench/data/), of any kind that make_log.py makes. Both read it from the page cache, alternately;
both must agree on count, mean and maximum of `queue_ms`, where the kind of log has any. Each runs once before, untimed:
perfmon's modules are then compiled, as they are once installed. `--needles` adds a format pack of so many texts to look
for, of the words that such logs are full of: how the search scales. The ratio is that of wall clock times; processor
times are what to compare where other programs keep the machine busy.
Memory is that of the whole process tree, sampled in one more run that is not timed. The interpreter is the one that
runs this script; one without --enable-optimizations takes a third longer.
Debian's has them, though its CONFIG_ARGS, those of another build, do not say so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
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
from typing import Any

from make_log import KINDS, make_log

HERE = Path(__file__).resolve().parent
_SAMPLE_S = 0.02
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
"""The environment of both sides; with that variable perfmon would compile what is not yet, in each run."""
_STATED = re.compile(r"queue_ms count=(\d+) mean=([\d.]+) .*max=([\d.]+)")
_WORDS = (
    *("train", "step", "epoch", "batch", "loss", "grad_norm", "learning", "rate", "throughput", "tokens", "elapsed"),
    *("time", "memory", "saved", "checkpoint", "loading", "engine", "request", "running", "waiting", "cache", "usage"),
    *("rank", "worker", "failed", "error", "finished", "evaluation", "iteration", "reward"),
)
PIPELINE = r"""
set -e
f=$1 d=$2
stats() {
  { grep -oE "$1=[0-9.]+" "$2" || :; } | cut -d= -f2 | sort -n | awk -v m="$1" '
    { v[NR] = $1; s += $1; q += $1 * $1 }
    END { if (!NR) exit
      printf "%s count=%d mean=%.3f stdev=%.1f min=%s p50=%s p90=%s p95=%s p99=%s max=%s\n", m, NR, s / NR,
        sqrt(q / NR - (s / NR) ^ 2), v[1], v[int(NR * .5) + 1], v[int(NR * .9) + 1], v[int(NR * .95) + 1],
        v[int(NR * .99) + 1], v[NR] }'
}
for tag in weights ckpt gen rollout; do grep -E "\[$tag\]" "$f" > "$d/$tag" || :; done
for m in queue_ms rpc_ms; do stats $m "$d/weights"; done
for m in write_ms wait_ms; do stats $m "$d/ckpt"; done
stats dur_ms "$d/gen"
for m in trunc_pct staleness; do stats $m "$d/rollout"; done
{ grep 'queue_ms=' "$f" || :; } | awk -F'queue_ms=' '{ print $2 + 0 "\t" $0 }' | sort -rn | head -10 > "$d/slowest"
grep -E '\[weights\]|\[gen\] batch\.(start|done)' "$f" > "$d/timeline" || :
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


@dataclass(frozen=True, slots=True)
class Took:
    """What a run took, in seconds: by the clock on the wall, and of all processors."""

    wall: float
    busy: float


def timed(command: list[str], **options: Any) -> tuple[Took, str]:
    """What a command took and what it printed."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_ENVIRONMENT, **options)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Took(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime), done.stdout


def run_pipeline(log: Path) -> tuple[Took, Queue | None]:
    """What the shell pipeline took and what it found."""
    with tempfile.TemporaryDirectory() as folder:
        took, printed = timed(["sh", "-c", PIPELINE, "sh", str(log), folder])
    stated = _STATED.search(printed)
    return took, Queue(int(stated[1]), float(stated[2]), float(stated[3])) if stated is not None else None


def run_analyze(command: list[str]) -> tuple[Took, Queue | None]:
    """What `perfmon analyze` took and what it found."""
    took, printed = timed(command, cwd=HERE.parent)
    queue = json.loads(printed)["metrics"].get("queue_ms")
    return took, Queue(queue["count"], queue["mean"], queue["max"]) if queue is not None else None


def write_needles(folder: Path, count: int) -> None:
    """A format pack whose patterns look for that many more texts."""
    texts = [f"{one} {other}{sign}" for sign in (": ", "=", " [") for one in _WORDS for other in _WORDS if one != other]
    random.Random(count).shuffle(texts)
    patterns = "".join(
        f"[[pattern]]\nid = 'p{at}'\nneedles = ['{text}']\nregex = '^{re.escape(text)}(?P<n>\\d+)$'\n"
        f"emit = [{{ metric = 'bench_{at}', field = 'n' }}]\n"
        f"[[pattern.sample]]\ntext = '{text}7'\ngives = {{ bench_{at} = 7 }}\n"
        for at, text in enumerate(texts[:count])
    )
    (folder / "needles.toml").write_text(f"schema = 1\nid = 'needles'\ntitle = 'Many'\nrank = 90\n{patterns}")


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
    log: Path = args.log or HERE / "data" / f"{args.kind}-{args.size:.0e}-{args.seed}.log"
    if not log.exists():
        log.parent.mkdir(parents=True, exist_ok=True)
        print(f"making {log}", file=sys.stderr)
        partial = log.with_suffix(".partial")
        make_log(partial, args.size, args.seed, args.kind)
        partial.replace(log)
    with log.open("rb", buffering=0) as warmed:
        while warmed.read(1 << 24):
            pass
    return log.resolve()


def main() -> int:
    """Measures and prints; 1 when the two sides disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--log", metavar="FILE", type=Path, help="an existing log instead of a made one")
    parser.add_argument("--kind", choices=KINDS, default="merged")
    parser.add_argument("--size", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument(
        "--needles", metavar="N", type=int, default=0, help="texts to look for, over and above perfmon's"
    )
    args = parser.parse_args()
    log = prepared(args)
    ours, theirs = [], []
    agreed = True
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "perfmon", "analyze", str(log), "--json"]
        if args.needles:
            write_needles(Path(folder), args.needles)
            command += ["--formats", folder]
        run_pipeline(log)
        run_analyze(command)
        for _ in range(args.runs):
            took, expected = run_pipeline(log)
            theirs.append(took)
            took, found = run_analyze(command)
            ours.append(took)
            agreed = agreed and (found.agrees(expected) if found and expected else found is expected)
        peak = peak_tree_bytes(command)
    report(log, ours, theirs, peak)
    result = f"count {found.count}, mean {found.mean:.1f} ms, max {found.max:.1f} ms" if found else "none"
    print(f"queue_ms          {'agree' if agreed else 'DISAGREE'}: {result}")
    return 0 if agreed else 1


def interpreter() -> str:
    """Version of the Python that runs perfmon, and whether it says that it was optimised with a profile of itself."""
    stated = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    built = "built with --enable-optimizations" if stated else "--enable-optimizations not stated"
    return f"{platform.python_implementation()} {platform.python_version()}, {built}: {Path(sys.executable).resolve()}"


def report(log: Path, ours: list[Took], theirs: list[Took], peak: int) -> None:
    """The table."""
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(f"command           perfmon analyze {log.name} --json")
    print(f"interpreter       {interpreter()}")
    print(f"log               {log.stat().st_size / 1e6:.0f} MB, {len(ours)} runs each, {os.cpu_count()} cores")
    for name, runs in ("perfmon analyze", ours), ("grep | awk | sort", theirs):
        walls, busy = [took.wall for took in runs], statistics.median(took.busy for took in runs)
        spread = f"(median; {min(walls):.2f} to {max(walls):.2f}; {busy:.2f} s of processors)"
        print(f"{name:17} {statistics.median(walls):6.2f} s  {spread}")
    wall, busy = (
        statistics.median(getattr(took, name) for took in ours)
        / statistics.median(getattr(took, name) for took in theirs)
        for name in ("wall", "busy")
    )
    print(f"ratio             {wall:6.2f}  (of processor time: {busy:.2f})")
    print(f"peak memory       {peak / 1e6:6.0f} MB  (all processes together)")
    print(f"largest process   {largest / 1e6:6.0f} MB  (resident, of either side)")


if __name__ == "__main__":
    sys.exit(main())
