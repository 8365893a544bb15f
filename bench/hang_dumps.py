"""Time in which the monitor reads the flight-recorder dumps of a large hang, with `pickle` on the same files as floor;
and seconds from the first dump to the name of the rank in the finding, in a monitor that follows the log.

The dumps have the opcodes of those that torch writes: texts and frames are written once and repeated by their number.
`pickle` makes the same values with the C code of the standard library, but may call whatever a file names.

python bench/hang_dumps.py
"""

from __future__ import annotations

import argparse
import pickle
import random
import shutil
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from perfmon.commands._remote import feed_of
from perfmon.core import Config
from perfmon.hangs import HangSearch, Limits, Places
from perfmon.monitor import Monitor
from perfmon.viewmodel import MonitorState

FRAMES, BEHIND = 23, 5
LIMITS = Limits(seconds=20.0, share=0.8)
"""Those of the monitor."""
BEGIN_NS = 1_790_000_000_000_000_000


class Writer:
    """Writes values as the pickler of torch does."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self._memo: dict[str, int] = {}

    def write(self, value: Any) -> None:
        """Append a value."""
        out = self.out
        if isinstance(value, str):
            if value in self._memo:
                at = self._memo[value]
                out += b"h%c" % at if at < 256 else b"j" + struct.pack("<I", at)
                return
            text, at = value.encode(), len(self._memo)
            self._memo[value] = at
            out += b"X" + struct.pack("<I", len(text)) + text
            out += b"q%c" % at if at < 256 else b"r" + struct.pack("<I", at)
        elif value is None or isinstance(value, bool):
            out += b"N" if value is None else b"\x88" if value else b"\x89"
        elif isinstance(value, int):
            out += _integer(value)
        elif isinstance(value, tuple):
            for one in value:
                self.write(one)
            out += b"\x86"
        elif isinstance(value, list):
            out += b"]("
            for one in value:
                self.write(one)
            out += b"e"
        else:
            out += b"}("
            for key, one in value.items():
                self.write(key)
                self.write(one)
            out += b"u"


def _integer(value: int) -> bytes:
    if 0 <= value < 256:
        return b"K%c" % value
    if 0 <= value < 65_536:
        return b"M" + struct.pack("<H", value)
    if -(1 << 31) <= value < 1 << 31:
        return b"J" + struct.pack("<i", value)
    return b"\x8a\x08" + struct.pack("<q", value)


def dump(rank: int, ranks: int, entries: int) -> bytes:
    """The dump of a rank; rank BEHIND has not launched the last operation."""
    pick, group = random.Random(rank), ("0", "default_pg")
    frames = [
        {"name": f"step_{at}", "filename": f"/opt/train/lib/python3.12/site-packages/model/layer_{at}.py", "line": at}
        for at in range(FRAMES * 4)
    ]
    count = entries - (rank == BEHIND)
    table: dict[str, Any] = {
        "version": "2.10",
        "comm_lib_version": "2.28.9",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
        "pg_status": {
            "0": {
                "last_enqueued_collective": count,
                "last_started_collective": -1,
                "last_completed_collective": entries - 1,
            }
        },
        "entries": [
            {
                "record_id": at, "pg_id": 0, "process_group": group, "collective_seq_id": at + 1, "p2p_seq_id": 0,
                "op_id": at + 1, "profiling_name": pick.choice(["nccl:all_reduce", "nccl:_all_gather_base"]),
                "time_created_ns": BEGIN_NS + at * 1_000_000, "duration_ms": None, "input_sizes": [[4096, 1024]],
                "input_dtypes": ["BFloat16"], "output_sizes": [[4096, 1024]], "output_dtypes": ["BFloat16"],
                "state": "completed" if at < entries - 1 else "scheduled", "time_discovered_started_ns": None,
                "time_discovered_completed_ns": BEGIN_NS + at * 1_000_000 if at < entries - 1 else None,
                "retired": at < entries - 1, "timeout_ms": 600_000, "is_p2p": False, "thread_id": "140213",
                "thread_name": "pt_main_thread", "frames": [f"frame {(at + one) % 92}" for one in range(FRAMES)],
            }
            for at in range(count)
        ],
    }  # fmt: skip
    for entry in table["entries"][-1:]:
        entry["frames"] = frames[:FRAMES]
    writer = Writer()
    writer.write(table)
    return bytes(writer.out) + b"."


TIMED_OUT = (
    "[rank2]:[E{clock}.539724456 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) ran for 600010 "
    "milliseconds before timing out.\n"
)


def watched(dumps: Path, folder: Path, entries: int) -> float | None:
    """Seconds from the first dump to the finding that names the rank; None if it takes more than two minutes."""
    now, log = time.time(), folder / "train.log"
    clocks = [time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(now - 660 + step)) for step in range(60)]
    log.write_text("".join(f"{clock} INFO step {step} loss 2.0 step_time 1.0s\n" for step, clock in enumerate(clocks)))
    ready, named = threading.Event(), threading.Event()

    def listen(picture: MonitorState) -> None:
        findings = () if picture.snapshot is None else picture.snapshot.findings
        if picture.snapshot is not None:
            ready.set()
        if any(f"behind: rank {BEHIND} " in finding.sentence for finding in findings):
            named.set()

    monitor = Monitor(lambda: feed_of(None, [str(folder)]), Config())
    monitor.listeners.append(listen)
    monitor.start()
    try:
        ready.wait(60.0)
        began = time.monotonic()
        for path in dumps.iterdir():
            shutil.copy(path, folder)
        with log.open("a") as file:
            file.write(TIMED_OUT.format(clock=time.strftime("%m%d %H:%M:%S"), seq=entries))
        return time.monotonic() - began if named.wait(120.0) else None
    finally:
        monitor.stop()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--entries", type=int, default=10_500)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for rank in range(args.ranks):
            (folder / f"comm_lib_trace_rank_{rank}").write_bytes(dump(rank, args.ranks, args.entries))
        size = sum(path.stat().st_size for path in folder.iterdir())
        began, cpu = time.monotonic(), time.process_time()
        search = HangSearch()
        while (found := search.look(Places((folder,)), [], limits=LIMITS)).left:
            pass
        took, ours = time.monotonic() - began, time.process_time() - cpu
        cpu = time.process_time()
        for path in folder.iterdir():
            pickle.loads(path.read_bytes())  # noqa: S301 - of files that were written here
        floor = time.process_time() - cpu
        print(f"{args.ranks} dumps, {size / 1e6:.0f} MB: rank {found.ranks}, {found.why}")
        cost = f"{ours:.1f} s of processor; pickle alone {floor:.1f} s: {ours / floor:.1f} times"
        with tempfile.TemporaryDirectory() as run:
            waited = watched(folder, Path(run), args.entries)
        print(f"named by a monitor after {'more than 120' if waited is None else format(waited, '.1f')} s")
        print(f"{took:.1f} s with 80 % of a core, {cost}")


if __name__ == "__main__":
    main()
