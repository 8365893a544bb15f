"""Needs of jobs of many ranks: rate of aggregation on one core, size of partial results, rate of merging, memory.

    python bench/nccl_scale.py [--nodes 64 --steps 80]

The floor is DuckDB parsing the same lines on one core in the same run. docs/scale.md works with these figures.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab.nccl_logs import Plan, write

MB = 1e6
_PARTS = 4
"""The Ray engine makes parts of up to 256 MB; smaller ones mainly measure the start of the engine."""
PARTIAL = """
import json, sys, time
from pathlib import Path
from perfmon.nccl import find_files, merge, partial
files = find_files([Path(sys.argv[1])])
parts = int(sys.argv[2])
began = time.process_time()
each = len(files) // parts
parts = [partial(files[at:at + each], cores=1) for at in range(0, len(files), each)]
parsed = time.process_time()
merge(parts)
merged = time.process_time()
print(json.dumps([parsed - began, merged - parsed, sum(len(p.groups) + len(p.members) + len(p.files) for p in parts)]))
"""
FLOOR = """
import json, sys, time
import duckdb
from perfmon.nccl.schema import COLUMNS
began = time.process_time()
with duckdb.connect(config={"threads": 1}) as connection:
    connection.execute(
        f"SELECT count(coll_perf.coll_exec_time_us) FROM read_json(?, columns = {COLUMNS}, format = "
        "'newline_delimited', ignore_errors = true)", [sys.argv[1] + "/*"]).fetchall()
print(json.dumps([time.process_time() - began]))
"""
WHOLE = """
import json, resource, sys
from pathlib import Path
from perfmon.nccl import Job
with Job([Path(sys.argv[1])]) as job:
    found = job.analyze()
print(json.dumps([found.groups, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def measured(code: str, *words: str) -> list[float]:
    """Figures that a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    figures: list[float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=32)
    parser.add_argument("--steps", type=int, default=40)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        write(Path(folder, "logs"), Plan(nodes=args.nodes, gpus=8, steps=args.steps, layers=16))
        logs = str(Path(folder, "logs"))
        size = sum(path.stat().st_size for path in Path(logs).iterdir()) / MB
        print(f"{args.nodes * 8} logs, {size:.0f} MB, made in {time.monotonic() - began:.0f} s")
        (floor,) = measured(FLOOR, logs)
        parse, merging, table = measured(PARTIAL, logs, str(_PARTS))
        ops, rss = measured(WHOLE, logs)
    print(f"parsing alone: {size / floor:.0f} MB/s of one core")
    print(f"partial results: {size / parse:.0f} MB/s of one core, {parse / floor:.1f} times as long")
    print(f"their size: {table / MB / size:.2%} of the logs")
    print(f"merging them: {merging / parse:.0%} of the time of making them")
    print(f"whole analysis: {ops:.0f} operations, at most {rss:.0f} MB")


if __name__ == "__main__":
    main()
