"""Time that `perfmon nccl` takes beside the least that DuckDB needs for the same records, measured in one run.

    python bench/nccl_vs_exporter.py [--case many] [--runs 3] [--exporter perf_summary_exporter.py]

Cases: `many` (256 files, 1 million records, 470 MB), `big` (two files of 200 MB), `sizes` (450 message sizes). Logs are
made once (bench/data/). The floor is one query without anything that diagnosis needs: typed JSON, grouped by
communicator, collective, sequence number and size. Floor, aggregation and report run alternately, each in its own
process; of each the run with the least processor time counts. `--exporter` also runs NVIDIA's example exporter, which
is not part of perfmon.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from lab.nccl_logs import Plan, Writer, write  # noqa: E402 - the path was set for it

PLANS = {
    "many": Plan(nodes=32, gpus=8, steps=105, layers=17),
    "big": Plan(nodes=1, gpus=2, steps=6000, layers=34),
}
FLOOR = """
import duckdb, sys
connection = duckdb.connect(config={"threads": int(sys.argv[2]), "preserve_insertion_order": False})
connection.execute('SET enable_progress_bar = false')
connection.execute(f'''
    CREATE TEMP TABLE groups AS
    SELECT header.id AS id, coll_perf.coll AS coll, coll_perf.coll_sn AS sn, coll_perf.coll_msg_size_bytes AS bytes,
        avg(coll_perf.coll_busbw_gbs), count(*), min(metadata.dump_timestamp_us), max(metadata.dump_timestamp_us)
    FROM read_json('{sys.argv[1]}/*.log', format = 'newline_delimited', ignore_errors = true, columns = {{
        header: 'STRUCT(id VARCHAR, n_ranks BIGINT, nnodes BIGINT)', metadata: 'STRUCT(dump_timestamp_us BIGINT)',
        coll_perf: 'STRUCT(coll VARCHAR, coll_sn UBIGINT, coll_msg_size_bytes UBIGINT, coll_busbw_gbs DOUBLE)'}})
    GROUP BY ALL''')
print(connection.execute("SELECT count(*) FROM groups").fetchone()[0])
"""
AGGREGATION = """
import sys
from pathlib import Path
from perfmon.nccl.aggregate import connect, load
from perfmon.nccl import find_files
with connect() as connection:
    load(connection, find_files([Path(sys.argv[1])]))
    print(connection.execute("SELECT count(*) FROM groups").fetchone()[0])
"""


@dataclass(frozen=True)
class Cost:
    """Cost of one process."""

    cpu_s: float
    wall_s: float
    peak_mb: float
    output: str


def measured(command: list[str]) -> Cost:
    """Run a command, and what it took with all of its children."""
    with tempfile.TemporaryFile() as out:
        began = time.perf_counter()
        child = os.posix_spawn(
            command[0],
            command,
            os.environ | {"PYTHONPATH": str(HERE.parent)},
            file_actions=[(os.POSIX_SPAWN_DUP2, out.fileno(), 1)],
        )
        _, status, usage = os.wait4(child, 0)
        wall = time.perf_counter() - began
        out.seek(0)
        text = out.read().decode()
    if status:
        raise SystemExit(f"{' '.join(command)[:200]}: failed: {text[-500:]}")
    return Cost(usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, text.strip())


def make(case: str) -> Path:
    """The logs of a case."""
    folder = HERE / "data" / f"nccl-{case}"
    if folder.exists():
        return folder
    print(f"making {folder} ...", file=sys.stderr)
    fresh = folder.with_suffix(".new")
    shutil.rmtree(fresh, ignore_errors=True)
    # In a process of its own: the memory of this one counts as that of its children.
    maker = multiprocessing.get_context("spawn").Process(target=write_case, args=(case, fresh))
    maker.start()
    maker.join()
    if maker.exitcode:
        raise SystemExit(f"{fresh}: could not be made")
    fresh.rename(folder)
    return folder


def write_case(case: str, folder: Path) -> None:
    """Write the logs of a case into a folder."""
    if case == "sizes":
        many_sizes(folder)
    else:
        write(folder, PLANS[case])


def many_sizes(folder: Path) -> None:
    """9,000 records of 450 sizes, as of mixtures of experts."""
    writer = Writer(Plan(nodes=1, gpus=2))
    for _ in range(10):
        for at in range(450):
            writer._collective(writer.comms[0], "AllReduce", 65536 + 4096 * at, writer.plan.faults)
    writer.save(folder)


def main() -> None:
    """Print one row a phase."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=[*PLANS, "sizes"], default="many")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--all-plots", action="store_true")
    parser.add_argument("--exporter", type=Path)
    args = parser.parse_args()
    logs = make(args.case)
    files = list(logs.iterdir())
    print(f"{args.case}: {len(files)} files, {sum(file.stat().st_size for file in files) / 1e6:.0f} MB")
    cores = str(len(os.sched_getaffinity(0)))
    with tempfile.TemporaryDirectory() as folder:
        python, plots = sys.executable, ["--all-plots"] if args.all_plots else []
        commands = {
            "DuckDB floor": [python, "-c", FLOOR, str(logs), cores],
            "aggregation": [python, "-c", AGGREGATION, str(logs)],
            "whole report": [python, "-m", "perfmon", "nccl", str(logs), "-o", f"{folder}/report", *plots],
        }
        if args.exporter:
            commands["exporter"] = [
                python, str(args.exporter), "--input_dir", str(logs), "--output_dir", f"{folder}/exporter",
            ]  # fmt: skip
        costs: dict[str, list[Cost]] = {name: [] for name in commands}
        for _ in range(args.runs):
            for name, command in commands.items():
                costs[name].append(measured(command))
        records = json.loads(Path(folder, "report", "summary.json").read_text())["records"]
    print(f"{records:,} records, {costs['DuckDB floor'][0].output} operations")
    assert costs["DuckDB floor"][0].output == costs["aggregation"][0].output
    floor = min(cost.cpu_s for cost in costs["DuckDB floor"])
    print(f"{'':14} {'CPU s':>8} {'wall s':>8} {'peak MB':>8} {'x floor':>8}")
    for name, runs in costs.items():
        cpu, wall, peak = min(r.cpu_s for r in runs), min(r.wall_s for r in runs), max(r.peak_mb for r in runs)
        print(f"{name:14} {cpu:8.2f} {wall:8.2f} {peak:8.0f} {cpu / floor:8.2f}")


if __name__ == "__main__":
    main()
