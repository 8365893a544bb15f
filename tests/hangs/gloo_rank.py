"""One process of a hang over Gloo, started by `test_gloo.py`: leaves genuine flight-recorder dumps in a folder.

Arguments: the fault, the folder. The environment has RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and
TORCH_FR_BUFFER_SIZE. Each process dumps after some seconds, then waits so that none leaves before all have dumped.
"""

import importlib
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

torch: Any = importlib.import_module("torch")  # not a dependency: checked without it, too
dist: Any = importlib.import_module("torch.distributed")


FAULTS = ("late", "size", "operation", "chain")


def _dump(folder: Path, rank: int, after_s: float) -> None:
    time.sleep(after_s)
    c10d = torch._C._distributed_c10d
    (folder / f"comm_lib_trace_rank_{rank}").write_bytes(c10d._dump_fr_trace(True, True, False))
    (folder / f"fr_trace_{rank}.json").write_bytes(bytes(c10d._dump_fr_trace_json(True, False)))
    time.sleep(4.0)
    os._exit(0)


def main() -> None:
    """Runs some collectives, then the fault."""
    fault, folder = sys.argv[1], Path(sys.argv[2])
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    dist.barrier()
    threading.Thread(target=_dump, args=(folder, rank, 6.0), daemon=True).start()
    pair = dist.new_group([0, 1], group_desc="tp")
    for _ in range(3):
        dist.all_reduce(torch.ones(4))
    last = rank == world - 1
    if fault == "late" and last:
        time.sleep(60)
    if fault == "chain" and rank == 1:
        time.sleep(60)
    if fault == "chain" and rank == 0:
        dist.all_reduce(torch.ones(2), group=pair)
    if fault == "operation" and last:
        dist.broadcast(torch.ones(4), 0)
    else:
        dist.all_reduce(torch.ones(5 if fault == "size" and last else 4))
    time.sleep(60)


if __name__ == "__main__":
    main()
